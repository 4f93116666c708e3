//! Carries out what pod machines ask for, each effect in a task of its own; how it ended comes back as an event.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use gantry_apimachinery::kinds;
use gantry_client::{ApiError, DeleteOptions, EventType, ObjectRef};

use super::{Entry, Message, Shared, as_objects, look, now};
use crate::api::Pod;
use crate::build::container::Inputs;
use crate::build::{self, env, sandbox};
use crate::pod::{Effect, Event, Hook, ImageOutcome, Level, Outcome, ProbeKind, Sandbox, StartFailure};
use crate::runtime::{ImageSeen, RuntimeError};
use crate::server::logs;
use crate::{cgroup, probe, services, volumes};

/// What an effect's task knows of its pod.
struct Job {
    shared: Arc<Shared>,
    pod: Arc<Pod>,
    ips: Vec<String>,
    /// The id of the running container whose processes an ephemeral container shares, by that container's name.
    running: std::collections::BTreeMap<String, String>,
    place: Arc<volumes::Place>,
}

pub fn spawn(shared: &Arc<Shared>, entry: &Entry, effect: Effect) {
    let job = job(shared, entry);
    match effect {
        Effect::Tell { level, reason, message, container } => job.tell(level, reason, &message, container.as_deref()),
        effect => {
            tokio::spawn(job.run(effect));
        }
    }
}

fn job(shared: &Arc<Shared>, Entry { state, place }: &Entry) -> Job {
    let ips = match &state.sandbox {
        _ if state.pod.spec.host_network => shared.machine.read().host_ips.clone(),
        Sandbox::Ready { .. } => state.ips.clone(),
        _ => vec![],
    };
    let running = state.containers.iter().filter_map(|(n, c)| c.running().map(|r| (n.clone(), r.id.clone())));
    Job { shared: shared.clone(), pod: state.pod.clone(), ips, running: running.collect(), place: place.clone() }
}

/// Brings a running pod's volumes up to date; a failure is told in the log and tried again with the next refresh.
pub fn refresh(shared: &Arc<Shared>, entry: &Entry) {
    let job = job(shared, entry);
    tokio::spawn(async move {
        if let Err(e) = job.volumes().await {
            tracing::debug!(pod = %job.pod.label(), e, "volumes not refreshed");
        }
    });
}

/// The pod, or one of its containers, as an Event refers to it.
pub(crate) fn about(pod: &Pod, container: Option<&str>) -> ObjectRef {
    let mut about = ObjectRef::of(&kinds::POD, pod);
    if let Some(name) = container {
        let init = pod.spec.init_containers.iter().any(|c| c.name == name);
        about.field_path = format!("spec.{}{{{name}}}", if init { "initContainers" } else { "containers" });
    }
    about
}

/// The last traces of a pod on this machine.
pub fn forget(shared: &Shared, pod: &Pod) {
    let meta = &pod.metadata;
    if let Err(e) = shared.checkpoints.remove_pod(pod.uid()) {
        tracing::warn!(pod = %pod.label(), error = %e, "the pod's checkpoint stays");
    }
    drop(std::fs::remove_dir_all(shared.config.pod_log_dir(&meta.namespace, &meta.name, meta.uid.as_str())));
}

/// Unmounts and removes a pod's volumes and its cgroup.
pub fn tear_down(shared: &Shared, uid: &str, place: &volumes::Place) -> Result<(), String> {
    place.clear().map_err(|e| format!("volumes: {e}"))?;
    for (owner, path) in cgroup::pods(shared.cgroups.as_ref(), &shared.config.cgroup_root) {
        if owner == uid {
            shared.cgroups.remove(&path).map_err(|e| format!("cgroup {path}: {e}"))?;
        }
    }
    Ok(())
}

