//! Running numbers of a flow schema's requests, and of all requests. Decides nothing.

use super::queues::{Micros, Refusal};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

/// How many values were at most as large as each bound.
#[derive(Debug)]
pub struct Histogram {
    bounds: &'static [u64],
    /// One more than there are bounds.
    counts: Box<[AtomicU64]>,
    sum: AtomicU64,
}

/// Microseconds, at Kubernetes' bounds.
const DURATIONS: &[u64] = &[
    0, 5_000, 20_000, 50_000, 100_000, 200_000, 500_000, 1_000_000, 2_000_000, 5_000_000, 10_000_000, 15_000_000,
    30_000_000,
];
const LENGTHS: &[u64] = &[0, 10, 25, 50, 100, 250, 500, 1_000];
const WIDTHS: &[u64] = &[1, 2, 4, 10];

/// What a histogram has seen: how many at each bound or below, how many in all, and their sum.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    pub at_most: Vec<(u64, u64)>,
    pub count: u64,
    pub sum: u64,
}

impl Histogram {
    fn new(bounds: &'static [u64]) -> Self {
        let counts = (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect();
        Self { bounds, counts, sum: AtomicU64::new(0) }
    }

    pub fn observe(&self, value: u64) {
        let at = self.bounds.iter().position(|bound| value <= *bound).unwrap_or(self.bounds.len());
        self.counts[at].fetch_add(1, Relaxed);
        self.sum.fetch_add(value, Relaxed);
    }

    pub fn seen(&self) -> Seen {
        let mut count = 0;
        let mut below = Vec::with_capacity(self.bounds.len());
        for (at, one) in self.counts.iter().enumerate() {
            count += one.load(Relaxed);
            if let Some(bound) = self.bounds.get(at) {
                below.push((*bound, count));
            }
        }
        Seen { at_most: below, count, sum: self.sum.load(Relaxed) }
    }
}

/// The requests of one schema in one level.
#[derive(Debug)]
pub struct Tally {
    pub executing: AtomicUsize,
    pub executing_seats: AtomicUsize,
    pub waiting: AtomicUsize,
    pub waiting_seats: AtomicUsize,
    pub dispatched: AtomicU64,
    /// By [`Refusal::ALL`].
    pub refused: [AtomicU64; 4],
    /// Until the seats were there.
    pub waited: Histogram,
    /// Until the request gave up.
    pub waited_in_vain: Histogram,
    pub executed: Histogram,
    /// Until a watch had begun.
    pub watches_began: Histogram,
    pub lengths: Histogram,
    pub widths: Histogram,
}

impl Default for Tally {
    fn default() -> Self {
        Self {
            executing: AtomicUsize::new(0),
            executing_seats: AtomicUsize::new(0),
            waiting: AtomicUsize::new(0),
            waiting_seats: AtomicUsize::new(0),
            dispatched: AtomicU64::new(0),
            refused: Default::default(),
            waited: Histogram::new(DURATIONS),
            waited_in_vain: Histogram::new(DURATIONS),
            executed: Histogram::new(DURATIONS),
            watches_began: Histogram::new(DURATIONS),
            lengths: Histogram::new(LENGTHS),
            widths: Histogram::new(WIDTHS),
        }
    }
}

impl Tally {
    /// `beside`: how many wait in its queue, itself among them.
    pub fn waits(&self, seats: usize, beside: usize) {
        self.waiting.fetch_add(1, Relaxed);
        self.waiting_seats.fetch_add(seats, Relaxed);
        self.lengths.observe(beside as u64);
    }

    pub fn waits_no_more(&self, seats: usize) {
        self.waiting.fetch_sub(1, Relaxed);
        self.waiting_seats.fetch_sub(seats, Relaxed);
    }

    pub fn starts(&self, seats: usize, waited_us: Micros) {
        self.dispatched.fetch_add(1, Relaxed);
        self.executing.fetch_add(1, Relaxed);
        self.executing_seats.fetch_add(seats, Relaxed);
        self.waited.observe(waited_us);
        self.widths.observe(seats as u64);
    }

    pub fn ends(&self, seats: usize, took_us: Micros, watch: bool) {
        self.executing.fetch_sub(1, Relaxed);
        self.executing_seats.fetch_sub(seats, Relaxed);
        if watch { &self.watches_began } else { &self.executed }.observe(took_us);
    }

    pub fn refused(&self, why: Refusal, waited_us: Micros) {
        for (at, one) in Refusal::ALL.iter().enumerate() {
            if *one == why {
                self.refused[at].fetch_add(1, Relaxed);
            }
        }
        self.waited_in_vain.observe(waited_us);
    }
}

/// Requests that run now, of those that change something or of those that do not.
#[derive(Clone, Debug, Default)]
pub struct InFlight(Arc<AtomicUsize>);

impl InFlight {
    pub fn enter(&self) {
        self.0.fetch_add(1, Relaxed);
    }

    pub fn leave(&self) {
        self.0.fetch_sub(1, Relaxed);
    }

    pub fn now(&self) -> usize {
        self.0.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_counts_at_its_bound_and_above() {
        let widths = Histogram::new(WIDTHS);
        for value in [1, 2, 3, 11] {
            widths.observe(value);
        }
        assert_eq!(widths.seen(), Seen { at_most: vec![(1, 1), (2, 2), (4, 3), (10, 3)], count: 4, sum: 17 });
    }
}
