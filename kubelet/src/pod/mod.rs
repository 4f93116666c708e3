//! One pod's life as a pure state machine: `step(&mut State, now, Event) -> Vec<Effect>`.
//!
//! It decides what happens to a pod's sandbox, containers, probes and status, from what the API wants, what the runtime
//! shows and how effects ended. It never does any of it, and reads no clock. The table is in `docs/state-machines/pod.md`.

mod backoff;
mod drive;
mod event;
mod observe;
mod probes;
mod settle;
mod state;
mod status;
mod step;
mod stop;

#[cfg(test)]
mod laws;
#[cfg(test)]
mod tests;

pub use backoff::Backoff;
pub use event::{Cause, Effect, Event, Hook, ImageOutcome, Level, Outcome, PodSeen, ProbeKind, StartFailure};
pub use probes::{ProbeState, Probes, declared};
pub use state::{
    Container, Facts, Imposed, Look, Phase, Progress, Role, Running, Sandbox, State, Stop, StopCall, Waiting, Why,
};
pub use step::step;

use gantry_apimachinery::time::Timestamp;

/// Both clocks: the wall for what people read, time since boot for every wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    pub wall: Timestamp,
    pub boot_ms: u64,
}

impl Now {
    /// The moment since boot at which the wall showed `at`.
    pub fn boot_at(&self, at: Timestamp) -> u64 {
        let ago_ms = u64::try_from(self.wall.since(at).as_millis()).unwrap_or(u64::MAX);
        self.boot_ms.saturating_sub(ago_ms)
    }
}
