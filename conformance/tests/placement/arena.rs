//! Everything that runs: three members of each store group, two API servers, controllers and a hundred hollow machines. A case starts
//! the schedulers that it needs. It decides names and ports; it never signals a process that it did not start.

use crate::crowd::Crowd;
use crate::record::Record;
use anyhow::Context;
use gantry_conformance::{External, Kind, Kubectl, namespace, tools, wait_for};
use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::Duration;

pub const MACHINES: usize = 100;
/// Long enough for a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(90);
pub const IP: &str = namespace::NODE_IP;

/// The machines with odd and even numbers stand in two zones; every other one has a label that its neighbour lacks.
const PROFILE: &str = "
name: hollow
zones: 2
racksPerZone: 5
classes:
- {name: with, share: 1, cpu: 8, memory: 64Gi, labels: {half: here}}
- {name: without, share: 1, cpu: 8, memory: 64Gi}
pods: {stopping: {min: 20ms, max: 100ms}}
";

/// Dropping it ends everything.
pub struct Arena {
    folder: tempfile::TempDir,
    running: Mutex<BTreeMap<String, Child>>,
    pub stores: External,
    /// Through the API server that is never killed.
    pub kubectl: Kubectl,
    pub client: kube::Client,
    pub runtime: tokio::runtime::Runtime,
}

/// The API server that cases kill, and the one from which everything is seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Server {
    Mortal,
    Steady,
}

impl Server {
    fn port(self) -> u16 {
        if self == Self::Mortal { 6443 } else { 6444 }
    }
    fn name(self) -> &'static str {
        if self == Self::Mortal { "apiserver-mortal" } else { "apiserver-steady" }
    }
    fn url(self) -> String {
        format!("https://{IP}:{}", self.port())
    }
}

impl Arena {
    pub fn start() -> anyhow::Result<Self> {
        let folder = tempfile::Builder::new().prefix("gantry-e2e-").tempdir().context("a folder for the cluster")?;
        let at = |file: &str| folder.path().join(file);
        let run = |words: &[&str]| {
            tools::run(Command::new(tools::gantry()?).args(words).arg("--data-dir").arg(at("control"))).map(drop)
        };
        run(&["pki", "init", "--node-ip", IP, "--node-name", "control"])?;
        for (user, group, server, file) in [
            ("kubernetes-admin", Some("system:masters"), Server::Steady, "admin"),
            ("system:kube-scheduler", None, Server::Mortal, "scheduler-mortal"),
            ("system:kube-scheduler", None, Server::Steady, "scheduler-steady"),
            ("system:kube-controller-manager", None, Server::Steady, "controllers"),
        ] {
            let (server, out) = (server.url(), at(file).to_string_lossy().into_owned());
            let mut words = vec!["pki", "client", user, "--server", &server, "--out", &out];
            words.extend(group.iter().flat_map(|group| ["--group", group]));
            run(&words)?;
        }
        let stores = External::start(Kind::Members, IP, &at("control/pki"), &at("stores"))?;
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        let kubectl = Kubectl::new(&at("admin"), folder.path())?;
        let client = runtime.block_on(client(&at("admin")))?;
        let arena = Self { folder, running: Mutex::default(), stores, kubectl, client, runtime };
        arena.start_server(Server::Steady)?;
        arena.start_server(Server::Mortal)?;
        arena.wait_answers(Server::Steady)?;
        let mut controllers = Command::new(tools::gantry()?);
        controllers.args(["controllers", "--kubeconfig"]).arg(arena.path("controllers"));
        arena.spawn("controllers", controllers.arg("--root-ca").arg(arena.path("control/pki/ca.crt")))?;
        arena.start_machines()?;
        arena.wait_answers(Server::Mortal)?;
        Ok(arena)
    }

    fn start_machines(&self) -> anyhow::Result<()> {
        std::fs::write(self.path("fleet.yaml"), PROFILE)?;
        let mut access = Command::new(tools::gantry()?);
        access.args(["hollow", "access", "--server", &Server::Steady.url(), "--kubeconfig"]);
        tools::run(access.arg(self.path("admin")).arg("--data-dir").arg(self.path("control")))?;
        let mut machines = Command::new(tools::gantry()?);
        machines.args(["hollow", "--nodes", &MACHINES.to_string(), "--no-events", "--pause-reports", "--profile"]);
        machines.arg(self.path("fleet.yaml")).args(["--seed", "7", "--data-dir"]).arg(self.path("control"));
        self.spawn("machines", &mut machines)?;
        let usable = "range .items[*]}{.status.conditions[?(@.type==\"Ready\")].status}{.spec.taints}{\"\\n\"}{end";
        wait_for("every machine to be Ready", PATIENCE, || {
            let text = self.kubectl.path(&["nodes"], usable)?;
            let found = text.lines().filter(|line| *line == "True").count();
            anyhow::ensure!(found == MACHINES, "{found} are Ready and without a taint");
            Ok(())
        })
        .with_context(|| self.tails(15))
    }

    pub fn path(&self, file: &str) -> PathBuf {
        self.folder.path().join(file)
    }

    pub fn start_server(&self, server: Server) -> anyhow::Result<()> {
        let mut command = Command::new(tools::gantry()?);
        command.args(["apiserver", "--store-endpoints", &self.stores.endpoints(), "--advertise-ip", IP]);
        command.args(["--listen", &format!("{IP}:{}", server.port())]);
        self.spawn(server.name(), command.arg("--pki-dir").arg(self.path("control/pki")))
    }

