//! When probes of one container run and what their results mean: thresholds, first delays, and the eager first tries
//! that make a quick server Ready without waiting a whole period. Decides; never connects to anything.

use super::Now;
use super::event::{Cause, Effect, Level, Outcome, ProbeKind};
use super::state::Running;
use super::step::Out;
use super::stop;
use crate::api::Container;
use crate::api::pod::Probe;

/// Eager tries come after 50, 100, 200 … ms while they are shorter than the period. They cost a connection each, are
/// not counted as failures and tell nobody.
const EAGER_FIRST_MS: u64 = 50;
const EAGER_TRIES: u32 = 6;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProbeState {
    pub next_ms: u64,
    pub in_flight: bool,
    pub successes: u32,
    pub failures: u32,
    pub eager: u32,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Probes {
    pub startup: Option<ProbeState>,
    pub liveness: Option<ProbeState>,
    pub readiness: Option<ProbeState>,
}

impl Probes {
    pub fn new(spec: &Container, since_ms: u64) -> Self {
        let first = |p: &Option<Probe>| {
            p.as_ref().map(|p| ProbeState { next_ms: since_ms + p.initial_delay_ms(), ..ProbeState::default() })
        };
        Self {
            startup: first(&spec.startup_probe),
            liveness: first(&spec.liveness_probe),
            readiness: first(&spec.readiness_probe),
        }
    }
    fn get(&mut self, kind: ProbeKind) -> Option<&mut ProbeState> {
        match kind {
            ProbeKind::Startup => self.startup.as_mut(),
            ProbeKind::Liveness => self.liveness.as_mut(),
            ProbeKind::Readiness => self.readiness.as_mut(),
        }
    }
}

pub fn declared(spec: &Container, kind: ProbeKind) -> Option<&Probe> {
    match kind {
        ProbeKind::Startup => spec.startup_probe.as_ref(),
        ProbeKind::Liveness => spec.liveness_probe.as_ref(),
        ProbeKind::Readiness => spec.readiness_probe.as_ref(),
    }
}

/// Follows what needs no probe: started without a startup probe, ready without a readiness probe.
pub fn refresh(r: &mut Running, spec: &Container) {
    if r.hooked && spec.startup_probe.is_none() {
        r.started = true;
    }
    if r.started && spec.readiness_probe.is_none() {
        r.ready = true;
    }
}

/// Asks for the probes whose time has come.
pub fn due(r: &mut Running, spec: &Container, now: Now, out: &mut Out) {
    if !r.hooked {
        return;
    }
    for kind in [ProbeKind::Startup, ProbeKind::Liveness, ProbeKind::Readiness] {
        let wanted = match kind {
            ProbeKind::Startup => !r.started && r.stop.is_none(),
            ProbeKind::Liveness => r.started && r.stop.is_none(),
            // While a container stops, its readiness still matters to those who send it requests.
            ProbeKind::Readiness => r.started,
        };
        if !wanted || declared(spec, kind).is_none() {
            continue;
        }
        let Some(p) = r.probes.get(kind) else { continue };
        if p.in_flight {
            continue;
        }
        if p.next_ms > now.boot_ms {
            out.wait(p.next_ms);
            continue;
        }
        p.in_flight = true;
        out.push(Effect::Probe { name: spec.name.clone(), id: r.id.clone(), kind });
    }
}

fn eager_delay(p: &ProbeState, probe: &Probe, kind: ProbeKind, ever: bool) -> Option<u64> {
    let network = probe.handler.exec.is_none();
    let first = kind != ProbeKind::Liveness && !ever && probe.initial_delay_seconds == 0;
    let delay = EAGER_FIRST_MS << p.eager;
    (network && first && p.failures == 0 && p.eager < EAGER_TRIES && delay < probe.period_ms()).then_some(delay)
}

fn title(kind: ProbeKind) -> &'static str {
    match kind {
        ProbeKind::Startup => "Startup",
        ProbeKind::Liveness => "Liveness",
        ProbeKind::Readiness => "Readiness",
    }
}

/// Counts a result and draws the consequence.
pub fn absorb(
    r: &mut Running,
    spec: &Container,
    kind: ProbeKind,
    outcome: Outcome,
    grace: i64,
    now: Now,
    out: &mut Out,
) {
    let Some(probe) = declared(spec, kind) else { return };
    let ready = r.ready;
    let Some(p) = r.probes.get(kind) else { return };
    p.in_flight = false;
    p.next_ms = now.boot_ms + probe.period_ms();
    match outcome {
        Outcome::Success => {
            p.failures = 0;
            p.successes = p.successes.saturating_add(1);
            p.eager = EAGER_TRIES;
            if p.successes < probe.success_threshold() {
                return;
            }
            match kind {
                ProbeKind::Startup => start(r, spec, now),
                ProbeKind::Readiness => r.ready = true,
                ProbeKind::Liveness => {}
            }
        }
        Outcome::Failure(message) => {
            if let Some(delay) = eager_delay(p, probe, kind, ready) {
                p.eager += 1;
                p.next_ms = now.boot_ms + delay;
                return;
            }
            p.successes = 0;
            p.failures = p.failures.saturating_add(1);
            let failed = p.failures >= probe.failure_threshold();
            if failed {
                // Counting begins again: a restarted container, or a readiness that stays false, starts from zero.
                p.failures = if kind == ProbeKind::Readiness { p.failures } else { 0 };
            }
            let text = format!("{} probe failed: {message}", title(kind));
            out.tell(Level::Warning, "Unhealthy", text, Some(&spec.name));
            match kind {
                ProbeKind::Readiness if failed => r.ready = false,
                ProbeKind::Startup | ProbeKind::Liveness if failed && r.stop.is_none() => {
                    let grace = probe.termination_grace_period_seconds.unwrap_or(grace);
                    stop::begin(r, spec, Cause::Probe(kind), grace, now, out);
                }
                _ => {}
            }
        }
    }
}

fn start(r: &mut Running, spec: &Container, now: Now) {
    r.started = true;
    for kind in [ProbeKind::Liveness, ProbeKind::Readiness] {
        let Some(delay) = declared(spec, kind).map(Probe::initial_delay_ms) else { continue };
        let earliest = (r.since_ms + delay).max(now.boot_ms);
        if let Some(p) = r.probes.get(kind) {
            p.next_ms = earliest;
        }
    }
    refresh(r, spec);
}
