//! How large and how long everything is: as the goals say, or small enough for a quick look.

use std::time::Duration;

#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    /// Before each measurement.
    pub warm: Duration,
    pub measure: Duration,
    /// Keys of 256 B for the memory row.
    pub small_keys: u64,
    /// Keys of 4 KiB for the memory row.
    pub large_keys: u64,
    /// Keys of 4 KiB before the restart: with their own bytes about 1.5 GB.
    pub restart_keys: u64,
    pub watched_keys: u64,
    pub watches_per_key: u64,
    pub leases: u64,
    /// Of the leader, in each round.
    pub kills: usize,
    pub five_members: Duration,
}

impl Sizes {
    pub const FULL: Self = Self {
        warm: Duration::from_secs(1),
        measure: Duration::from_secs(5),
        small_keys: 1_000_000,
        large_keys: 300_000,
        restart_keys: 365_000,
        watched_keys: 1_000,
        watches_per_key: 100,
        leases: 10_000,
        kills: 4,
        five_members: Duration::from_secs(300),
    };

    pub const QUICK: Self = Self {
        warm: Duration::from_millis(300),
        measure: Duration::from_secs(1),
        small_keys: 20_000,
        large_keys: 3_000,
        restart_keys: 4_000,
        watched_keys: 100,
        watches_per_key: 10,
        leases: 1_000,
        kills: 1,
        five_members: Duration::from_secs(3),
    };
}