impl Job {
    async fn run(self, effect: Effect) {
        let event = match effect {
            Effect::Look => match look::one(&self.shared, self.pod.uid()).await {
                Ok(seen) => Event::Observed(seen),
                Err(_) => Event::LookFailed,
            },
            Effect::Prepare => Event::Prepared(self.prepare().await),
            Effect::RunSandbox { attempt } => Event::SandboxUp { attempt, result: self.run_sandbox(attempt).await },
            Effect::StopSandbox { id } => {
                Event::SandboxStopped { result: self.shared.runtime.stop_sandbox(&id).await, id }
            }
            Effect::Image { name } => Event::Image { outcome: self.image(&name).await, name },
            Effect::Start { name, attempt, sandbox } => self.start(name, attempt, sandbox).await,
            Effect::RunHook { name, id, hook, limit_s } => {
                Event::HookDone { result: self.hook(&name, &id, hook, limit_s).await, name, id, hook }
            }
            Effect::Probe { name, id, kind } => {
                Event::Probed { outcome: self.probe(&name, &id, kind).await, name, id, kind }
            }
            Effect::Stop { name, id, grace_s } => {
                let result = match self.shared.runtime.stop_container(&id, grace_s).await {
                    Ok(()) => look::container(&self.shared, &id).await,
                    Err(e) => Err(e),
                };
                Event::Stopped { name, id, result }
            }
            Effect::Remove { sandboxes } => Event::Removed(self.remove(sandboxes).await),
            Effect::TearDown => Event::TornDown(self.tear_down().await),
            Effect::Delete => Event::Deleted(self.delete().await),
            Effect::DropSandbox { id } => return drop(self.drop_sandbox(&id).await),
            Effect::DropContainer { id } => return drop(self.shared.runtime.remove_container(&id).await),
            Effect::Tell { .. } | Effect::Status(_) | Effect::Forget => return,
        };
        self.send(event).await;
    }

    async fn send(&self, event: Event) {
        // The loop has ended when this fails: there is nobody left to tell.
        drop(self.shared.out.send(Message::Pod { uid: self.pod.uid().to_owned(), event }).await);
    }

    fn tell(&self, level: Level, reason: &str, message: &str, container: Option<&str>) {
        let about = about(&self.pod, container);
        let level = if level == Level::Normal { EventType::Normal } else { EventType::Warning };
        self.shared.recorder.event(&about, level, reason, message);
    }

    async fn volumes(&self) -> Result<(), String> {
        let stamp = now().wall.to_micro_string().replace(':', "-");
        let m = self.shared.machine();
        volumes::prepare(&self.pod, &self.place, as_objects(&self.shared), &m, &self.ips, &stamp).await
    }

    async fn prepare(&self) -> Result<(), String> {
        let spec = &self.pod.spec;
        let path = cgroup::pod_path(&self.shared.config.cgroup_root, cgroup::qos::class(spec), self.pod.uid());
        let limits = cgroup::pod_limits(spec);
        self.shared.cgroups.ensure(&path, &limits).map_err(|e| format!("cgroup {path}: {e}"))?;
        let meta = &self.pod.metadata;
        let logs = self.shared.config.pod_log_dir(&meta.namespace, &meta.name, meta.uid.as_str());
        for dir in [logs, self.shared.config.pod_dir(self.pod.uid())] {
            tokio::fs::create_dir_all(&dir).await.map_err(|e| format!("{}: {e}", dir.display()))?;
        }
        self.volumes().await
    }

    async fn run_sandbox(&self, attempt: u32) -> Result<crate::runtime::SandboxSeen, RuntimeError> {
        let config = sandbox::config(&self.pod, attempt, &self.shared.machine(), &self.shared.config);
        let handler = match self.pod.spec.runtime_class_name.as_deref().unwrap_or_default() {
            "" => String::new(),
            class => as_objects(&self.shared).handler(class).await.map_err(RuntimeError::Failed)?,
        };
        let id = self.shared.runtime.run_sandbox(config, &handler).await?;
        self.shared.runtime.sandbox_status(&id).await
    }

