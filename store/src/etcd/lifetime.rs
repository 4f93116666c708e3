//! A lifetime for what is put into an etcd, which has none for keys: they hang on leases, each shared by the writes of a
//! while. It decides which lease a write takes and when the next is due; it grants none.

use crate::api::{LeaseId, Op, Txn};
use parking_lot::Mutex;
use std::time::Duration;
use tokio::sync::OnceCell;
use tokio::time::Instant;

/// How long a lease is taken for new writes at most, and for how many keys: few leases, but a lease's end, which is one
/// transaction, does not become large either (the bounds of Kubernetes' own API server).
const REUSED_FOR: Duration = Duration::from_secs(60);
const KEYS: usize = 1_000;

pub struct Lifetime {
    ttl: Duration,
    current: Mutex<Option<Current>>,
    /// Held by the one that grants; who waits for it shares the lease.
    pub granting: tokio::sync::Mutex<()>,
    /// Whether the members are our own, whose keys have a lifetime without leases.
    pub ours: OnceCell<bool>,
}

struct Current {
    lease: LeaseId,
    /// When it was asked for: it does not end before its time from then on.
    since: Instant,
    keys: usize,
}

impl Lifetime {
    pub fn new(ttl: Duration) -> Self {
        Self { ttl, current: Mutex::default(), granting: tokio::sync::Mutex::default(), ours: OnceCell::new() }
    }

    fn reused_for(&self) -> Duration {
        REUSED_FOR.min(self.ttl / 20)
    }

    /// What a lease is granted for: also the last key that takes it lives as long as it should.
    pub fn lease_s(&self) -> i64 {
        let ms = (self.ttl + self.reused_for()).as_millis();
        i64::try_from(ms.div_ceil(1_000)).unwrap_or(i64::MAX)
    }

    /// The lease for so many keys more; `None`: another has to be granted.
    pub fn take(&self, now: Instant, keys: usize) -> Option<LeaseId> {
        let mut current = self.current.lock();
        let current = current.as_mut()?;
        let usable = now < current.since + self.reused_for() && current.keys + keys <= KEYS;
        usable.then(|| {
            current.keys += keys;
            current.lease
        })
    }

    /// A lease that was asked for at `since`, and the keys that take it first.
    pub fn begin(&self, lease: LeaseId, since: Instant, keys: usize) {
        *self.current.lock() = Some(Current { lease, since, keys });
    }

    /// The lease is gone.
    pub fn end(&self, lease: LeaseId) {
        self.current.lock().take_if(|current| current.lease == lease);
    }
}

/// How many keys `txn` puts that hang on no lease of their own.
pub fn free_keys(txn: &mut Txn) -> usize {
    rehang(txn, LeaseId::NONE, LeaseId::NONE)
}

/// Hangs what `txn` puts on the lease `to` instead of `from`; tells how many keys.
pub fn rehang(txn: &mut Txn, from: LeaseId, to: LeaseId) -> usize {
    let ops = txn.success.iter_mut().chain(&mut txn.failure);
    ops.map(|op| match op {
        Op::Put(put) if put.lease == from && !put.keep_lease => {
            put.lease = to;
            1
        }
        Op::Put(_) | Op::Delete(_) | Op::Range(_) => 0,
        Op::Txn(txn) => rehang(txn, from, to),
    })
    .sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::Put;

    #[test]
    fn a_lease_is_shared_for_a_minute_and_a_thousand_keys_and_outlives_the_last_of_them() {
        let lifetime = Lifetime::new(Duration::from_secs(3_600));
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let (one, two) = (LeaseId(1), LeaseId(2));
        assert_eq!(lifetime.take(at(0), 1), None);
        assert_eq!(lifetime.lease_s(), 3_660);
        lifetime.begin(one, at(0), 400);
        assert_eq!(lifetime.take(at(59), 599), Some(one));
        assert_eq!(lifetime.take(at(59), 2), None, "too many keys");
        assert_eq!(lifetime.take(at(59), 1), Some(one));
        assert_eq!(lifetime.take(at(59), 1), None);
        lifetime.begin(two, at(60), 1);
        assert_eq!(lifetime.take(at(119), 1), Some(two));
        assert_eq!(lifetime.take(at(120), 1), None, "too old");
        assert_eq!(lifetime.take(at(119), 1), Some(two));
        lifetime.end(one);
        assert_eq!(lifetime.take(at(119), 1), Some(two), "another lease's end");
        lifetime.end(two);
        assert_eq!(lifetime.take(at(119), 1), None);
        assert_eq!(Lifetime::new(Duration::from_secs(10)).lease_s(), 11, "half a second more, in whole seconds");
    }

    #[test]
    fn only_puts_without_a_lease_of_their_own_are_hung() {
        let put = |lease, keep_lease| Op::Put(Put { key: "k".into(), lease, keep_lease, ..Put::default() });
        let nested = |op| Op::Txn(Box::new(Txn { failure: vec![op], ..Txn::default() }));
        let (free, own, lent) = (LeaseId::NONE, LeaseId(5), LeaseId(7));
        let with = |lease| Txn {
            success: vec![put(lease, false), put(own, false), Op::get("g"), Op::delete("d")],
            failure: vec![put(free, true), nested(put(lease, false))],
            ..Txn::default()
        };
        let mut txn = with(free);
        assert_eq!((free_keys(&mut txn), &txn), (2, &with(free)));
        assert_eq!((rehang(&mut txn, free, lent), &txn), (2, &with(lent)));
    }
}
