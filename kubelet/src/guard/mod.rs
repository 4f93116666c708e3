//! The guard's watch over the agent: when the agent's process is gone and nobody stopped it on purpose, it is started
//! again. It never touches a pod.
//!
//! At-most-one fences belong here too: the guard is the process that can kill a cgroup when the agent cannot. A fence is
//! a pod's cgroup with a deadline on CLOCK_BOOTTIME, pushed on by every renewal that the agent reports; it fits in `Watch`
//! as one more event and one more action.

mod process;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use gantry_apimachinery::clock::{Clock, SystemClock};
use tokio_util::sync::CancellationToken;

use process::Agent;

const FIRST_PAUSE_MS: u64 = 200;
const LONGEST_PAUSE_MS: u64 = 30_000;
/// An agent that ran this long starts from the first pause again.
const SETTLED_MS: u64 = 60_000;
const LOOK: Duration = Duration::from_millis(500);

/// What the guard watches and how it starts it.
#[derive(Clone, Debug)]
pub struct GuardConfig {
    /// Where the agent's process writes its id.
    pub agent_pid_file: PathBuf,
    /// The agent's program and arguments. A process that does not run this program is not the agent.
    pub argv: Vec<OsString>,
    /// While this file exists the agent was stopped on purpose and stays so.
    pub clean_stop: PathBuf,
    /// Where the agent's output goes.
    pub log: PathBuf,
}

/// When to start the agent. Pure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Watch {
    pause_ms: u64,
    /// Since when it is seen alive, or when it was last started.
    since_ms: u64,
    alive: bool,
    /// Nobody is started before the first agent was seen: whoever starts the guard starts the agent.
    seen: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Nothing,
    Start,
}

impl Watch {
    fn step(&mut self, now_ms: u64, alive: bool, stopped_on_purpose: bool) -> Action {
        if alive {
            if !self.alive {
                (self.alive, self.seen, self.since_ms) = (true, true, now_ms);
            } else if now_ms.saturating_sub(self.since_ms) >= SETTLED_MS {
                self.pause_ms = 0;
            }
            return Action::Nothing;
        }
        if self.alive {
            (self.alive, self.since_ms) = (false, now_ms);
        }
        if stopped_on_purpose || !self.seen || now_ms.saturating_sub(self.since_ms) < self.pause_ms {
            return Action::Nothing;
        }
        self.pause_ms = (self.pause_ms * 2).clamp(FIRST_PAUSE_MS, LONGEST_PAUSE_MS);
        self.since_ms = now_ms;
        Action::Start
    }
}

/// Watches until cancelled. The agent keeps running then.
///
/// Boxed, so that this crate compiles its own futures once instead of every program that runs them.
pub fn run(config: GuardConfig, cancel: CancellationToken) -> futures::future::BoxFuture<'static, ()> {
    Box::pin(run_here(config, cancel))
}

async fn run_here(config: GuardConfig, cancel: CancellationToken) {
    let mut watch = Watch::default();
    loop {
        let agent = Agent::find(&config);
        let stopped = config.clean_stop.exists();
        if watch.step(SystemClock.boottime_ms(), agent.is_some(), stopped) == Action::Start {
            tracing::warn!("the agent is gone; starting it again");
            if let Err(error) = process::start(&config) {
                tracing::error!(%error, "the agent could not be started");
            }
        }
        // A living agent's end wakes the guard at once; everything else is looked at twice a second.
        let ended = async {
            match agent {
                Some(agent) => agent.ended().await,
                None => tokio::time::sleep(LOOK).await,
            }
        };
        tokio::select! {
            () = cancel.cancelled() => return,
            () = ended => {}
            () = tokio::time::sleep(LOOK * 20) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn restarts_at_once_then_ever_later_and_never_after_a_clean_stop() {
        let mut w = Watch::default();
        let mut check =
            |now, alive, stopped, expect| assert_eq!(w.step(now, alive, stopped), expect, "at {now}: {w:?}");
        check(0, false, false, Action::Nothing);
        check(10, true, false, Action::Nothing);
        check(20, false, false, Action::Start);
        check(100, false, false, Action::Nothing);
        check(220, false, false, Action::Start);
        check(300, true, false, Action::Nothing);
        check(400, false, false, Action::Nothing);
        check(800, false, true, Action::Nothing);
        check(801, false, false, Action::Start);
        check(900, true, false, Action::Nothing);
        check(60_900, true, false, Action::Nothing);
        check(60_910, false, false, Action::Start);
    }
}
