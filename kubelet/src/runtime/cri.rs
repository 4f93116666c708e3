//! The runtime behind a CRI socket (containerd, CRI-O). Decides how long to wait for each answer; never what to run.

use std::path::PathBuf;
use std::time::Duration;

use async_trait::async_trait;
use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;
use tokio::sync::mpsc;
use tonic::transport::{Channel, Endpoint, Uri};
use tonic::{Code, Request};

use super::proto::events_v1::{SubscribeRequest, events_client::EventsClient};
use super::v1::image_service_client::ImageServiceClient;
use super::v1::runtime_service_client::RuntimeServiceClient;
use super::{
    ContainerSeen, ExecOutput, Hint, ImageSeen, Result, Runtime, RuntimeError, RuntimeHealth, RuntimeVersion,
    SandboxSeen, Streams, UsageSeen, convert, process, v1,
};

const SHORT: Duration = Duration::from_secs(20);
const SANDBOX: Duration = Duration::from_secs(120);
const PULL: Duration = Duration::from_secs(30 * 60);
/// Lists of a few thousand containers stay below this.
const MAX_MESSAGE: usize = 64 << 20;

/// A lazily connected, self-healing connection; clones share it.
#[derive(Clone)]
pub struct CriRuntime {
    runtime: RuntimeServiceClient<Channel>,
    images: ImageServiceClient<Channel>,
    events: EventsClient<Channel>,
}

impl CriRuntime {
    /// Never fails: the socket is opened on first use, and again whenever it broke.
    pub fn new(socket: impl Into<PathBuf>) -> Self {
        let socket: PathBuf = socket.into();
        let connector = tower::service_fn(move |_: Uri| {
            let socket = socket.clone();
            async move { UnixStream::connect(socket).await.map(TokioIo::new) }
        });
        // gRPC-Go refuses an authority that is not a host name, so the socket's path must not become one.
        let channel = Endpoint::from_static("http://localhost").connect_with_connector_lazy(connector);
        Self {
            runtime: RuntimeServiceClient::new(channel.clone()).max_decoding_message_size(MAX_MESSAGE),
            images: ImageServiceClient::new(channel.clone()).max_decoding_message_size(MAX_MESSAGE),
            events: EventsClient::new(channel),
        }
    }
    fn rt(&self) -> RuntimeServiceClient<Channel> {
        self.runtime.clone()
    }
    fn im(&self) -> ImageServiceClient<Channel> {
        self.images.clone()
    }
}

fn within<T>(limit: Duration, message: T) -> Request<T> {
    let mut request = Request::new(message);
    request.set_timeout(limit);
    request
}

fn failure(status: tonic::Status) -> RuntimeError {
    let message = status.message().to_owned();
    match status.code() {
        Code::NotFound => RuntimeError::NotFound(message),
        Code::Unavailable | Code::Cancelled | Code::DeadlineExceeded => RuntimeError::Unknown(message),
        // The transport's own errors come as Unknown with a source; the runtime's come without.
        Code::Unknown if std::error::Error::source(&status).is_some() => RuntimeError::Unknown(message),
        _ => RuntimeError::Failed(message),
    }
}

/// Gone is as good as stopped or removed.
fn gone_is_fine(result: std::result::Result<(), tonic::Status>) -> Result<()> {
    match result.map_err(failure) {
        Err(RuntimeError::NotFound(_)) | Ok(()) => Ok(()),
        Err(e) => Err(e),
    }
}

fn spec(image: &str) -> v1::ImageSpec {
    v1::ImageSpec { image: image.to_owned(), ..Default::default() }
}

#[async_trait]
impl Runtime for CriRuntime {
    async fn version(&self) -> Result<RuntimeVersion> {
        let request = within(SHORT, v1::VersionRequest::default());
        let v = self.rt().version(request).await.map_err(failure)?.into_inner();
        Ok(RuntimeVersion { name: v.runtime_name, version: v.runtime_version })
    }

