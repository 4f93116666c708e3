//! One cluster of the built binary in a data directory of its own: starting, crashing, starting again, and leaving
//! nothing behind. It decides how the test handles processes; it never signals one that it did not start.

use crate::wait::wait_for;
use crate::{External, Kind, Kubectl, tools};
use anyhow::Context;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::Duration;

/// What differs from `gantry up`'s defaults.
#[derive(Clone, Debug)]
pub struct ClusterOptions {
    pub node_ip: String,
    pub node_name: String,
    /// Further flags of `gantry up`.
    pub flags: Vec<String>,
    pub store: Kind,
}

impl Default for ClusterOptions {
    fn default() -> Self {
        Self {
            node_ip: crate::namespace::NODE_IP.to_owned(),
            node_name: "machine-0".to_owned(),
            flags: Vec::new(),
            store: Kind::Embedded,
        }
    }
}

/// A running `gantry up`. Dropping it takes the cluster down.
pub struct Cluster {
    folder: tempfile::TempDir,
    options: ClusterOptions,
    up: Mutex<Option<Child>>,
    pub kubectl: Kubectl,
    /// The stores, if they are other processes.
    pub external: Option<External>,
}

impl Cluster {
    /// Starts a fresh cluster with the test images and waits until its machine is Ready.
    pub fn start(options: ClusterOptions) -> anyhow::Result<Self> {
        let folder = tempfile::Builder::new().prefix("gantry-e2e-").tempdir().context("a folder for the cluster")?;
        let kubectl = Kubectl::new(&folder.path().join("data/kubeconfig"), folder.path())?;
        let mut cluster = Self { folder, options, up: Mutex::new(None), kubectl, external: None };
        tools::build_images(&cluster.data_dir())?;
        if cluster.options.store != Kind::Embedded {
            let ip = cluster.options.node_ip.clone();
            tools::run(
                cluster
                    .gantry(&["pki", "init", "--node-ip", &ip, "--node-name", cluster.node_name()])?
                    .stdin(Stdio::null()),
            )?;
            let pki = cluster.data_dir().join("pki");
            cluster.external =
                Some(External::start(cluster.options.store, &ip, &pki, &cluster.folder.path().join("stores"))?);
        }
        cluster.spawn()?;
        cluster.wait_ready(Duration::from_secs(60))?;
        cluster.ensure_takes_pods()?;
        Ok(cluster)
    }

    /// A machine short of disk, memory or processes gets no pod: all that follows would fail, and not say why.
    fn ensure_takes_pods(&self) -> anyhow::Result<()> {
        let of_true = |field: &str| {
            let path = format!(".status.conditions[?(@.status==\"True\")].{field}");
            self.kubectl.path(&["node", &self.options.node_name], &path)
        };
        if of_true("type")?.contains("Pressure") {
            anyhow::bail!("this machine cannot run the suite: {}", of_true("message")?);
        }
        Ok(())
    }