    async fn image(&self, name: &str) -> ImageOutcome {
        let Some(container) = self.pod.container(name) else {
            return ImageOutcome::Failed { reason: "InvalidImageName", message: "no such container".into() };
        };
        let (image, policy) = (&container.image, container.pull_policy());
        let failed = |message: String| ImageOutcome::Failed { reason: "ErrImagePull", message };
        if policy != "Always" {
            match self.shared.runtime.image(image).await {
                Ok(Some(_)) => return ImageOutcome::Present,
                Ok(None) if policy == "Never" => {
                    let message = format!("Container image \"{image}\" is not present with pull policy of Never");
                    return ImageOutcome::Failed { reason: "ErrImageNeverPull", message };
                }
                Ok(None) => {}
                Err(e) => return failed(e.to_string()),
            }
        }
        self.send(Event::PullStarted { name: name.to_owned() }).await;
        let began_ms = now().boot_ms;
        let Ok(_turn) = self.shared.pulls.acquire().await else { return failed("the agent ends".into()) };
        let config = sandbox::config(&self.pod, 0, &self.shared.machine(), &self.shared.config);
        let mut result = Err(RuntimeError::Failed(String::new()));
        // Every credential is tried, then none.
        for auth in self.credentials(image).await.into_iter().map(Some).chain([None]) {
            result = self.shared.runtime.pull(image, auth, config.clone()).await;
            if result.is_ok() {
                break;
            }
        }
        if let Err(e) = result {
            return failed(e.to_string());
        }
        let size_bytes = match self.shared.runtime.image(image).await {
            Ok(Some(seen)) => seen.size_bytes,
            _ => 0,
        };
        ImageOutcome::Pulled { took_ms: now().boot_ms - began_ms, size_bytes }
    }

    async fn credentials(&self, image: &str) -> Vec<crate::runtime::v1::AuthConfig> {
        let mut out = vec![];
        for r in &self.pod.spec.image_pull_secrets {
            let secret = as_objects(&self.shared).secret(&self.pod.metadata.namespace, &r.name).await;
            if let Ok(Some(secret)) = secret {
                out.extend(crate::registry::credentials(&secret, image));
            }
        }
        out
    }

    /// Everything between "the image is there" and "its process runs".
    async fn start(&self, name: String, attempt: u32, sandbox_id: String) -> Event {
        let failure = match self.create(&name, attempt, &sandbox_id).await {
            Ok((id, image)) => match self.shared.runtime.start_container(&id).await {
                Ok(()) => return Event::Started { name, attempt, id, image_id: image.id, at: now().wall },
                Err(RuntimeError::Unknown(m)) => StartFailure::Unknown(m),
                Err(e) => StartFailure::Run { id, message: e.to_string() },
            },
            Err(failure) => failure,
        };
        Event::StartFailed { name, attempt, failure }
    }

    async fn create(&self, name: &str, attempt: u32, sandbox_id: &str) -> Result<(String, ImageSeen), StartFailure> {
        let shared = &self.shared;
        let config_error = StartFailure::Config;
        let container = self.pod.container(name).ok_or_else(|| config_error("no such container".into()))?;
        let image = match shared.runtime.image(&container.image).await {
            Ok(Some(image)) => image,
            Ok(None) => return Err(StartFailure::Create(format!("image {} is gone", container.image))),
            Err(e) => return Err(StartFailure::Create(e.to_string())),
        };
        let m = shared.machine();
        let sources = volumes::gather(&self.pod, as_objects(shared)).await.map_err(config_error)?;
        let services = services::environment(&self.pod, shared.config.discovery.as_deref());
        let env = env::build(&self.pod, container, &m, &self.ips, &sources, &services).map_err(config_error)?;
        let dir = shared.config.pod_dir(self.pod.uid());
        let (hosts, message) = self.own_files(&dir, name, attempt).map_err(|e| StartFailure::Create(e.to_string()))?;
        let mounts =
            volumes::container_mounts(&self.pod, container, &dir, &env, &hosts, &message).map_err(config_error)?;
        let target = container.target_container_name.as_ref().and_then(|t| self.running.get(t)).cloned();
        let inputs = Inputs {
            pod: &self.pod,
            container,
            attempt,
            image: &image,
            env,
            mounts,
            message_file: message.display().to_string(),
            target_id: target,
        };
        let config = build::container::config(inputs, &m).map_err(config_error)?;
        let sandbox_config = sandbox::config(&self.pod, 0, &m, &shared.config);
        match shared.runtime.create_container(sandbox_id, config, sandbox_config).await {
            Ok(id) => Ok((id, image)),
            Err(RuntimeError::Unknown(m)) => Err(StartFailure::Unknown(m)),
            Err(e) => Err(StartFailure::Create(e.to_string())),
        }
    }

