//! One hollow machine towards the API, as `step(&mut Machine, now, Event) -> Vec<Effect>`: it registers, renews its Lease every ten
//! seconds and tells its status every five minutes, each at the machine's own place in the period. Knows nothing of pods.

/// As the agent's heartbeat has it.
pub const LEASE_MS: u64 = 10_000;
/// A status that did not change is written again after this long, as in the agent.
pub const REPORT_MS: u64 = 300_000;
/// After a failure, and between two answers to somebody who overrules the machine's status.
const RETRY_MS: u64 = 1_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    Tick,
    /// The Node is there, made now or before.
    Registered,
    RegisterFailed,
    /// The API shows the Node.
    Seen {
        ready: bool,
    },
    /// The API has it no more.
    Gone,
    Renewed(Renewal),
    Reported {
        ok: bool,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Renewal {
    Done,
    /// There is no such Lease; or there is one where one was to be made.
    Otherwise,
    Failed,
}

/// What became of a status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reported {
    Done,
    Failed,
    /// There is no such Node any more.
    Gone,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Effect {
    Register,
    /// `create`: there is no Lease yet, as far as is known.
    Renew {
        create: bool,
    },
    /// Write the Node's status.
    Report,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Task {
    Due(u64),
    InFlight,
}

impl Task {
    /// Begins it when it is due.
    fn begin(&mut self, now_ms: u64) -> bool {
        let due = matches!(self, Task::Due(at_ms) if *at_ms <= now_ms);
        if due {
            *self = Task::InFlight;
        }
        due
    }
    fn due_ms(self) -> Option<u64> {
        if let Task::Due(at_ms) = self { Some(at_ms) } else { None }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    registered: bool,
    register: Task,
    lease: Task,
    report: Task,
    has_lease: bool,
    /// When the last status was written.
    reported_ms: u64,
    /// The machine's place in every period, in millionths of it.
    place: u32,
}

impl Machine {
    /// `place` in millionths spreads what is periodic over its period.
    pub fn new(place: u32) -> Self {
        Self {
            registered: false,
            register: Task::Due(0),
            lease: Task::Due(0),
            report: Task::Due(0),
            has_lease: false,
            reported_ms: 0,
            place,
        }
    }

    pub fn is_registered(&self) -> bool {
        self.registered
    }

    /// There is no Lease yet, as far as is known.
    pub fn lacks_lease(&self) -> bool {
        !self.has_lease
    }

    /// When the machine wants a `Tick`.
    pub fn wake_ms(&self) -> Option<u64> {
        match self.registered {
            false => self.register.due_ms(),
            true => self.lease.due_ms().into_iter().chain(self.report.due_ms()).min(),
        }
    }

    /// The next moment after now at the machine's place in the period.
    fn slot(&self, period_ms: u64, now_ms: u64) -> u64 {
        let offset = u64::from(self.place) * period_ms / 1_000_000;
        let begun = (now_ms + period_ms - offset) / period_ms;
        begun * period_ms + offset
    }
}

/// Takes one event and returns what to do.
pub fn step(m: &mut Machine, now_ms: u64, event: Event) -> Vec<Effect> {
    match event {
        Event::Tick => {}
        Event::Registered => {
            m.registered = true;
            m.register = Task::Due(u64::MAX);
            m.lease = Task::Due(now_ms);
            m.reported_ms = now_ms;
            m.report = Task::Due(m.slot(REPORT_MS, now_ms));
        }
        Event::RegisterFailed => m.register = Task::Due(now_ms + RETRY_MS),
        Event::Seen { ready: true } => {}
        Event::Seen { ready: false } => overruled(m, now_ms),
        // Its Lease goes with it.
        Event::Gone if m.registered => *m = Machine { register: Task::Due(now_ms), ..Machine::new(m.place) },
        Event::Gone => {}
        Event::Renewed(outcome) if m.registered => renewed(m, now_ms, outcome),
        // Of a Lease that went with its Node.
        Event::Renewed(_) => {}
        Event::Reported { ok } => {
            if ok {
                m.reported_ms = now_ms;
            }
            m.report = Task::Due(if ok { m.slot(REPORT_MS, now_ms) } else { now_ms + RETRY_MS });
        }
    }
    due(m, now_ms)
}

/// Somebody said that the machine is not ready, as node lifecycle does of a silent one: it contradicts, but not in a loop.
fn overruled(m: &mut Machine, now_ms: u64) {
    if let Task::Due(at_ms) = m.report {
        m.report = Task::Due(at_ms.min(now_ms.max(m.reported_ms + RETRY_MS)));
    }
}

fn renewed(m: &mut Machine, now_ms: u64, outcome: Renewal) {
    let next_ms = match outcome {
        Renewal::Done => {
            m.has_lease = true;
            m.slot(LEASE_MS, now_ms)
        }
        Renewal::Otherwise => {
            m.has_lease = !m.has_lease;
            now_ms
        }
        Renewal::Failed => now_ms + RETRY_MS,
    };
    m.lease = Task::Due(next_ms);
}

fn due(m: &mut Machine, now_ms: u64) -> Vec<Effect> {
    if !m.registered {
        return if m.register.begin(now_ms) { vec![Effect::Register] } else { vec![] };
    }
    let mut effects = vec![];
    if m.lease.begin(now_ms) {
        effects.push(Effect::Renew { create: !m.has_lease });
    }
    if m.report.begin(now_ms) {
        effects.push(Effect::Report);
    }
    effects
}

#[cfg(test)]
mod tests {
    use super::*;

    fn registered(place: u32) -> Machine {
        let mut m = Machine::new(place);
        assert_eq!(step(&mut m, 100_000, Event::Tick), [Effect::Register]);
        assert_eq!(step(&mut m, 100_100, Event::Registered), [Effect::Renew { create: true }]);
        m
    }

    #[test]
    fn it_registers_then_renews_at_its_own_place() {
        let mut m = registered(250_000);
        assert_eq!(step(&mut m, 100_100, Event::Tick), []);
        assert_eq!(step(&mut m, 100_200, Event::Renewed(Renewal::Done)), []);
        assert_eq!(m.wake_ms(), Some(102_500));
        assert_eq!(step(&mut m, 102_500, Event::Tick), [Effect::Renew { create: false }]);
        assert_eq!(step(&mut m, 102_600, Event::Renewed(Renewal::Done)), []);
        assert_eq!(m.wake_ms(), Some(112_500));
        // A late renewal does not move its place.
        assert_eq!(step(&mut m, 115_000, Event::Tick), [Effect::Renew { create: false }]);
        step(&mut m, 115_100, Event::Renewed(Renewal::Done));
        assert_eq!(m.wake_ms(), Some(122_500));
    }

    #[test]
    fn leases_of_many_are_spread_evenly() {
        let mut seconds = [0; 10];
        for number in 0..10_000_u32 {
            let m = Machine::new(number * 100);
            let at_ms = m.slot(LEASE_MS, 1_000_003);
            assert!((1_000_004..=1_010_003).contains(&at_ms), "{at_ms}");
            seconds[usize::try_from(at_ms / 1_000 % 10).unwrap()] += 1;
        }
        assert_eq!(seconds, [1_000; 10]);
    }

    #[test]
    fn failures_are_tried_again() {
        let mut m = Machine::new(0);
        step(&mut m, 0, Event::Tick);
        assert_eq!(step(&mut m, 50, Event::RegisterFailed), []);
        assert_eq!(m.wake_ms(), Some(1_050));
        assert_eq!(step(&mut m, 1_050, Event::Tick), [Effect::Register]);

        let mut m = registered(0);
        step(&mut m, 100_200, Event::Renewed(Renewal::Failed));
        assert_eq!(step(&mut m, 101_200, Event::Tick), [Effect::Renew { create: true }]);
        // Somebody made it meanwhile.
        assert_eq!(step(&mut m, 101_300, Event::Renewed(Renewal::Otherwise)), [Effect::Renew { create: false }]);
        // And removed it.
        assert_eq!(step(&mut m, 101_400, Event::Renewed(Renewal::Otherwise)), [Effect::Renew { create: true }]);
    }

    #[test]
    fn a_deleted_machine_comes_back_and_an_overruled_one_contradicts() {
        let mut m = registered(0);
        step(&mut m, 100_200, Event::Renewed(Renewal::Done));
        assert_eq!(step(&mut m, 100_300, Event::Seen { ready: true }), []);
        assert_eq!(step(&mut m, 105_000, Event::Seen { ready: false }), [Effect::Report]);
        assert_eq!(step(&mut m, 105_010, Event::Seen { ready: false }), []);
        assert_eq!(step(&mut m, 105_020, Event::Reported { ok: true }), []);
        assert_eq!(step(&mut m, 105_030, Event::Seen { ready: false }), []);
        assert_eq!(step(&mut m, 106_020, Event::Tick), [Effect::Report]);
        step(&mut m, 106_100, Event::Reported { ok: false });
        assert_eq!(step(&mut m, 107_100, Event::Tick), [Effect::Report]);
        step(&mut m, 107_200, Event::Reported { ok: true });

        assert_eq!(step(&mut m, 108_000, Event::Gone), [Effect::Register]);
        assert!(!m.is_registered());
        assert_eq!(step(&mut m, 108_100, Event::Gone), []);
        assert_eq!(step(&mut m, 108_200, Event::Registered), [Effect::Renew { create: true }]);
        assert_eq!(step(&mut m, 300_000, Event::Tick), [Effect::Report]);
    }
}
