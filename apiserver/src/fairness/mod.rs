//! Priority and fairness: which requests run now, which wait, which are turned away. Never looks at a request's body.
//!
//! Each priority level owns a number of seats. A request that finds no free seat waits in one of the level's queues, chosen by
//! shuffle sharding from its flow, so that one noisy flow fills its own few queues and not everybody's. A freed seat goes to the
//! queue that has had the least service. Names and numbers follow Kubernetes' suggested configuration.

mod classify;
mod queue;

pub use classify::{LevelName, Request, classify};
pub use queue::{Rejected, Seat};

use queue::Level;
use std::sync::Arc;
use std::time::Duration;

/// One priority level's shape.
#[derive(Clone, Copy, Debug)]
pub struct LevelConfig {
    pub name: LevelName,
    pub seats: usize,
    /// 0 queues: a request that finds no seat is turned away at once.
    pub queues: usize,
    pub queue_length: usize,
    /// How many queues a flow may use.
    pub hand: usize,
}

/// A request that has found no seat by then is turned away: its client asks again.
const PATIENCE: Duration = Duration::from_secs(15);
/// Seats of all levels together (Kubernetes: 400 reading + 200 writing).
const TOTAL_SEATS: usize = 600;

const fn level(name: LevelName, shares: usize, queues: usize, hand: usize) -> LevelConfig {
    LevelConfig { name, seats: (TOTAL_SEATS * shares).div_ceil(245), queues, queue_length: 50, hand }
}

/// Shares, queues and hands as Kubernetes suggests; they add up to 245 shares.
pub const LEVELS: [LevelConfig; 7] = [
    level(LevelName::System, 30, 64, 6),
    level(LevelName::NodeHigh, 40, 64, 6),
    level(LevelName::LeaderElection, 10, 16, 4),
    level(LevelName::WorkloadHigh, 40, 128, 6),
    level(LevelName::WorkloadLow, 100, 128, 6),
    level(LevelName::GlobalDefault, 20, 128, 6),
    level(LevelName::CatchAll, 5, 0, 0),
];

pub struct Fairness {
    levels: Vec<(LevelName, Arc<Level>)>,
}

impl Default for Fairness {
    fn default() -> Self {
        Self::new(&LEVELS)
    }
}

impl Fairness {
    pub fn new(levels: &[LevelConfig]) -> Self {
        Self { levels: levels.iter().map(|config| (config.name, Arc::new(Level::new(*config)))).collect() }
    }

    /// Waits for a seat. `None` is an exempt request, which needs none.
    pub async fn enter(&self, request: &Request<'_>) -> Result<Option<Seat>, Rejected> {
        let (name, flow) = classify(request);
        match self.levels.iter().find(|(level, _)| *level == name) {
            Some((_, level)) => {
                let entered = tokio::time::timeout(PATIENCE, level.enter(flow)).await;
                entered.unwrap_or(Err(Rejected { retry_after_s: 1 })).map(Some)
            }
            None => Ok(None),
        }
    }

    /// `(level, executing, waiting)` for the metrics.
    pub fn load(&self) -> Vec<(LevelName, usize, usize)> {
        self.levels.iter().map(|(name, level)| (*name, level.executing(), level.waiting())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::UserInfo;

    #[tokio::test(start_paused = true)]
    async fn nobody_waits_for_ever() {
        let one = LevelConfig { name: LevelName::GlobalDefault, seats: 1, queues: 1, queue_length: 5, hand: 1 };
        let fairness = Fairness::new(&[one]);
        let user = UserInfo::new("jane", &[]);
        let request = Request { user: &user, group: "", resource: "pods", namespace: "", path: None };
        let seat = fairness.enter(&request).await.unwrap();
        assert_eq!(fairness.enter(&request).await.err(), Some(Rejected { retry_after_s: 1 }));
        assert_eq!(fairness.load(), [(LevelName::GlobalDefault, 1, 0)], "who gave up waits no more");
        drop(seat);
        assert!(fairness.enter(&request).await.is_ok());
    }
}
