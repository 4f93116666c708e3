//! Seeded chance as a value: the same seed gives the same draws on every machine and in every version. Not for secrets.

/// Both ends belong to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    pub min: u64,
    pub max: u64,
}

impl Span {
    pub const fn exactly(value: u64) -> Self {
        Self { min: value, max: value }
    }
}

/// A stream of draws (splitmix64).
#[derive(Clone, Debug)]
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The draws of one thing alone: they do not depend on what else was drawn, or in which order.
    pub fn of(seed: u64, key: &str) -> Self {
        // FNV-1a, so that keys that differ little begin far apart.
        let hash = key
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
        Self(Self(seed).next() ^ hash)
    }

    #[expect(clippy::should_implement_trait, reason = "dice never run out, so there is no end for an iterator to tell")]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Less than `n`; 0 where `n` is 0.
    pub fn below(&mut self, n: u64) -> u64 {
        let wide = u128::from(self.next()) * u128::from(n);
        u64::try_from(wide >> 64).expect("the upper half of 128 bits has 64")
    }

    pub fn between(&mut self, span: Span) -> u64 {
        let width = span.max.saturating_sub(span.min).saturating_add(1);
        span.min.saturating_add(self.below(width))
    }

    /// True in so many of a hundred draws.
    pub fn percent(&mut self, percent: u32) -> bool {
        self.below(100) < u64::from(percent)
    }

    /// The place of a weight, as often as it is heavy; 0 where all are 0.
    pub fn weighted(&mut self, weights: impl Iterator<Item = u32> + Clone) -> usize {
        let all: u64 = weights.clone().map(u64::from).sum();
        let mut drawn = self.below(all);
        weights
            .map(u64::from)
            .position(|weight| {
                let here = drawn < weight;
                drawn = drawn.saturating_sub(weight);
                here
            })
            .unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_are_the_same_everywhere_and_fair_enough() {
        // Known values of splitmix64 for the seed 0.
        let mut dice = Dice::new(0);
        assert_eq!((dice.next(), dice.next()), (0xe220_a839_7b1d_cdaf, 0x6e78_9e6a_a1b9_65f4));
        assert_ne!(Dice::of(1, "a").next(), Dice::of(1, "b").next());
        assert_ne!(Dice::of(1, "a").next(), Dice::of(2, "a").next());
        let mut counts = [0_u32; 3];
        let mut dice = Dice::new(7);
        for _ in 0..10_000 {
            counts[dice.weighted([1, 0, 3].into_iter())] += 1;
            assert!((5..=9).contains(&dice.between(Span { min: 5, max: 9 })));
        }
        assert!(counts[1] == 0 && counts[0].abs_diff(2_500) < 200, "{counts:?}");
        assert_eq!(dice.between(Span::exactly(4)), 4);
        assert_eq!(dice.weighted([0, 0].into_iter()), 0);
    }
}