    pub fn kill_server(&self, server: Server) -> anyhow::Result<()> {
        self.kill(server.name())
    }

    pub fn wait_answers(&self, server: Server) -> anyhow::Result<()> {
        let url = server.url();
        wait_for(&format!("{server:?} to answer"), PATIENCE, || {
            self.kubectl.ok(&["--server", &url, "get", "--raw", "/readyz"]).map(drop)
        })
        .with_context(|| self.tails(15))
    }

    /// A scheduler as its own process under this name.
    pub fn start_scheduler(&self, name: &str, server: Server, flags: &[&str]) -> anyhow::Result<()> {
        let identity = if server == Server::Mortal { "scheduler-mortal" } else { "scheduler-steady" };
        let mut command = Command::new(tools::gantry()?);
        command.args(["scheduler", "--kubeconfig"]).arg(self.path(identity)).args(flags);
        self.spawn(name, &mut command)
    }

    fn spawn(&self, name: &str, command: &mut Command) -> anyhow::Result<()> {
        let log = File::options().create(true).append(true).open(self.path(&format!("{name}.log")))?;
        let child = command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).spawn();
        let child = child.with_context(|| format!("{name} did not start"))?;
        let before = self.running.lock().expect("no holder of the lock panics").insert(name.to_owned(), child);
        anyhow::ensure!(before.is_none(), "{name} runs already");
        Ok(())
    }

    /// Its process id; an error when it does not run any more.
    pub fn pid(&self, name: &str) -> anyhow::Result<u32> {
        let mut running = self.running.lock().expect("no holder of the lock panics");
        let child = running.get_mut(name).with_context(|| format!("{name} does not run"))?;
        let ended = child.try_wait()?;
        anyhow::ensure!(ended.is_none(), "{name} ended: {ended:?}");
        Ok(child.id())
    }

    pub fn signal(&self, name: &str, signal: Signal) -> anyhow::Result<()> {
        let pid = Pid::from_raw(i32::try_from(self.pid(name)?)?).context("a process id is not 0")?;
        kill_process(pid, signal).with_context(|| format!("a signal to {name}"))
    }

    /// `kill -9`.
    pub fn kill(&self, name: &str) -> anyhow::Result<()> {
        let runs = self.pid(name).with_context(|| self.tail(name, 30));
        let child = self.running.lock().expect("no holder of the lock panics").remove(name);
        let mut child = child.with_context(|| format!("{name} does not run"))?;
        child.kill().and_then(|()| child.wait()).with_context(|| format!("kill -9 of {name}"))?;
        runs.map(drop)
    }

    fn tail(&self, name: &str, lines: usize) -> String {
        format!("{name}:\n{}", tail(&self.path(&format!("{name}.log")), lines))
    }

    /// The last lines that each process printed.
    pub fn tails(&self, lines: usize) -> String {
        let names: Vec<String> = self.running.lock().expect("no holder of the lock panics").keys().cloned().collect();
        names.iter().map(|name| self.tail(name, lines)).collect::<Vec<_>>().join("\n")
    }

    /// Runs a case in a namespace of its own while everything that happens to pods is recorded. Afterwards its schedulers are
    /// ended, whatever became of it, and its pods are gone.
    pub fn case(
        &self,
        name: &str,
        schedulers: &[&str],
        body: impl FnOnce(&Crowd<'_>, &Record) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        self.kubectl.ok(&["create", "namespace", name])?;
        let kubectl = self.kubectl.within(name);
        let account = || kubectl.ok(&["get", "serviceaccount", "default"]);
        wait_for("the default service account", PATIENCE, account)?;
        let record = Record::start(self)?;
        let crowd = Crowd { arena: self, kubectl: &kubectl, namespace: name };
        let result = body(&crowd, &record);
        if result.is_err() {
            eprintln!("{}\n{}", record.waiting(name), self.tails(12));
        }
        for scheduler in schedulers {
            let runs = self.running.lock().expect("no holder of the lock panics").contains_key(*scheduler);
            let ended = if runs { self.kill(scheduler) } else { Ok(()) };
            if result.is_ok() {
                ended?;
            }
        }
        crowd.leave()?;
        self.kubectl.ok(&["delete", "namespace", name, "--wait=false"])?;
        result
    }

    /// Asks it to end, and waits for its good end.
    pub fn end(&self, name: &str) -> anyhow::Result<()> {
        self.signal(name, Signal::TERM)?;
        let child = self.running.lock().expect("no holder of the lock panics").remove(name);
        let status = child.with_context(|| format!("{name} does not run"))?.wait()?;
        anyhow::ensure!(status.success(), "{name} ended with {status}: {}", self.tail(name, 10));
        Ok(())
    }
}

async fn client(kubeconfig: &Path) -> anyhow::Result<kube::Client> {
    let config = kube::config::Kubeconfig::read_from(kubeconfig)?;
    let config = kube::Config::from_custom_kubeconfig(config, &kube::config::KubeConfigOptions::default()).await?;
    Ok(kube::Client::try_from(config)?)
}

fn tail(path: &Path, lines: usize) -> String {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let all: Vec<&str> = text.lines().collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}

impl Drop for Arena {
    fn drop(&mut self) {
        let running = std::mem::take(&mut *self.running.lock().expect("no holder of the lock panics"));
        for mut child in running.into_values() {
            // One that ended by itself is as good as killed.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
