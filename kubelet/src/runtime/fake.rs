//! A runtime in memory, for tests and for machines that only pretend. It decides nothing; a test scripts it.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use gantry_apimachinery::clock::Clock;
use parking_lot::Mutex;
use tokio::sync::mpsc;

use super::{
    ANNOTATION_IMAGE, ContainerSeen, ExecOutput, Hint, ImageSeen, LABEL_CLUSTER, LABEL_POD_UID, Result, RunState,
    Runtime, RuntimeError, RuntimeHealth, RuntimeVersion, SandboxSeen, Streams, UsageSeen, v1,
};

#[derive(Default)]
struct Inner {
    next: u64,
    sandboxes: BTreeMap<String, SandboxSeen>,
    containers: BTreeMap<String, ContainerSeen>,
    configs: BTreeMap<String, v1::ContainerConfig>,
    images: BTreeMap<String, ImageSeen>,
    /// Images that can be pulled.
    registry: BTreeMap<String, u64>,
    /// Container names that exit with this code as soon as they start.
    exits: BTreeMap<String, i32>,
    exec: ExecOutput,
    watchers: Vec<mpsc::Sender<Hint>>,
    calls: Vec<String>,
    down: bool,
}

/// Clones share one runtime.
#[derive(Clone)]
pub struct FakeRuntime {
    inner: Arc<Mutex<Inner>>,
    clock: Arc<dyn Clock>,
}

impl FakeRuntime {
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { inner: Arc::default(), clock }
    }
    pub fn add_image(&self, name: &str) {
        let seen = ImageSeen {
            id: format!("sha256:{name}"),
            tags: vec![name.to_owned()],
            size_bytes: 1,
            ..Default::default()
        };
        self.inner.lock().images.insert(name.to_owned(), seen);
    }
    pub fn add_to_registry(&self, name: &str, size_bytes: u64) {
        self.inner.lock().registry.insert(name.to_owned(), size_bytes);
    }
    /// From now on containers of this name exit at once with this code.
    pub fn exits_with(&self, container: &str, code: i32) {
        self.inner.lock().exits.insert(container.to_owned(), code);
    }
    pub fn exec_answers(&self, exit_code: i32, stdout: &str) {
        self.inner.lock().exec = ExecOutput { stdout: stdout.into(), stderr: vec![], exit_code };
    }
    /// Every call fails with no answer while down.
    pub fn set_down(&self, down: bool) {
        self.inner.lock().down = down;
    }
    /// Ends a running container.
    pub fn kill(&self, id: &str, exit_code: i32, reason: &str) {
        let now = self.clock.now();
        let mut inner = self.inner.lock();
        if let Some(c) = inner.containers.get_mut(id) {
            c.state = RunState::Exited;
            c.exit_code = exit_code;
            c.reason = reason.to_owned();
            c.finished_at = Some(now);
        }
        inner.hint();
    }
    /// The sandbox dies with all its containers.
    pub fn kill_sandbox(&self, id: &str) {
        let ids: Vec<String> = {
            let mut inner = self.inner.lock();
            if let Some(s) = inner.sandboxes.get_mut(id) {
                s.ready = false;
            }
            inner.containers.values().filter(|c| c.sandbox_id == id).map(|c| c.id.clone()).collect()
        };
        ids.iter().for_each(|id| self.kill(id, 137, "Error"));
    }
    pub fn sandboxes(&self) -> Vec<SandboxSeen> {
        self.inner.lock().sandboxes.values().cloned().collect()
    }
    pub fn containers(&self) -> Vec<ContainerSeen> {
        self.inner.lock().containers.values().cloned().collect()
    }
    pub fn config(&self, id: &str) -> Option<v1::ContainerConfig> {
        self.inner.lock().configs.get(id).cloned()
    }
    /// The calls that changed something, in order.
    pub fn take_calls(&self) -> Vec<String> {
        std::mem::take(&mut self.inner.lock().calls)
    }
    fn with<T>(&self, call: &str, f: impl FnOnce(&mut Inner) -> Result<T>) -> Result<T> {
        let mut inner = self.inner.lock();
        if inner.down {
            return Err(RuntimeError::Unknown("the runtime is down".into()));
        }
        if !call.is_empty() {
            inner.calls.push(call.to_owned());
        }
        f(&mut inner)
    }
    fn now_ns(&self) -> i64 {
        self.clock.now().micros() * 1000
    }
}

