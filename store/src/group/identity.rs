//! Whose data a directory holds: a file beside the log says the group, the member and the cluster. It is looked at before
//! anything else is opened, so that a member that is started with what is not its own changes nothing.

use super::GroupConfig;
use crate::offload::offload;
use crate::peer::{self, StoreTls};
use crate::proto::etcd::StatusRequest;
use crate::proto::etcd::maintenance_client::MaintenanceClient;
use crate::raft::snapshot;
use crate::wal;
use parking_lot::Mutex;
use std::fs::File;
use std::hash::{BuildHasher, Hasher};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

const FILE: &str = "member";
const FIRST_LINE: &str = "gantry store member, format ";
const VERSION: u32 = 1;
/// How long other members are asked who they are.
const PATIENCE: Duration = Duration::from_secs(2);

/// Why a member does not start with this data. A person acts; nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    #[error("{path} cannot be used", path = .path.display())]
    Io {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("{path} is damaged: it does not say whose data this is", path = .path.display())]
    Damaged { path: PathBuf },
    #[error("{path} has format version {found}, this build reads versions up to {newest}: use a newer build", path = .path.display())]
    Newer { path: PathBuf, found: u32, newest: u32 },
    #[error("{dir} holds the data of member {found}, not of member {expected}", dir = .dir.display())]
    Member { dir: PathBuf, found: u64, expected: u64 },
    #[error("{dir} holds the data of group {found:?}, not of group {expected:?}", dir = .dir.display())]
    Group { dir: PathBuf, found: String, expected: String },
    #[error(
        "{dir} holds no log, and member {member} took part with one: put {dir}/wal back; if it is lost, remove the member from the \
         group, empty the directory, and add it anew under a new number with --join (a member alone: restore a saved snapshot)",
        dir = .dir.display()
    )]
    NoLog { dir: PathBuf, member: u64 },
    #[error(
        "{dir} holds the data of cluster {ours:016x}, but member {member} at {address} is of cluster {theirs:016x}",
        dir = .dir.display()
    )]
    Cluster { dir: PathBuf, ours: u64, member: u64, address: String, theirs: u64 },
}

/// The group began with nothing.
pub const EMPTY: u64 = 0;
/// This member came later, so it does not know.
pub const LATER: u64 = u64::MAX;

/// What the file says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    pub group: String,
    pub member: u64,
    /// 0 = not known yet.
    pub cluster: u64,
    /// Random for every directory; 0 = it is older than incarnations.
    pub incarnation: u64,
    /// What the group began with: [`EMPTY`], [`LATER`], or a number for the snapshot and the words it was restored with.
    pub begins: u64,
    /// Whether it may have voted or acknowledged anything; see `admission`.
    pub takes_part: bool,
}

impl Owner {
    fn text(&self) -> String {
        let Self { group, member, cluster, incarnation, begins, takes_part } = self;
        let part = if *takes_part { "yes" } else { "no" };
        format!(
            "{FIRST_LINE}{VERSION}\ngroup {group}\nmember {member}\ncluster {cluster:016x}\n\
             incarnation {incarnation:016x}\nbegins {begins:016x}\ntakes-part {part}\n"
        )
    }

    /// `Err(Some)` names a newer version.
    fn parse(text: &str) -> Result<Self, Option<u32>> {
        let mut lines = text.lines();
        let version = lines.next().and_then(|line| line.strip_prefix(FIRST_LINE)).and_then(|n| n.parse::<u32>().ok());
        match version {
            Some(VERSION) => {}
            Some(newer) if newer > VERSION => return Err(Some(newer)),
            Some(_) | None => return Err(None),
        }
        let mut field = |name: &str| lines.next()?.strip_prefix(name)?.strip_prefix(' ').map(str::to_owned);
        let fields = (|| {
            let (group, member, cluster) = (field("group")?, field("member")?, field("cluster")?);
            let hex = |text: &str| u64::from_str_radix(text, 16).ok();
            let (member, cluster) = (member.parse().ok()?, hex(&cluster)?);
            // A directory that is older than these lines has taken part.
            let (incarnation, begins, takes_part) = match field("incarnation") {
                None => (0, 0, true),
                Some(incarnation) => (hex(&incarnation)?, hex(&field("begins")?)?, field("takes-part")? == "yes"),
            };
            Some(Self { group, member, cluster, incarnation, begins, takes_part })
        })();
        fields.ok_or(None)
    }

