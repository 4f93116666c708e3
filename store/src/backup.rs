//! Saved snapshots: taken from a member or from a stopped one's directory, looked at, and made the beginning of a new group.
//! A saved file is a snapshot as in `raft::snapshot`, filled up to whole blocks and followed by its SHA-256, as etcd's are.

use crate::api::Revision;
use crate::group::{IdentityError, Owner};
use crate::mvcc::{Diverged, Mvcc};
use crate::peer::{self, MAX_MESSAGE, StoreTls, TlsError};
use crate::proto::etcd::SnapshotRequest;
use crate::proto::etcd::maintenance_client::MaintenanceClient;
use crate::raft::snapshot::{self, SnapshotDir, SnapshotError, SnapshotFile};
use crate::raft::types::{LogId, Meta, Stored, TypeConfig};
use crate::wal::{OpenError, Wal, sync_dir};
use openraft::impls::BasicNode;
use openraft::{EntryPayload, Membership};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// What a snapshot's length is a multiple of, and the SHA-256 after it (etcd's sizes).
pub const BLOCK_BYTES: u64 = 512;
const HASH_BYTES: u64 = 32;
/// The bytes of entries that are read at once from a stopped member's log.
const CHUNK_BYTES: usize = 4 << 20;

/// Why nothing was saved, looked at or restored. A person acts.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    #[error("{path} cannot be used", path = .path.display())]
    Io {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("{path} is not a saved snapshot: {bytes} bytes are not whole blocks and a SHA-256", path = .path.display())]
    Length { path: PathBuf, bytes: u64 },
    #[error("{path} is damaged: it does not match its SHA-256", path = .path.display())]
    Hash { path: PathBuf },
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
    #[error(transparent)]
    Log(#[from] OpenError),
    #[error(transparent)]
    Identity(#[from] IdentityError),
    #[error(transparent)]
    Diverged(#[from] Diverged),
    #[error(transparent)]
    Address(#[from] TlsError),
    #[error("{endpoint} did not send its snapshot: {what}")]
    Endpoint { endpoint: String, what: String },
    #[error("{dir} is not empty: a snapshot is restored into a new directory", dir = .dir.display())]
    NotEmpty { dir: PathBuf },
    #[error("{path} holds the group {found:?}, not {expected:?}", path = .path.display())]
    Group { path: PathBuf, found: String, expected: String },
    #[error(
        "--bump-revision {bump}: the snapshot is at revision {revision}, and a group begins before 4611686018427387904 (2^62): \
         choose a smaller one, such as 1000000000"
    )]
    Bump { revision: Revision, bump: u64 },
    #[error("{0}")]
    Members(String),
}

fn at<T>(path: &Path, result: io::Result<T>) -> Result<T, BackupError> {
    result.map_err(|source| BackupError::Io { path: path.to_owned(), source })
}

/// What a saved snapshot holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedSnapshot {
    /// Unknown if it was taken before the group had its first leader.
    pub group: Option<String>,
    pub cluster: Option<u64>,
    pub revision: Revision,
    pub oldest: Revision,
    /// The hash chain's value.
    pub hash: u64,
    pub keys: usize,
    pub leases: usize,
    /// Of the live keys and values.
    pub live_bytes: u64,
    /// The file's.
    pub bytes: u64,
    pub format: u8,
}

/// Checks a saved snapshot as a whole and says what is in it. Blocks.
pub fn inspect(path: &Path) -> Result<SavedSnapshot, BackupError> {
    let (mvcc, bytes, _) = read(path)?;
    Ok(describe(&mvcc, bytes))
}

fn describe(mvcc: &Mvcc, bytes: u64) -> SavedSnapshot {
    SavedSnapshot {
        group: mvcc.identity().map(|identity| identity.group.clone()),
        cluster: mvcc.identity().map(|identity| identity.cluster),
        revision: mvcc.revision(),
        oldest: mvcc.oldest(),
        hash: mvcc.hash(),
        keys: mvcc.keys(),
        leases: mvcc.leases().len(),
        live_bytes: mvcc.live_bytes(),
        bytes,
        format: snapshot::VERSION,
    }
}

/// The state, the file's length and its SHA-256.
fn read(path: &Path) -> Result<(Mvcc, u64, [u8; 32]), BackupError> {
    let file = at(path, File::open(path))?;
    let bytes = at(path, file.metadata())?.len();
    if bytes < HASH_BYTES || !(bytes - HASH_BYTES).is_multiple_of(BLOCK_BYTES) {
        return Err(BackupError::Length { path: path.to_owned(), bytes });
    }
    let mut from = BufReader::with_capacity(1 << 20, file);
    let mut hash = Sha256::new();
    let mut left = bytes - HASH_BYTES;
    let mut buffer = vec![0; 1 << 16];
    while left > 0 {
        let n = buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        at(path, from.read_exact(&mut buffer[..n]))?;
        hash.update(&buffer[..n]);
        left -= n as u64;
    }
    let mut named = [0; 32];
    at(path, from.read_exact(&mut named))?;
    if hash.finalize()[..] != named {
        return Err(BackupError::Hash { path: path.to_owned() });
    }
    let (_, mvcc) = SnapshotFile::open(path)?.read()?;
    Ok((mvcc, bytes, named))
}

