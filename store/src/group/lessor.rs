//! When leases run out: the leader's knowledge, kept in memory. A member that begins to lead takes every lease for just
//! renewed (etcd's rule), because it cannot know when the leader before it heard last. Time is an argument.

use crate::api::LeaseId;
use crate::mvcc::Mvcc;
use parking_lot::Mutex;
use std::collections::BTreeMap;

#[derive(Default)]
pub struct Lessor {
    deadlines: Mutex<Deadlines>,
}

#[derive(Default)]
struct Deadlines {
    term: u64,
    /// Milliseconds since boot.
    of: BTreeMap<LeaseId, u64>,
}

/// How a lease stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    pub ttl_s: i64,
    /// Whole seconds until it runs out.
    pub left_s: i64,
}

/// Where `term`'s leader stands at `now_ms`.
#[derive(Clone, Copy)]
pub struct Moment {
    pub term: u64,
    pub now_ms: u64,
}

impl Lessor {
    /// Whether it exists, and how long it has, renewed first if so asked.
    pub fn look(&self, at: Moment, view: &Mvcc, id: LeaseId, renew: bool) -> Option<Standing> {
        let ttl_s = view.lease(id)?.ttl_s;
        let full = at.now_ms.saturating_add(milliseconds(ttl_s));
        let mut deadlines = self.deadlines.lock();
        deadlines.enter(at.term);
        let deadline = deadlines.of.entry(id).or_insert(full);
        if renew {
            *deadline = full;
        }
        let left_s = i64::try_from(deadline.saturating_sub(at.now_ms) / 1_000).unwrap_or(i64::MAX);
        Some(Standing { ttl_s, left_s })
    }

    /// The leases that have run out. Begins to count for those it hears of for the first time.
    pub fn expired(&self, at: Moment, view: &Mvcc) -> Vec<LeaseId> {
        let mut deadlines = self.deadlines.lock();
        deadlines.enter(at.term);
        deadlines.of.retain(|id, _| view.lease(*id).is_some());
        let mut expired = Vec::new();
        for (id, lease) in view.leases() {
            let full = at.now_ms.saturating_add(milliseconds(lease.ttl_s));
            if *deadlines.of.entry(*id).or_insert(full) <= at.now_ms {
                expired.push(*id);
            }
        }
        expired
    }
}

impl Deadlines {
    fn enter(&mut self, term: u64) {
        if self.term != term {
            self.of.clear();
            self.term = term;
        }
    }
}

fn milliseconds(ttl_s: i64) -> u64 {
    u64::try_from(ttl_s).unwrap_or(0).saturating_mul(1_000)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mvcc::{Command, Entry, apply};

    fn view() -> Mvcc {
        let mut mvcc = Mvcc::default();
        let commands = vec![Command::Grant { id: LeaseId(1), ttl_s: 10 }, Command::Grant { id: LeaseId(2), ttl_s: 20 }];
        apply(&mut mvcc, &Entry { time_ms: 0, commands }).unwrap();
        mvcc
    }

    #[test]
    fn a_lease_runs_out_after_its_time_unless_renewed_and_a_new_leader_begins_anew() {
        let (lessor, view) = (Lessor::default(), view());
        let at = |term, seconds: u64| Moment { term, now_ms: seconds * 1_000 };
        assert_eq!(lessor.expired(at(1, 100), &view), []);
        assert_eq!(lessor.look(at(1, 104), &view, LeaseId(1), false), Some(Standing { ttl_s: 10, left_s: 6 }));
        assert_eq!(lessor.look(at(1, 105), &view, LeaseId(1), true), Some(Standing { ttl_s: 10, left_s: 10 }));
        assert_eq!(lessor.expired(at(1, 114), &view), []);
        assert_eq!(lessor.expired(at(1, 115), &view), [LeaseId(1)]);
        assert_eq!(lessor.expired(at(1, 120), &view), [LeaseId(1), LeaseId(2)]);
        assert_eq!(lessor.expired(at(2, 120), &view), []);
        assert_eq!(lessor.look(at(2, 121), &view, LeaseId(2), false).map(|lease| lease.left_s), Some(19));
        assert_eq!(lessor.look(at(2, 121), &view, LeaseId(3), true), None);
    }
}