    /// The hosts file of the pod, and an empty file for the container's last words.
    fn own_files(&self, dir: &std::path::Path, name: &str, attempt: u32) -> std::io::Result<(PathBuf, PathBuf)> {
        use std::os::unix::fs::PermissionsExt;
        let meta = &self.pod.metadata;
        let log_dir = self.shared.config.pod_log_dir(&meta.namespace, &meta.name, meta.uid.as_str()).join(name);
        std::fs::create_dir_all(&log_dir)?;
        if attempt > 1 {
            // The previous run's log stays for `--previous`; older ones go.
            logs::remove(&log_dir, attempt - 2);
        }
        let machine_hosts = std::fs::read_to_string("/etc/hosts").unwrap_or_default();
        let hosts = dir.join("etc-hosts");
        std::fs::write(&hosts, build::hosts::text(&self.pod, &self.shared.machine(), &self.ips, &machine_hosts))?;
        let messages = dir.join("containers").join(name);
        std::fs::create_dir_all(&messages)?;
        let message = messages.join(attempt.to_string());
        std::fs::write(&message, b"")?;
        std::fs::set_permissions(&message, std::fs::Permissions::from_mode(0o666))?;
        Ok((hosts, message))
    }

    async fn hook(&self, name: &str, id: &str, hook: Hook, limit_s: i64) -> Result<(), String> {
        let Some(container) = self.pod.container(name) else { return Ok(()) };
        let Some(lifecycle) = &container.lifecycle else { return Ok(()) };
        let handler = match hook {
            Hook::PostStart => lifecycle.post_start.as_ref(),
            Hook::PreStop => lifecycle.pre_stop.as_ref(),
        };
        let Some(handler) = handler else { return Ok(()) };
        let ip = self.ips.first().map_or("", String::as_str);
        let target = probe::Target { container, container_id: id, ip };
        probe::hook(self.shared.runtime.as_ref(), target, handler, u64::try_from(limit_s).unwrap_or(0).max(1)).await
    }

    async fn probe(&self, name: &str, id: &str, kind: ProbeKind) -> Outcome {
        let declared = self.pod.container(name).and_then(|c| crate::pod::declared(c, kind).map(|p| (c, p)));
        let Some((container, declared)) = declared else { return Outcome::Failure("no such probe".into()) };
        let ip = self.ips.first().map_or("", String::as_str);
        let target = probe::Target { container, container_id: id, ip };
        probe::probe(self.shared.runtime.as_ref(), target, &declared.handler, declared.timeout_s()).await
    }

    async fn drop_sandbox(&self, id: &str) -> Result<(), RuntimeError> {
        self.shared.runtime.stop_sandbox(id).await?;
        self.shared.runtime.remove_sandbox(id).await
    }

    async fn remove(&self, sandboxes: Vec<String>) -> Result<(), RuntimeError> {
        for id in sandboxes {
            self.drop_sandbox(&id).await?;
        }
        Ok(())
    }

    /// The kernel empties a cgroup a moment after its last process is gone, so a busy one is tried a few times.
    async fn tear_down(&self) -> Result<(), String> {
        let mut result = tear_down(&self.shared, self.pod.uid(), &self.place);
        for pause_ms in [5, 20, 100, 400] {
            if result.is_ok() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(pause_ms)).await;
            result = tear_down(&self.shared, self.pod.uid(), &self.place);
        }
        result
    }

    /// The API forgets the pod only now, when all its containers are gone; the last status goes first.
    async fn delete(&self) -> Result<(), String> {
        self.shared.reporter.flush(self.pod.uid()).await;
        let options = DeleteOptions { grace_period_seconds: Some(0), ..DeleteOptions::uid(self.pod.uid()) };
        let meta = &self.pod.metadata;
        match self.shared.client.delete(&kinds::POD, &meta.namespace, &meta.name, &options).await {
            // Another pod has the name: ours is gone.
            Ok(()) | Err(ApiError::NotFound(_) | ApiError::Conflict(_)) => Ok(()),
            Err(e) => Err(e.chain()),
        }
    }
}
