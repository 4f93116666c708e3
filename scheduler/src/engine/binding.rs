//! How placements get into the store: a machine's binds go together, from the version that the ones before made; what was
//! decided from older news is decided again. A gang goes when it is first in line at each of its machines.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use super::{Bind, BindOutcome, Effect, Engine};
use crate::plugins::Wake;
use crate::pod::PodInfo;
use crate::snapshot::{Assumed, Machine, Standing};

/// Binds of one machine in one transaction.
const TOGETHER: usize = 60;

/// Who waits for a machine.
#[derive(Debug)]
pub(super) enum Waiting {
    One(Assumed),
    /// A gang, by its number; its members are kept with it.
    Gang(u64),
}

/// Binds to one machine.
#[derive(Debug, Default)]
pub(super) struct Lane {
    pub in_flight: Option<u64>,
    /// Decided from the same version, and counting on the binds under way.
    pub waiting: VecDeque<Waiting>,
}

#[derive(Debug)]
pub(super) struct Member {
    assumed: Assumed,
    /// The watch may show it bound, or gone, before the answer comes.
    pod: Arc<PodInfo>,
    since_ms: u64,
    outcome: Option<BindOutcome>,
}

/// Binds under way together: to one machine, or those of a gang.
#[derive(Debug)]
pub(super) struct Flight {
    members: Vec<Member>,
    /// Each with the version decided from, and its name: should nothing be left of it meanwhile, its place may be another's.
    machines: Vec<(Machine, u64, Arc<str>)>,
}

#[cfg(test)]
impl Flight {
    pub fn has(&self, uid: &str) -> bool {
        self.members.iter().any(|member| &**member.assumed.uid() == uid)
    }

    pub fn is_to(&self, machine: Machine) -> bool {
        self.machines.iter().any(|(to, ..)| *to == machine)
    }
}

impl Engine {
    pub(super) fn enqueue(&mut self, assumed: Assumed) {
        self.deciding.insert(assumed.uid().clone(), assumed.machine());
        self.lanes.entry(assumed.machine()).or_default().waiting.push_back(Waiting::One(assumed));
    }

    /// Sends the machine's next binds, if none are under way and its state is current.
    pub(super) fn launch(&mut self, machine: Machine, effects: &mut Vec<Effect>) {
        let is_current = self.snapshot.current().get(machine);
        let Some(lane) = self.lanes.get_mut(&machine) else { return };
        if lane.in_flight.is_some() || !is_current {
            return;
        }
        let mut together = Vec::new();
        while together.len() < TOGETHER && matches!(lane.waiting.front(), Some(Waiting::One(_))) {
            if let Some(Waiting::One(assumed)) = lane.waiting.pop_front() {
                together.push(assumed);
            }
        }
        if together.is_empty() {
            let gang =
                lane.waiting.front().and_then(|first| if let Waiting::Gang(id) = first { Some(*id) } else { None });
            match gang {
                Some(gang) => self.launch_gang(gang, effects),
                None => drop(self.lanes.remove(&machine)),
            }
            return;
        }
        let Some((binds, members)) = self.boarding(together) else { return self.launch(machine, effects) };
        effects.push(Effect::Bind { binds, gang: None });
        self.take_off(members, BTreeSet::from([machine]));
    }

    /// A gang goes once it is first at all of its machines.
    fn launch_gang(&mut self, gang: u64, effects: &mut Vec<Effect>) {
        let Some(machines) = self.gangs.machines(gang) else { return };
        let first = |machine: &Machine| {
            let lane = self.lanes.get(machine);
            let is_first = |lane: &Lane| {
                lane.in_flight.is_none() && matches!(lane.waiting.front(), Some(Waiting::Gang(id)) if *id == gang)
            };
            self.snapshot.current().get(*machine) && lane.is_some_and(is_first)
        };
        if !machines.iter().all(first) {
            return;
        }
        let (name, together) = self.gangs.take(gang);
        for machine in &machines {
            if let Some(lane) = self.lanes.get_mut(machine) {
                lane.waiting.pop_front();
            }
        }
        let wanted = together.len();
        match self.boarding(together) {
            Some((binds, members)) if members.len() == wanted => {
                effects.push(Effect::Bind { binds, gang: Some(name) });
                self.take_off(members, machines);
            }
            boarded => {
                // Somebody went: the rest is decided again.
                for member in boarded.into_iter().flat_map(|(_, members)| members) {
                    let uid = member.assumed.uid().clone();
                    self.undo(member.assumed);
                    self.queue.again(&uid);
                }
                machines.into_iter().for_each(|machine| self.launch(machine, effects));
            }
        }
    }

    /// Those that still want to go, with what is sent for them.
    fn boarding(&mut self, together: Vec<Assumed>) -> Option<(Vec<Bind>, Vec<Member>)> {
        let (mut binds, mut members) = (Vec::new(), Vec::new());
        for assumed in together {
            let placed = self.snapshot.placement(assumed.uid());
            let decided = placed.filter(|placed| placed.standing == Standing::Assumed);
            let decided = decided.map(|placed| (placed.info.clone(), placed.importance()));
            let pending = self.pending.get(assumed.uid());
            let (Some((pod, importance)), Some(pending)) = (decided, pending) else {
                self.undo(assumed);
                continue;
            };
            if pod.spec != pending.info.spec {
                // It asks for something else by now.
                let uid = assumed.uid().clone();
                self.undo(assumed);
                self.queue.again(&uid);
                continue;
            }
            let machine = assumed.machine();
            let since_ms = pending.since_ms;
            binds.push(Bind {
                pod: pod.clone(),
                node: self.snapshot.name(machine).to_owned(),
                allocation_version: self.snapshot.allocation(machine).version,
                importance,
            });
            members.push(Member { assumed, pod, since_ms, outcome: None });
        }
        (!members.is_empty()).then_some((binds, members))
    }

