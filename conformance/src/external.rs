//! Stores beside the cluster instead of in its process: three members of each group, or an etcd for each. Started, killed
//! and ended here; what is asked of them goes through the API server.

use crate::{Etcdctl, tools, wait_for};
use anyhow::Context;
use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::Duration;

/// The groups and the ports before those of their members.
const GROUPS: [(&str, u16); 3] = [("state", 2400), ("leases", 2410), ("events", 2420)];
/// Where an etcd listens for the peers that it does not have.
const ETCD_PEERS: u16 = 100;

/// What keeps a cluster's objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The cluster's own process.
    Embedded,
    /// Three `gantry store` for each group.
    Members,
    /// One etcd for each group: the program that `GANTRY_ETCD` names, or the one on the path.
    Etcd,
}

impl Kind {
    /// From the environment: `GANTRY_STORE` is `embedded` (the default), `members` or `etcd`.
    pub fn chosen() -> anyhow::Result<Self> {
        match std::env::var("GANTRY_STORE").as_deref() {
            Err(_) | Ok("" | "embedded") => Ok(Self::Embedded),
            Ok("members") => Ok(Self::Members),
            Ok("etcd") => Ok(Self::Etcd),
            Ok(other) => anyhow::bail!("GANTRY_STORE={other}: embedded, members or etcd"),
        }
    }

    fn members(self) -> u16 {
        if self == Self::Members { 3 } else { 1 }
    }
}

/// The port before those of a group's members.
fn base(group: &str) -> anyhow::Result<u16> {
    GROUPS.iter().find(|(name, _)| *name == group).map(|(_, base)| *base).context("no such group")
}

/// Running stores. Dropping them ends them.
pub struct External {
    kind: Kind,
    ip: String,
    pki: PathBuf,
    folder: PathBuf,
    running: Mutex<BTreeMap<(&'static str, u16), Child>>,
}

impl External {
    /// Starts every member in `folder` with the certificates in `pki`, and waits until each group answers.
    pub fn start(kind: Kind, ip: &str, pki: &Path, folder: &Path) -> anyhow::Result<Self> {
        let (ip, pki, folder) = (ip.to_owned(), pki.to_owned(), folder.to_owned());
        let external = Self { kind, ip, pki, folder, running: Mutex::default() };
        external.start_all()?;
        Ok(external)
    }

    fn start_all(&self) -> anyhow::Result<()> {
        for (group, _) in GROUPS {
            for member in 1..=self.kind.members() {
                self.start_member(group, member)?;
            }
        }
        for (group, _) in GROUPS {
            wait_for(&format!("the group {group} to answer"), Duration::from_secs(30), || {
                self.etcdctl(group, 1)?.ok(&["get", "nothing"]).map(drop)
            })?;
        }
        Ok(())
    }

    /// For `--store-endpoints`.
    pub fn endpoints(&self) -> String {
        let of = |(group, base): (&str, u16)| {
            let all = (1..=self.kind.members()).map(|member| self.address(base + member)).collect::<Vec<_>>();
            format!("{group}={}", all.join(","))
        };
        GROUPS.map(of).join(",")
    }

    fn address(&self, port: u16) -> String {
        format!("{}:{port}", self.ip)
    }

    fn etcdctl(&self, group: &str, member: u16) -> anyhow::Result<Etcdctl> {
        Ok(Etcdctl::new(&[self.address(base(group)? + member)], &self.pki))
    }

    /// Starts a member on the data that it left.
    pub fn start_member(&self, group: &'static str, member: u16) -> anyhow::Result<()> {
        let base = base(group)?;
        let data = self.folder.join(format!("{group}-{member}"));
        std::fs::create_dir_all(&data)?;
        let mut command = match self.kind {
            Kind::Etcd => self.etcd(base + member, &data),
            Kind::Members | Kind::Embedded => self.gantry(group, base, member, &data)?,
        };
        let log = File::options().create(true).append(true).open(data.with_extension("log"))?;
        let child = command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).spawn();
        let child = child.with_context(|| format!("{command:?} did not start"))?;
        self.running.lock().expect("no holder of the lock panics").insert((group, member), child);
        Ok(())
    }

    fn gantry(&self, group: &str, base: u16, member: u16, data: &Path) -> anyhow::Result<Command> {
        let members = (1..=self.kind.members()).map(|other| format!("{other}={}", self.address(base + other)));
        let mut command = Command::new(tools::gantry()?);
        command.args(["store", "--group", group, "--member-id", &member.to_string()]);
        command.args(["--members", &members.collect::<Vec<_>>().join(","), "--listen", &self.address(base + member)]);
        command.arg("--data-dir").arg(data);
        tools::store_keys(&mut command, &self.pki);
        Ok(command)
    }

    fn etcd(&self, port: u16, data: &Path) -> Command {
        let client = format!("https://{}", self.address(port));
        let peer = format!("http://127.0.0.1:{}", port + ETCD_PEERS);
        let mut command = Command::new(std::env::var_os("GANTRY_ETCD").unwrap_or_else(|| "etcd".into()));
        command.args(["--name", "only", "--listen-client-urls", &client, "--advertise-client-urls", &client]);
        command.args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer]);
        command.args(["--initial-cluster", &format!("only={peer}"), "--client-cert-auth", "--data-dir"]).arg(data);
        command.arg("--cert-file").arg(self.pki.join("store-peer.crt"));
        command.arg("--key-file").arg(self.pki.join("store-peer.key"));
        command.arg("--trusted-ca-file").arg(self.pki.join("store-ca.crt"));
        command
    }

    /// `kill -9` of a group's leader (its only member, if it is an etcd). Answers which it was.
    pub fn kill_leader(&self, group: &'static str) -> anyhow::Result<u16> {
        let leads = |member: &u16| {
            let status = self.etcdctl(group, *member)?.ok(&["endpoint", "status", "--write-out=fields"])?;
            let field = |name: &str| {
                let line = status.lines().find(|line| line.starts_with(&format!("\"{name}\"")))?;
                Some(line.rsplit(' ').next()?.to_owned())
            };
            let (own, leader) = (field("MemberID"), field("Leader"));
            anyhow::ensure!(own.is_some(), "no member id in: {status}");
            Ok::<_, anyhow::Error>(own == leader)
        };
        let running: Vec<u16> = (1..=self.kind.members()).collect();
        let leader = running.iter().find(|member| leads(member).unwrap_or(false)).context("nobody leads")?;
        self.kill(group, *leader)?;
        Ok(*leader)
    }

    fn kill(&self, group: &'static str, member: u16) -> anyhow::Result<()> {
        let child = self.running.lock().expect("no holder of the lock panics").remove(&(group, member));
        let mut child = child.with_context(|| format!("member {member} of {group} does not run"))?;
        child.kill().context("kill -9")?;
        child.wait().context("its end").map(drop)
    }

    /// Ends every member, deletes what they hold, and starts them again.
    pub fn empty(&self) -> anyhow::Result<()> {
        self.end();
        std::fs::remove_dir_all(&self.folder).context("emptying the stores")?;
        self.start_all()
    }

    /// Ends every member; what they hold stays.
    pub fn end(&self) {
        let running = std::mem::take(&mut *self.running.lock().expect("no holder of the lock panics"));
        for mut child in running.into_values() {
            // One that ended by itself is as good as killed.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Drop for External {
    fn drop(&mut self) {
        self.end();
    }
}
