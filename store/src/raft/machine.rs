//! Openraft's state machine over `Mvcc`: applies committed entries to the state that the hub keeps, tells the readers and then
//! answers the proposers. What an entry does is decided by `mvcc::apply` alone.

use super::roster::Roster;
use super::snapshot::{SnapshotDir, SnapshotError, SnapshotFile};
use super::types::{self, LogId, Meta, Stored, TypeConfig};
use crate::archive::ArchiveRef;
use crate::counts::Counts;
use crate::hub::{Hub, Origin};
use crate::mvcc::{Applied, Mvcc};
use crate::offload::offload;
use crate::plant::{Plant, planted};
use crate::wal;
use futures::{Stream, StreamExt};
use openraft::storage::{EntryResponder, RaftStateMachine};
use openraft::type_config::alias::SnapshotOf;
use openraft::{EntryPayload, OptionalSend, RaftSnapshotBuilder, Snapshot};
use parking_lot::Mutex;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Entries after which those who wait hear of them, even if more are there to be applied.
const ANNOUNCE_EVERY: usize = 256;
/// Between two tries to write a snapshot to a full disk.
const RETRY: Duration = Duration::from_secs(5);

pub struct Machine {
    applied: Option<LogId>,
    membership: Stored,
    hub: Arc<Hub>,
    snapshots: Snapshots,
    roster: Roster,
    counts: Arc<Counts>,
    /// Shorter values are not looked for in the log.
    least: usize,
}

/// The current snapshot, shared with whoever builds or sends one.
#[derive(Clone)]
pub struct Snapshots {
    pub dir: SnapshotDir,
    /// Nobody waits for space on the disk any more.
    pub closed: CancellationToken,
    current: Arc<Mutex<Option<(Meta, SnapshotFile)>>>,
    /// Held while a file becomes the current one, which waits for the disk; `current` never does.
    promoting: Arc<Mutex<()>>,
}

impl Snapshots {
    pub fn new(dir: SnapshotDir, current: Option<(Meta, SnapshotFile)>) -> Self {
        Self {
            dir,
            closed: CancellationToken::new(),
            current: Arc::new(Mutex::new(current)),
            promoting: Arc::default(),
        }
    }

    /// Makes a complete file the current snapshot, unless a newer one is it already; answers the current one. Blocks.
    fn promote(&self, mut file: SnapshotFile, meta: &Meta) -> Result<(Meta, SnapshotFile), SnapshotError> {
        let _alone = self.promoting.lock();
        if let Some(newer) = self.current.lock().clone().filter(|(current, _)| current.last_log_id > meta.last_log_id) {
            return Ok(newer);
        }
        self.dir.promote(&mut file, meta)?;
        let promoted = (meta.clone(), file);
        *self.current.lock() = Some(promoted.clone());
        Ok(promoted)
    }

    /// The last log index in the current snapshot, and the file's length.
    pub fn current(&self) -> Option<(u64, u64)> {
        let current = self.current.lock();
        current.as_ref().map(|(meta, file)| (meta.last_log_id.map_or(0, |id| id.index), file.bytes))
    }
}

impl Machine {
    /// A machine whose hub is at the state that `snapshots` holds.
    pub fn new(hub: Arc<Hub>, snapshots: Snapshots, roster: Roster, counts: Arc<Counts>, least: usize) -> Self {
        let (applied, membership) = match &*snapshots.current.lock() {
            Some((meta, _)) => (meta.last_log_id, meta.last_membership.clone()),
            None => (None, Stored::default()),
        };
        roster.follow(membership.membership());
        Self { applied, membership, hub, snapshots, roster, counts, least }
    }
}

/// See [`Plant::IndexWithoutEntry`].
fn skips(id: &LogId, follower: bool) -> bool {
    planted(Plant::IndexWithoutEntry) && follower && id.index % 16 == 5
}

fn io_error(error: SnapshotError) -> io::Error {
    io::Error::other(error)
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, SnapshotError> + Send + 'static,
) -> io::Result<T> {
    offload(work).await.map_err(io::Error::other)?.map_err(io_error)
}

impl RaftStateMachine<TypeConfig> for Machine {
    type SnapshotData = SnapshotFile;
    type SnapshotBuilder = Builder;

    async fn applied_state(&mut self) -> io::Result<(Option<LogId>, Stored)> {
        Ok((self.applied, self.membership.clone()))
    }

    async fn apply<Strm>(&mut self, mut entries: Strm) -> io::Result<()>
    where
        Strm: Stream<Item = io::Result<EntryResponder<TypeConfig>>> + Unpin + OptionalSend,
    {
        let mut answers = Vec::new();
        let began = tokio::time::Instant::now();
        while let Some(next) = entries.next().await {
            let (entry, responder) = next?;
            let applied = match &entry.payload {
                EntryPayload::Blank => Applied::default(),
                EntryPayload::Normal(_) if skips(&entry.log_id, responder.is_none()) => Applied::default(),
                EntryPayload::Normal(proposal) => {
                    let content_at = types::content_at(&entry.log_id);
                    let origin = Origin { index: entry.log_id.index, content_at, least: self.least };
                    self.hub.apply(&proposal.0, Some(origin)).map_err(io::Error::other)?
                }
                EntryPayload::Membership(membership) => {
                    self.membership = Stored::new(Some(entry.log_id), membership.clone());
                    self.roster.follow(membership);
                    Applied::default()
                }
            };
            self.applied = Some(entry.log_id);
            Counts::one_more(&self.counts.applied);
            answers.extend(responder.map(|responder| (responder, applied)));
            if answers.len() >= ANNOUNCE_EVERY {
                self.hub.announce();
                answers.drain(..).for_each(|(responder, applied)| responder.send(applied));
            }
        }
        // Readers hear of a write before its writer does.
        self.hub.announce();
        self.counts.apply.note(began.elapsed());
        answers.into_iter().for_each(|(responder, applied)| responder.send(applied));
        Ok(())
    }

