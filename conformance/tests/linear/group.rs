//! Three members of one group, each in a network namespace of its own, and what can be done to them. It decides how a fault
//! is made and undone; which and when is the nemesis' affair. It signals only processes that it started.

use crate::dice::Dice;
use anyhow::{Context, bail, ensure};
use gantry_conformance::{Etcdctl, Machine, namespace, storebench, tools, wait_for};
use gantry_history::Dice as _;
use gantry_store::{MemberStatus, RemoteStore, StoreTls, member_status};
use rustix::process::{Pid, Signal, kill_process};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

pub const MEMBERS: usize = 3;
const PORT: u16 = 2380;
const PATIENCE: Duration = Duration::from_secs(20);
/// Where the small disk is mounted. Only this suite sees it.
const SMALL_DISK: &str = "/mnt";
/// The member on the small disk.
pub const ON_SMALL_DISK: usize = 2;
const SMALL_DISK_BYTES: &str = "size=40m";
/// The sizes of a log segment's header and of a record's, and a record's alignment.
const SEGMENT_HEADER: u64 = 32;
const RECORD_HEADER: usize = 16;
const ALIGN: u64 = 8;

/// A place for a member: a machine, a data directory and an address. The member may be replaced by one of another number.
struct Place {
    machine: Machine,
    data: PathBuf,
    id: u64,
    joined: bool,
    running: Option<Child>,
}

/// Dropping it ends every member.
pub struct Group {
    places: Vec<Place>,
    pki: PathBuf,
    pub tls: StoreTls,
    folder: tempfile::TempDir,
}

impl Group {
    /// Returns when every member answers.
    pub fn start() -> anyhow::Result<Self> {
        let folder = tempfile::Builder::new().prefix("gantry-linear-").tempdir().context("a folder for the group")?;
        tools::run(Command::new("mount").args(["-t", "tmpfs", "-o", SMALL_DISK_BYTES, "gantry-linear", SMALL_DISK]))?;
        let mut places = Vec::new();
        for number in 1..=MEMBERS {
            let machine = Machine::new(u8::try_from(number)?, folder.path())?;
            let small = number - 1 == ON_SMALL_DISK;
            let data = if small { PathBuf::from(SMALL_DISK) } else { folder.path().to_owned() };
            let data = data.join(format!("member-{number}"));
            places.push(Place { machine, data, id: number as u64, joined: false, running: None });
        }
        let control = folder.path().join("control");
        let mut init = Command::new(tools::gantry()?);
        init.args(["pki", "init", "--node-ip", namespace::NODE_IP, "--node-name", "control", "--data-dir"]);
        init.arg(&control).args(places.iter().flat_map(|place| ["--tls-san", &place.machine.ip]));
        tools::run(&mut init)?;
        let pki = control.join("pki");
        let mut group = Self { tls: tls(&pki)?, places, pki, folder };
        for at in 0..MEMBERS {
            group.start_member(at)?;
        }
        wait_for("the group to answer", PATIENCE, || group.etcdctl(&[0, 1, 2]).ok(&["get", "nothing"]))
            .with_context(|| group.tails())?;
        Ok(group)
    }

    pub fn address(&self, at: usize) -> String {
        format!("{}:{PORT}", self.places[at].machine.ip)
    }

    pub fn id(&self, at: usize) -> u64 {
        self.places[at].id
    }

    pub fn store(&self, members: &[usize]) -> anyhow::Result<RemoteStore> {
        let addresses: Vec<_> = members.iter().map(|at| self.address(*at)).collect();
        Ok(RemoteStore::new(&addresses, Some(&self.tls))?)
    }

    pub fn etcdctl(&self, members: &[usize]) -> Etcdctl {
        let addresses: Vec<_> = members.iter().map(|at| self.address(*at)).collect();
        Etcdctl::new(&addresses, &self.pki)
    }

    /// Starts a member on what it has on disk.
    pub fn start_member(&mut self, at: usize) -> anyhow::Result<()> {
        let members: Vec<_> = (0..MEMBERS).map(|at| format!("{}={}", self.id(at), self.address(at))).collect();
        let address = self.address(at);
        let Place { machine, data, id, joined, running } = &mut self.places[at];
        std::fs::create_dir_all(&*data)?;
        let mut command = machine.enter(tools::gantry()?);
        command.args(["store", "--group", "state", "--member-id", &id.to_string(), "--listen", &address]);
        command.args(["--members", &members.join(",")]).args(joined.then_some("--join"));
        command.arg("--data-dir").arg(&*data);
        tools::store_keys(&mut command, &self.pki);
        let log = File::options().create(true).append(true).open(log(self.folder.path(), at))?;
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        *running = Some(command.spawn().with_context(|| format!("{command:?} did not start"))?);
        Ok(())
    }

