//! A cluster of separate roles on several machines: store members, API servers, schedulers and controllers beside each
//! other in the test's own network namespace, and every machine in a namespace of its own on one link with them.
//!
//! It decides names, addresses and ports. It never signals a process that it did not start.

use crate::cluster::tail;
use crate::machine::Machine;
use crate::wait::wait_for;
use crate::{Etcdctl, Kubectl, tools};
use anyhow::Context;
use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::Duration;

/// The store's groups, with the first digits of their members' ports.
const GROUPS: [(&str, u16); 3] = [("state", 2410), ("leases", 2420), ("events", 2430)];
const MEMBERS: u16 = 3;
/// The ports of a group of its own begin after this one.
const LONE_PORT: u16 = 2440;
const MACHINES: u8 = 3;
const CONTROL_IP: &str = crate::namespace::NODE_IP;

/// One of the two copies of everything that is not a store or a machine. `B`'s clients talk to `B`'s API server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    A,
    B,
}

impl Side {
    fn port(self) -> u16 {
        if self == Side::A { 6443 } else { 6444 }
    }
    fn server(self) -> String {
        format!("https://{CONTROL_IP}:{}", self.port())
    }
    fn letter(self) -> &'static str {
        if self == Side::A { "a" } else { "b" }
    }
}

/// Everything that runs. Dropping it takes everything down.
pub struct Fleet {
    folder: tempfile::TempDir,
    running: Mutex<BTreeMap<String, Child>>,
    pub machines: Vec<Machine>,
    a: Kubectl,
    b: Kubectl,
}

impl Fleet {
    /// Three members of each store group, two of each control role, three machines; returns when all are Ready.
    pub fn start() -> anyhow::Result<Self> {
        let folder = tempfile::Builder::new().prefix("gantry-e2e-").tempdir().context("a folder for the cluster")?;
        let machines = (1..=MACHINES).map(|number| Machine::new(number, folder.path())).collect::<Result<_, _>>()?;
        let home = folder.path().to_owned();
        let kubeconfig = |side: Side| home.join(format!("admin-{}.kubeconfig", side.letter()));
        let (a, b) = (Kubectl::new(&kubeconfig(Side::A), &home)?, Kubectl::new(&kubeconfig(Side::B), &home)?);
        let fleet = Self { folder, running: Mutex::default(), machines, a, b };
        fleet.run(&["pki", "init", "--node-ip", CONTROL_IP, "--node-name", "control"])?;
        for side in [Side::A, Side::B] {
            fleet.issue("kubernetes-admin", Some("system:masters"), side, &kubeconfig(side))?;
            fleet.issue("system:kube-scheduler", None, side, &fleet.kubeconfig_of("scheduler", side))?;
            fleet.issue("system:kube-controller-manager", None, side, &fleet.kubeconfig_of("controllers", side))?;
        }
        for member in 1..=MEMBERS {
            fleet.start_store_machine(member)?;
        }
        for side in [Side::A, Side::B] {
            fleet.start_apiserver(side)?;
        }
        for side in [Side::A, Side::B] {
            fleet.wait_answers(side)?;
            fleet.start_scheduler(side)?;
            fleet.start_controllers(side)?;
        }
        for (index, machine) in fleet.machines.iter().enumerate() {
            // Machines are shared out over the API servers.
            fleet.start_machine(machine, if index % 2 == 0 { Side::A } else { Side::B })?;
        }
        Ok(fleet)
    }

    pub fn kubectl(&self, side: Side) -> &Kubectl {
        if side == Side::A { &self.a } else { &self.b }
    }

    fn pki(&self, file: &str) -> PathBuf {
        self.folder.path().join("control/pki").join(file)
    }

    fn kubeconfig_of(&self, role: &str, side: Side) -> PathBuf {
        self.folder.path().join(format!("{role}-{}.kubeconfig", side.letter()))
    }

    /// A `gantry` command that ends, on the control plane's data directory.
    fn run(&self, arguments: &[&str]) -> anyhow::Result<()> {
        let control = self.folder.path().join("control");
        tools::run(Command::new(tools::gantry()?).args(arguments).arg("--data-dir").arg(control)).map(drop)
    }

