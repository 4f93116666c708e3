//! Says how long to wait before trying again. Never waits itself.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::Duration;

/// Exponential back-off with jitter: the n-th wait lies between half of and the whole of `base * 2^n`, up to `cap`.
#[derive(Clone, Debug)]
pub struct Backoff {
    base: Duration,
    cap: Duration,
    attempt: u32,
}

impl Backoff {
    pub fn new(base: Duration, cap: Duration) -> Self {
        Backoff { base, cap, attempt: 0 }
    }

    /// The next wait; `entropy` chooses where in the jitter's range it lies.
    pub fn next(&mut self, entropy: u64) -> Duration {
        let full = delay(self.base, self.cap, self.attempt);
        self.attempt = self.attempt.saturating_add(1);
        jittered(full / 2, full / 2, entropy)
    }

    /// The next wait starts from the beginning.
    pub fn reset(&mut self) {
        self.attempt = 0;
    }
}

/// `base * 2^attempt`, at most `cap`.
pub fn delay(base: Duration, cap: Duration, attempt: u32) -> Duration {
    base.saturating_mul(1_u32.checked_shl(attempt.min(31)).expect("the shift is below 32")).min(cap)
}

/// `floor` plus a part of `span` chosen by `entropy`.
pub fn jittered(floor: Duration, span: Duration, entropy: u64) -> Duration {
    let micros = u64::try_from(span.as_micros()).unwrap_or(u64::MAX);
    floor + Duration::from_micros(if micros == 0 { 0 } else { entropy % micros })
}

/// Sixty-four bits that differ from call to call: enough to spread retries, not for secrets.
pub fn entropy() -> u64 {
    RandomState::new().build_hasher().finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_up_to_the_cap_and_jitters_down_to_half() {
        let (base, cap) = (Duration::from_millis(100), Duration::from_millis(350));
        let mut backoff = Backoff::new(base, cap);
        let lowest: Vec<u128> = (0..4).map(|_| backoff.next(0).as_millis()).collect();
        assert_eq!(lowest, [50, 100, 175, 175]);
        backoff.reset();
        assert_eq!(backoff.next(49_999), Duration::from_micros(99_999));
        assert_eq!(delay(base, Duration::MAX, 40), base * (1 << 31));
    }
}