    /// `kill -9`. That it had ended before is an error: no fault of this suite may end a member.
    pub fn kill(&mut self, at: usize) -> anyhow::Result<()> {
        self.check_runs(at)?;
        let mut child = self.places[at].running.take().context("it was running")?;
        child.kill().context("kill -9")?;
        child.wait().context("its end").map(drop)
    }

    pub fn check_runs(&mut self, at: usize) -> anyhow::Result<()> {
        let child = self.places[at].running.as_mut().with_context(|| format!("member {} does not run", at + 1))?;
        if let Some(status) = child.try_wait()? {
            bail!("member {} ended by itself: {status}", at + 1);
        }
        Ok(())
    }

    /// Stops a member's threads in the middle of whatever they do, or lets them go on.
    pub fn freeze(&self, at: usize, frozen: bool) -> anyhow::Result<()> {
        let child = self.places[at].running.as_ref().context("it does not run")?;
        let signal = if frozen { Signal::STOP } else { Signal::CONT };
        kill_process(Pid::from_child(child), signal).context("the signal")
    }

    pub fn plug(&self, at: usize, connected: bool) -> anyhow::Result<()> {
        self.places[at].machine.plug(connected)
    }

    /// Drops this many of a hundred packets that reach a member; 0 ends it.
    pub fn lose_packets(&self, at: usize, percent: u64) -> anyhow::Result<()> {
        let rules = if percent == 0 {
            "delete table inet loss".to_owned()
        } else {
            format!(
                "add table inet loss; add chain inet loss arriving {{ type filter hook input priority 0; }}; \
                 add rule inet loss arriving iifname eth0 numgen random mod 100 < {percent} drop"
            )
        };
        let mut nft = self.places[at].machine.enter("nft");
        tools::run(nft.arg(rules)).map(drop)
    }

    /// What a power cut leaves of a write that was under way: bytes after the last record of a member that is down.
    /// Everything that was ever acknowledged lies before them.
    pub fn tear(&self, at: usize, dice: &mut Dice) -> anyhow::Result<()> {
        let folder = self.places[at].data.join("wal");
        let mut segments: Vec<_> = std::fs::read_dir(&folder)?
            .map(|entry| entry.map(|entry| entry.path()))
            .filter(|path| path.as_ref().is_ok_and(|path| path.extension().is_some_and(|found| found == "wal")))
            .collect::<Result<_, _>>()?;
        segments.sort();
        let path = segments.pop().with_context(|| format!("{} has no segment", folder.display()))?;
        let file = File::options().read(true).write(true).open(&path)?;
        let (end, bytes) = (end_of_records(&file)?, file.metadata()?.len());
        let garbage: Vec<u8> = (0..dice.between(1, 6_000)).map(|_| dice.next() as u8).collect();
        // Blocks of a write reach the disk in any order.
        let from = end + if dice.percent(50) { 0 } else { dice.below(4_096) };
        let room = usize::try_from(bytes.saturating_sub(from))?.min(garbage.len());
        file.write_all_at(&garbage[..room], from).with_context(|| path.display().to_string())
    }

    /// Removes a member that is down, and puts an empty one of a new number in its place.
    pub fn replace(&mut self, at: usize) -> anyhow::Result<()> {
        let others: Vec<_> = (0..MEMBERS).filter(|other| *other != at).collect();
        let (etcdctl, address, old) = (self.etcdctl(&others), self.address(at), self.id(at));
        wait_for("the member to be removed", PATIENCE, || {
            // A try whose answer was lost may have worked.
            if member_at(&etcdctl, &address)?.is_some_and(|id| id == old) {
                etcdctl.ok(&["member", "remove", &format!("{old:x}")])?;
            }
            Ok(())
        })?;
        std::fs::remove_dir_all(&self.places[at].data)?;
        let id = wait_for("the new member to be added", PATIENCE, || {
            if let Some(id) = member_at(&etcdctl, &address)? {
                return Ok(id);
            }
            etcdctl.ok(&["member", "add", "another", &format!("--peer-urls=https://{address}")])?;
            member_at(&etcdctl, &address)?.context("it was added and is not listed")
        })?;
        ensure!(id != old, "the number {old} was given again");
        (self.places[at].id, self.places[at].joined) = (id, true);
        self.start_member(at)?;
        wait_for("the new member to be promoted", PATIENCE, || {
            let answer = etcdctl.run(&["member", "promote", &format!("{id:x}")], "")?;
            ensure!(answer.code == 0 || answer.err.contains("can only promote a learner member\""), "{}", answer.err);
            let listed = etcdctl.ok(&["member", "list"])?;
            let learner = listed.lines().any(|line| line.contains(&address) && line.ends_with("true"));
            ensure!(!learner, "{}{}", answer.out, answer.err);
            Ok(())
        })
    }