    fn issue(&self, user: &str, group: Option<&str>, side: Side, out: &Path) -> anyhow::Result<()> {
        let (server, out) = (side.server(), out.to_string_lossy());
        let mut arguments = vec!["pki", "client", user, "--server", &server, "--out", &out];
        arguments.extend(group.iter().flat_map(|group| ["--group", group]));
        self.run(&arguments)
    }

    /// Starts a role and keeps it under `name`, with its output in a file of that name.
    fn spawn(&self, name: &str, mut command: Command) -> anyhow::Result<()> {
        let log = File::options().create(true).append(true).open(self.log(name)).context("a role's log")?;
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let child = command.spawn().with_context(|| format!("{name} did not start"))?;
        let before = self.running.lock().expect("no holder of the lock panics").insert(name.to_owned(), child);
        anyhow::ensure!(before.is_none(), "{name} runs already");
        Ok(())
    }

    /// The three members, one of each group, that would share a machine.
    pub fn start_store_machine(&self, member: u16) -> anyhow::Result<()> {
        for (group, base) in GROUPS {
            let members: Vec<String> =
                (1..=MEMBERS).map(|number| format!("{number}={CONTROL_IP}:{}", base + number)).collect();
            let mut command = Command::new(tools::gantry()?);
            command.args(["store", "--group", group, "--member-id", &member.to_string()]);
            command.args(["--members", &members.join(",")]);
            command.args(["--listen", &format!("{CONTROL_IP}:{}", base + member)]);
            command.arg("--data-dir").arg(self.folder.path().join(format!("store-{member}-{group}")));
            tools::store_keys(&mut command, &self.pki(""));
            self.spawn(&store_name(member, group), command)?;
        }
        Ok(())
    }

    /// etcdctl against some members of one group.
    pub fn etcdctl(&self, group: &str, members: &[u16]) -> Etcdctl {
        let base = GROUPS.iter().find(|(name, _)| *name == group).map_or(0, |(_, base)| *base);
        let endpoints: Vec<_> = members.iter().map(|member| format!("{CONTROL_IP}:{}", base + member)).collect();
        Etcdctl::new(&endpoints, &self.pki(""))
    }

    /// Where a member of the group that nothing else uses is reached.
    pub fn lone_address(number: u16) -> String {
        format!("{CONTROL_IP}:{}", LONE_PORT + number)
    }

    /// Member 1 begins a group that nothing else uses; the others join it.
    pub fn start_lone_member(&self, number: u16) -> anyhow::Result<Etcdctl> {
        let address = Self::lone_address(number);
        let members = format!("1={},{number}={address}", Self::lone_address(1));
        let mut command = Command::new(tools::gantry()?);
        command.args(["store", "--group", "state", "--listen", &address, "--member-id", &number.to_string()]);
        if number > 1 {
            command.args(["--join", "--members", &members]);
        }
        command.arg("--data-dir").arg(self.folder.path().join(lone_name(number)));
        tools::store_keys(&mut command, &self.pki(""));
        self.spawn(&lone_name(number), command)?;
        Ok(Etcdctl::new(&[address], &self.pki("")))
    }

    /// `kill -9` of one of that group, if it runs.
    pub fn stop_lone_member(&self, number: u16) -> anyhow::Result<()> {
        let name = lone_name(number);
        let runs = self.running.lock().expect("no holder of the lock panics").contains_key(&name);
        if runs { self.kill(&name) } else { Ok(()) }
    }

    /// Where a case may put files.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// `kill -9` of every member on one store machine.
    pub fn kill_store_machine(&self, member: u16) -> anyhow::Result<()> {
        GROUPS.iter().try_for_each(|(group, _)| self.kill(&store_name(member, group)))
    }

    pub fn start_apiserver(&self, side: Side) -> anyhow::Result<()> {
        let endpoints: Vec<String> = GROUPS
            .iter()
            .map(|(group, base)| {
                let members: Vec<String> =
                    (1..=MEMBERS).map(|member| format!("{CONTROL_IP}:{}", base + member)).collect();
                format!("{group}={}", members.join(","))
            })
            .collect();
        let mut command = Command::new(tools::gantry()?);
        command.args(["apiserver", "--store-endpoints", &endpoints.join(",")]);
        command.args(["--listen", &format!("{CONTROL_IP}:{}", side.port()), "--advertise-ip", CONTROL_IP]);
        command.arg("--pki-dir").arg(self.folder.path().join("control/pki"));
        self.spawn(&format!("apiserver-{}", side.letter()), command)
    }