    /// `None`: a directory that is new, or older than this file.
    pub fn read(dir: &Path) -> Result<Option<Self>, IdentityError> {
        let path = dir.join(FILE);
        match std::fs::read_to_string(&path) {
            Ok(text) => Self::parse(&text).map(Some).map_err(|newer| match newer {
                Some(found) => IdentityError::Newer { path, found, newest: VERSION },
                None => IdentityError::Damaged { path },
            }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(IdentityError::Io { path, source }),
        }
    }

    /// A member's that has not taken part yet.
    pub fn new(group: &str, member: u64, begins: u64) -> Self {
        Self { group: group.to_owned(), member, cluster: 0, incarnation: random(), begins, takes_part: false }
    }

    /// Durable when it returns. Blocks.
    pub fn write(&self, dir: &Path) -> Result<(), IdentityError> {
        write_file(dir, FILE, &self.text()).map_err(|source| IdentityError::Io { path: dir.join(FILE), source })
    }

    /// Changes what the directory says, one at a time. Blocks.
    pub fn change(dir: &Path, change: impl FnOnce(&mut Self)) -> Result<(), IdentityError> {
        static ALONE: Mutex<()> = Mutex::new(());
        let _alone = ALONE.lock();
        let owner = Self::read(dir)?.ok_or_else(|| IdentityError::Damaged { path: dir.join(FILE) })?;
        let mut changed = owner.clone();
        change(&mut changed);
        if changed == owner { Ok(()) } else { changed.write(dir) }
    }
}

/// Where it stands whose data this is: a directory, or what simulates one.
pub enum Record {
    Dir(PathBuf),
    #[cfg(test)]
    Simulated(std::sync::Arc<Mutex<Owner>>),
}

impl Record {
    /// The member takes part, also after a restart.
    pub async fn takes_part(&self) -> Result<(), IdentityError> {
        let dir = match self {
            Self::Dir(dir) => dir.clone(),
            #[cfg(test)]
            Self::Simulated(owner) => {
                owner.lock().takes_part = true;
                return Ok(());
            }
        };
        let at = dir.clone();
        let written = offload(move || Owner::change(&dir, |owner| owner.takes_part = true)).await;
        written.map_err(|error| IdentityError::Io { path: at, source: io::Error::other(error) })?
    }
}

/// A number that nothing else has, most likely; never 0.
pub fn random() -> u64 {
    #[cfg(test)]
    if let Some(chance) = crate::sim::chance() {
        return chance.max(1);
    }
    std::collections::hash_map::RandomState::new().build_hasher().finish().max(1)
}

/// Whole and durable when it returns. Blocks.
pub fn write_file(dir: &Path, name: &str, text: &str) -> io::Result<()> {
    let temporary = dir.join(format!("{name}.tmp"));
    std::fs::create_dir_all(dir)?;
    let mut file = File::create(&temporary)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    std::fs::rename(&temporary, dir.join(name))?;
    wal::sync_dir(dir)
}

/// Whether `config`'s member may use its directory, which is told from then on whose it is.
pub async fn check(config: &GroupConfig) -> Result<Owner, IdentityError> {
    let dir = config.dir.as_path();
    let found = Owner::read(dir)?;
    check_formats(dir)?;
    let has_log = !files(&dir.join("wal"), "wal")?.is_empty();
    let Some(mut owner) = found else {
        // A log without the file is older than the file.
        let begins = if config.join { LATER } else { EMPTY };
        let owner = Owner { takes_part: has_log, ..Owner::new(&config.name, config.member, begins) };
        owner.write(dir)?;
        return Ok(owner);
    };
    let Owner { group, member, cluster, .. } = owner.clone();
    if group != config.name {
        return Err(IdentityError::Group { dir: dir.to_owned(), found: group, expected: config.name.clone() });
    }
    if member != config.member {
        return Err(IdentityError::Member { dir: dir.to_owned(), found: member, expected: config.member });
    }
    // Older builds restored a directory without a log.
    let restored = owner.incarnation == 0 && !files(&dir.join("snapshots"), "snap")?.is_empty();
    if owner.takes_part && cluster != 0 && !has_log && !restored {
        return Err(IdentityError::NoLog { dir: dir.to_owned(), member });
    }
    let others = config.members.iter().filter(|(id, _)| cluster != 0 && **id != config.member);
    let asked =
        others.map(|(id, address)| async move { (*id, address, cluster_of(address, config.tls.as_ref()).await) });
    for (member, address, theirs) in futures::future::join_all(asked).await {
        if let Some(theirs) = theirs.filter(|theirs| *theirs != 0 && *theirs != cluster) {
            let (dir, address) = (dir.to_owned(), address.clone());
            return Err(IdentityError::Cluster { dir, ours: cluster, member, address, theirs });
        }
    }
    if owner.incarnation == 0 {
        owner.incarnation = random();
        owner.write(dir)?;
    }
    Ok(owner)
}

/// The cluster that whoever listens there belongs to. `None`: nobody says.
async fn cluster_of(address: &str, tls: Option<&StoreTls>) -> Option<u64> {
    let mut client = MaintenanceClient::new(peer::channel(address, tls).ok()?);
    let answer = tokio::time::timeout(PATIENCE, client.status(StatusRequest {})).await.ok()?.ok()?;
    answer.into_inner().header.map(|header| header.cluster_id)
}

/// Looks at the beginning of each file only.
fn check_formats(dir: &Path) -> Result<(), IdentityError> {
    let newer = |path: PathBuf, found: Option<u8>, newest: u8| match found {
        Some(found) => Err(IdentityError::Newer { path, found: found.into(), newest: newest.into() }),
        None => Ok(()),
    };
    for path in files(&dir.join("wal"), "wal")? {
        let head = head(&path)?;
        newer(path, wal::record::newer_version(&head), wal::record::VERSION)?;
    }
    for path in files(&dir.join("snapshots"), "snap")? {
        let head = head(&path)?;
        newer(path, snapshot::newer_version(&head), snapshot::VERSION)?;
    }
    Ok(())
}

fn files(dir: &Path, extension: &str) -> Result<Vec<PathBuf>, IdentityError> {
    let at = |source| IdentityError::Io { path: dir.to_owned(), source };
    let entries = match std::fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(at(error)),
    };
    let mut found = Vec::new();
    for entry in entries {
        let path = entry.map_err(at)?.path();
        if path.extension().is_some_and(|found| found == extension) {
            found.push(path);
        }
    }
    Ok(found)
}

