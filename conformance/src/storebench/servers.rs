//! The members of one peer as processes: three or five beside each other on one disk, started, killed and ended by pid. It
//! decides their flags, ports and folders, the same for every peer; it never signals a process that it did not start.

#![expect(clippy::disallowed_methods, reason = "a benchmark reads real time")]

use super::wire::{Target, pb};
use super::{Lab, Peer, interrupt};
use crate::readings;
use crate::tools;
use anyhow::Context;
use futures::future::{join_all, try_join_all};
use std::fs::File;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The first port of each peer's clients; its members count on from it. They are free in the benchmark's own namespace.
const PORTS: [(&str, u16); 3] = [("state", 2410), ("leases", 2420), ("events", 2450)];
const ETCD_PORT: u16 = 2430;
const ETCD_PEER_PORT: u16 = 2440;
/// How long a cluster may take to answer.
const START: Duration = Duration::from_secs(60);
/// Between two tries.
const RETRY: Duration = Duration::from_millis(20);
/// How long one question may take.
const QUESTION: Duration = Duration::from_secs(5);

/// What to start of a peer.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    pub members: u16,
    /// Groups of the store. An etcd is one group, whatever it is asked for.
    pub groups: &'static [&'static str],
}

impl Layout {
    pub const THREE: Self = Self { members: 3, groups: &["state"] };
    /// What one API server needs at least.
    pub const WHOLE: Self = Self { members: 1, groups: &["state", "leases", "events"] };
}

struct Process {
    group: &'static str,
    number: u16,
    child: Option<Child>,
}

/// The processes of one peer. Dropping it ends them and removes their data.
pub struct Servers<'a> {
    lab: &'a Lab,
    peer: &'a Peer,
    layout: Layout,
    folder: tempfile::TempDir,
    processes: Vec<Process>,
}

/// What the servers used so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct Usage {
    pub cpu_s: f64,
    pub written_bytes: f64,
}

impl Usage {
    pub fn since(self, before: Self) -> Self {
        Self { cpu_s: self.cpu_s - before.cpu_s, written_bytes: self.written_bytes - before.written_bytes }
    }
}

impl<'a> Servers<'a> {
    /// Starts a fresh cluster and returns when every member answers a linearizable read.
    pub fn start(lab: &'a Lab, peer: &'a Peer, layout: Layout) -> anyhow::Result<Self> {
        let folder = tempfile::Builder::new().prefix("storebench-").tempdir_in(&lab.folder)?;
        let groups: &[_] = if matches!(peer, Peer::Gantry) { layout.groups } else { &layout.groups[..1] };
        let processes = groups
            .iter()
            .flat_map(|group| (1..=layout.members).map(|number| Process { group, number, child: None }))
            .collect();
        let mut servers = Self { lab, peer, layout, folder, processes };
        for index in 0..servers.processes.len() {
            servers.spawn(index)?;
        }
        for group in groups {
            servers.wait_ready(group)?;
        }
        Ok(servers)
    }

    fn spawn(&mut self, index: usize) -> anyhow::Result<()> {
        let (group, number) = (self.processes[index].group, self.processes[index].number);
        let mut command = match self.peer {
            Peer::Gantry => self.gantry(group, number),
            Peer::Etcd { program, .. } => self.etcd(program, number),
        };
        let log = File::options().create(true).append(true).open(self.log(group, number))?;
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let child = command.spawn().with_context(|| format!("{command:?} did not start"))?;
        interrupt::started(child.id());
        self.processes[index].child = Some(child);
        Ok(())
    }

    fn gantry(&self, group: &str, number: u16) -> Command {
        let members: Vec<_> =
            (1..=self.layout.members).map(|number| format!("{number}={}", self.address(group, number))).collect();
        let mut command = Command::new(&self.lab.gantry);
        command.args(["store", "--group", group, "--member-id", &number.to_string()]);
        command.args(["--members", &members.join(","), "--listen", &self.address(group, number)]);
        command.arg("--data-dir").arg(self.data(group, number));
        tools::store_keys(&mut command, &self.lab.pki(""));
        command
    }