    fn take_off(&mut self, members: Vec<Member>, machines: BTreeSet<Machine>) {
        self.flown += 1;
        let from =
            |machine: Machine| (machine, self.snapshot.allocation(machine).version, self.snapshot.name(machine).into());
        let machines: Vec<_> = machines.into_iter().map(from).collect();
        for (machine, ..) in &machines {
            self.lanes.entry(*machine).or_default().in_flight = Some(self.flown);
        }
        self.flights.insert(self.flown, Flight { members, machines });
    }

    /// Placements that wait for this machine were decided from older news: they are decided again.
    pub(super) fn abandon(&mut self, machine: Machine) {
        let Some(lane) = self.lanes.get_mut(&machine) else { return };
        for waiting in std::mem::take(&mut lane.waiting) {
            match waiting {
                Waiting::One(assumed) => {
                    let uid = assumed.uid().clone();
                    self.undo(assumed);
                    self.queue.again(&uid);
                }
                Waiting::Gang(gang) => self.abandon_gang(gang),
            }
        }
    }

    pub(super) fn abandon_gang(&mut self, gang: u64) {
        let machines = self.gangs.machines(gang).unwrap_or_default();
        let (_, members) = self.gangs.take(gang);
        for machine in machines {
            if let Some(lane) = self.lanes.get_mut(&machine) {
                lane.waiting.retain(|waiting| !matches!(waiting, Waiting::Gang(id) if *id == gang));
                self.freed.insert(machine);
            }
        }
        for assumed in members {
            let uid = assumed.uid().clone();
            self.undo(assumed);
            self.queue.again(&uid);
        }
    }

    /// Whoever stood behind a gang that was taken out of the line.
    pub(super) fn launch_freed(&mut self, effects: &mut Vec<Effect>) {
        while let Some(machine) = self.freed.pop_first() {
            self.launch(machine, effects);
        }
    }

    /// The room that was counted on is free again, for whoever sleeps because of it.
    pub(super) fn undo(&mut self, assumed: Assumed) {
        let machine = assumed.machine();
        self.deciding.remove(assumed.uid());
        self.snapshot.forget(assumed);
        self.news.on(Wake::POD_GONE, machine);
    }

    pub(super) fn bind_ended(&mut self, uid: &str, outcome: BindOutcome, now_ms: u64, effects: &mut Vec<Effect>) {
        let lane = self.deciding.get(uid).and_then(|machine| self.lanes.get(machine));
        let Some(id) = lane.and_then(|lane| lane.in_flight) else { return };
        let Some(flight) = self.flights.get_mut(&id) else { return };
        if let Some(member) = flight.members.iter_mut().find(|member| &**member.assumed.uid() == uid) {
            member.outcome = Some(outcome);
        }
        if flight.members.iter().all(|member| member.outcome.is_some())
            && let Some(flight) = self.flights.remove(&id)
        {
            self.land(flight, now_ms, effects);
        }
    }

    fn land(&mut self, flight: Flight, now_ms: u64, effects: &mut Vec<Effect>) {
        let Flight { members, machines } = flight;
        let outcomes = || members.iter().filter_map(|member| member.outcome.as_ref());
        let version = outcomes().filter_map(|o| if let BindOutcome::Bound(at) = o { Some(*at) } else { None }).max();
        let in_doubt = outcomes().any(|o| matches!(o, BindOutcome::Conflict(_) | BindOutcome::Unknown));
        for (machine, ..) in &machines {
            if let Some(lane) = self.lanes.get_mut(machine) {
                lane.in_flight = None;
            }
        }
        for (machine, from, name) in &machines {
            if self.snapshot.name(*machine) != &**name {
                self.abandon(*machine);
                continue;
            }
            let known = self.snapshot.allocation(*machine).version;
            if in_doubt {
                self.abandon(*machine);
                self.snapshot.doubt_allocation(*machine);
                effects.push(Effect::ReadAllocation(self.snapshot.name(*machine).to_owned()));
                continue;
            }
            match version {
                // Somebody else's write came after ours, or there is no version any more.
                Some(version) if version < known || known == 0 => self.abandon(*machine),
                Some(version) => self.snapshot.allocation_written(*machine, version),
                None if known != *from => self.abandon(*machine),
                None => {}
            }
        }
        for member in members {
            self.arrive(member, now_ms, effects);
        }
        for (machine, ..) in machines {
            self.launch(machine, effects);
        }
        self.unstall();
    }

    fn arrive(&mut self, member: Member, now_ms: u64, effects: &mut Vec<Effect>) {
        let Member { assumed, pod, since_ms, outcome } = member;
        let uid = assumed.uid().clone();
        if !matches!(outcome, Some(BindOutcome::Bound(_))) {
            self.undo(assumed);
            if let Some(BindOutcome::ClaimHeld(why) | BindOutcome::Refused(why)) = outcome {
                self.explain(&uid, &why.into(), effects);
            }
            self.queue.retry(&uid, now_ms);
            return;
        }
        let node = self.snapshot.name(assumed.machine()).to_owned();
        self.deciding.remove(&uid);
        self.snapshot.confirm(assumed);
        self.queue.remove(&uid);
        let known = self.pending.remove(&uid);
        // A pod that went meanwhile was not scheduled for anybody.
        if self.snapshot.placement(&uid).is_some() {
            // What it says of its gang may be another thing by now; if the watch has told its machine already, it did so.
            if let Some(known) = known {
                self.gang_bound(&known.info);
            }
            effects.push(Effect::Scheduled { pod, node, waited_ms: now_ms.saturating_sub(since_ms) });
        }
    }
}
