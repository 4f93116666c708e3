//! A control plane without a machine of its own, and processes of hollow machines beside it. It never signals a process that it did
//! not start.

use crate::runner::{self, Case};
use crate::{Kubectl, namespace, tools, wait_for};
use anyhow::Context;
use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::Mutex;
use std::time::Duration;

/// Long enough for a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Everything that runs. Dropping it ends it.
pub struct Rehearsal {
    folder: tempfile::TempDir,
    running: Mutex<BTreeMap<String, Child>>,
    pub kubectl: Kubectl,
}

impl Rehearsal {
    /// A fresh control plane without a machine, and the profile of those to come.
    pub fn start(profile: &str) -> anyhow::Result<Self> {
        let folder = tempfile::Builder::new().prefix("gantry-e2e-").tempdir().context("a folder for the cluster")?;
        let kubectl = Kubectl::new(&folder.path().join("data/kubeconfig"), folder.path())?;
        let rehearsal = Self { folder, running: Mutex::default(), kubectl };
        std::fs::write(rehearsal.path("fleet.yaml"), profile)?;
        let name = "control-plane";
        let mut up =
            rehearsal.gantry(&["up", "--no-node", "--node-name", "control", "--node-ip", namespace::NODE_IP])?;
        rehearsal.spawn(name, &mut up)?;
        wait_for("the API server to answer", PATIENCE, || rehearsal.kubectl.ok(&["get", "--raw", "/readyz"]))
            .with_context(|| rehearsal.tails(15))?;
        tools::run(&mut rehearsal.gantry(&["hollow", "access"])?)?;
        Ok(rehearsal)
    }

    /// A suite's whole run, in a network namespace of its own: a control plane, so many machines of the profile, then the cases in
    /// their order.
    pub fn main(profile: &str, machines: usize, cases: &[Case<Self>]) -> anyhow::Result<ExitCode> {
        namespace::enter()?;
        let rehearsal = Self::start(profile)?;
        rehearsal.start_machines("machines", machines, 0, &[])?;
        rehearsal.wait_ready(machines)?;
        let passed = runner::run(&rehearsal, cases, |rehearsal| eprintln!("{}", rehearsal.tails(15)));
        Ok(if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    pub fn path(&self, file: &str) -> PathBuf {
        self.folder.path().join(file)
    }

    /// A `gantry` command on the control plane's data directory.
    pub fn gantry(&self, arguments: &[&str]) -> anyhow::Result<Command> {
        let mut command = Command::new(tools::gantry()?);
        command.args(arguments).arg("--data-dir").arg(self.path("data")).stdin(Stdio::null());
        Ok(command)
    }

    fn spawn(&self, name: &str, command: &mut Command) -> anyhow::Result<()> {
        let log = File::options().create(true).append(true).open(self.path(&format!("{name}.log")))?;
        let child = command.stdout(log.try_clone()?).stderr(log).spawn();
        let child = child.with_context(|| format!("{name} did not start"))?;
        self.running.lock().expect("no holder of the lock panics").insert(name.to_owned(), child);
        Ok(())
    }

    /// One more process with so many machines, from number `first` on.
    pub fn start_machines(&self, name: &str, count: usize, first: usize, flags: &[&str]) -> anyhow::Result<()> {
        let profile = self.path("fleet.yaml");
        let mut command = self.gantry(&["hollow", "--nodes", &count.to_string(), "--first", &first.to_string()])?;
        command.arg("--profile").arg(profile).args(["--seed", "7"]).args(flags);
        self.spawn(name, &mut command)
    }

    /// So many Nodes are Ready.
    pub fn wait_ready(&self, count: usize) -> anyhow::Result<()> {
        let ready = "range .items[*]}{.status.conditions[?(@.type==\"Ready\")].status}{\"\\n\"}{end";
        wait_for(&format!("{count} machines to be Ready"), PATIENCE, || {
            let text = self.kubectl.path(&["nodes"], ready)?;
            let found = text.lines().filter(|line| *line == "True").count();
            anyhow::ensure!(found == count, "{found} are Ready");
            Ok(())
        })
        .with_context(|| self.tails(15))
    }

    pub fn signal(&self, name: &str, signal: Signal) -> anyhow::Result<()> {
        let running = self.running.lock().expect("no holder of the lock panics");
        let id = running.get(name).with_context(|| format!("{name} does not run"))?.id();
        let pid = Pid::from_raw(i32::try_from(id)?).context("a process id is not 0")?;
        kill_process(pid, signal).with_context(|| format!("a signal to {name}"))
    }

    /// `kill -9` of one process.
    pub fn kill(&self, name: &str) -> anyhow::Result<()> {
        let child = self.running.lock().expect("no holder of the lock panics").remove(name);
        let mut child = child.with_context(|| format!("{name} does not run"))?;
        child.kill().and_then(|()| child.wait()).with_context(|| format!("kill -9 of {name}"))?;
        Ok(())
    }

    /// The last lines that each process printed.
    pub fn tails(&self, lines: usize) -> String {
        let names: Vec<String> = self.running.lock().expect("no holder of the lock panics").keys().cloned().collect();
        let tail = |name: &String| format!("{name}:\n{}", tail(&self.path(&format!("{name}.log")), lines));
        names.iter().map(tail).collect::<Vec<_>>().join("\n")
    }
}

fn tail(path: &Path, lines: usize) -> String {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let all: Vec<&str> = text.lines().collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}

impl Drop for Rehearsal {
    fn drop(&mut self) {
        let running = std::mem::take(&mut *self.running.lock().expect("no holder of the lock panics"));
        for mut child in running.into_values() {
            // One that ended by itself is as good as killed.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
