//! What the agent asks of a container runtime. Decides the shape of the question; never which containers should run.
//!
//! Configurations are the CRI's own messages, because they are the contract with every runtime; observations are our
//! own small types, so that the rest of the agent does not read wire formats.

pub mod convert;
pub mod cri;
pub mod fake;
mod process;

use async_trait::async_trait;
use gantry_apimachinery::time::Timestamp;
use tokio::sync::mpsc;

pub use cri::CriRuntime;
pub use fake::FakeRuntime;

/// The generated messages of the container runtime interface.
#[allow(clippy::all, clippy::allow_attributes_without_reason, reason = "generated code")]
pub mod proto {
    pub mod runtime_v1 {
        tonic::include_proto!("runtime.v1");
    }
    pub mod events_v1 {
        tonic::include_proto!("containerd.services.events.v1");
    }
}

pub use proto::runtime_v1 as v1;

/// Labels that tie a container to its pod; those that Kubernetes' own agent uses, because tools know them.
pub const LABEL_POD_NAME: &str = "io.kubernetes.pod.name";
pub const LABEL_POD_NAMESPACE: &str = "io.kubernetes.pod.namespace";
pub const LABEL_POD_UID: &str = "io.kubernetes.pod.uid";
pub const LABEL_CONTAINER_NAME: &str = "io.kubernetes.container.name";
/// Marks what this agent made, and on which cluster (the uid of its kube-system namespace).
pub const LABEL_CLUSTER: &str = "gantry.dev/cluster";
/// The image as the pod named it when the container was made.
pub const ANNOTATION_IMAGE: &str = "gantry.dev/image";
/// Where the container's termination message is on the machine.
pub const ANNOTATION_MESSAGE_FILE: &str = "gantry.dev/termination-message-file";

/// Why a runtime call failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RuntimeError {
    /// The runtime does not know the sandbox, container or image. Not retried.
    #[error("{0}")]
    NotFound(String),
    /// The runtime refused or failed. The pod machine retries with back-off.
    #[error("{0}")]
    Failed(String),
    /// No answer: the call may or may not have happened. The pod machine looks before it acts again.
    #[error("no answer from the container runtime: {0}")]
    Unknown(String),
}

impl RuntimeError {
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::NotFound(_))
    }
}

pub type Result<T> = std::result::Result<T, RuntimeError>;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuntimeVersion {
    pub name: String,
    pub version: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuntimeHealth {
    pub runtime_ready: bool,
    pub network_ready: bool,
    pub message: String,
}

/// One pod sandbox as the runtime sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SandboxSeen {
    pub id: String,
    pub pod_uid: String,
    pub pod_name: String,
    pub pod_namespace: String,
    pub cluster: String,
    pub attempt: u32,
    pub ready: bool,
    pub created_at_ns: i64,
    /// Filled by `sandbox_status` only. Empty for a pod on the machine's own network.
    pub ips: Vec<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RunState {
    Created,
    Running,
    Exited,
    #[default]
    Unknown,
}

/// One container as the runtime sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContainerSeen {
    pub id: String,
    pub sandbox_id: String,
    pub pod_uid: String,
    pub name: String,
    pub attempt: u32,
    pub state: RunState,
    pub image: String,
    pub image_id: String,
    pub created_at_ns: i64,
    /// From here on filled by `container_status` only.
    pub started_at: Option<Timestamp>,
    pub finished_at: Option<Timestamp>,
    pub exit_code: i32,
    pub reason: String,
    pub message: String,
    pub log_path: String,
    pub message_file: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImageSeen {
    pub id: String,
    pub tags: Vec<String>,
    pub digests: Vec<String>,
    pub size_bytes: u64,
    /// The user the image wants, when it is a number.
    pub uid: Option<i64>,
    pub username: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExecOutput {
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
    pub exit_code: i32,
}

/// What a streaming session connects to the client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Streams {
    pub stdin: bool,
    pub stdout: bool,
    pub stderr: bool,
    pub tty: bool,
}

/// Use of one container, for summaries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UsageSeen {
    pub container_id: String,
    pub pod_uid: String,
    pub name: String,
    pub at_ns: i64,
    pub cpu_core_ns: u64,
    pub memory_working_set_bytes: u64,
}

/// Something changed; `pod_uid` is empty when the runtime does not say whose.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hint;

/// A container runtime. Every call is safe to repeat; `stop_*` and `remove_*` of what is gone succeed.
#[async_trait]
pub trait Runtime: Send + Sync + 'static {
    async fn version(&self) -> Result<RuntimeVersion>;
    async fn health(&self) -> Result<RuntimeHealth>;

    async fn list_sandboxes(&self) -> Result<Vec<SandboxSeen>>;
    async fn list_containers(&self) -> Result<Vec<ContainerSeen>>;
    async fn sandbox_status(&self, id: &str) -> Result<SandboxSeen>;
    async fn container_status(&self, id: &str) -> Result<ContainerSeen>;
    /// Whether the container runs at this very moment. Its state may say `Running` some time after its process has ended.
    async fn lives(&self, id: &str) -> Result<bool>;

    /// `handler`: which of the runtime's configurations runs it; empty for its usual one.
    async fn run_sandbox(&self, config: v1::PodSandboxConfig, handler: &str) -> Result<String>;
    async fn stop_sandbox(&self, id: &str) -> Result<()>;
    async fn remove_sandbox(&self, id: &str) -> Result<()>;

    async fn create_container(
        &self,
        sandbox: &str,
        config: v1::ContainerConfig,
        sandbox_config: v1::PodSandboxConfig,
    ) -> Result<String>;
    async fn start_container(&self, id: &str) -> Result<()>;
    /// SIGTERM, then SIGKILL after `grace_s`. Returns when the container has exited.
    async fn stop_container(&self, id: &str, grace_s: i64) -> Result<()>;
    async fn remove_container(&self, id: &str) -> Result<()>;
    async fn update_resources(&self, id: &str, resources: v1::LinuxContainerResources) -> Result<()>;
    async fn reopen_log(&self, id: &str) -> Result<()>;

    /// A command that outlives `timeout_s` is killed and reported as `Failed`.
    async fn exec_sync(&self, id: &str, command: &[String], timeout_s: u64) -> Result<ExecOutput>;
    async fn exec_url(&self, id: &str, command: &[String], streams: Streams) -> Result<String>;
    async fn attach_url(&self, id: &str, streams: Streams) -> Result<String>;
    async fn port_forward_url(&self, sandbox: &str, ports: &[i32]) -> Result<String>;

    async fn image(&self, name: &str) -> Result<Option<ImageSeen>>;
    async fn images(&self) -> Result<Vec<ImageSeen>>;
    /// Returns the image's id.
    async fn pull(&self, name: &str, auth: Option<v1::AuthConfig>, sandbox: v1::PodSandboxConfig) -> Result<String>;
    async fn remove_image(&self, name: &str) -> Result<()>;
    /// Bytes used by images.
    async fn image_fs_used(&self) -> Result<u64>;
    async fn usage(&self) -> Result<Vec<UsageSeen>>;

    /// Hints that something changed, until the stream breaks. An error means that the runtime has no such stream.
    async fn hints(&self) -> Result<mpsc::Receiver<Hint>>;
}
