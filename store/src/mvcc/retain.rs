//! How long history and expiring keys stay: pure decisions that the leader turns into ordinary log entries.
//!
//! Time here is store time (milliseconds that leaders have led), so a wall clock that jumps forgets nothing.

use super::{MARK_EVERY_MS, Mvcc};
use crate::api::{Compare, Op, Revision, Txn};

/// How far back `newest_before` can answer.
pub const MARK_KEPT_MS: u64 = 2 * 60 * 60 * 1_000;
/// The longest TTL: the marks must reach further back than any.
pub const MAX_TTL_MS: u64 = MARK_KEPT_MS - 10 * 60 * 1_000;

/// Superseded versions stay for `keep_ms` or until they hold `keep_bytes`, but never less than `least_ms`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    pub keep_ms: u64,
    pub keep_bytes: u64,
    pub least_ms: u64,
    /// The most revisions that one compaction drops, so that applying it never stalls writes.
    pub step: u64,
}

impl Default for Retention {
    fn default() -> Self {
        Self { keep_ms: 300_000, keep_bytes: 512 << 20, least_ms: 60_000, step: 5_000 }
    }
}

/// The revision to compact to at `now_ms`, if history has outgrown `retention`.
pub fn compaction(mvcc: &Mvcc, now_ms: u64, retention: &Retention) -> Option<Revision> {
    let old = mvcc.newest_before(now_ms.checked_sub(retention.keep_ms));
    let allowed = mvcc.newest_before(now_ms.checked_sub(retention.least_ms));
    let oversize = mvcc.newest_to_free(mvcc.superseded_bytes.saturating_sub(retention.keep_bytes), allowed);
    let first = mvcc.oldest().0 + 1;
    let target = old.max(oversize).min(first + retention.step);
    (target >= first).then_some(Revision(target))
}

/// How far compaction is behind what `retention` asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lag {
    pub revisions: u64,
    /// Since the oldest history should have gone.
    pub ms: u64,
}

pub fn lag(mvcc: &Mvcc, now_ms: u64, retention: &Retention) -> Lag {
    let everything = Retention { step: u64::MAX / 2, ..*retention };
    let Some(due) = compaction(mvcc, now_ms, &everything) else { return Lag::default() };
    let oldest = mvcc.oldest().0;
    let written = mvcc.marks.iter().find(|mark| mark.revision > oldest).map_or(mvcc.time_ms, |mark| mark.time_ms);
    Lag { revisions: due.0 - oldest, ms: now_ms.saturating_sub(written + retention.keep_ms) }
}

/// One transaction for each key that was last written more than `ttl_ms` before `now_ms`, oldest first, at most `most`.
///
/// Each deletes a single key, and only if it was not written since, so every expiry is a revision of its own.
pub fn expired(mvcc: &Mvcc, now_ms: u64, ttl_ms: u64, most: usize) -> Vec<Txn> {
    let newest = mvcc.newest_before(now_ms.checked_sub(ttl_ms));
    if newest == 0 {
        return Vec::new();
    }
    let mut due: Vec<_> = mvcc.live.iter().map(|live| &live.0).filter(|kv| kv.mod_revision().0 <= newest).collect();
    due.sort_unstable_by_key(|kv| kv.mod_revision());
    due.truncate(most);
    let txn = |key: bytes::Bytes, revision| Txn {
        compare: vec![Compare::unchanged(key.clone(), revision)],
        success: vec![Op::delete(key)],
        failure: vec![],
    };
    due.into_iter().map(|kv| txn(bytes::Bytes::copy_from_slice(kv.key()), kv.mod_revision())).collect()
}

impl Mvcc {
    /// The newest revision that is certainly older than `time_ms`; 0 = none.
    fn newest_before(&self, time_ms: Option<u64>) -> u64 {
        let Some(time_ms) = time_ms else { return 0 };
        // A mark stands for the writes of the second after it.
        let not_older = self.marks.iter().rev().take_while(|mark| mark.time_ms + MARK_EVERY_MS > time_ms).last();
        not_older.map_or(self.revision, |mark| mark.revision - 1)
    }

    /// The revision whose compaction frees at least `bytes`, but none after `allowed`.
    fn newest_to_free(&self, bytes: u64, allowed: u64) -> u64 {
        let mut freed = 0;
        let mut newest = 0;
        for (revision, commit) in (self.first_commit()..=allowed).zip(self.history.iter()) {
            if freed >= bytes {
                break;
            }
            freed += commit.superseded_bytes();
            newest = revision;
        }
        newest
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mvcc::{Command, Compact, Entry, apply};

    #[test]
    fn compaction_lags_by_what_should_have_gone() {
        let mut mvcc = Mvcc::default();
        // A revision every ten seconds: 2 at 0 s, 3 at 10 s, …
        for at in 0..60u64 {
            let txn = Txn { success: vec![Op::put("k", at.to_string())], ..Txn::default() };
            apply(&mut mvcc, &Entry { time_ms: at * 10_000, commands: vec![Command::Txn(txn)] }).unwrap();
        }
        let retention = Retention { keep_ms: 300_000, step: 1, ..Retention::default() };
        assert_eq!(lag(&mvcc, 290_000, &retention), Lag::default());
        let late = lag(&mvcc, 400_000, &retention);
        // What was written before 100 s should be gone: revisions 2 to 11. The oldest of it since 300 s.
        assert_eq!(late, Lag { revisions: 10, ms: 100_000 });
        let compact = Compact { revision: Revision(11), check: None };
        apply(&mut mvcc, &Entry { time_ms: 600_000, commands: vec![Command::Compact(compact)] }).unwrap();
        assert_eq!(lag(&mvcc, 400_000, &retention), Lag::default());
    }
}
