//! What the agent knows of one pod. Only `pod::step` changes it.

use std::collections::BTreeMap;
use std::sync::Arc;

use gantry_apimachinery::time::Timestamp;

use super::backoff::Backoff;
use super::event::{Cause, Hook};
use super::probes::Probes;
use crate::api::status::Terminated;
use crate::api::{Pod, PodStatus};
use crate::runtime::ContainerSeen;

/// What is the same for all pods of this machine.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Facts {
    /// `containerd`: the scheme of container ids in statuses.
    pub runtime: String,
    pub host_ips: Vec<String>,
}

/// Whether the runtime was looked at since the last moment of doubt. Until then nothing is started or stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    Needed { not_before_ms: u64 },
    InFlight,
    Done,
}

/// A step that is done once, again after a failure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Progress {
    #[default]
    Todo,
    InFlight,
    Failed {
        retry_ms: u64,
    },
    Done,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Sandbox {
    None,
    Creating {
        attempt: u32,
    },
    Ready {
        id: String,
        since_ms: u64,
    },
    /// It died, or the pod ends: to be stopped at `not_before_ms`.
    Dying {
        id: String,
        not_before_ms: u64,
    },
    Stopping {
        id: String,
    },
    Stopped {
        id: String,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Init,
    Sidecar,
    Main,
    Ephemeral,
}

/// Why a container is not there, and until when.
#[derive(Clone, Debug, PartialEq)]
pub enum Waiting {
    /// Its turn has not come.
    Turn,
    /// The image could not be had; `told` once it reads as back-off.
    Image {
        reason: &'static str,
        message: String,
        since_ms: u64,
        retry_ms: u64,
        told: bool,
    },
    /// `CreateContainerConfigError` or `CreateContainerError`.
    Start {
        reason: &'static str,
        message: String,
        retry_ms: u64,
    },
    CrashLoop {
        retry_ms: u64,
    },
}

#[derive(Clone, Debug, PartialEq)]
pub enum Phase {
    Waiting(Waiting),
    FindingImage,
    Starting,
    Running(Box<Running>),
    Exited(Terminated),
    /// Neither started nor not started: a look decides.
    Unknown,
}

#[derive(Clone, Debug, PartialEq)]
pub struct StopCall {
    pub cause: Cause,
    pub grace_s: i64,
    pub since_ms: u64,
    /// The hook in flight, if any.
    pub hook: Option<Hook>,
    pub call: Progress,
    /// The grace given to the runtime in the call in flight.
    pub called_grace_s: i64,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Running {
    pub id: String,
    pub image: String,
    pub at: Timestamp,
    pub since_ms: u64,
    /// The post-start hook is done, or there is none.
    pub hooked: bool,
    /// The startup probe passed, or there is none.
    pub started: bool,
    pub ready: bool,
    pub probes: Probes,
    pub stop: Option<StopCall>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Container {
    pub role: Role,
    pub phase: Phase,
    /// The attempt that the next start will have; one more than the restart count once it ran.
    pub next_attempt: u32,
    /// The run before the present one.
    pub last: Option<Terminated>,
    pub image_id: String,
    pub crashes: Backoff,
    pub pulls: Backoff,
    /// Exited runs still in the runtime, oldest first.
    pub dead: Vec<String>,
    /// The runtime's word that came while a start was in flight.
    pub early: Option<ContainerSeen>,
}

impl Container {
    pub fn new(role: Role) -> Self {
        Self {
            role,
            phase: Phase::Waiting(Waiting::Turn),
            next_attempt: 0,
            last: None,
            image_id: String::new(),
            crashes: Backoff::slow(),
            pulls: Backoff::slow(),
            dead: vec![],
            early: None,
        }
    }
    pub fn restart_count(&self) -> u32 {
        self.next_attempt.saturating_sub(1)
    }
    pub fn running(&self) -> Option<&Running> {
        if let Phase::Running(r) = &self.phase { Some(r) } else { None }
    }
    pub fn running_mut(&mut self) -> Option<&mut Running> {
        if let Phase::Running(r) = &mut self.phase { Some(r) } else { None }
    }
    /// A process exists or may come to exist without a new decision.
    pub fn is_active(&self) -> bool {
        matches!(self.phase, Phase::Running(_) | Phase::Starting | Phase::Unknown)
    }
    /// Ended well and stays so (an init container's success).
    pub fn succeeded(&self) -> bool {
        matches!(&self.phase, Phase::Exited(t) if t.exit_code == 0)
    }
}

/// Why the whole pod ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Why {
    /// All its work is done.
    Finished,
    /// Deadline or eviction: it becomes `Failed` with these words.
    Failed { reason: String, message: String },
    /// Somebody deleted it; the API waits for us.
    Deleted,
    /// The API no longer has it.
    Vanished,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Imposed {
    Succeeded,
    Failed,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Stop {
    pub why: Why,
    pub grace_s: i64,
    pub since_ms: u64,
    pub removal: Progress,
    pub tear_down: Progress,
    pub deletion: Progress,
    pub forgotten: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub struct State {
    pub facts: Arc<Facts>,
    pub pod: Arc<Pod>,
    pub look: Look,
    /// The runtime was looked at once, or no agent ever reported the pod. Before, the last report is all that is known.
    pub looked: bool,
    /// What was seen before this moment settles nothing.
    pub doubt_ms: u64,
    pub prepared: Progress,
    pub sandbox: Sandbox,
    /// The addresses of the last sandbox that this agent saw up; the pod keeps them when it ends.
    pub ips: Vec<String>,
    pub next_sandbox: u32,
    pub sandbox_retry_ms: u64,
    pub containers: BTreeMap<String, Container>,
    pub stop: Option<Stop>,
    /// Failure words that outlive the stop that brought them.
    pub failure: Option<(String, String)>,
    /// The API already showed a final phase when the agent first saw the pod: its status is never written again.
    pub frozen: bool,
    /// The final phase that somebody else gave the pod while it ran: it stays, and the containers end.
    pub imposed: Option<Imposed>,
    /// When the API is told again what it was told last, unless it shows that by then.
    pub retell_ms: Option<u64>,
    pub start_time: Option<Timestamp>,
    /// Since when this agent knows the pod.
    pub since_ms: Option<u64>,
    pub reported: PodStatus,
    pub retries: Backoff,
    /// When the machine wants a `Tick`, at the latest.
    pub wake_ms: Option<u64>,
}

impl State {
    /// A pod the agent has just heard of. It looks at the runtime first: what runs already is adopted.
    pub fn new(pod: Arc<Pod>, facts: Arc<Facts>) -> Self {
        let mut s = Self {
            look: Look::Needed { not_before_ms: 0 },
            looked: pod.status.start_time.is_none(),
            doubt_ms: 0,
            prepared: Progress::Todo,
            sandbox: Sandbox::None,
            ips: vec![],
            next_sandbox: 0,
            sandbox_retry_ms: 0,
            containers: BTreeMap::new(),
            stop: None,
            failure: None,
            frozen: pod.is_terminal(),
            imposed: None,
            retell_ms: None,
            start_time: pod.status.start_time,
            since_ms: None,
            reported: pod.status.clone(),
            retries: Backoff::quick(),
            wake_ms: None,
            facts,
            pod,
        };
        s.sync_containers();
        s
    }

    /// Follows the containers that the specification names; ephemeral ones may be added.
    pub fn sync_containers(&mut self) {
        let spec = &self.pod.spec;
        let init = spec.init_containers.iter().map(|c| (c, if c.is_sidecar() { Role::Sidecar } else { Role::Init }));
        let main = spec.containers.iter().map(|c| (c, Role::Main));
        let ephemeral = spec.ephemeral_containers.iter().map(|c| (c, Role::Ephemeral));
        for (c, role) in init.chain(main).chain(ephemeral) {
            self.containers.entry(c.name.clone()).or_insert_with(|| Container::new(role));
        }
    }

    /// Nobody was told of the pod yet, and there is nothing to tell: no container ran, none fails to, and none has to stop.
    pub fn only_begins(&self) -> bool {
        let on_its_way = |phase: &Phase| {
            matches!(phase, Phase::Waiting(Waiting::Turn) | Phase::FindingImage | Phase::Starting | Phase::Unknown)
        };
        let begins = |c: &Container| on_its_way(&c.phase) && c.last.is_none();
        self.reported.start_time.is_none()
            && self.stop.is_none()
            && self.failure.is_none()
            && self.containers.values().all(begins)
    }

    /// Something may or may not have happened: only a look from now on decides.
    pub fn doubt(&mut self, now_ms: u64) {
        self.doubt_ms = now_ms;
        self.look = Look::Needed { not_before_ms: now_ms };
    }

    /// The names of one role's containers, in the order of the specification.
    pub fn names(&self, roles: &[Role]) -> Vec<String> {
        let of_role = |name: &String| self.containers.get(name).is_some_and(|c| roles.contains(&c.role));
        self.pod.all_containers().map(|c| c.name.clone()).filter(of_role).collect()
    }

    pub fn sandbox_id(&self) -> Option<&str> {
        match &self.sandbox {
            Sandbox::Ready { id, .. }
            | Sandbox::Dying { id, .. }
            | Sandbox::Stopping { id }
            | Sandbox::Stopped { id } => Some(id),
            Sandbox::None | Sandbox::Creating { .. } => None,
        }
    }

    pub fn running(&self, name: &str) -> Option<&Running> {
        self.containers.get(name).and_then(Container::running)
    }

    /// Holds after every step; tests check it.
    pub fn validate(&self) -> Result<(), String> {
        for (name, c) in &self.containers {
            if matches!(c.phase, Phase::Starting | Phase::Running(_)) && c.next_attempt == 0 {
                return Err(format!("{name} runs but has no attempt"));
            }
            if c.running().is_some_and(|r| r.ready && !r.started) {
                return Err(format!("{name} is ready before it is started"));
            }
        }
        let starting = self.containers.values().any(|c| matches!(c.phase, Phase::Starting));
        if starting && matches!(self.sandbox, Sandbox::Creating { .. }) {
            return Err(format!("a container starts in no sandbox: {:?}", self.sandbox));
        }
        if let Some(stop) = &self.stop {
            let gone = stop.tear_down != Progress::Todo || stop.deletion != Progress::Todo;
            if gone && self.containers.values().any(Container::is_active) {
                return Err("torn down under a container".into());
            }
        }
        Ok(())
    }
}
