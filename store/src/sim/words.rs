//! The words of the checker in the words of the store, and back. It decides what an error means for a request's fate.

use super::{moment, with};
use crate::api::{self, Compare, LeaseId, RangeRequest, Revision, StoreError, WatchBatch};
use bytes::Bytes;
use gantry_history::{Batch, Condition, Event, KeyValue, LeaseRequest, Op, Outcome, Reply, Request, Span, Target, Txn};
use std::collections::{BTreeMap, BTreeSet};

/// To the checker every grant has a number of its own; the store is given those of leases that are over once more.
#[derive(Default)]
pub struct Numbers {
    /// What the store knows a lease as.
    of: BTreeMap<u64, u64>,
    /// Leases whose number something may still be under way for.
    doubtful: BTreeSet<u64>,
    free: Vec<u64>,
}

impl Numbers {
    pub fn lease(&self, number: u64) -> LeaseId {
        LeaseId(self.of.get(&number).copied().unwrap_or(number).cast_signed())
    }

    /// Before it is asked.
    pub fn ask(&mut self, request: &Request) {
        match request {
            Request::Lease(LeaseRequest::Grant { lease, .. }) => {
                self.of.insert(*lease, self.free.pop().unwrap_or(*lease));
            }
            Request::Txn(txn) => {
                for op in txn.then.iter().chain(&txn.otherwise) {
                    if let Op::Put { value, lease, .. } = op
                        && *lease != 0
                    {
                        with(|context| context.leased.insert(value.clone(), *lease));
                    }
                }
            }
            _ => {}
        }
    }

    /// A number is free once its lease is over and nothing that names it can still come.
    pub fn learn(&mut self, request: &Request, outcome: &Outcome) {
        let done = matches!(outcome, Outcome::Done { .. } | Outcome::Renewed);
        match request {
            Request::Lease(LeaseRequest::Revoke { lease }) if done && !self.doubtful.contains(lease) => {
                self.free.extend(self.of.get(lease));
            }
            Request::Lease(LeaseRequest::Renew { lease })
                if *outcome == Outcome::NoLease && !self.doubtful.contains(lease) =>
            {
                self.doubtful.insert(*lease);
                self.free.extend(self.of.get(lease));
            }
            Request::Lease(asked) if !done => {
                self.doubtful.insert(asked.lease());
            }
            Request::Txn(txn) if !done => {
                let leases =
                    txn.then.iter().filter_map(|op| if let Op::Put { lease, .. } = op { Some(*lease) } else { None });
                self.doubtful.extend(leases);
            }
            _ => {}
        }
    }
}

pub fn to_txn(txn: &Txn, numbers: &Numbers) -> api::Txn {
    let compare = |condition: &Condition| match &condition.target {
        Target::Modified(revision) => Compare::unchanged(condition.key.clone(), Revision(*revision)),
        Target::Value(value) => Compare::has_value(condition.key.clone(), value.clone()),
    };
    let op = |op: &Op| match op {
        Op::Put { key, value, lease: number } => {
            let (key, value, lease) = (key.clone().into(), value.clone().into(), numbers.lease(*number));
            api::Op::Put(api::Put { key, value, lease, ..api::Put::default() })
        }
        Op::Delete(span) => {
            let RangeRequest { start, end, .. } = to_range(span);
            api::Op::Delete(api::Delete { start, end, prev_kv: false })
        }
        Op::Get(span) => api::Op::Range(to_range(span)),
    };
    api::Txn {
        compare: txn.conditions.iter().map(compare).collect(),
        success: txn.then.iter().map(op).collect(),
        failure: txn.otherwise.iter().map(op).collect(),
    }
}

pub fn to_range(span: &Span) -> RangeRequest {
    let end = span.end.clone().unwrap_or_default().into();
    RangeRequest { start: span.start.clone().into(), end, ..RangeRequest::default() }
}

pub fn from_reply(reply: api::OpReply) -> Reply {
    match reply {
        api::OpReply::Put { .. } => Reply::Put,
        api::OpReply::Delete { deleted, .. } => Reply::Deleted(deleted),
        api::OpReply::Range(range) => from_range(&range),
        api::OpReply::Txn(_) => unreachable!("no client nests"),
    }
}

pub fn from_range(range: &api::RangeReply) -> Reply {
    Reply::Got(range.kvs.iter().map(from_kv).collect())
}

pub fn from_error(error: &StoreError) -> Outcome {
    match error {
        StoreError::Compacted { oldest, .. } => Outcome::Compacted { oldest: oldest.0 },
        StoreError::Unavailable(_) | StoreError::Future { .. } | StoreError::DiskFull { .. } => Outcome::Refused,
        StoreError::NoLease(_) => Outcome::NoLease,
        _ => Outcome::Unknown,
    }
}

fn text(bytes: &Bytes) -> String {
    String::from_utf8(bytes.to_vec()).expect("clients write text")
}

fn from_kv(kv: &api::KeyValue) -> KeyValue {
    let value = text(&kv.value);
    // Every put has a value of its own, so it says which of the leases of this number it was put to.
    let known = with(|context| context.leased.get(&value).copied()).flatten();
    let lease = if kv.lease == LeaseId::NONE { 0 } else { known.unwrap_or(kv.lease.0.cast_unsigned()) };
    KeyValue {
        key: text(&kv.key),
        value,
        created: kv.create_revision.0,
        modified: kv.mod_revision.0,
        version: kv.version,
        lease,
    }
}

pub fn from_batch(batch: &WatchBatch, prev: bool) -> Batch {
    let event = |event: &api::Event| Event {
        revision: event.kv.mod_revision.0,
        key: text(&event.kv.key),
        now: (event.kind == api::EventKind::Put).then(|| from_kv(&event.kv)),
        prev: event.prev_kv.as_ref().filter(|_| prev).map(from_kv),
    };
    Batch { received: moment(), revision: batch.revision.0, events: batch.events.iter().map(event).collect() }
}