/// A file that gets its name when it is whole, durable and checked. Only its owner may read it: it holds secrets.
struct Saving {
    to: PathBuf,
    part: PathBuf,
    out: BufWriter<File>,
}

impl Saving {
    fn begin(to: &Path) -> Result<Self, BackupError> {
        let mut name = to.file_name().unwrap_or_default().to_owned();
        name.push(".part");
        let part = to.with_file_name(name);
        // One that was left by an earlier try may be readable by others.
        let _ = std::fs::remove_file(&part);
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&part);
        Ok(Self { to: to.to_owned(), out: BufWriter::new(at(&part, file)?), part })
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), BackupError> {
        at(&self.part, self.out.write_all(bytes))
    }

    fn end(mut self) -> Result<SavedSnapshot, BackupError> {
        at(&self.part, self.out.flush())?;
        at(&self.part, self.out.get_ref().sync_all())?;
        let saved = inspect(&self.part)?;
        at(&self.to, std::fs::rename(&self.part, &self.to))?;
        let dir = self.to.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
        at(dir, sync_dir(dir))?;
        Ok(saved)
    }
}

impl Drop for Saving {
    fn drop(&mut self) {
        // One that became whole has another name by now.
        let _ = std::fs::remove_file(&self.part);
    }
}

/// Saves the snapshot of the member at `endpoint` (`host:port`). `progress` hears how many bytes there are of how many.
pub async fn save(
    endpoint: &str,
    tls: Option<&StoreTls>,
    to: &Path,
    mut progress: impl FnMut(u64, u64),
) -> Result<SavedSnapshot, BackupError> {
    let failed = |status: tonic::Status| BackupError::Endpoint { endpoint: endpoint.to_owned(), what: chain(&status) };
    let mut client = MaintenanceClient::new(peer::channel(endpoint, tls)?).max_decoding_message_size(MAX_MESSAGE);
    let mut parts = client.snapshot(SnapshotRequest {}).await.map_err(failed)?.into_inner();
    let mut saving = Saving::begin(to)?;
    let mut done = 0;
    while let Some(part) = parts.message().await.map_err(failed)? {
        saving.write(&part.blob)?;
        done += part.blob.len() as u64;
        progress(done, done + part.remaining_bytes);
    }
    let checked = tokio::task::spawn_blocking(move || saving.end()).await;
    checked.map_err(|error| BackupError::Io { path: to.to_owned(), source: io::Error::other(error) })?
}

fn chain(status: &tonic::Status) -> String {
    let mut text = status.message().to_owned();
    let mut source = std::error::Error::source(status);
    while let Some(error) = source {
        text = format!("{text}: {error}");
        source = error.source();
    }
    text
}

/// Saves what a member's directory holds, while no process uses it. Blocks.
pub fn save_stopped(dir: &Path, to: &Path) -> Result<SavedSnapshot, BackupError> {
    if Owner::read(dir)?.is_none() {
        let source = io::Error::new(io::ErrorKind::NotFound, "there is no store member in it");
        return Err(BackupError::Io { path: dir.to_owned(), source });
    }
    let wal = Wal::open(&dir.join("wal"), crate::wal::WalConfig::default())?;
    let (snapshots, current) = SnapshotDir::open(&dir.join("snapshots"))?;
    let (meta, mut mvcc) = current.map_or_else(Default::default, |(meta, mvcc, _)| (meta, mvcc));
    let replayed = replay(&wal, &meta, &mut mvcc);
    wal.close();
    replayed?;
    let written = snapshots.write(&Meta::default(), &mvcc)?;
    let mut from = at(&written.path, File::open(&written.path))?;
    let mut saving = Saving::begin(to)?;
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 1 << 16];
    let mut bytes = 0;
    loop {
        let n = at(&written.path, from.read(&mut buffer))?;
        if n == 0 {
            break;
        }
        hash.update(&buffer[..n]);
        saving.write(&buffer[..n])?;
        bytes += n as u64;
    }
    let padding = vec![0; (bytes.next_multiple_of(BLOCK_BYTES) - bytes) as usize];
    hash.update(&padding);
    saving.write(&padding)?;
    saving.write(&hash.finalize())?;
    saving.end()
}