impl Inner {
    fn id(&mut self, what: &str) -> String {
        self.next += 1;
        format!("{what}{}", self.next)
    }
    fn hint(&mut self) {
        self.watchers.retain(|w| !matches!(w.try_send(Hint), Err(mpsc::error::TrySendError::Closed(_))));
    }
}

fn missing<T>(what: &str) -> Result<T> {
    Err(RuntimeError::NotFound(format!("{what} not found")))
}

#[async_trait]
impl Runtime for FakeRuntime {
    async fn version(&self) -> Result<RuntimeVersion> {
        self.with("", |_| Ok(RuntimeVersion { name: "fake".into(), version: "1".into() }))
    }
    async fn health(&self) -> Result<RuntimeHealth> {
        self.with("", |_| Ok(RuntimeHealth { runtime_ready: true, network_ready: true, message: String::new() }))
    }
    async fn list_sandboxes(&self) -> Result<Vec<SandboxSeen>> {
        self.with("", |i| Ok(i.sandboxes.values().cloned().collect()))
    }
    async fn list_containers(&self) -> Result<Vec<ContainerSeen>> {
        self.with("", |i| Ok(i.containers.values().cloned().collect()))
    }
    async fn sandbox_status(&self, id: &str) -> Result<SandboxSeen> {
        self.with("", |i| i.sandboxes.get(id).cloned().map_or_else(|| missing("sandbox"), Ok))
    }
    async fn container_status(&self, id: &str) -> Result<ContainerSeen> {
        self.with("", |i| i.containers.get(id).cloned().map_or_else(|| missing("container"), Ok))
    }
    async fn lives(&self, id: &str) -> Result<bool> {
        Ok(self.container_status(id).await?.state == RunState::Running)
    }
    async fn run_sandbox(&self, config: v1::PodSandboxConfig, handler: &str) -> Result<String> {
        let created_at_ns = self.now_ns();
        let meta = config.metadata.unwrap_or_default();
        let by = if handler.is_empty() { String::new() } else { format!(" by {handler}") };
        self.with(&format!("run_sandbox {} {}{by}", meta.name, meta.attempt), |i| {
            let id = i.id("s");
            let ips = vec![format!("10.0.{}.{}", i.next / 250, i.next % 250 + 2)];
            let get = |key: &str| config.labels.get(key).cloned().unwrap_or_default();
            let seen = SandboxSeen {
                id: id.clone(),
                pod_uid: get(LABEL_POD_UID),
                pod_name: meta.name,
                pod_namespace: meta.namespace,
                cluster: get(LABEL_CLUSTER),
                attempt: meta.attempt,
                ready: true,
                created_at_ns,
                ips,
            };
            i.sandboxes.insert(id.clone(), seen);
            Ok(id)
        })
    }
    async fn stop_sandbox(&self, id: &str) -> Result<()> {
        self.with(&format!("stop_sandbox {id}"), |_| Ok(()))?;
        self.kill_sandbox(id);
        Ok(())
    }
    async fn remove_sandbox(&self, id: &str) -> Result<()> {
        self.with(&format!("remove_sandbox {id}"), |i| {
            i.sandboxes.remove(id);
            i.containers.retain(|_, c| c.sandbox_id != id);
            Ok(())
        })
    }
    async fn create_container(
        &self,
        sandbox: &str,
        config: v1::ContainerConfig,
        _: v1::PodSandboxConfig,
    ) -> Result<String> {
        let created_at_ns = self.now_ns();
        let meta = config.metadata.clone().unwrap_or_default();
        self.with(&format!("create {} {}", meta.name, meta.attempt), |i| {
            let Some(pod_uid) = i.sandboxes.get(sandbox).map(|s| s.pod_uid.clone()) else { return missing("sandbox") };
            let id = i.id("c");
            let seen = ContainerSeen {
                id: id.clone(),
                sandbox_id: sandbox.to_owned(),
                pod_uid,
                name: meta.name,
                attempt: meta.attempt,
                state: RunState::Created,
                image: config.annotations.get(ANNOTATION_IMAGE).cloned().unwrap_or_default(),
                image_id: config.image.clone().unwrap_or_default().image,
                created_at_ns,
                ..ContainerSeen::default()
            };
            i.containers.insert(id.clone(), seen);
            i.configs.insert(id.clone(), config);
            Ok(id)
        })
    }
    async fn start_container(&self, id: &str) -> Result<()> {
        let now = self.clock.now();
        let exit = self.with(&format!("start {id}"), |i| {
            let Some(c) = i.containers.get_mut(id) else { return missing("container") };
            c.state = RunState::Running;
            c.started_at = Some(now);
            let name = c.name.clone();
            Ok(i.exits.get(&name).copied())
        })?;
        if let Some(code) = exit {
            self.kill(id, code, if code == 0 { "Completed" } else { "Error" });
        }
        Ok(())
    }
    async fn stop_container(&self, id: &str, grace_s: i64) -> Result<()> {
        let running = self.with(&format!("stop {id} {grace_s}"), |i| {
            Ok(i.containers.get(id).is_some_and(|c| c.state == RunState::Running))
        })?;
        if running {
            self.kill(id, if grace_s > 0 { 143 } else { 137 }, "Error");
        }
        Ok(())
    }
    async fn remove_container(&self, id: &str) -> Result<()> {
        self.with(&format!("remove {id}"), |i| {
            i.containers.remove(id);
            Ok(())
        })
    }
    async fn update_resources(&self, id: &str, _: v1::LinuxContainerResources) -> Result<()> {
        self.with(&format!("update {id}"), |_| Ok(()))
    }
    async fn reopen_log(&self, id: &str) -> Result<()> {
        self.with(&format!("reopen {id}"), |_| Ok(()))
    }
    async fn exec_sync(&self, _: &str, _: &[String], _: u64) -> Result<ExecOutput> {
        self.with("", |i| Ok(i.exec.clone()))
    }
    async fn exec_url(&self, _: &str, _: &[String], _: Streams) -> Result<String> {
        missing("streaming server")
    }
    async fn attach_url(&self, _: &str, _: Streams) -> Result<String> {
        missing("streaming server")
    }
    async fn port_forward_url(&self, _: &str, _: &[i32]) -> Result<String> {
        missing("streaming server")
    }
    async fn image(&self, name: &str) -> Result<Option<ImageSeen>> {
        self.with("", |i| Ok(i.images.get(name).cloned()))
    }
    async fn images(&self) -> Result<Vec<ImageSeen>> {
        self.with("", |i| Ok(i.images.values().cloned().collect()))
    }
    async fn pull(&self, name: &str, _: Option<v1::AuthConfig>, _: v1::PodSandboxConfig) -> Result<String> {
        let size = self.with(&format!("pull {name}"), |i| {
            i.registry
                .get(name)
                .copied()
                .ok_or_else(|| RuntimeError::Failed(format!("failed to resolve reference \"{name}\"")))
        })?;
        self.add_image(name);
        if let Some(image) = self.inner.lock().images.get_mut(name) {
            image.size_bytes = size;
        }
        Ok(format!("sha256:{name}"))
    }
    async fn remove_image(&self, name: &str) -> Result<()> {
        self.with(&format!("remove_image {name}"), |i| {
            i.images.remove(name);
            Ok(())
        })
    }
    async fn image_fs_used(&self) -> Result<u64> {
        self.with("", |i| Ok(i.images.values().map(|i| i.size_bytes).sum()))
    }
    async fn usage(&self) -> Result<Vec<UsageSeen>> {
        self.with("", |_| Ok(vec![]))
    }
    async fn hints(&self) -> Result<mpsc::Receiver<Hint>> {
        let (tx, rx) = mpsc::channel(1);
        self.with("", |i| {
            i.watchers.push(tx);
            Ok(rx)
        })
    }
}