    pub fn data_dir(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    pub fn node_name(&self) -> &str {
        &self.options.node_name
    }

    /// The name of this cluster's cgroup in every hierarchy.
    pub fn cgroup_root(&self) -> String {
        let name = self.folder.path().file_name().and_then(|name| name.to_str()).unwrap_or("gantry-e2e");
        format!("/{name}")
    }

    /// The flags that every subcommand needs to reach this cluster.
    pub fn gantry(&self, subcommand: &[&str]) -> anyhow::Result<Command> {
        let mut command = Command::new(tools::gantry()?);
        command.args(subcommand).arg("--data-dir").arg(self.data_dir()).stdin(Stdio::null());
        Ok(command)
    }

    /// Takes everything down and deletes the data; what is there then is as before the first start.
    pub fn reset(&self) -> anyhow::Result<()> {
        self.down()?;
        tools::build_images(&self.data_dir())
    }

    /// Starts `gantry up` without waiting.
    pub fn spawn(&self) -> anyhow::Result<()> {
        let mut log = File::options().create(true).append(true).open(self.log()).context("the cluster's log")?;
        writeln!(log, "== gantry up")?;
        let mut command = self.gantry(&["up"])?;
        command.args(["--node-ip", &self.options.node_ip, "--node-name", &self.options.node_name]);
        command.args(["--cgroup-root", &self.cgroup_root(), "--dns-upstream", "none"]).args(&self.options.flags);
        if let Some(external) = &self.external {
            command.args(["--store-endpoints", &external.endpoints()]);
        }
        command.stdout(log.try_clone()?).stderr(log);
        let child = command.spawn().context("gantry up did not start")?;
        *self.up.lock().expect("no holder of the lock panics") = Some(child);
        Ok(())
    }

    /// Waits until the machine is Ready. A `gantry up` that ends early is reported with its log.
    pub fn wait_ready(&self, timeout: Duration) -> anyhow::Result<()> {
        let condition = ".status.conditions[?(@.type==\"Ready\")].status";
        wait_for("the machine to be Ready", timeout, || {
            let ended = self
                .up
                .lock()
                .expect("no holder of the lock panics")
                .as_mut()
                .and_then(|up| up.try_wait().ok().flatten());
            if let Some(status) = ended {
                anyhow::bail!("gantry up ended ({status}):\n{}", self.log_tail(40));
            }
            self.announced()?;
            let status = self.kubectl.path(&["node", &self.options.node_name], condition)?;
            anyhow::ensure!(status == "True", "the machine's Ready condition is {status:?}");
            Ok(())
        })
        .with_context(|| self.log_tail(40))
    }

    /// `kill -9` of the `gantry up` process alone.
    pub fn kill(&self) -> anyhow::Result<()> {
        let mut up = self.up.lock().expect("no holder of the lock panics");
        let mut child = up.take().context("the cluster is not running")?;
        child.kill().context("kill -9 of gantry up")?;
        child.wait().context("the end of gantry up")?;
        Ok(())
    }

    /// `gantry down` that keeps the data: a later `spawn` finds its objects and images again.
    pub fn stop(&self) -> anyhow::Result<()> {
        self.take_down(&[])
    }

    /// Waits until the `gantry up` that runs now has said that its machine is Ready.
    pub fn wait_announced(&self, timeout: Duration) -> anyhow::Result<()> {
        wait_for("gantry up to say Ready", timeout, || self.announced()).with_context(|| self.log_tail(40))
    }

    fn announced(&self) -> anyhow::Result<()> {
        let text = std::fs::read_to_string(self.log())?;
        let own = text.rsplit("== gantry up\n").next().unwrap_or_default();
        anyhow::ensure!(own.lines().any(|line| line == "gantry: Ready"), "it has not said that it is Ready");
        Ok(())
    }

    /// The process id of `gantry up`.
    pub fn pid(&self) -> anyhow::Result<u32> {
        let up = self.up.lock().expect("no holder of the lock panics");
        up.as_ref().map(Child::id).context("the cluster is not running")
    }

    /// Takes everything down, as `make down` does, and removes the data directory. Stores beside it end after it.
    pub fn down(&self) -> anyhow::Result<()> {
        self.take_down(&["--purge"])?;
        self.external.iter().for_each(External::end);
        Ok(())
    }

    fn take_down(&self, flags: &[&str]) -> anyhow::Result<()> {
        let output = self.gantry(&["down"])?.args(flags).output().context("gantry down did not start")?;
        if let Some(mut child) = self.up.lock().expect("no holder of the lock panics").take() {
            child.wait().context("the end of gantry up")?;
        }
        let text = String::from_utf8_lossy(&output.stderr);
        anyhow::ensure!(output.status.success(), "gantry down: {}\n{text}", output.status);
        Ok(())
    }

    fn log(&self) -> PathBuf {
        self.folder.path().join("up.log")
    }

    /// For who wants to know why a case failed: pods, what happened to them lately, and the last lines that `gantry up` printed.
    pub fn story(&self) -> String {
        let asked = [&["get", "pods", "-A", "-o", "wide"][..], &["get", "events", "-A", "--sort-by=.lastTimestamp"]];
        let last = |text: String| {
            let lines: Vec<&str> = text.lines().collect();
            lines[lines.len().saturating_sub(60)..].join("\n")
        };
        let said = asked.map(|words| self.kubectl.ok(words).map_or_else(|error| format!("{error:#}"), last));
        format!("{}\n{}", said.join("\n"), self.log_tail(30))
    }

    /// The last lines that `gantry up` printed.
    pub fn log_tail(&self, lines: usize) -> String {
        tail(&self.log(), lines)
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if let Err(error) = self.down() {
            eprintln!("taking the cluster down: {error:?}");
        }
    }
}

/// The last lines of a file.
pub(crate) fn tail(path: &Path, lines: usize) -> String {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let all: Vec<&str> = text.lines().collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}
