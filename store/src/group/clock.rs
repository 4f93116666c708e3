//! The edge to time: store time, which only passes while a leader leads, so no wall clock can make it jump.

use parking_lot::Mutex;
use rustix::time::{ClockId, clock_gettime};

/// Milliseconds since boot, suspended time included.
pub fn boottime_ms() -> u64 {
    #[cfg(test)]
    if let Some(simulated) = crate::sim::now_ms() {
        return simulated;
    }
    let now = clock_gettime(ClockId::Boottime);
    u64::try_from(now.tv_sec).unwrap_or(0) * 1_000 + u64::try_from(now.tv_nsec).unwrap_or(0) / 1_000_000
}

/// One leader's store time. It starts where the log's ended.
#[derive(Default)]
pub struct StoreClock {
    /// The term it was started for, the boot time then, and the store time then.
    started: Mutex<Option<(u64, u64, u64)>>,
}

impl StoreClock {
    /// Store time in `term`, whose leader this member is; `applied` is the store time of the newest entry.
    pub fn now_ms(&self, term: u64, applied: impl FnOnce() -> u64) -> u64 {
        let boot_ms = boottime_ms();
        let mut started = self.started.lock();
        let (_, since, base) = match *started {
            Some(start) if start.0 == term => start,
            _ => *started.insert((term, boot_ms, applied())),
        };
        base + boot_ms.saturating_sub(since)
    }
}
