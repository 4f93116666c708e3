//! What a member does while its disk is full: it takes no writes, and as a leader hands the lead to one that has room, if
//! the others can go on without it.
//! What is in the log already waits for space (`wal::reserve`).

use super::Handle;
use crate::api::StoreError;
use crate::plant::{Plant, planted};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

const EVERY: Duration = Duration::from_millis(500);
/// After handing the lead on: if the others are full, too, it shall not go round.
const REST: Duration = Duration::from_secs(30);
/// After nobody took it.
const RETRY: Duration = Duration::from_secs(2);

/// The voter to lead instead of `member`: one that has the whole log, so its disk takes what it is sent. Nobody, if those
/// that have it cannot agree on anything without `member`, which takes nothing: a new leader could not even answer reads,
/// and this one can.
fn successor(member: u64, configurations: &[BTreeSet<u64>], last: u64, has: &BTreeMap<u64, u64>) -> Option<u64> {
    let takes = |id: &u64| *id != member && has.get(id).is_some_and(|index| *index >= last);
    let agree = |voters: &BTreeSet<u64>| voters.iter().filter(|id| takes(id)).count() * 2 > voters.len();
    // While a change of members is half done, both halves decide.
    let everywhere = |id: &u64| configurations.iter().all(|voters| voters.contains(id));
    let (first, _) = configurations.split_first()?;
    configurations.iter().all(agree).then(|| first.iter().copied().find(|id| takes(id) && everywhere(id)))?
}

impl Handle {
    /// Whether this member takes writes. One that does not lead would pass them on, but not hear what became of them.
    pub fn check_disk(&self) -> Result<(), StoreError> {
        if self.wal.is_full() && !planted(Plant::FullDiskIgnored) {
            Err(StoreError::DiskFull { member: self.member })
        } else {
            Ok(())
        }
    }

    fn successor(&self) -> Option<u64> {
        let metrics = self.metrics();
        let replication = metrics.replication.as_ref()?;
        let has = replication.iter().filter_map(|(id, has)| Some((*id, has.as_ref()?.index))).collect();
        // What waits for this member's own disk may be more than the others were sent.
        let last = metrics.last_applied.map_or(0, |id| id.index);
        successor(self.member, &self.configurations(), last, &has)
    }
}

pub async fn run(handle: Handle, cancel: CancellationToken) {
    let mut timer = tokio::time::interval(EVERY);
    timer.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = cancel.cancelled() => return,
            _ = timer.tick() => {}
        }
        if handle.check_disk().is_ok() || !handle.is_leader() || planted(Plant::FullDiskLeads) {
            continue;
        }
        let Some(to) = handle.successor() else { continue };
        let pause = match handle.move_leader(to).await {
            Ok(()) => {
                tracing::warn!(to, "the disk is full: another member leads now");
                REST
            }
            Err(error) => {
                tracing::warn!(to, ?error, "the disk is full, but the lead was not taken");
                RETRY
            }
        };
        tokio::select! {
            () = cancel.cancelled() => return,
            () = tokio::time::sleep(pause) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_successor_has_the_whole_log() {
        let has = BTreeMap::from([(1, 9), (2, 8), (3, 9), (4, 9), (5, 9)]);
        let voters = |ids: &[u64]| ids.iter().copied().collect::<BTreeSet<_>>();
        let successor = |configurations: &[BTreeSet<u64>], last| successor(1, configurations, last, &has);
        assert_eq!(successor(&[voters(&[1, 3, 4])], 9), Some(3));
        assert_eq!(successor(&[voters(&[1, 2, 3])], 8), Some(2));
        assert_eq!(successor(&[voters(&[1, 2, 3, 4, 5])], 9), Some(3));
        assert_eq!(successor(&[voters(&[1])], 0), None);
        assert_eq!(successor(&[voters(&[1, 6, 7])], 0), None, "nobody knows what they have");
        assert_eq!(successor(&[], 0), None);
        // One that is behind is full, too, or gone.
        assert_eq!(successor(&[voters(&[1, 2, 3])], 9), None, "3 cannot go on alone");
        assert_eq!(successor(&[voters(&[1, 3])], 9), None, "two that decide are both needed");
        assert_eq!(successor(&[voters(&[1, 3, 4]), voters(&[1, 3])], 9), None);
        assert_eq!(successor(&[voters(&[1, 2, 3]), voters(&[1, 3, 4])], 9), None);
        assert_eq!(successor(&[voters(&[1, 3, 4]), voters(&[1, 4, 5])], 9), Some(4), "3 is about to go");
    }
}
