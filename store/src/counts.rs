//! What a member counts while it works, for its metrics: plain numbers that anybody may read at any time.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Upper bounds in microseconds; the last bucket has none.
const BOUNDS_US: [u64; 15] = [
    100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000, 2_500_000,
    10_000_000,
];

/// How long something took, how often.
#[derive(Debug, Default)]
pub struct Durations {
    buckets: [AtomicU64; BOUNDS_US.len() + 1],
    sum_us: AtomicU64,
}

impl Durations {
    pub fn note(&self, took: Duration) {
        let us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let at = BOUNDS_US.partition_point(|bound| *bound < us);
        self.buckets[at].fetch_add(1, Ordering::Relaxed);
        self.sum_us.fetch_add(us, Ordering::Relaxed);
    }

    pub fn read(&self) -> Histogram {
        let mut count = 0;
        let mut up_to = |(bucket, bound): (&AtomicU64, f64)| {
            count += bucket.load(Ordering::Relaxed);
            (bound, count)
        };
        let bounds = BOUNDS_US.iter().map(|us| *us as f64 / 1e6).chain([f64::INFINITY]);
        let buckets: Vec<_> = self.buckets.iter().zip(bounds).map(&mut up_to).collect();
        Histogram { buckets, sum_s: self.sum_us.load(Ordering::Relaxed) as f64 / 1e6 }
    }
}

/// A reading of durations: how many took at most so many seconds, for each bound; the last bound is infinite.
#[derive(Clone, Debug, PartialEq)]
pub struct Histogram {
    pub buckets: Vec<(f64, u64)>,
    pub sum_s: f64,
}

#[derive(Debug, Default)]
pub struct Counts {
    /// Entries that were handed to Raft here, those of them that wait, and those whose writers were told of a failure.
    pub proposed: AtomicU64,
    pub pending: AtomicU64,
    pub failed: AtomicU64,
    /// Entries applied here.
    pub applied: AtomicU64,
    pub leader_changes: AtomicU64,
    pub snapshots: AtomicU64,
    /// Keys deleted because there were too many.
    pub dropped: AtomicU64,
    /// Superseded values that went from memory to the log.
    pub put_away: AtomicU64,
    /// One fdatasync of the log.
    pub fsync: Durations,
    /// One batch of entries, from the first to its publication.
    pub apply: Durations,
}

impl Counts {
    pub fn one_more(counter: &AtomicU64) {
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_in_every_bucket_from_its_own_on() {
        let durations = Durations::default();
        for us in [1, 100, 101, 9_999_999, 60_000_000] {
            durations.note(Duration::from_micros(us));
        }
        let Histogram { buckets, sum_s } = durations.read();
        assert_eq!(buckets[0], (0.000_1, 2));
        assert_eq!(buckets[1], (0.000_25, 3));
        assert_eq!((buckets[13].1, buckets[14], buckets[15]), (3, (10.0, 4), (f64::INFINITY, 5)));
        assert!((sum_s - 70.000_201).abs() < 1e-6, "{sum_s}");
    }
}
