//! What a pod's machine hears and what it asks for: two closed enums. Plain data.

use std::sync::Arc;

use gantry_apimachinery::time::Timestamp;

use crate::api::{Pod, PodStatus};
use crate::runtime::{ContainerSeen, RuntimeError, SandboxSeen};

/// What the runtime showed of one pod: everything that carries its uid, containers with their full status.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PodSeen {
    /// When the look began: what happened later is not in it.
    pub taken_ms: u64,
    pub sandboxes: Vec<SandboxSeen>,
    pub containers: Vec<ContainerSeen>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ProbeKind {
    Startup,
    Liveness,
    Readiness,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Success,
    Failure(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hook {
    PostStart,
    PreStop,
}

/// How the look for an image ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ImageOutcome {
    Present,
    Pulled {
        took_ms: u64,
        size_bytes: u64,
    },
    /// `reason` is what the container then waits for: `ErrImagePull`, `ErrImageNeverPull`, `InvalidImageName`.
    Failed {
        reason: &'static str,
        message: String,
    },
}

/// Why a container did not start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StartFailure {
    /// Its configuration refers to what is missing or not allowed.
    Config(String),
    /// The runtime did not create it.
    Create(String),
    /// Created, but its process could not be started; the runtime keeps it as exited.
    Run { id: String, message: String },
    /// Nobody knows: look before trying again.
    Unknown(String),
}

#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// The API's object changed (or is seen for the first time).
    Desired(Arc<Pod>),
    /// The store no longer has the pod, and that is sure.
    Vanished,
    /// This machine needs the pod's room: stop it and let it fail.
    Evict {
        reason: &'static str,
        message: String,
    },
    /// Time passed.
    Tick,
    /// A look at the runtime.
    Observed(PodSeen),
    /// The answer to `Effect::Look` could not be had.
    LookFailed,
    Prepared(Result<(), String>),
    SandboxUp {
        attempt: u32,
        result: Result<SandboxSeen, RuntimeError>,
    },
    SandboxStopped {
        id: String,
        result: Result<(), RuntimeError>,
    },
    PullStarted {
        name: String,
    },
    Image {
        name: String,
        outcome: ImageOutcome,
    },
    Started {
        name: String,
        attempt: u32,
        id: String,
        image_id: String,
        at: Timestamp,
    },
    StartFailed {
        name: String,
        attempt: u32,
        failure: StartFailure,
    },
    HookDone {
        name: String,
        id: String,
        hook: Hook,
        result: Result<(), String>,
    },
    Probed {
        name: String,
        id: String,
        kind: ProbeKind,
        outcome: Outcome,
    },
    /// `Effect::Stop` returned, with the container's state after it.
    Stopped {
        name: String,
        id: String,
        result: Result<ContainerSeen, RuntimeError>,
    },
    Removed(Result<(), RuntimeError>),
    TornDown(Result<(), String>),
    Deleted(Result<(), String>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    Normal,
    Warning,
}

/// Why a container is stopped, as its `Killing` event says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cause {
    PodStops,
    Probe(ProbeKind),
    Changed,
    PostStartFailed,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Look at the runtime for this pod and answer with `Observed`.
    Look,
    /// Make the pod's cgroup and volumes.
    Prepare,
    RunSandbox {
        attempt: u32,
    },
    StopSandbox {
        id: String,
    },
    /// A sandbox that another one replaced; nobody waits for it.
    DropSandbox {
        id: String,
    },
    /// A dead container that nobody needs any more; nobody waits for it.
    DropContainer {
        id: String,
    },
    /// Find the container's image, or pull it.
    Image {
        name: String,
    },
    /// Create and start attempt `attempt` of the container in `sandbox`.
    Start {
        name: String,
        attempt: u32,
        sandbox: String,
    },
    RunHook {
        name: String,
        id: String,
        hook: Hook,
        limit_s: i64,
    },
    Probe {
        name: String,
        id: String,
        kind: ProbeKind,
    },
    Stop {
        name: String,
        id: String,
        grace_s: i64,
    },
    /// Report this status to the API.
    Status(Box<PodStatus>),
    /// Tell people: an Event on the pod, or on one of its containers.
    Tell {
        level: Level,
        reason: &'static str,
        message: String,
        container: Option<String>,
    },
    /// Remove every sandbox and container of the pod from the runtime.
    Remove {
        sandboxes: Vec<String>,
    },
    /// Unmount and remove the pod's volumes and cgroup.
    TearDown,
    /// Delete the pod from the API, with its uid: all its containers are gone.
    Delete,
    /// Drop all memory of the pod, its checkpoint too.
    Forget,
}
