//! Applies one entry: transactions against the live keys, leases, and compactions. It refuses only what cannot be known
//! before the entry's turn; the rest `limits` refuses before it is proposed.

use super::{Applied, Change, Command, Commit, Compact, Diverged, Entry, Live, Mark, Mvcc, Reply, Superseded};
use super::{MARK_EVERY_MS, MARK_KEPT_MS, chain};
use crate::api::{KeyValue, LeaseId, Put, Revision, StoreError};
use crate::limits;
use bytes::Bytes;
use std::sync::Arc;

/// What a version costs in memory beside its bytes, near enough for retention.
const VERSION_OVERHEAD: usize = 200;

/// Applies `entry`. An error means that this member must stop.
pub fn apply(mvcc: &mut Mvcc, entry: &Entry) -> Result<Applied, Diverged> {
    let before = mvcc.revision;
    mvcc.time_ms = mvcc.time_ms.max(entry.time_ms);
    let mut replies = Vec::with_capacity(entry.commands.len());
    for command in &entry.commands {
        replies.push(match command {
            Command::Txn(txn) => {
                limits::check(txn).and_then(|()| mvcc.transact(txn)).map_or_else(Reply::Refused, Reply::Txn)
            }
            Command::Compact(compact) => mvcc.compact(compact)?,
            Command::Grant { id, ttl_s } => {
                mvcc.grant(*id, *ttl_s).map_or_else(Reply::Refused, |()| Reply::Done(mvcc.revision()))
            }
            Command::Revoke { id } => mvcc.revoke(*id).map_or_else(Reply::Refused, |()| Reply::Done(mvcc.revision())),
        });
    }
    if mvcc.revision > before {
        mvcc.mark(before + 1);
    }
    Ok(Applied { revision: mvcc.revision(), replies })
}

impl Mvcc {
    pub(super) fn put(&mut self, put: &Put, revision: Revision) -> Change {
        let prev = self.get(&put.key).cloned();
        let (create_revision, version) = prev.as_ref().map_or((revision, 1), |p| (p.create_revision, p.version + 1));
        // The key's bytes are shared between versions; those of the request may pin a whole network buffer.
        let key = prev.as_ref().map_or_else(|| Bytes::copy_from_slice(&put.key), |p| p.key.clone());
        let value = match &prev {
            Some(prev) if put.keep_value => prev.value.clone(),
            _ => put.value.clone(),
        };
        let before = prev.as_ref().map_or(LeaseId::NONE, |p| p.lease);
        let lease = if put.keep_lease { before } else { put.lease };
        self.attach(&key, before, lease);
        let kv = Arc::new(KeyValue { key, value, create_revision, mod_revision: revision, version, lease });
        self.live.insert(Live(kv.clone()));
        self.remember(Change { kv, deleted: false, prev })
    }

    pub(super) fn delete(&mut self, key: &[u8], revision: Revision) -> Option<Change> {
        let Live(prev) = self.live.remove(key)?;
        self.attach(&prev.key, prev.lease, LeaseId::NONE);
        let kv = Arc::new(KeyValue {
            key: prev.key.clone(),
            value: Bytes::new(),
            create_revision: Revision(0),
            mod_revision: revision,
            version: 0,
            lease: LeaseId::NONE,
        });
        Some(self.remember(Change { kv, deleted: true, prev: Some(prev) }))
    }

    /// Writes the undo record at once, so that a later operation of the same transaction can read the past.
    fn remember(&mut self, change: Change) -> Change {
        let at = Superseded { key: change.kv.key.clone(), until: change.kv.mod_revision.0 };
        self.past.insert(at, change.prev.clone());
        change
    }

    /// Takes changes already made to `live` into history as the next revision.
    pub(super) fn commit_changes(&mut self, changes: Vec<Change>) {
        self.revision += 1;
        let size = |change: &Change| {
            let held = change.prev.as_ref().map_or(0, |p| p.value.len());
            (held + change.kv.key.len() + VERSION_OVERHEAD) as u64
        };
        let superseded_bytes = changes.iter().map(size).sum();
        self.superseded_bytes += superseded_bytes;
        self.hash = chain::next(self.hash, self.revision, &changes);
        let commit = Commit { revision: self.revision, changes, hash: self.hash, superseded_bytes };
        self.history.push_back(Arc::new(commit));
    }

    fn compact(&mut self, compact: &Compact) -> Result<Reply, Diverged> {
        if let Some((revision, theirs)) = compact.check
            && let Some(ours) = self.commit(revision.0).map(|commit| commit.hash)
            && ours != theirs
        {
            return Err(Diverged { revision, ours, theirs });
        }
        if compact.revision > self.revision() {
            let error = StoreError::Future { requested: compact.revision, current: self.revision() };
            return Ok(Reply::Refused(error));
        }
        if compact.revision.0 <= self.compacted {
            let error = StoreError::Compacted { requested: compact.revision, oldest: self.oldest() };
            return Ok(Reply::Refused(error));
        }
        // The commit of the oldest readable revision stays: a watch may begin with it (etcd's rule).
        while self.history.front().is_some_and(|commit| commit.revision < compact.revision.0) {
            let commit = self.history.pop_front().expect("the loop's condition saw a front");
            self.superseded_bytes -= commit.superseded_bytes;
            for change in &commit.changes {
                self.past.remove(&Superseded { key: change.kv.key.clone(), until: commit.revision });
            }
        }
        self.compacted = compact.revision.0;
        self.hash = chain::compacted(self.hash, self.compacted);
        Ok(Reply::Done(self.revision()))
    }

    /// Remembers when `revision` was written, at most once a second.
    fn mark(&mut self, revision: u64) {
        let time_ms = self.time_ms;
        if self.marks.back().is_some_and(|last| time_ms < last.time_ms + MARK_EVERY_MS) {
            return;
        }
        self.marks.push_back(Mark { time_ms, revision });
        while self.marks.front().is_some_and(|first| first.time_ms + MARK_KEPT_MS < time_ms) {
            self.marks.pop_front();
        }
    }
}
