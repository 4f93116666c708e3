//! One pod on a hollow machine: the agent's own state machine, and a runtime in memory that answers what it asks for. Decides only what
//! the runtime does: how long starting takes, when containers end and how. Pure.

mod runtime;

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::sync::Arc;

use super::life::Life;
use crate::api::Pod;
use crate::pod::{self, Event, Facts, ImageOutcome, Level, Now, State};
use crate::runtime::{RunState, RuntimeError};
use runtime::Runtime;

/// What the pod's machine is to do towards the API.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// The status is another one: [`Process::status`].
    Status,
    Tell {
        level: Level,
        reason: &'static str,
        message: String,
        container: Option<String>,
    },
    /// Delete the pod with its uid, after its last status; answered with `Event::Deleted`.
    Delete,
    /// Nothing is left of it.
    Forget,
}

/// What is the same for every pod of one machine.
#[derive(Clone, Debug, Default)]
pub struct Host {
    pub facts: Arc<Facts>,
    /// Images on the machine's disk; where none is named, every one is.
    pub images: Arc<Vec<(String, u64)>>,
}

#[derive(Debug)]
pub struct Process {
    state: State,
    runtime: Runtime,
    life: Life,
    images: Arc<Vec<(String, u64)>>,
    /// What was asked for and takes its time.
    coming: Vec<(u64, Event)>,
}

impl Process {
    /// A pod that the machine has just heard of, with the address it will have. What the API says of its containers still runs.
    pub fn new(pod: Arc<Pod>, host: &Host, ip: String, life: Life, now: Now) -> Self {
        let runtime = Runtime::remembered(&pod, ip, now);
        let state = State::new(pod, host.facts.clone());
        let mut process = Self { state, runtime, life, images: host.images.clone(), coming: vec![] };
        process.plan_ends();
        process
    }

    pub fn pod(&self) -> &Arc<Pod> {
        &self.state.pod
    }

    /// The status as the machine has it.
    pub fn status(&self) -> &crate::api::PodStatus {
        &self.state.reported
    }

    /// The pod's annotations may have changed.
    pub fn set_life(&mut self, life: Life) {
        self.life = life;
        self.plan_ends();
    }

    /// When the process wants a `Tick`.
    pub fn wake_ms(&self) -> Option<u64> {
        let coming = self.coming.iter().map(|(at_ms, _)| *at_ms);
        coming.chain(self.runtime.next_end_ms()).chain(self.state.wake_ms).min()
    }

    /// Takes one event, lets the runtime answer all that follows from it, and returns what is left to do.
    pub fn step(&mut self, now: Now, event: Event) -> Vec<Effect> {
        let mut out = vec![];
        let mut events = VecDeque::from([event]);
        while let Some(event) = events.pop_front() {
            for effect in pod::step(&mut self.state, now, event) {
                self.perform(now, effect, &mut events, &mut out);
            }
            if events.is_empty() {
                events.extend(self.due(now));
            }
        }
        out
    }

    /// What has come by now: the answers that took time, and the ends of containers.
    fn due(&mut self, now: Now) -> Option<Event> {
        if let Some(at) = self.coming.iter().position(|(at_ms, _)| *at_ms <= now.boot_ms) {
            return Some(self.coming.swap_remove(at).1);
        }
        let ended = self.runtime.end_due(now, self.life.exit_code)?;
        let run = self.runtime.seen_container(&self.state.pod, ended);
        Some(match self.runtime.was_stopped(ended) {
            true => Event::Stopped { name: run.name.clone(), id: run.id.clone(), result: Ok(run) },
            false => Event::Observed(self.runtime.seen(&self.state.pod, now)),
        })
    }

