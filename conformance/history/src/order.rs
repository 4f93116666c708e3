//! Real time: what had been seen, by anybody, when something was sent.

use crate::record::{History, Outcome};

/// Every proof that a revision existed at some time.
pub struct Order {
    /// Times with the newest revision seen until then; both grow.
    seen: Vec<(u64, u64)>,
    /// Revisions, falling, with the earliest time at which it or a later one was seen.
    first: Vec<(u64, u64)>,
}

impl Order {
    pub fn new(history: &History) -> Self {
        let mut proofs = Vec::new();
        for operation in &history.operations {
            if let Outcome::Done { revision, .. } = operation.outcome {
                proofs.push((operation.ended, revision));
            }
        }
        let batches = history.watches.iter().flat_map(|watch| &watch.sessions).flat_map(|session| &session.batches);
        proofs.extend(batches.map(|batch| (batch.received, batch.revision)));
        proofs.sort_unstable();
        let mut newest = 0;
        let grow = |&(time, revision): &(u64, u64)| {
            newest = revision.max(newest);
            (time, newest)
        };
        let seen = proofs.iter().map(grow).collect();
        proofs.sort_unstable_by_key(|(_, revision)| std::cmp::Reverse(*revision));
        let mut earliest = u64::MAX;
        let shrink = |&(time, revision): &(u64, u64)| {
            earliest = time.min(earliest);
            (revision, earliest)
        };
        let first = proofs.iter().map(shrink).collect();
        Self { seen, first }
    }

    /// The newest revision that was seen before `time`.
    pub fn seen_before(&self, time: u64) -> u64 {
        let n = self.seen.partition_point(|(at, _)| *at < time);
        n.checked_sub(1).map_or(0, |last| self.seen[last].1)
    }

    /// When `revision` or a later one was first seen.
    pub fn first_seen(&self, revision: u64) -> u64 {
        let n = self.first.partition_point(|(at, _)| *at >= revision);
        n.checked_sub(1).map_or(u64::MAX, |last| self.first[last].1)
    }

    /// The newest revision that anybody saw.
    pub fn newest(&self) -> u64 {
        self.first.first().map_or(1, |(revision, _)| *revision)
    }
}