    async fn health(&self) -> Result<RuntimeHealth> {
        let request = within(SHORT, v1::StatusRequest::default());
        let status = self.rt().status(request).await.map_err(failure)?.into_inner().status.unwrap_or_default();
        let mut health = RuntimeHealth::default();
        for c in status.conditions {
            match c.r#type.as_str() {
                "RuntimeReady" => health.runtime_ready = c.status,
                "NetworkReady" => health.network_ready = c.status,
                _ => continue,
            }
            if !c.status {
                health.message = format!("{}: {}", c.reason, c.message);
            }
        }
        Ok(health)
    }

    async fn list_sandboxes(&self) -> Result<Vec<SandboxSeen>> {
        let request = within(SHORT, v1::ListPodSandboxRequest::default());
        let list = self.rt().list_pod_sandbox(request).await.map_err(failure)?.into_inner();
        Ok(list.items.into_iter().map(convert::sandbox).collect())
    }

    async fn list_containers(&self) -> Result<Vec<ContainerSeen>> {
        let request = within(SHORT, v1::ListContainersRequest::default());
        let list = self.rt().list_containers(request).await.map_err(failure)?.into_inner();
        Ok(list.containers.into_iter().map(convert::container).collect())
    }

    async fn sandbox_status(&self, id: &str) -> Result<SandboxSeen> {
        let request = within(SHORT, v1::PodSandboxStatusRequest { pod_sandbox_id: id.to_owned(), verbose: false });
        let answer = self.rt().pod_sandbox_status(request).await.map_err(failure)?.into_inner();
        answer.status.map(convert::sandbox_status).ok_or_else(|| RuntimeError::Failed("no status".into()))
    }

    async fn container_status(&self, id: &str) -> Result<ContainerSeen> {
        let request = within(SHORT, v1::ContainerStatusRequest { container_id: id.to_owned(), verbose: false });
        let answer = self.rt().container_status(request).await.map_err(failure)?.into_inner();
        answer.status.map(convert::container_status).ok_or_else(|| RuntimeError::Failed("no status".into()))
    }

    async fn lives(&self, id: &str) -> Result<bool> {
        let request = within(SHORT, v1::ContainerStatusRequest { container_id: id.to_owned(), verbose: true });
        let answer = self.rt().container_status(request).await.map_err(failure)?.into_inner();
        let running = answer.status.is_some_and(|s| s.state == v1::ContainerState::ContainerRunning as i32);
        Ok(running && process::named(&answer.info).is_none_or(process::lives))
    }

    async fn run_sandbox(&self, config: v1::PodSandboxConfig, handler: &str) -> Result<String> {
        let message = v1::RunPodSandboxRequest { config: Some(config), runtime_handler: handler.to_owned() };
        let answer = self.rt().run_pod_sandbox(within(SANDBOX, message)).await.map_err(failure)?;
        Ok(answer.into_inner().pod_sandbox_id)
    }

    async fn stop_sandbox(&self, id: &str) -> Result<()> {
        let request = within(SANDBOX, v1::StopPodSandboxRequest { pod_sandbox_id: id.to_owned() });
        gone_is_fine(self.rt().stop_pod_sandbox(request).await.map(drop))
    }

    async fn remove_sandbox(&self, id: &str) -> Result<()> {
        let request = within(SANDBOX, v1::RemovePodSandboxRequest { pod_sandbox_id: id.to_owned() });
        gone_is_fine(self.rt().remove_pod_sandbox(request).await.map(drop))
    }

    async fn create_container(
        &self,
        sandbox: &str,
        config: v1::ContainerConfig,
        sandbox_config: v1::PodSandboxConfig,
    ) -> Result<String> {
        let message = v1::CreateContainerRequest {
            pod_sandbox_id: sandbox.to_owned(),
            config: Some(config),
            sandbox_config: Some(sandbox_config),
        };
        let answer = self.rt().create_container(within(SANDBOX, message)).await.map_err(failure)?;
        Ok(answer.into_inner().container_id)
    }

    async fn start_container(&self, id: &str) -> Result<()> {
        let request = within(SANDBOX, v1::StartContainerRequest { container_id: id.to_owned() });
        self.rt().start_container(request).await.map(drop).map_err(failure)
    }

    async fn stop_container(&self, id: &str, grace_s: i64) -> Result<()> {
        let limit = SANDBOX + Duration::from_secs(u64::try_from(grace_s).unwrap_or(0));
        let message = v1::StopContainerRequest { container_id: id.to_owned(), timeout: grace_s.max(0) };
        gone_is_fine(self.rt().stop_container(within(limit, message)).await.map(drop))
    }

    async fn remove_container(&self, id: &str) -> Result<()> {
        let request = within(SANDBOX, v1::RemoveContainerRequest { container_id: id.to_owned() });
        gone_is_fine(self.rt().remove_container(request).await.map(drop))
    }

    async fn update_resources(&self, id: &str, resources: v1::LinuxContainerResources) -> Result<()> {
        let message = v1::UpdateContainerResourcesRequest { container_id: id.to_owned(), linux: Some(resources) };
        self.rt().update_container_resources(within(SHORT, message)).await.map(drop).map_err(failure)
    }

    async fn reopen_log(&self, id: &str) -> Result<()> {
        let request = within(SHORT, v1::ReopenContainerLogRequest { container_id: id.to_owned() });
        self.rt().reopen_container_log(request).await.map(drop).map_err(failure)
    }

    async fn exec_sync(&self, id: &str, command: &[String], timeout_s: u64) -> Result<ExecOutput> {
        let timeout = i64::try_from(timeout_s).unwrap_or(i64::MAX);
        let message = v1::ExecSyncRequest { container_id: id.to_owned(), cmd: command.to_vec(), timeout };
        // No time-out of the command itself means that only the caller limits it.
        let limit =
            if timeout_s == 0 { Duration::from_secs(24 * 3600) } else { Duration::from_secs(timeout_s) + SHORT };
        let out = self.rt().exec_sync(within(limit, message)).await.map_err(|s| match s.code() {
            // The runtime's own time-out of the command comes with this code as well: it was killed.
            Code::DeadlineExceeded => RuntimeError::Failed(format!("command timed out after {timeout_s}s")),
            _ => failure(s),
        })?;
        let out = out.into_inner();
        Ok(ExecOutput { stdout: out.stdout, stderr: out.stderr, exit_code: out.exit_code })
    }

    async fn exec_url(&self, id: &str, command: &[String], s: Streams) -> Result<String> {
        let message = v1::ExecRequest {
            container_id: id.to_owned(),
            cmd: command.to_vec(),
            tty: s.tty,
            stdin: s.stdin,
            stdout: s.stdout,
            // A terminal has one output stream; runtimes refuse both together.
            stderr: s.stderr && !s.tty,
        };
        Ok(self.rt().exec(within(SHORT, message)).await.map_err(failure)?.into_inner().url)
    }

    async fn attach_url(&self, id: &str, s: Streams) -> Result<String> {
        let message = v1::AttachRequest {
            container_id: id.to_owned(),
            stdin: s.stdin,
            tty: s.tty,
            stdout: s.stdout,
            stderr: s.stderr && !s.tty,
        };
        Ok(self.rt().attach(within(SHORT, message)).await.map_err(failure)?.into_inner().url)
    }

    async fn port_forward_url(&self, sandbox: &str, ports: &[i32]) -> Result<String> {
        let message = v1::PortForwardRequest { pod_sandbox_id: sandbox.to_owned(), port: ports.to_vec() };
        Ok(self.rt().port_forward(within(SHORT, message)).await.map_err(failure)?.into_inner().url)
    }

    async fn image(&self, name: &str) -> Result<Option<ImageSeen>> {
        let request = within(SHORT, v1::ImageStatusRequest { image: Some(spec(name)), verbose: false });
        match self.im().image_status(request).await.map_err(failure) {
            Ok(answer) => Ok(answer.into_inner().image.map(convert::image)),
            Err(RuntimeError::NotFound(_)) => Ok(None),
            Err(e) => Err(e),
        }
    }

    async fn images(&self) -> Result<Vec<ImageSeen>> {
        let request = within(SHORT, v1::ListImagesRequest::default());
        let list = self.im().list_images(request).await.map_err(failure)?.into_inner();
        Ok(list.images.into_iter().map(convert::image).collect())
    }

    async fn pull(&self, name: &str, auth: Option<v1::AuthConfig>, sandbox: v1::PodSandboxConfig) -> Result<String> {
        let message = v1::PullImageRequest { image: Some(spec(name)), auth, sandbox_config: Some(sandbox) };
        Ok(self.im().pull_image(within(PULL, message)).await.map_err(failure)?.into_inner().image_ref)
    }

    async fn remove_image(&self, name: &str) -> Result<()> {
        let request = within(SANDBOX, v1::RemoveImageRequest { image: Some(spec(name)) });
        gone_is_fine(self.im().remove_image(request).await.map(drop))
    }

    async fn image_fs_used(&self) -> Result<u64> {
        let request = within(SHORT, v1::ImageFsInfoRequest::default());
        let info = self.im().image_fs_info(request).await.map_err(failure)?.into_inner();
        Ok(info.image_filesystems.iter().map(|f| f.used_bytes.unwrap_or_default().value).sum())
    }

    async fn usage(&self) -> Result<Vec<UsageSeen>> {
        let request = within(SHORT, v1::ListContainerStatsRequest::default());
        let list = self.rt().list_container_stats(request).await.map_err(failure)?.into_inner();
        Ok(list.stats.into_iter().map(convert::usage).collect())
    }

    async fn hints(&self) -> Result<mpsc::Receiver<Hint>> {
        let filters = ["/tasks/exit", "/tasks/oom"].map(|t| format!("topic==\"{t}\",namespace==k8s.io")).to_vec();
        let answer = self.events.clone().subscribe(SubscribeRequest { filters }).await.map_err(failure)?;
        let mut stream = answer.into_inner();
        // One place is enough: a hint that is already waiting says everything.
        let (tx, rx) = mpsc::channel(1);
        tokio::spawn(async move {
            while let Ok(Some(_)) = stream.message().await {
                if matches!(tx.try_send(Hint), Err(mpsc::error::TrySendError::Closed(_))) {
                    return;
                }
            }
        });
        Ok(rx)
    }
}
