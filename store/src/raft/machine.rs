//! Openraft's state machine over `Mvcc`: applies committed entries, publishes the result to readers and then answers the
//! proposers. What an entry does is decided by `mvcc::apply` alone.

use super::snapshot::{SnapshotDir, SnapshotError, SnapshotFile};
use super::types::{LogId, Meta, Stored, TypeConfig};
use crate::hub::Hub;
use crate::mvcc::{self, Applied, Mvcc};
use futures::{Stream, StreamExt};
use openraft::storage::{EntryResponder, RaftStateMachine};
use openraft::type_config::alias::SnapshotOf;
use openraft::{EntryPayload, OptionalSend, RaftSnapshotBuilder, Snapshot};
use parking_lot::Mutex;
use std::io;
use std::sync::Arc;

/// Entries after which readers see the state, even if more wait to be applied.
const PUBLISH_EVERY: usize = 256;

pub struct Machine {
    mvcc: Mvcc,
    applied: Option<LogId>,
    membership: Stored,
    hub: Arc<Hub>,
    snapshots: Snapshots,
}

/// The current snapshot, shared with whoever builds or sends one.
#[derive(Clone)]
pub struct Snapshots {
    pub dir: SnapshotDir,
    current: Arc<Mutex<Option<(Meta, SnapshotFile)>>>,
}

impl Snapshots {
    pub fn new(dir: SnapshotDir, current: Option<(Meta, SnapshotFile)>) -> Self {
        Self { dir, current: Arc::new(Mutex::new(current)) }
    }

    /// The last log index in the current snapshot, and the file's length.
    pub fn current(&self) -> Option<(u64, u64)> {
        let current = self.current.lock();
        current.as_ref().map(|(meta, file)| (meta.last_log_id.map_or(0, |id| id.index), file.bytes))
    }
}

impl Machine {
    /// A machine at the state that `snapshots` holds.
    pub fn new(mvcc: Mvcc, hub: Arc<Hub>, snapshots: Snapshots) -> Self {
        let (applied, membership) = match &*snapshots.current.lock() {
            Some((meta, _)) => (meta.last_log_id, meta.last_membership.clone()),
            None => (None, Stored::default()),
        };
        Self { mvcc, applied, membership, hub, snapshots }
    }
}

fn io_error(error: SnapshotError) -> io::Error {
    io::Error::other(error)
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, SnapshotError> + Send + 'static,
) -> io::Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(io::Error::other)?.map_err(io_error)
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
        while let Some(next) = entries.next().await {
            let (entry, responder) = next?;
            let applied = match &entry.payload {
                EntryPayload::Blank => Applied::default(),
                EntryPayload::Normal(proposal) => mvcc::apply(&mut self.mvcc, &proposal.0).map_err(io::Error::other)?,
                EntryPayload::Membership(membership) => {
                    self.membership = Stored::new(Some(entry.log_id), membership.clone());
                    Applied::default()
                }
            };
            self.applied = Some(entry.log_id);
            answers.extend(responder.map(|responder| (responder, applied)));
            if answers.len() >= PUBLISH_EVERY {
                self.hub.publish(&self.mvcc);
                answers.drain(..).for_each(|(responder, applied)| responder.send(applied));
            }
        }
        // Readers see a write before its writer hears of it.
        self.hub.publish(&self.mvcc);
        answers.into_iter().for_each(|(responder, applied)| responder.send(applied));
        Ok(())
    }

    async fn get_snapshot_builder(&mut self) -> Builder {
        let meta = Meta { last_log_id: self.applied, last_membership: self.membership.clone() };
        Builder { meta, mvcc: self.mvcc.clone(), snapshots: self.snapshots.clone() }
    }

    async fn install_snapshot(&mut self, meta: &Meta, snapshot: SnapshotFile) -> io::Result<()> {
        let dir = self.snapshots.dir.clone();
        let named = meta.clone();
        let (mvcc, file) = blocking(move || {
            let mut file = snapshot;
            let (_, mvcc) = file.read()?;
            dir.promote(&mut file, &named)?;
            Ok((mvcc, file))
        })
        .await?;
        self.mvcc = mvcc;
        self.applied = meta.last_log_id;
        self.membership = meta.last_membership.clone();
        *self.snapshots.current.lock() = Some((meta.clone(), file));
        self.hub.publish(&self.mvcc);
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
    mvcc: Mvcc,
    snapshots: Snapshots,
}

impl RaftSnapshotBuilder<TypeConfig> for Builder {
    type SnapshotData = SnapshotFile;

    async fn build_snapshot(&mut self) -> io::Result<SnapshotOf<TypeConfig, SnapshotFile>> {
        let (dir, meta, mvcc) = (self.snapshots.dir.clone(), self.meta.clone(), self.mvcc.clone());
        let snapshot = blocking(move || dir.write(&meta, &mvcc)).await?;
        *self.snapshots.current.lock() = Some((self.meta.clone(), snapshot.clone()));
        Ok(Snapshot { meta: self.meta.clone(), snapshot })
    }
}
