//! Latencies and their percentiles. Pure: it knows no clock.

use std::time::Duration;

/// Every latency that was seen, in microseconds.
#[derive(Clone, Debug, Default)]
pub struct Latencies {
    micros: Vec<u32>,
    sorted: bool,
}

/// The shares at which a curve is drawn.
pub const CURVE: [f64; 8] = [0.5, 0.75, 0.9, 0.95, 0.98, 0.99, 0.999, 1.0];

impl Latencies {
    pub fn add(&mut self, latency: Duration) {
        self.micros.push(u32::try_from(latency.as_micros()).unwrap_or(u32::MAX));
        self.sorted = false;
    }

    pub fn extend(&mut self, other: Self) {
        self.micros.extend(other.micros);
        self.sorted = false;
    }

    /// Leaves the other one empty, with its room.
    pub fn append(&mut self, other: &mut Self) {
        self.micros.append(&mut other.micros);
        self.sorted = false;
    }

    pub fn len(&self) -> usize {
        self.micros.len()
    }

    pub fn is_empty(&self) -> bool {
        self.micros.is_empty()
    }

    /// The least latency that at least this share of all does not exceed, in milliseconds (the nearest rank). Nothing was
    /// seen: none.
    pub fn percentile_ms(&mut self, share: f64) -> Option<f64> {
        if !self.sorted {
            self.micros.sort_unstable();
            self.sorted = true;
        }
        let rank = (share * self.micros.len() as f64).ceil() as usize;
        let micros = self.micros.get(rank.max(1) - 1).or(self.micros.last())?;
        Some(f64::from(*micros) / 1_000.0)
    }

    /// The percentiles of [`CURVE`].
    pub fn curve_ms(&mut self) -> Vec<f64> {
        CURVE.iter().filter_map(|share| self.percentile_ms(*share)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(millis: impl IntoIterator<Item = u64>) -> Latencies {
        let mut latencies = Latencies::default();
        millis.into_iter().for_each(|ms| latencies.add(Duration::from_millis(ms)));
        latencies
    }

    #[test]
    fn percentiles_are_nearest_ranks() {
        let mut all = of((1..=100).rev());
        assert_eq!(all.percentile_ms(0.5), Some(50.0));
        assert_eq!(all.percentile_ms(0.99), Some(99.0));
        assert_eq!(all.percentile_ms(0.991), Some(100.0));
        assert_eq!(all.percentile_ms(0.0), Some(1.0));
        assert_eq!(all.percentile_ms(1.0), Some(100.0));
        assert_eq!(of([]).percentile_ms(0.99), None);
    }

    #[test]
    fn what_comes_later_counts() {
        let mut all = of([5]);
        assert_eq!(all.percentile_ms(1.0), Some(5.0));
        all.extend(of([1, 9]));
        assert_eq!(all.percentile_ms(1.0), Some(9.0));
        assert_eq!(all.percentile_ms(0.5), Some(5.0));
        assert_eq!(all.len(), 3);
    }

    #[test]
    fn a_latency_that_does_not_fit_is_not_wrapped() {
        let mut all = of([10_000_000]);
        assert_eq!(all.percentile_ms(1.0), Some(f64::from(u32::MAX) / 1_000.0));
    }
}
