//! Where time comes from: the wall clock for what people read, CLOCK_BOOTTIME for every lease and fence.
//!
//! It decides which kernel clocks are read; it never waits.

use crate::time::Timestamp;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

/// The only way to learn the time. Passed to the edges; pure code takes the values.
pub trait Clock: Send + Sync {
    /// Wall-clock time. It may jump, in both directions.
    fn now(&self) -> Timestamp;
    /// Milliseconds since boot, suspend included (CLOCK_BOOTTIME). It never goes back.
    fn boottime_ms(&self) -> u64;
}

/// The kernel's clocks.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let t = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
        Timestamp::from_micros(t.tv_sec.saturating_mul(1_000_000).saturating_add(t.tv_nsec / 1_000))
    }
    fn boottime_ms(&self) -> u64 {
        let t = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        u64::try_from(t.tv_sec.saturating_mul(1_000).saturating_add(t.tv_nsec / 1_000_000)).unwrap_or(0)
    }
}

/// A clock that moves only when told to. Clones share their time.
#[derive(Clone, Debug, Default)]
pub struct FakeClock {
    wall_micros: Arc<AtomicI64>,
    boot_ms: Arc<AtomicU64>,
}

impl FakeClock {
    pub fn new(now: Timestamp) -> Self {
        let clock = Self::default();
        clock.set_wall(now);
        clock
    }
    /// Both clocks move on by this much.
    pub fn advance_ms(&self, ms: u64) {
        self.wall_micros.fetch_add(i64::try_from(ms).unwrap_or(i64::MAX).saturating_mul(1_000), Ordering::SeqCst);
        self.boot_ms.fetch_add(ms, Ordering::SeqCst);
    }
    /// The wall clock alone jumps.
    pub fn set_wall(&self, now: Timestamp) {
        self.wall_micros.store(now.micros(), Ordering::SeqCst);
    }
}

impl Clock for FakeClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.wall_micros.load(Ordering::SeqCst))
    }
    fn boottime_ms(&self) -> u64 {
        self.boot_ms.load(Ordering::SeqCst)
    }
}

impl<C: Clock + ?Sized> Clock for Arc<C> {
    fn now(&self) -> Timestamp {
        (**self).now()
    }
    fn boottime_ms(&self) -> u64 {
        (**self).boottime_ms()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wall_jump_leaves_boottime_alone() {
        let clock = FakeClock::new(Timestamp::from_secs(100));
        let same = clock.clone();
        clock.advance_ms(1_500);
        same.set_wall(Timestamp::from_secs(5));
        assert_eq!((clock.now(), clock.boottime_ms()), (Timestamp::from_secs(5), 1_500));
    }

    #[test]
    fn the_system_clock_is_in_this_century() {
        assert!(SystemClock.now() > Timestamp::parse("2020-01-01T00:00:00Z").unwrap());
        assert!(SystemClock.boottime_ms() > 0);
    }
}
