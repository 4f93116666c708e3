//! Who leads, as far as this member hears. A leader that fell silent is soon none, and whoever waits for one that is
//! deposed is told. It elects nobody.

use super::Handle;
use openraft::Instant as _;
#[cfg_attr(test, allow(unused_imports, reason = "the channel of tests has the method itself"))]
use openraft::async_runtime::watch::WatchReceiver;
use parking_lot::Mutex;
use std::time::Duration;
use tokio::time::Instant;

/// A leader that was not heard for as long leads no more: longer than an election takes.
const SILENCE: Duration = Duration::from_secs(2);
/// How often those look who wait for the group to be without a leader, and how often in a row nobody leads then.
const LOOK_EVERY: Duration = Duration::from_millis(400);
const LOOKS: u32 = 3;

/// How long a member that is about to stop lets another take the lead, for each that it tries, and how many those are.
const HANDED_OVER: Duration = Duration::from_secs(1);
const HEIRS: usize = 2;

/// Which leader this member heard last, and when.
#[derive(Default)]
pub struct Heard(Mutex<Option<(u64, Instant)>>);

impl Heard {
    pub fn note(&self, leader: u64) {
        *self.0.lock() = Some((leader, Instant::now()));
    }

    fn lately(&self, leader: u64) -> bool {
        self.0.lock().is_some_and(|(heard, at)| heard == leader && at.elapsed() < SILENCE)
    }
}

impl Handle {
    /// Whether this member leads; one that has stopped does not.
    pub fn is_leader(&self) -> bool {
        self.raft.is_leader() && !self.ending.has_come()
    }

    /// Who leads: this member, if a majority follows it, or one that it hears.
    pub fn leader(&self) -> Option<u64> {
        let metrics = self.raft.metrics();
        let metrics = metrics.borrow_watched();
        let leader = metrics.current_leader?;
        let leads = if leader == self.member {
            let alone = || metrics.membership_config.membership().voter_ids().eq([leader]);
            let followed = || metrics.last_quorum_acked.is_some_and(|acked| acked.elapsed() < SILENCE);
            metrics.state.is_leader() && (alone() || followed())
        } else {
            self.heard.lately(leader)
        };
        (leads && !self.ending.has_come()).then_some(leader)
    }

    /// Hands the lead to another, if this member leads and another decides: whoever stops in an orderly way leaves nobody without
    /// a leader. Those that have most of the log come first.
    pub async fn hand_over(&self) {
        if !self.is_leader() {
            return;
        }
        let (voters, has) = (self.voters(), self.metrics().replication.unwrap_or_default());
        let heirs = has.into_iter().filter(|(id, _)| *id != self.member && voters.contains(id));
        let mut heirs: Vec<_> = heirs.map(|(id, matched)| (matched.map_or(0, |matched| matched.index), id)).collect();
        heirs.sort_unstable_by_key(|heir| std::cmp::Reverse(*heir));
        for (_, heir) in heirs.into_iter().take(HEIRS) {
            match tokio::time::timeout(HANDED_OVER, self.move_leader(heir)).await {
                Ok(Ok(())) => return tracing::info!(group = &*self.group, leader = heir, "handed the lead on"),
                Ok(Err(error)) => tracing::warn!(heir, ?error, "the lead was not taken"),
                Err(_) => tracing::warn!(heir, "the lead was not taken in time"),
            }
        }
    }

    /// Returns once `leader` does not lead any more, or in another term, as far as this member knows.
    pub async fn deposed(&self, leader: u64) {
        let mut raft = self.raft.server_metrics();
        let now = || {
            let metrics = self.raft.server_metrics();
            let metrics = metrics.borrow_watched();
            (metrics.current_leader, metrics.vote.leader_id.term)
        };
        let (leads, term) = now();
        if leads != Some(leader) {
            return;
        }
        while raft.changed().await.is_ok() {
            if now() != (Some(leader), term) {
                return;
            }
        }
    }

    /// Returns once nobody has led for longer than an election takes.
    pub async fn leaderless(&self) {
        let mut looks = 0;
        while looks < LOOKS {
            tokio::time::sleep(LOOK_EVERY).await;
            looks = if self.leader().is_some() { 0 } else { looks + 1 };
        }
    }
}
