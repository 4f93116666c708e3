//! Takes a state apart for a snapshot and puts it together again: the state before the oldest readable revision, and
//! the commits since.
//! It knows no file format.

use super::read::Span;
use super::{Alarm, Change, Commit, Identity, Lease, Live, Mark, Mvcc, Version};
use crate::api::{KeyValue, LeaseId, Op, Put, Revision};
use bytes::Bytes;
use imbl::OrdSet;
use std::sync::Arc;

/// What a state is besides its keys and commits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Base {
    pub compacted: u64,
    /// The hash chain at the end.
    pub hash: u64,
    pub time_ms: u64,
    pub marks: Vec<Mark>,
    /// The leases at the end, with their seconds. Their keys say themselves whose they are.
    pub leases: Vec<(LeaseId, i64)>,
}

impl Mvcc {
    pub fn base(&self) -> Base {
        let marks = self.marks.iter().copied().collect();
        let leases = self.leases.iter().map(|(id, lease)| (*id, lease.ttl_s)).collect();
        Base { compacted: self.compacted, hash: self.hash, time_ms: self.time_ms, marks, leases }
    }

    /// Visits, in order, the keys as they were right before the first commit.
    pub fn each_base_key(&self, visit: impl FnMut(&Version)) {
        let all = Span::new(Bytes::new(), Bytes::from_static(b"\0"));
        self.each_at(&all, self.floor(), visit);
    }

    /// The commits since then, oldest first.
    pub fn commits(&self) -> impl ExactSizeIterator<Item = &Commit> {
        self.history.iter()
    }
}

/// Restored revisions stay below this, so that nobody can bring them near the end of etcd's signed numbers.
const REVISIONS: u64 = 1 << 62;

/// What a restored state holds at its last revision: the deletion of this key, which nobody has seen.
const RESTORED: &[u8] = b"gantry/restored";

impl Mvcc {
    /// The keys and leases of this state at a revision that is `bump` later, for another group: everything before it is
    /// compacted, so that whoever watched the old line of revisions cannot go on in the new one as if nothing had happened.
    /// Its first leader says which group it is. `None`: there are no such revisions.
    pub fn restored(&self, bump: u64) -> Option<Self> {
        let compacted = self.revision.checked_add(bump.max(1)).filter(|revision| *revision < REVISIONS)?;
        let mut builder = Builder::new(Base { compacted, hash: self.hash, ..self.base() });
        self.live.iter().for_each(|live| builder.key(&live.0.key_value()));
        // A state has the commit of its oldest readable revision, and every commit changes something.
        builder.key(&KeyValue {
            key: Bytes::from_static(RESTORED),
            create_revision: Revision(compacted - 1),
            mod_revision: Revision(compacted - 1),
            version: 1,
            value: Bytes::new(),
            lease: LeaseId::NONE,
        });
        builder.commit(&[Op::delete(RESTORED)], self.hash);
        Some(builder.finish())
    }
}

impl Version {
    /// What makes this version again, given the state before it. Its value is in memory.
    pub fn op(&self) -> Op {
        let KeyValue { key, value, lease, .. } = self.key_value();
        if self.is_delete() { Op::delete(key) } else { Op::Put(Put { key, value, lease, ..Put::default() }) }
    }
}

/// Puts a state together: first every base key, then every commit.
#[derive(Debug)]
pub struct Builder {
    mvcc: Mvcc,
    end: Base,
}

impl Builder {
    pub fn new(base: Base) -> Self {
        let mut mvcc = Mvcc { compacted: base.compacted, ..Mvcc::default() };
        mvcc.revision = mvcc.floor();
        Self { mvcc, end: base }
    }

    pub fn key(&mut self, kv: &KeyValue) {
        let version = Version::from(kv);
        self.mvcc.live_bytes += super::apply::size(&version);
        self.mvcc.live.insert(Live(version));
    }

    pub fn identity(&mut self, identity: Identity) {
        self.mvcc.identity = Some(Arc::new(identity));
    }

    pub fn alarm(&mut self, alarm: Alarm) {
        self.mvcc.alarms.insert(alarm);
    }

    /// `ops` are the puts and deletes of one revision; a delete of an absent key is skipped.
    pub fn commit(&mut self, ops: &[Op], hash: u64) {
        let revision = Revision(self.mvcc.revision + 1);
        let change = |op: &Op| match op {
            Op::Put(put) => Some(self.mvcc.put(put, revision)),
            Op::Delete(delete) => self.mvcc.delete(&delete.start, revision),
            Op::Range(_) | Op::Txn(_) => None,
        };
        let changes: Vec<Change> = ops.iter().filter_map(change).collect();
        self.mvcc.revision = revision.0;
        self.mvcc.push(Commit::new(changes, hash));
    }

    pub fn finish(mut self) -> Mvcc {
        self.mvcc.hash = self.end.hash;
        self.mvcc.time_ms = self.end.time_ms;
        self.mvcc.marks = self.end.marks.into_iter().collect();
        let lease = |((id, ttl_s), grant)| (id, Lease { ttl_s, grant, keys: OrdSet::new() });
        self.mvcc.leases = self.end.leases.into_iter().zip(1..).map(lease).collect();
        self.mvcc.grants = self.mvcc.leases.len() as u64;
        let leased: Vec<_> =
            self.mvcc.live.iter().map(|live| live.0.clone()).filter(|kv| kv.lease() != LeaseId::NONE).collect();
        for kv in leased {
            self.mvcc.attach(kv.key(), LeaseId::NONE, kv.lease());
        }
        self.mvcc
    }
}
