//! When leases run out: the leader's knowledge, kept in memory. A member that begins to lead takes every lease for just
//! renewed (etcd's rule), because it cannot know when the leader before it heard last; and as renewed a little later than
//! now, because the leader before it may still answer. Time is an argument.

use crate::api::LeaseId;
use crate::mvcc::{Lease, Mvcc};
use crate::plant::{Plant, planted};
use parking_lot::Mutex;
use std::collections::BTreeMap;

/// How long a leader answers for leases after a majority was last heard to follow it. A new leader, which the same majority
/// elects later than that, gives every lease this much more.
pub const LEADS_FOR_MS: u64 = 800;

#[derive(Default)]
pub struct Lessor {
    deadlines: Mutex<Deadlines>,
}

#[derive(Default)]
struct Deadlines {
    term: u64,
    of: BTreeMap<LeaseId, Deadline>,
}

struct Deadline {
    /// See [`Lease::grant`].
    grant: u64,
    /// Milliseconds since boot.
    at_ms: u64,
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
    /// Whether it exists, and how long it has, renewed first if so asked. One that has run out is not renewed: it is being
    /// revoked.
    pub fn look(&self, at: Moment, view: &Mvcc, id: LeaseId, renew: bool) -> Option<Standing> {
        let lease = view.lease(id)?;
        let ttl_s = lease.ttl_s;
        let full = at.now_ms.saturating_add(milliseconds(ttl_s));
        let mut deadlines = self.deadlines.lock();
        deadlines.enter(at.term);
        let deadline = deadlines.of(id, lease, at.now_ms);
        if renew && (*deadline > at.now_ms || planted(Plant::LateRenewal)) {
            *deadline = (*deadline).max(full);
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
        if planted(Plant::EternalLease) {
            return expired;
        }
        for (id, lease) in view.leases() {
            if *deadlines.of(*id, lease, at.now_ms) <= at.now_ms {
                expired.push(*id);
            }
        }
        expired
    }
}

impl Deadlines {
    fn enter(&mut self, term: u64) {
        if self.term != term {
            if !planted(Plant::OldDeadlines) {
                self.of.clear();
            }
            self.term = term;
        }
    }

    /// When a lease runs out: for one that is new, also under an old number, a little later than its time from now on.
    fn of(&mut self, id: LeaseId, lease: &Lease, now_ms: u64) -> &mut u64 {
        let at_ms = now_ms.saturating_add(milliseconds(lease.ttl_s)).saturating_add(LEADS_FOR_MS);
        let deadline = self.of.entry(id).or_insert(Deadline { grant: lease.grant, at_ms });
        if deadline.grant < lease.grant && !planted(Plant::KeptDeadline) {
            *deadline = Deadline { grant: lease.grant, at_ms };
        }
        &mut deadline.at_ms
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
    fn a_number_that_is_granted_again_has_the_time_of_its_new_lease() {
        let (lessor, mut view) = (Lessor::default(), view());
        let at = |seconds: u64| Moment { term: 1, now_ms: seconds * 1_000 };
        let left = |view: &Mvcc, seconds, id| lessor.look(at(seconds), view, LeaseId(id), false).map(|it| it.left_s);
        assert_eq!(left(&view, 100, 1), Some(10));
        assert_eq!(left(&view, 100, 2), Some(20));
        let old = view.clone();
        for (id, ttl_s) in [(1, 1_000), (2, 5)] {
            let id = LeaseId(id);
            let commands = vec![Command::Revoke { id }, Command::Grant { id, ttl_s }];
            apply(&mut view, &Entry { time_ms: 0, commands }).unwrap();
        }
        assert_eq!((left(&view, 108, 1), left(&view, 108, 2)), (Some(1_000), Some(5)));
        // One that still looks at the state before takes nothing from the new lease.
        assert_eq!(lessor.look(at(109), &old, LeaseId(1), true), Some(Standing { ttl_s: 10, left_s: 999 }));
        assert_eq!(lessor.expired(at(112), &view), []);
        assert_eq!(lessor.expired(at(114), &view), [LeaseId(2)]);
        // One that ran out is another lease when it is granted again.
        let commands = vec![Command::Revoke { id: LeaseId(2) }, Command::Grant { id: LeaseId(2), ttl_s: 7 }];
        apply(&mut view, &Entry { time_ms: 0, commands }).unwrap();
        assert_eq!(lessor.expired(at(115), &view), []);
        assert_eq!(left(&view, 115, 2), Some(7));
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
        // What has run out is not renewed: whoever asks must not be told that it goes on.
        assert_eq!(lessor.look(at(1, 116), &view, LeaseId(1), true), Some(Standing { ttl_s: 10, left_s: 0 }));
        // The first leader counts from when it first heard of them, and a little more.
        assert_eq!(lessor.expired(at(1, 120), &view), [LeaseId(1)]);
        assert_eq!(lessor.expired(at(1, 121), &view), [LeaseId(1), LeaseId(2)]);
        assert_eq!(lessor.expired(at(2, 121), &view), []);
        assert_eq!(lessor.look(at(2, 122), &view, LeaseId(2), false).map(|lease| lease.left_s), Some(19));
        assert_eq!(lessor.look(at(2, 122), &view, LeaseId(3), true), None);
    }
}
