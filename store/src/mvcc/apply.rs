//! Applies one entry: transactions against the live keys, and compactions. It never refuses what `limits` accepts.

use super::{Applied, Change, Command, Commit, Compact, Diverged, Entry, Live, Mark, Mvcc, Reply, Superseded};
use super::{MARK_EVERY_MS, MARK_KEPT_MS, chain};
use crate::api::{Compare, CompareTarget, KeyValue, Op, OpReply, Revision, StoreError, Txn, TxnReply};
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
            Command::Txn(txn) => match limits::check(txn) {
                Ok(()) => Reply::Txn(mvcc.transact(txn)),
                Err(error) => Reply::Refused(error),
            },
            Command::Compact(compact) => mvcc.compact(compact)?,
        });
    }
    if mvcc.revision > before {
        mvcc.mark(before + 1);
    }
    Ok(Applied { revision: mvcc.revision(), replies })
}

impl Mvcc {
    fn transact(&mut self, txn: &Txn) -> TxnReply {
        let succeeded = txn.compare.iter().all(|compare| self.holds(compare));
        let ops = if succeeded { &txn.success } else { &txn.failure };
        let revision = Revision(self.revision + 1);
        let mut changes = Vec::new();
        let mut replies = Vec::with_capacity(ops.len());
        for op in ops {
            replies.push(match op {
                Op::Put { key, value } => {
                    changes.push(self.put(key, value, revision));
                    OpReply::Put
                }
                Op::Delete { key } => {
                    let change = self.delete(key, revision);
                    let deleted = change.is_some();
                    changes.extend(change);
                    OpReply::Delete { deleted }
                }
                Op::Get { key } => OpReply::Get(self.get(key).map(|kv| KeyValue::clone(kv))),
            });
        }
        if !changes.is_empty() {
            self.commit_changes(changes);
        }
        TxnReply { succeeded, revision: self.revision(), ops: replies }
    }

    fn holds(&self, compare: &Compare) -> bool {
        let found = self.get(&compare.key);
        match &compare.target {
            CompareTarget::ModRevision(revision) => found.map_or(Revision(0), |kv| kv.mod_revision) == *revision,
            CompareTarget::Exists => found.is_some(),
            CompareTarget::Value(value) => found.map_or(&b""[..], |kv| &kv.value) == &value[..],
        }
    }

    pub(super) fn put(&mut self, key: &Bytes, value: &Bytes, revision: Revision) -> Change {
        let prev = self.get(key).cloned();
        let (create_revision, version) = prev.as_ref().map_or((revision, 1), |p| (p.create_revision, p.version + 1));
        // The key's bytes are shared between versions; those of the request may pin a whole network buffer.
        let key = prev.as_ref().map_or_else(|| Bytes::copy_from_slice(key), |p| p.key.clone());
        let kv = Arc::new(KeyValue { key, value: value.clone(), create_revision, mod_revision: revision, version });
        self.live.insert(Live(kv.clone()));
        Change { kv, deleted: false, prev }
    }

    pub(super) fn delete(&mut self, key: &Bytes, revision: Revision) -> Option<Change> {
        let Live(prev) = self.live.remove(&key[..])?;
        let kv = Arc::new(KeyValue {
            key: prev.key.clone(),
            value: Bytes::new(),
            create_revision: Revision(0),
            mod_revision: revision,
            version: 0,
        });
        Some(Change { kv, deleted: true, prev: Some(prev) })
    }

    /// Takes changes already made to `live` into history as the next revision.
    pub(super) fn commit_changes(&mut self, changes: Vec<Change>) {
        self.revision += 1;
        let mut superseded_bytes = 0;
        for change in &changes {
            let held = change.prev.as_ref().map_or(0, |p| p.value.len());
            superseded_bytes += (held + change.kv.key.len() + VERSION_OVERHEAD) as u64;
            self.past.insert(Superseded { key: change.kv.key.clone(), until: self.revision }, change.prev.clone());
        }
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
        while self.history.front().is_some_and(|commit| commit.revision <= compact.revision.0) {
            let commit = self.history.pop_front().expect("the loop's condition saw a front");
            self.superseded_bytes -= commit.superseded_bytes;
            for change in &commit.changes {
                self.past.remove(&Superseded { key: change.kv.key.clone(), until: commit.revision });
            }
        }
        if compact.revision.0 > self.compacted {
            self.compacted = compact.revision.0;
            self.hash = chain::compacted(self.hash, self.compacted);
        }
        Ok(Reply::Compacted)
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