    fn perform(&mut self, now: Now, effect: pod::Effect, events: &mut VecDeque<Event>, out: &mut Vec<Effect>) {
        use pod::Effect as Asked;
        let pod = Arc::clone(&self.state.pod);
        let answer = match effect {
            Asked::Look => Event::Observed(self.runtime.seen(&pod, now)),
            Asked::Prepare => Event::Prepared(Ok(())),
            Asked::RunSandbox { attempt } => {
                Event::SandboxUp { attempt, result: Ok(self.runtime.run_sandbox(&pod, attempt)) }
            }
            Asked::StopSandbox { id } => {
                self.runtime.stop_sandbox(now);
                Event::SandboxStopped { id, result: Ok(()) }
            }
            Asked::DropSandbox { id } => return self.runtime.drop_sandbox(&id),
            Asked::DropContainer { id } => return self.runtime.drop_container(&id),
            Asked::Image { name } => return self.image(now, name, events),
            Asked::Start { name, attempt, .. } => {
                let id = self.runtime.start(&pod, &name, attempt, now);
                self.plan_ends();
                let image_id = pod.container(&name).map(|c| format!("{}@sha256:0", c.image)).unwrap_or_default();
                Event::Started { name, attempt, id, image_id, at: now.wall }
            }
            Asked::RunHook { name, id, hook, .. } => Event::HookDone { name, id, hook, result: Ok(()) },
            Asked::Probe { name, id, kind } => Event::Probed { name, id, kind, outcome: pod::Outcome::Success },
            Asked::Stop { name, id, grace_s } => {
                let grace_ms = u64::try_from(grace_s).unwrap_or(0).saturating_mul(1_000);
                if self.runtime.stop(&id, now.boot_ms + self.life.stopping_ms.min(grace_ms), grace_s > 0) {
                    return;
                }
                let seen = self.runtime.seen(&pod, now).containers.into_iter().find(|run| run.id == id);
                let result = seen.ok_or_else(|| RuntimeError::NotFound("no such container".into()));
                Event::Stopped { name, id, result }
            }
            Asked::Remove { .. } => {
                self.runtime.clear();
                Event::Removed(Ok(()))
            }
            Asked::TearDown => Event::TornDown(Ok(())),
            Asked::Status(_) => {
                if !out.contains(&Effect::Status) {
                    out.push(Effect::Status);
                }
                return;
            }
            Asked::Tell { level, reason, message, container } => {
                return out.push(Effect::Tell { level, reason, message, container });
            }
            Asked::Delete => return out.push(Effect::Delete),
            Asked::Forget => return out.push(Effect::Forget),
        };
        events.push_back(answer);
    }

    /// Only the first start of a container takes time.
    fn image(&mut self, now: Now, name: String, events: &mut VecDeque<Event>) {
        let image = self.state.pod.container(&name).map(|c| c.image.clone()).unwrap_or_default();
        let there = self.images.is_empty() || self.images.iter().any(|(one, _)| *one == image);
        let took_ms = if self.runtime.ran(&name) { 0 } else { self.life.startup_ms };
        let outcome = match there || took_ms == 0 {
            true => ImageOutcome::Present,
            false => {
                events.push_back(Event::PullStarted { name: name.clone() });
                ImageOutcome::Pulled { took_ms, size_bytes: 100 << 20 }
            }
        };
        match took_ms {
            0 => events.push_back(Event::Image { name, outcome }),
            _ => self.coming.push((now.boot_ms + took_ms, Event::Image { name, outcome })),
        }
    }

    /// Ordinary containers end after the pod's life time, init containers as soon as they run, all others when they are stopped.
    fn plan_ends(&mut self) {
        let pod = Arc::clone(&self.state.pod);
        for run in self.runtime.runs_mut().filter(|run| !run.stopping && run.state() == RunState::Running) {
            let init = pod.spec.init_containers.iter().find(|c| c.name == run.name);
            run.ends_ms = match init {
                Some(c) if c.is_sidecar() => None,
                Some(_) => Some(run.started_ms),
                None => self.life.lifetime_ms.map(|ms| run.started_ms.saturating_add(ms)),
            };
            run.of_init = init.is_some();
        }
    }

    /// The last moment at which a container started; for tests and figures.
    #[cfg(test)]
    fn started(&self, name: &str) -> Option<gantry_apimachinery::time::Timestamp> {
        self.state.running(name).map(|r| r.at)
    }
}