    /// Its defaults, except for a quota that the rows fit in.
    fn etcd(&self, program: &PathBuf, number: u16) -> Command {
        let peer_url = |number: u16| format!("https://127.0.0.1:{}", ETCD_PEER_PORT + number);
        let cluster: Vec<_> = (1..=self.layout.members).map(|n| format!("m{n}={}", peer_url(n))).collect();
        let client_url = format!("https://{}", self.address("", number));
        let mut command = Command::new(program);
        command.args(["--name", &format!("m{number}"), "--logger", "zap", "--log-level", "warn"]);
        command.arg("--data-dir").arg(self.data("etcd", number));
        command.args(["--listen-client-urls", &client_url, "--advertise-client-urls", &client_url]);
        command.args(["--listen-peer-urls", &peer_url(number), "--initial-advertise-peer-urls", &peer_url(number)]);
        command.args(["--initial-cluster", &cluster.join(","), "--initial-cluster-state", "new"]);
        command.args(["--quota-backend-bytes", &(8_u64 << 30).to_string()]);
        command.args(["--client-cert-auth", "--peer-client-cert-auth"]);
        for side in ["", "peer-"] {
            command.arg(format!("--{side}cert-file")).arg(self.lab.pki("store-peer.crt"));
            command.arg(format!("--{side}key-file")).arg(self.lab.pki("store-peer.key"));
            command.arg(format!("--{side}trusted-ca-file")).arg(self.lab.pki("store-ca.crt"));
        }
        command
    }

    pub fn address(&self, group: &str, number: u16) -> String {
        let base = match self.peer {
            Peer::Etcd { .. } => ETCD_PORT,
            Peer::Gantry => PORTS.iter().find(|(name, _)| *name == group).map_or(0, |(_, port)| *port),
        };
        format!("127.0.0.1:{}", base + number)
    }

    fn data(&self, group: &str, number: u16) -> PathBuf {
        self.folder.path().join(format!("{group}-{number}"))
    }

    fn log(&self, group: &str, number: u16) -> PathBuf {
        self.folder.path().join(format!("{group}-{number}.log"))
    }

    /// The members of a group that may run.
    pub fn target(&self, group: &str) -> Target {
        let addresses = (1..=self.layout.members).map(|number| self.address(group, number)).collect();
        Target { addresses, tls: self.lab.tls.clone() }
    }

    fn running(&self) -> impl Iterator<Item = u32> {
        self.processes.iter().filter_map(|process| process.child.as_ref()).map(Child::id)
    }

    pub fn usage(&self) -> anyhow::Result<Usage> {
        self.running().try_fold(Usage::default(), |sum, pid| {
            Ok(Usage {
                cpu_s: sum.cpu_s + readings::cpu_ms(pid)? / 1_000.0,
                written_bytes: sum.written_bytes + readings::written_bytes(pid)?,
            })
        })
    }

    /// Resident megabytes of every member, in order.
    pub fn resident_mb(&self) -> anyhow::Result<Vec<f64>> {
        self.running().map(readings::resident_mb).collect()
    }

    pub fn anonymous_mb(&self) -> anyhow::Result<Vec<f64>> {
        self.running().map(readings::anonymous_mb).collect()
    }