    async fn get_snapshot_builder(&mut self) -> Builder {
        let meta = Meta { last_log_id: self.applied, last_membership: self.membership.clone() };
        let (mvcc, archive) = self.hub.pinned_view();
        Builder { meta, mvcc, archive, snapshots: self.snapshots.clone(), counts: self.counts.clone() }
    }

    async fn install_snapshot(&mut self, meta: &Meta, snapshot: SnapshotFile) -> io::Result<()> {
        let (snapshots, named) = (self.snapshots.clone(), meta.clone());
        let mvcc = blocking(move || {
            let (_, mvcc) = snapshot.read()?;
            snapshots.promote(snapshot, &named)?;
            Ok(mvcc)
        })
        .await?;
        self.applied = meta.last_log_id;
        self.membership = meta.last_membership.clone();
        self.roster.follow(self.membership.membership());
        self.hub.replace(mvcc);
        Ok(())
    }

    async fn get_current_snapshot(&mut self) -> io::Result<Option<SnapshotOf<TypeConfig, SnapshotFile>>> {
        let current = self.snapshots.current.lock().clone();
        Ok(current.map(|(meta, snapshot)| Snapshot { meta, snapshot }))
    }
}

/// Writes a pinned state to a file while later entries are applied.
pub struct Builder {
    meta: Meta,
    mvcc: Arc<Mvcc>,
    archive: ArchiveRef,
    snapshots: Snapshots,
    counts: Arc<Counts>,
}

impl RaftSnapshotBuilder<TypeConfig> for Builder {
    type SnapshotData = SnapshotFile;

    async fn build_snapshot(&mut self) -> io::Result<SnapshotOf<TypeConfig, SnapshotFile>> {
        let mut warned = false;
        loop {
            let (snapshots, meta) = (self.snapshots.clone(), self.meta.clone());
            let (mvcc, archive) = (self.mvcc.clone(), self.archive.clone());
            let build = move || snapshots.promote(snapshots.dir.write_from(&meta, &mvcc, &*archive)?, &meta);
            match offload(build).await.map_err(io::Error::other)? {
                Ok((meta, snapshot)) => {
                    Counts::one_more(&self.counts.snapshots);
                    return Ok(Snapshot { meta, snapshot });
                }
                // An error would stop the member; this one passes.
                Err(SnapshotError::Io { source, path }) if wal::is_full(&source) => {
                    if !std::mem::replace(&mut warned, true) {
                        tracing::error!(path = %path.display(), "no space is left for a snapshot; it is tried again");
                    }
                }
                Err(error) => return Err(io_error(error)),
            }
            tokio::select! {
                () = tokio::time::sleep(RETRY) => {}
                () = self.snapshots.closed.cancelled() => return Err(io::Error::other("the store is stopping")),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meta(index: u64) -> Meta {
        let leader_id = openraft::type_config::alias::LeaderIdOf::<TypeConfig> { term: 1, node_id: 1 };
        Meta { last_log_id: Some(LogId { leader_id, index }), ..Meta::default() }
    }

    #[tokio::test]
    async fn a_build_that_ends_after_a_newer_install_changes_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let (files, _) = SnapshotDir::open(dir.path()).unwrap();
        let mvcc = Mvcc::default();
        let snapshots = Snapshots::new(files.clone(), None);
        let mut machine = Machine::new(Hub::new(mvcc.clone()), snapshots.clone(), Roster::default(), Arc::default(), 0);
        let mut builder = Builder {
            meta: meta(5),
            mvcc: Arc::new(mvcc.clone()),
            archive: Arc::new(crate::archive::Nothing),
            snapshots: snapshots.clone(),
            counts: Arc::default(),
        };
        let received = files.write(&meta(9), &mvcc).unwrap();
        machine.install_snapshot(&meta(9), received).await.unwrap();
        let built = builder.build_snapshot().await.unwrap();
        assert_eq!(built.meta, meta(9));
        drop(built);
        assert_eq!(snapshots.current().map(|(index, _)| index), Some(9));
        let names: Vec<_> = std::fs::read_dir(dir.path())
            .unwrap()
            .map(|file| file.unwrap().file_name().into_string().unwrap())
            .collect();
        assert_eq!(names, [format!("{:016x}.snap", 9)], "the older file is gone, the newer one is not");
        // A newer build takes its place.
        builder.meta = meta(12);
        builder.build_snapshot().await.unwrap();
        let (_, found) = SnapshotDir::open(dir.path()).unwrap();
        assert_eq!(found.unwrap().0, meta(12));
    }
}