    /// Leaves no byte free on the small disk.
    pub fn fill_disk(&self) -> anyhow::Result<()> {
        let file = File::create(filling())?;
        let block = vec![1; 64 << 10];
        for block in [&block[..], &block[..4_096]] {
            while std::io::Write::write_all(&mut &file, block).is_ok() {}
        }
        Ok(())
    }

    pub fn free_disk(&self) -> anyhow::Result<()> {
        std::fs::remove_file(filling()).context("making room again")
    }

    /// How often the log on the small disk found no space.
    pub fn disks_met_full(&self) -> usize {
        let text = std::fs::read_to_string(log(self.folder.path(), ON_SMALL_DISK)).unwrap_or_default();
        text.matches("no space is left for the log").count()
    }

    /// How the members say they are; those that do not answer within a second are left out.
    pub async fn statuses(&self) -> Vec<(usize, MemberStatus)> {
        let ask = |at| async move {
            let address = self.address(at);
            let status = tokio::time::timeout(Duration::from_secs(1), member_status(&address, Some(&self.tls))).await;
            Some((at, status.ok()?.ok()?))
        };
        futures::future::join_all((0..MEMBERS).map(ask)).await.into_iter().flatten().collect()
    }

    /// Who leads, by its own word; in doubt the one of the newest term.
    pub async fn leader(&self) -> Option<usize> {
        let leads = |(at, status): &(usize, MemberStatus)| status.leader == self.id(*at);
        let statuses = self.statuses().await;
        statuses.into_iter().filter(leads).max_by_key(|(_, status)| status.term).map(|(at, _)| at)
    }

    /// The last lines that each member printed.
    pub fn tails(&self) -> String {
        let tail = |at| {
            let text = std::fs::read_to_string(log(self.folder.path(), at)).unwrap_or_default();
            let lines: Vec<_> = text.lines().collect();
            format!("member {}:\n{}\n", at + 1, lines[lines.len().saturating_sub(25)..].join("\n"))
        };
        (0..MEMBERS).map(tail).collect()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        for child in self.places.iter_mut().filter_map(|place| place.running.as_mut()) {
            // One that ended by itself is as good as killed.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn log(folder: &Path, at: usize) -> PathBuf {
    folder.join(format!("member-{}.log", at + 1))
}

fn filling() -> PathBuf {
    Path::new(SMALL_DISK).join("filling")
}

/// The number of the member that is listed at an address.
fn member_at(etcdctl: &Etcdctl, address: &str) -> anyhow::Result<Option<u64>> {
    let listed = etcdctl.ok(&["member", "list"])?;
    let line = listed.lines().find(|line| line.contains(&format!("https://{address}")));
    let number = |line: &str| u64::from_str_radix(line.split(", ").next().unwrap_or_default(), 16);
    line.map(number).transpose().with_context(|| format!("etcdctl lists {listed}"))
}

/// Where a segment's records end, or a place after that.
fn end_of_records(file: &File) -> anyhow::Result<u64> {
    let (mut at, bytes) = (SEGMENT_HEADER, file.metadata()?.len());
    let mut header = [0; RECORD_HEADER];
    while at + RECORD_HEADER as u64 <= bytes {
        file.read_exact_at(&mut header, at)?;
        if header == [0; RECORD_HEADER] {
            break;
        }
        let payload = u32::from_le_bytes(header[4..8].try_into()?);
        at = (at + RECORD_HEADER as u64 + u64::from(payload)).next_multiple_of(ALIGN);
    }
    Ok(at.min(bytes))
}

/// What clients show the members. Nothing here serves.
fn tls(pki: &Path) -> anyhow::Result<StoreTls> {
    let certificate = CertificateDer::from_pem_file(pki.join("store-peer.crt"))?;
    let key = PrivateKeyDer::from_pem_file(pki.join("store-peer.key"))?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let server = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)?;
    Ok(StoreTls { server: Arc::new(server), client: storebench::wire::tls(pki, "store-ca", "store-peer")? })
}
