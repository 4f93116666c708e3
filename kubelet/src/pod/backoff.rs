//! How long to wait before trying again: doubling from a first delay to a cap, forgotten after ten quiet minutes.
//! Decides only times; never what is tried.

const RESET_MS: u64 = 600_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    first_ms: u64,
    cap_ms: u64,
    delay_ms: u64,
    bumped_ms: u64,
}

impl Backoff {
    const fn new(first_ms: u64, cap_ms: u64) -> Self {
        Self { first_ms, cap_ms, delay_ms: 0, bumped_ms: 0 }
    }
    /// For crashes and image pulls: 10 s doubling to 5 min.
    pub const fn slow() -> Self {
        Self::new(10_000, 300_000)
    }
    /// For steps on this machine that usually work the next time: 0.5 s doubling to 30 s.
    pub const fn quick() -> Self {
        Self::new(500, 30_000)
    }
    /// When the next try may begin, for something that ended at `ended_ms`. The first try never waits.
    pub fn ready_at(&self, ended_ms: u64) -> u64 {
        if self.expired(ended_ms) { ended_ms } else { ended_ms.saturating_add(self.delay_ms) }
    }
    /// Counts a try that begins now, for something that ended at `ended_ms`.
    pub fn bump(&mut self, now_ms: u64, ended_ms: u64) {
        self.delay_ms = if self.delay_ms == 0 || self.expired(ended_ms) {
            self.first_ms
        } else {
            (self.delay_ms * 2).min(self.cap_ms)
        };
        self.bumped_ms = now_ms;
    }
    pub fn delay_ms(&self) -> u64 {
        self.delay_ms
    }
    pub fn reset(&mut self) {
        self.delay_ms = 0;
    }
    fn expired(&self, ended_ms: u64) -> bool {
        ended_ms.saturating_sub(self.bumped_ms) > RESET_MS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crashes_wait_nothing_then_10_20_40_up_to_300_seconds() {
        let (mut b, mut now, mut waits) = (Backoff::slow(), 1_000_000, vec![]);
        for _ in 0..8 {
            let at = b.ready_at(now);
            waits.push((at - now) / 1000);
            b.bump(at, now);
            now = at + 50;
        }
        assert_eq!(waits, [0, 10, 20, 40, 80, 160, 300, 300]);
    }

    #[test]
    fn ten_quiet_minutes_forget_the_past() {
        let mut b = Backoff::slow();
        b.bump(1_000, 1_000);
        b.bump(1_000, 1_000);
        assert_eq!(b.ready_at(601_000), 621_000);
        assert_eq!(b.ready_at(601_001), 601_001);
        b.bump(700_000, 700_000);
        assert_eq!(b.delay_ms(), 10_000);
    }
}