fn head(path: &Path) -> Result<Vec<u8>, IdentityError> {
    use io::Read;
    let at = |source| IdentityError::Io { path: path.to_owned(), source };
    let mut head = Vec::new();
    File::open(path).map_err(at)?.take(wal::record::SEGMENT_HEADER as u64).read_to_end(&mut head).map_err(at)?;
    Ok(head)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_survives_and_says_when_it_cannot_be_read() {
        let owner = Owner { cluster: 0xfeed, ..Owner::new("state", 3, 0xbee) };
        let text = owner.text();
        assert_eq!(Owner::parse(&text), Ok(owner.clone()));
        assert_eq!(Owner::parse(&text.replace("format 1", "format 9")), Err(Some(9)));
        for bad in
            ["", "something else", &text.replace("member 3", "member x"), &text[..text.find("incarn").unwrap() - 18]]
        {
            assert_eq!(Owner::parse(bad), Err(None), "{bad:?}");
        }
        let older = Owner { incarnation: 0, begins: 0, takes_part: true, ..owner.clone() };
        assert_eq!(Owner::parse(&text[..text.find("incarn").unwrap()]), Ok(older));
        let dir = tempfile::tempdir().unwrap();
        assert!(matches!(Owner::read(dir.path()), Ok(None)));
        owner.write(dir.path()).unwrap();
        assert_eq!(Owner::read(dir.path()).unwrap(), Some(owner.clone()));
        Owner::change(dir.path(), |owner| owner.takes_part = true).unwrap();
        assert_eq!(Owner::read(dir.path()).unwrap(), Some(Owner { takes_part: true, ..owner }));
    }

    #[tokio::test]
    async fn a_member_whose_log_is_gone_is_refused_and_keeps_its_file() {
        let dir = tempfile::tempdir().unwrap();
        let config = GroupConfig::single("state", dir.path());
        let owner = Owner { cluster: 7, takes_part: true, ..Owner::new("state", 1, 0) };
        owner.write(dir.path()).unwrap();
        assert!(matches!(check(&config).await, Err(IdentityError::NoLog { member: 1, .. })));
        assert_eq!(Owner::read(dir.path()).unwrap(), Some(owner.clone()));
        std::fs::create_dir(dir.path().join("wal")).unwrap();
        std::fs::write(dir.path().join("wal/0000000000000001.wal"), "").unwrap();
        assert_eq!(check(&config).await.unwrap(), owner);
    }
}