    /// What lies on the disk of all members.
    pub fn disk_mb(&self) -> anyhow::Result<f64> {
        use std::os::unix::fs::MetadataExt;
        let mut folders = vec![self.folder.path().to_path_buf()];
        let mut bytes = 0;
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder)? {
                // A file may be removed while this looks.
                let Ok(entry) = entry else { continue };
                match entry.metadata() {
                    Ok(data) if data.is_dir() => folders.push(entry.path()),
                    Ok(data) => bytes += data.blocks() * 512,
                    Err(_) => {}
                }
            }
        }
        Ok(bytes as f64 / 1e6)
    }

    /// Which member of the first group leads, by its place.
    pub fn leader(&self) -> anyhow::Result<usize> {
        let target = self.target(self.processes[0].group);
        let deadline = Instant::now() + START;
        loop {
            let found = self.lab.block_on(async {
                let statuses = join_all((0..target.addresses.len()).map(|place| status(&target, place))).await;
                statuses.iter().flatten().position(|(own, leader)| own == leader)
            });
            if let Some(place) = found {
                return Ok(place);
            }
            anyhow::ensure!(Instant::now() < deadline, "nobody leads for {START:?}\n{}", self.tails());
            std::thread::sleep(RETRY);
        }
    }

    /// `kill -9` of one member of the first group.
    pub fn kill(&mut self, place: usize) -> anyhow::Result<()> {
        let child = self.processes[place].child.take();
        let mut child = child.with_context(|| format!("member {place} does not run"))?;
        child.kill()?;
        interrupt::ending(child.id());
        child.wait()?;
        Ok(())
    }

    /// Starts a member again that was killed; it may not serve yet.
    pub fn start_again(&mut self, place: usize) -> anyhow::Result<()> {
        anyhow::ensure!(self.processes[place].child.is_none(), "member {place} runs already");
        self.spawn(place)
    }

    pub fn wait_ready(&mut self, group: &str) -> anyhow::Result<()> {
        let target = self.target(group);
        (0..target.addresses.len()).try_for_each(|place| self.wait_serves(&target, place))
    }

    /// Until one member answers a linearizable read.
    pub fn wait_serves(&mut self, target: &Target, place: usize) -> anyhow::Result<()> {
        let deadline = Instant::now() + START;
        while let Err(error) = self.lab.block_on(read(target, place)) {
            let ended =
                self.processes.iter_mut().filter_map(|process| process.child.as_mut()?.try_wait().transpose()).next();
            if let Some(ended) = ended {
                anyhow::bail!("a member ended: {}\n{}", ended?, self.tails());
            }
            let late = || format!("member {place} does not serve after {START:?}\n{}", self.tails());
            if Instant::now() >= deadline {
                return Err(error.context(late()));
            }
            std::thread::sleep(RETRY);
        }
        Ok(())
    }

    /// The same as [`Self::wait_serves`] for the whole group, whichever member is the first.
    pub fn wait_any_serves(&self, target: &Target) -> anyhow::Result<()> {
        let deadline = Instant::now() + 2 * START;
        let members = 0..target.addresses.len();
        while self.lab.block_on(try_join_all(members.clone().map(|place| fails(target, place)))).is_ok() {
            anyhow::ensure!(Instant::now() < deadline, "no member serves\n{}", self.tails());
            std::thread::sleep(RETRY);
        }
        Ok(())
    }

    /// The last lines that each member printed.
    pub fn tails(&self) -> String {
        let tail = |process: &Process| {
            let log = crate::cluster::tail(&self.log(process.group, process.number), 5);
            format!("{} {}:\n{log}", process.group, process.number)
        };
        self.processes.iter().map(tail).collect::<Vec<_>>().join("\n")
    }
}

impl Drop for Servers<'_> {
    fn drop(&mut self) {
        for child in self.processes.iter_mut().filter_map(|process| process.child.as_mut()) {
            // One that ended by itself is waited for all the same.
            let _ = child.kill();
            interrupt::ending(child.id());
            let _ = child.wait();
        }
    }
}

/// A member's own number and its leader's.
async fn status(target: &Target, place: usize) -> Option<(u64, u64)> {
    let ask = async {
        let link = target.connect(place).await?;
        anyhow::Ok(link.maintenance().status(pb::StatusRequest {}).await?.into_inner())
    };
    let status = tokio::time::timeout(QUESTION, ask).await.ok()?.ok()?;
    Some((status.header?.member_id, status.leader))
}

/// One linearizable read.
async fn read(target: &Target, place: usize) -> anyhow::Result<()> {
    let ask = async {
        let link = target.connect(place).await?;
        let request = pb::RangeRequest { key: bytes::Bytes::from_static(b"bench"), ..Default::default() };
        link.kv().range(request).await?;
        anyhow::Ok(())
    };
    tokio::time::timeout(QUESTION, ask).await.context("no answer")?
}

/// Turned round, so that the first success ends a `try_join`.
async fn fails(target: &Target, place: usize) -> Result<(), ()> {
    read(target, place).await.map_or(Ok(()), |()| Err(()))
}
