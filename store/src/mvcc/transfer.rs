//! Takes a state apart for a snapshot and puts it together again: the oldest readable state plus the commits since.
//! It knows no file format.

use super::read::Span;
use super::{Change, Commit, Live, Mark, Mvcc};
use crate::api::{KeyValue, Op, Revision};
use bytes::Bytes;
use std::sync::Arc;

/// What a state is besides its keys and commits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Base {
    pub compacted: u64,
    /// The hash chain at the end.
    pub hash: u64,
    pub time_ms: u64,
    pub marks: Vec<Mark>,
}

impl Mvcc {
    pub fn base(&self) -> Base {
        let marks = self.marks.iter().copied().collect();
        Base { compacted: self.compacted, hash: self.hash, time_ms: self.time_ms, marks }
    }

    /// Visits, in order, the keys as they were at the oldest readable revision.
    pub fn each_base_key(&self, visit: impl FnMut(&Arc<KeyValue>)) {
        let all = Span::new(Bytes::new(), Bytes::from_static(b"\0"));
        self.each_at(&all, self.oldest().0, visit);
    }

    /// The commits since then, oldest first.
    pub fn commits(&self) -> impl ExactSizeIterator<Item = &Arc<Commit>> {
        self.history.iter()
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
        let mvcc = Mvcc { revision: base.compacted.max(1), compacted: base.compacted, ..Mvcc::default() };
        Self { mvcc, end: base }
    }

    pub fn key(&mut self, kv: KeyValue) {
        self.mvcc.live.insert(Live(Arc::new(kv)));
    }

    /// `ops` are the puts and deletes of one revision; a delete of an absent key is skipped.
    pub fn commit(&mut self, ops: &[Op], hash: u64) {
        let revision = Revision(self.mvcc.revision + 1);
        let change = |op: &Op| match op {
            Op::Put { key, value } => Some(self.mvcc.put(key, value, revision)),
            Op::Delete { key } => self.mvcc.delete(key, revision),
            Op::Get { .. } => None,
        };
        let changes: Vec<Change> = ops.iter().filter_map(change).collect();
        self.mvcc.commit_changes(changes);
        let last = self.mvcc.history.len() - 1;
        Arc::make_mut(&mut self.mvcc.history[last]).hash = hash;
    }

    pub fn finish(mut self) -> Mvcc {
        self.mvcc.hash = self.end.hash;
        self.mvcc.time_ms = self.end.time_ms;
        self.mvcc.marks = self.end.marks.into_iter().collect();
        self.mvcc
    }
}
