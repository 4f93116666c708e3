//! The words of the checker in the words of the store, and back. It decides what an error means for a request's fate.

use super::moment;
use crate::api::{self, Compare, LeaseId, RangeRequest, Revision, StoreError, WatchBatch};
use bytes::Bytes;
use gantry_history::{Batch, Condition, Event, KeyValue, Op, Outcome, Reply, Span, Target, Txn};

pub fn lease(number: u64) -> LeaseId {
    LeaseId(number.cast_signed())
}

pub fn to_txn(txn: &Txn) -> api::Txn {
    let compare = |condition: &Condition| match &condition.target {
        Target::Modified(revision) => Compare::unchanged(condition.key.clone(), Revision(*revision)),
        Target::Value(value) => Compare::has_value(condition.key.clone(), value.clone()),
    };
    let op = |op: &Op| match op {
        Op::Put { key, value, lease: number } => {
            let (key, value, lease) = (key.clone().into(), value.clone().into(), lease(*number));
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
    KeyValue {
        key: text(&kv.key),
        value: text(&kv.value),
        created: kv.create_revision.0,
        modified: kv.mod_revision.0,
        version: kv.version,
        lease: kv.lease.0.cast_unsigned(),
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