    pub fn wait_answers(&self, side: Side) -> anyhow::Result<()> {
        let name = format!("apiserver-{}", side.letter());
        wait_for(&format!("{name} to answer"), Duration::from_secs(30), || {
            self.kubectl(side).ok(&["get", "--raw", "/readyz"])
        })
        .with_context(|| self.tail(&name, 20))?;
        Ok(())
    }

    pub fn start_scheduler(&self, side: Side) -> anyhow::Result<()> {
        let mut command = Command::new(tools::gantry()?);
        command.arg("scheduler").arg("--kubeconfig").arg(self.kubeconfig_of("scheduler", side));
        self.spawn(&format!("scheduler-{}", side.letter()), command)
    }

    pub fn start_controllers(&self, side: Side) -> anyhow::Result<()> {
        let mut command = Command::new(tools::gantry()?);
        command.arg("controllers").arg("--kubeconfig").arg(self.kubeconfig_of("controllers", side));
        command.arg("--root-ca").arg(self.pki("ca.crt"));
        self.spawn(&format!("controllers-{}", side.letter()), command)
    }

    fn start_machine(&self, machine: &Machine, side: Side) -> anyhow::Result<()> {
        self.run(&["pki", "node", &machine.name, "--ip", &machine.ip, "--server", &side.server()])?;
        machine.build_images()?;
        let mut kubelet = machine.gantry("kubelet")?;
        kubelet.arg("--kubeconfig").arg(self.pki(&format!("node-{}.kubeconfig", machine.name)));
        kubelet.arg("--tls-cert").arg(self.pki(&format!("kubelet-{}.crt", machine.name)));
        kubelet.arg("--tls-key").arg(self.pki(&format!("kubelet-{}.key", machine.name)));
        kubelet.arg("--client-ca").arg(self.pki("ca.crt"));
        kubelet.args(["--node-ip", &machine.ip, "--cgroup-root", &machine.cgroup_root(), "--dns-upstream", "none"]);
        kubelet.args(["--node-name", &machine.name]);
        self.spawn(&format!("kubelet-{}", machine.name), kubelet)?;
        let mut proxy = machine.gantry("proxy")?;
        proxy.arg("--kubeconfig").arg(self.pki(&format!("proxy-{}.kubeconfig", machine.name)));
        proxy.args(["--node-name", &machine.name, "--cgroup-root", &machine.cgroup_root()]);
        self.spawn(&format!("proxy-{}", machine.name), proxy)
    }

    /// `kill -9` of one role, by the name it was started under.
    pub fn kill(&self, name: &str) -> anyhow::Result<()> {
        let child = self.running.lock().expect("no holder of the lock panics").remove(name);
        let mut child = child.with_context(|| format!("{name} does not run"))?;
        child.kill().with_context(|| format!("kill -9 of {name}"))?;
        child.wait().with_context(|| format!("the end of {name}"))?;
        Ok(())
    }

    fn log(&self, name: &str) -> PathBuf {
        self.folder.path().join(format!("{name}.log"))
    }

    /// The last lines that one role printed.
    pub fn tail(&self, name: &str, lines: usize) -> String {
        format!("{name}:\n{}", tail(&self.log(name), lines))
    }

    /// The last lines of every role.
    pub fn tails(&self, lines: usize) -> String {
        let names: Vec<String> = self.running.lock().expect("no holder of the lock panics").keys().cloned().collect();
        names.iter().map(|name| self.tail(name, lines)).collect::<Vec<_>>().join("\n")
    }

    /// Takes the machines down as `gantry down` does, then ends the roles.
    pub fn down(&self) -> anyhow::Result<()> {
        for machine in &self.machines {
            machine.down()?;
        }
        let running = std::mem::take(&mut *self.running.lock().expect("no holder of the lock panics"));
        for (name, mut child) in running {
            // Already ended by `gantry down`, or ends now.
            let _ = child.kill();
            child.wait().with_context(|| format!("the end of {name}"))?;
        }
        Ok(())
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        if let Err(error) = self.down() {
            eprintln!("taking the cluster down: {error:?}");
        }
    }
}

fn lone_name(number: u16) -> String {
    format!("store-alone-{number}")
}

fn store_name(member: u16, group: &str) -> String {
    format!("store-{member}-{group}")
}