/// Applies what the log has after the snapshot and is certainly agreed on: all of it where one member decides alone.
fn replay(wal: &Wal, meta: &Meta, mvcc: &mut Mvcc) -> Result<(), BackupError> {
    let log = |error: io::Error| BackupError::Io { path: PathBuf::from("the log"), source: error };
    let (_, last) = wal.ends();
    let first = meta.last_log_id.map_or(0, |id| id.index + 1);
    let Some(last) = last.map(|id| id.index) else { return Ok(()) };
    let mut voters: BTreeSet<u64> = meta.last_membership.membership().voter_ids().collect();
    let each = |to: u64, visit: &mut dyn FnMut(&EntryPayload<_, _, _>) -> Result<(), BackupError>| {
        let mut next = first;
        while next <= to {
            let entries = wal.read(next..to + 1, CHUNK_BYTES).map_err(log)?;
            let Some(end) = entries.last().map(|entry| entry.log_id.index + 1) else { break };
            entries.iter().try_for_each(|entry| visit(&entry.payload))?;
            next = end;
        }
        Ok::<_, BackupError>(())
    };
    each(last, &mut |payload| {
        if let EntryPayload::Membership(membership) = payload {
            voters = membership.voter_ids().collect();
        }
        Ok(())
    })?;
    let agreed = if voters.len() == 1 { Some(last) } else { wal.committed().map(|id| id.index.min(last)) };
    let Some(agreed) = agreed else { return Ok(()) };
    each(agreed, &mut |payload| {
        if let EntryPayload::Normal(proposal) = payload {
            crate::mvcc::apply(mvcc, &proposal.0)?;
        }
        Ok(())
    })
}

/// One member of a new group that begins with a saved snapshot.
#[derive(Clone, Debug)]
pub struct Restore {
    pub from: PathBuf,
    /// The member's directory; it must not hold anything.
    pub dir: PathBuf,
    pub group: String,
    pub member: u64,
    /// Every member of the new group; the same for each of them.
    pub members: BTreeMap<u64, String>,
    /// How much later the new revision is: more than the old group can have written after the snapshot.
    pub bump: u64,
}

/// Makes the directory of a member that has agreed on what the snapshot holds. Blocks.
pub fn restore(restore: &Restore) -> Result<SavedSnapshot, BackupError> {
    let Restore { from, dir, group, member, members, bump } = restore;
    if !members.contains_key(member) || ![1, 3, 5].contains(&members.len()) {
        return Err(BackupError::Members("a group has 1, 3 or 5 members, and this one is one of them".into()));
    }
    let holds = match std::fs::read_dir(dir) {
        Ok(mut files) => files.next().is_some(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => false,
        Err(source) => return Err(BackupError::Io { path: dir.clone(), source }),
    };
    if holds {
        return Err(BackupError::NotEmpty { dir: dir.clone() });
    }
    let (mvcc, _, hash) = read(from)?;
    if let Some(identity) = mvcc.identity().filter(|identity| identity.group != *group) {
        let (path, found) = (from.clone(), identity.group.clone());
        return Err(BackupError::Group { path, found, expected: group.clone() });
    }
    let begins = beginning(&hash, members, *bump);
    let revision = mvcc.revision();
    let mvcc = mvcc.restored(*bump).ok_or(BackupError::Bump { revision, bump: *bump })?;
    let mut name = dir.file_name().unwrap_or_default().to_owned();
    name.push(".restoring");
    let part = dir.with_file_name(name);
    if part.exists() {
        at(&part, std::fs::remove_dir_all(&part))?;
    }
    at(&part, DirBuilder::new().mode(0o700).recursive(true).create(&part))?;
    let (snapshots, _) = SnapshotDir::open(&part.join("snapshots"))?;
    let meta = first_meta(members)?;
    let mut file = snapshots.write(&meta, &mvcc)?;
    snapshots.promote(&mut file, &meta)?;
    Owner::new(group, *member, begins).write(&part)?;
    at(dir, std::fs::rename(&part, dir))?;
    let parent = dir.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    at(parent, sync_dir(parent))?;
    Ok(describe(&mvcc, file.bytes))
}

/// What every group's log begins with: its members.
fn first_meta(members: &BTreeMap<u64, String>) -> Result<Meta, BackupError> {
    let nodes: BTreeMap<u64, BasicNode> = members.iter().map(|(id, address)| (*id, BasicNode::new(address))).collect();
    let voters: BTreeSet<u64> = members.keys().copied().collect();
    let membership = Membership::new(vec![voters], nodes).map_err(|error| BackupError::Members(error.to_string()))?;
    let leader_id = openraft::type_config::alias::LeaderIdOf::<TypeConfig> { term: 0, node_id: 0 };
    let first = LogId { leader_id, index: 0 };
    Ok(Meta { last_log_id: Some(first), last_membership: Stored::new(Some(first), membership) })
}

/// What the new group begins with, by which its members know each other: the same for all that are restored with the same
/// words. The group's own number is random, as every group's: its first leader says it.
fn beginning(snapshot: &[u8; 32], members: &BTreeMap<u64, String>, bump: u64) -> u64 {
    let mut hash = Sha256::new();
    hash.update(snapshot);
    hash.update(bump.to_le_bytes());
    for (id, address) in members {
        hash.update(id.to_le_bytes());
        hash.update((address.len() as u64).to_le_bytes());
        hash.update(address);
    }
    u64::from_le_bytes(hash.finalize()[..8].try_into().expect("8 bytes")).max(1)
}

#[cfg(test)]
#[path = "backup_tests.rs"]
mod tests;
