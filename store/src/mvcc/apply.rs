//! Applies one entry: transactions against the live keys, leases, and compactions. It refuses only what cannot be known
//! before the entry's turn; the rest `limits` refuses before it is proposed.

use super::version::Numbers;
use super::{Applied, Change, Command, Commit, Compact, Diverged, Entry, Live, Mark, Mvcc, Reply, Undo, Version};
use super::{MARK_EVERY_MS, MARK_KEPT_MS, chain};
use crate::api::{LeaseId, Put, Revision, StoreError};
use crate::limits;
use std::sync::Arc;

/// What a live key counts for.
pub(super) fn size(version: &Version) -> u64 {
    (version.key().len() + version.value().len()) as u64
}

/// Applies `entry`. An error means that this member must stop.
pub fn apply(mvcc: &mut Mvcc, entry: &Entry) -> Result<Applied, Diverged> {
    let before = mvcc.revision;
    mvcc.time_ms = mvcc.time_ms.max(entry.time_ms);
    let mut replies = Vec::with_capacity(entry.commands.len());
    let mut lacking = Vec::new();
    for command in &entry.commands {
        replies.push(match command {
            Command::Txn(txn) => {
                let allowed = limits::check(txn).and_then(|()| mvcc.check_alarms(command));
                match allowed.and_then(|()| mvcc.transact(txn)) {
                    Ok((reply, late)) => {
                        lacking.extend(late.into_iter().map(|late| (replies.len(), late)));
                        Reply::Txn(reply)
                    }
                    Err(error) => Reply::Refused(error),
                }
            }
            Command::Compact(compact) => mvcc.compact(compact)?,
            Command::Grant { id, ttl_s } => {
                let granted = mvcc.check_alarms(command).and_then(|()| mvcc.grant(*id, *ttl_s));
                granted.map_or_else(Reply::Refused, |()| Reply::Done(mvcc.revision()))
            }
            Command::Revoke { id } => mvcc.revoke(*id).map_or_else(Reply::Refused, |()| Reply::Done(mvcc.revision())),
            Command::Found(identity) => {
                mvcc.identity.get_or_insert_with(|| Arc::new(identity.clone()));
                Reply::Done(mvcc.revision())
            }
            Command::Alarm { alarm, raise } => {
                mvcc.set_alarm(*alarm, *raise);
                Reply::Done(mvcc.revision())
            }
        });
    }
    if mvcc.revision > before {
        mvcc.mark(before + 1);
    }
    Ok(Applied { revision: mvcc.revision(), replies, late: lacking, archive: None })
}

impl Mvcc {
    pub(super) fn put(&mut self, put: &Put, revision: Revision) -> Change {
        let prev = self.get(&put.key).cloned();
        let (create_revision, version) =
            prev.as_ref().map_or((revision, 1), |p| (p.create_revision(), p.version() + 1));
        let value = prev.as_ref().filter(|_| put.keep_value).map_or(&put.value[..], Version::value);
        let before = prev.as_ref().map_or(LeaseId::NONE, Version::lease);
        let lease = if put.keep_lease { before } else { put.lease };
        self.attach(&put.key, before, lease);
        let numbers = Numbers { create_revision, mod_revision: revision, version, lease };
        let kv = Version::new(numbers, &put.key, value);
        self.live_bytes += size(&kv);
        self.live_bytes -= prev.as_ref().map_or(0, size);
        self.live.insert(Live(kv.clone()));
        self.remember(Change { kv, prev })
    }

    pub(super) fn delete(&mut self, key: &[u8], revision: Revision) -> Option<Change> {
        let Live(prev) = self.live.remove(key)?;
        self.live_bytes -= size(&prev);
        self.attach(key, prev.lease(), LeaseId::NONE);
        Some(self.remember(Change { kv: Version::deleted(key, revision), prev: Some(prev) }))
    }

    /// Writes the undo record at once, so that a later operation of the same transaction can read the past.
    fn remember(&mut self, change: Change) -> Change {
        if let Some(undo) = Undo::of(&change) {
            self.past.insert(undo);
        }
        change
    }

    /// Takes changes already made to `live` into history as the next revision.
    pub(super) fn commit_changes(&mut self, changes: Vec<Change>) {
        self.revision += 1;
        self.hash = chain::next(self.hash, self.revision, &changes);
        self.push(Commit::new(changes, self.hash));
    }

    pub(super) fn push(&mut self, commit: Commit) {
        self.superseded_bytes += commit.superseded_bytes();
        let undone = commit.changes().iter().filter(|change| change.undoes());
        let superseded = undone.filter_map(|change| change.prev.as_ref());
        self.superseded_values += superseded.map(|prev| prev.value_len() as u64).sum::<u64>();
        self.history.push_back(commit);
    }

    fn compact(&mut self, compact: &Compact) -> Result<Reply, Diverged> {
        if let Some((revision, theirs)) = compact.check {
            let ours = match self.commit(revision.0) {
                Some(commit) => commit.hash,
                // The proposer had it before this entry, so a member that does not has not applied the same.
                None if revision > self.revision() => self.hash,
                // Compacted since.
                None => theirs,
            };
            if ours != theirs || revision > self.revision() {
                return Err(Diverged { revision, ours, theirs });
            }
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
        while self.first_commit() < compact.revision.0
            && let Some(commit) = self.history.pop_front()
        {
            self.superseded_bytes -= commit.superseded_bytes();
            for undo in commit.changes().iter().filter_map(Undo::of) {
                self.superseded_values -= undo.prev.value_len() as u64;
                self.away_bytes -= undo.prev.away().map_or(0, |place| u64::from(place.len));
                self.past.remove(&undo);
            }
        }
        self.history.tidy();
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
