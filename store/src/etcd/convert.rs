//! The wire's messages to the store's vocabulary and back.

use super::errors::{EMPTY_KEY, KEY_NOT_FOUND, LEASE_PROVIDED, VALUE_PROVIDED, plain, status};
use crate::api::{
    Compare, CompareTarget, Delete, Event, EventKind, KeyValue, LeaseId, Only, Op, OpReply, Put, RangeReply,
    RangeRequest, Relation, Revision, SortBy, StoreError, Txn, TxnReply, WatchBatch, WatchRequest,
};
use crate::proto::etcd::{self, ResponseHeader};
use etcd::compare::{CompareResult, CompareTarget as Target, TargetUnion};
use etcd::range_request::{SortOrder, SortTarget};
use etcd::request_op::Request;
use etcd::response_op::Response;
use tonic::Status;

/// Numbers that the interface gives a sign: a negative one is as good as none.
fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

fn revision(number: i64) -> Revision {
    Revision(unsigned(number))
}

pub fn header_revision(header: Option<&ResponseHeader>) -> Revision {
    revision(header.map_or(0, |header| header.revision))
}

/// The interface has no empty key: where every key is meant, the first that there can be.
fn first_key(start: bytes::Bytes) -> bytes::Bytes {
    if start.is_empty() { bytes::Bytes::from_static(b"\0") } else { start }
}

/// Bytes of their own: what comes off the wire is a slice of a network buffer, and would keep all of it for as long as the log
/// and the history remember the request.
fn own(bytes: &bytes::Bytes) -> bytes::Bytes {
    bytes::Bytes::copy_from_slice(bytes)
}

fn keyed(key: &bytes::Bytes) -> Result<bytes::Bytes, Status> {
    if key.is_empty() { Err(plain(EMPTY_KEY)) } else { Ok(own(key)) }
}

pub fn put_kv(kv: KeyValue) -> etcd::KeyValue {
    etcd::KeyValue {
        key: kv.key,
        value: kv.value,
        create_revision: kv.create_revision.0.cast_signed(),
        mod_revision: kv.mod_revision.0.cast_signed(),
        version: kv.version.cast_signed(),
        lease: kv.lease.0,
    }
}

fn kv(kv: etcd::KeyValue) -> KeyValue {
    KeyValue {
        key: kv.key,
        value: kv.value,
        create_revision: revision(kv.create_revision),
        mod_revision: revision(kv.mod_revision),
        version: unsigned(kv.version),
        lease: LeaseId(kv.lease),
    }
}

pub fn put_range(range: RangeRequest) -> etcd::RangeRequest {
    let target = |by| match by {
        SortBy::Key => SortTarget::Key,
        SortBy::Version => SortTarget::Version,
        SortBy::CreateRevision => SortTarget::Create,
        SortBy::ModRevision => SortTarget::Mod,
        SortBy::Value => SortTarget::Value,
    };
    let order = |descending| if descending { SortOrder::Descend } else { SortOrder::Ascend };
    etcd::RangeRequest {
        key: first_key(range.start),
        range_end: range.end,
        limit: i64::try_from(range.limit).unwrap_or(i64::MAX),
        revision: range.revision.map_or(0, |revision| revision.0.cast_signed()),
        serializable: range.serializable,
        keys_only: range.keys_only,
        count_only: range.count_only,
        sort_order: range.order.map_or(SortOrder::None, |(_, descending)| order(descending)).into(),
        sort_target: range.order.map_or(SortTarget::Key, |(by, _)| target(by)).into(),
        min_mod_revision: range.only.min_mod.0.cast_signed(),
        max_mod_revision: range.only.max_mod.0.cast_signed(),
        min_create_revision: range.only.min_create.0.cast_signed(),
        max_create_revision: range.only.max_create.0.cast_signed(),
    }
}

pub fn range(range: etcd::RangeRequest) -> Result<RangeRequest, Status> {
    let order = order(&range)?;
    Ok(RangeRequest {
        limit: usize::try_from(range.limit).unwrap_or(0),
        revision: Some(revision(range.revision)).filter(|revision| revision.0 > 0),
        serializable: range.serializable,
        keys_only: range.keys_only,
        count_only: range.count_only,
        whole: true,
        order,
        only: only(&range),
        start: keyed(&range.key)?,
        end: own(&range.range_end),
    })
}

/// No key is at or before a negative revision, and every key is after it.
fn only(range: &etcd::RangeRequest) -> Only {
    let none = |most: i64| most < 0;
    let least = |least, most| if none(most) { Revision(u64::MAX) } else { revision(least) };
    Only {
        min_mod: least(range.min_mod_revision, range.max_mod_revision),
        max_mod: revision(range.max_mod_revision),
        min_create: least(range.min_create_revision, range.max_create_revision),
        max_create: revision(range.max_create_revision),
    }
}

/// Without an order, what is not sorted by key ascends; by key it does so in any case.
fn order(range: &etcd::RangeRequest) -> Result<Option<(SortBy, bool)>, Status> {
    let invalid = |_| Status::invalid_argument("etcdserver: invalid sort option");
    let order = SortOrder::try_from(range.sort_order).map_err(invalid)?;
    let by = match SortTarget::try_from(range.sort_target).map_err(invalid)? {
        SortTarget::Key => SortBy::Key,
        SortTarget::Version => SortBy::Version,
        SortTarget::Create => SortBy::CreateRevision,
        SortTarget::Mod => SortBy::ModRevision,
        SortTarget::Value => SortBy::Value,
    };
    let descending = order == SortOrder::Descend;
    Ok((descending || by != SortBy::Key).then_some((by, descending)))
}

pub fn put_range_reply(header: Option<ResponseHeader>, reply: RangeReply) -> etcd::RangeResponse {
    etcd::RangeResponse {
        header,
        kvs: reply.kvs.into_iter().map(put_kv).collect(),
        more: reply.more,
        count: reply.count as i64,
    }
}

pub fn range_reply(reply: etcd::RangeResponse) -> RangeReply {
    RangeReply {
        revision: header_revision(reply.header.as_ref()),
        kvs: reply.kvs.into_iter().map(kv).collect(),
        count: usize::try_from(reply.count).unwrap_or(0),
        more: reply.more,
    }
}

pub fn put(put: etcd::PutRequest) -> Result<Put, Status> {
    let key = keyed(&put.key)?;
    if put.ignore_value && !put.value.is_empty() {
        return Err(plain(VALUE_PROVIDED));
    }
    if put.ignore_lease && put.lease != 0 {
        return Err(plain(LEASE_PROVIDED));
    }
    Ok(Put {
        key,
        value: own(&put.value),
        lease: LeaseId(put.lease),
        prev_kv: put.prev_kv,
        keep_value: put.ignore_value,
        keep_lease: put.ignore_lease,
    })
}

fn put_put(put: Put) -> etcd::PutRequest {
    etcd::PutRequest {
        key: put.key,
        value: put.value,
        lease: put.lease.0,
        prev_kv: put.prev_kv,
        ignore_value: put.keep_value,
        ignore_lease: put.keep_lease,
    }
}

pub fn delete(delete: etcd::DeleteRangeRequest) -> Result<Delete, Status> {
    Ok(Delete { start: keyed(&delete.key)?, end: own(&delete.range_end), prev_kv: delete.prev_kv })
}

pub fn put_delete_reply(
    header: Option<ResponseHeader>,
    deleted: u64,
    prev: Vec<KeyValue>,
) -> etcd::DeleteRangeResponse {
    let prev_kvs = prev.into_iter().map(put_kv).collect();
    etcd::DeleteRangeResponse { header, deleted: deleted.cast_signed(), prev_kvs }
}

fn put_compare(compare: Compare) -> etcd::Compare {
    let result = match compare.relation {
        Relation::Equal => CompareResult::Equal,
        Relation::NotEqual => CompareResult::NotEqual,
        Relation::Greater => CompareResult::Greater,
        Relation::Less => CompareResult::Less,
    };
    let (target, union) = match compare.target {
        CompareTarget::Version(version) => (Target::Version, TargetUnion::Version(version.cast_signed())),
        CompareTarget::CreateRevision(r) => (Target::Create, TargetUnion::CreateRevision(r.0.cast_signed())),
        CompareTarget::ModRevision(r) => (Target::Mod, TargetUnion::ModRevision(r.0.cast_signed())),
        CompareTarget::Value(value) => (Target::Value, TargetUnion::Value(value)),
        CompareTarget::Lease(lease) => (Target::Lease, TargetUnion::Lease(lease.0)),
    };
    etcd::Compare {
        result: result.into(),
        target: target.into(),
        key: compare.start,
        range_end: compare.end,
        target_union: Some(union),
    }
}

/// A union that does not fit the target, or none, compares with nothing of that target's kind (etcd's rule).
fn compare(compare: etcd::Compare) -> Result<Compare, Status> {
    let relation = match CompareResult::try_from(compare.result) {
        Ok(CompareResult::Equal) => Relation::Equal,
        Ok(CompareResult::NotEqual) => Relation::NotEqual,
        Ok(CompareResult::Greater) => Relation::Greater,
        Ok(CompareResult::Less) => Relation::Less,
        Err(_) => return Err(Status::invalid_argument("etcdserver: unknown comparison")),
    };
    let (start, end) = (keyed(&compare.key)?, own(&compare.range_end));
    let union = compare.target_union;
    if is_negative(compare.target, union.as_ref()) {
        // Every stored number is greater.
        let (relation, number) = match relation {
            Relation::Equal | Relation::Less => (Relation::Less, 0),
            Relation::NotEqual | Relation::Greater => (Relation::NotEqual, u64::MAX),
        };
        return Ok(Compare { start, end, relation, target: CompareTarget::Version(number) });
    }
    let target = match Target::try_from(compare.target) {
        Ok(Target::Version) => CompareTarget::Version(match union {
            Some(TargetUnion::Version(version)) => unsigned(version),
            _ => 0,
        }),
        Ok(Target::Create) => CompareTarget::CreateRevision(match union {
            Some(TargetUnion::CreateRevision(number)) => revision(number),
            _ => Revision(0),
        }),
        Ok(Target::Mod) => CompareTarget::ModRevision(match union {
            Some(TargetUnion::ModRevision(number)) => revision(number),
            _ => Revision(0),
        }),
        Ok(Target::Value) => CompareTarget::Value(match union {
            Some(TargetUnion::Value(value)) => own(&value),
            _ => bytes::Bytes::new(),
        }),
        Ok(Target::Lease) => CompareTarget::Lease(match union {
            Some(TargetUnion::Lease(lease)) => LeaseId(lease),
            _ => LeaseId::NONE,
        }),
        Err(_) => return Err(Status::invalid_argument("etcdserver: unknown comparison target")),
    };
    Ok(Compare { start, end, relation, target })
}

/// Whether a number that cannot be stored is compared with: one of the target's kind.
fn is_negative(target: i32, union: Option<&TargetUnion>) -> bool {
    match (Target::try_from(target), union) {
        (Ok(Target::Version), Some(TargetUnion::Version(number)))
        | (Ok(Target::Create), Some(TargetUnion::CreateRevision(number)))
        | (Ok(Target::Mod), Some(TargetUnion::ModRevision(number))) => *number < 0,
        _ => false,
    }
}

fn put_op(op: Op) -> etcd::RequestOp {
    let request = match op {
        Op::Put(put) => Request::RequestPut(put_put(put)),
        Op::Delete(delete) => Request::RequestDeleteRange(etcd::DeleteRangeRequest {
            key: delete.start,
            range_end: delete.end,
            prev_kv: delete.prev_kv,
        }),
        Op::Range(range) => Request::RequestRange(put_range(range)),
        Op::Txn(txn) => Request::RequestTxn(put_txn(*txn)),
    };
    etcd::RequestOp { request: Some(request) }
}

fn op(op: etcd::RequestOp) -> Result<Op, Status> {
    Ok(match op.request {
        Some(Request::RequestPut(request)) => Op::Put(put(request)?),
        Some(Request::RequestDeleteRange(request)) => Op::Delete(delete(request)?),
        // What is before the first revision is compacted here; a range by itself reads the newest instead (etcd's rule).
        Some(Request::RequestRange(request)) if request.revision < 0 => {
            let (requested, oldest) = (Revision(0), Revision(1));
            return Err(status(StoreError::Compacted { requested, oldest }));
        }
        Some(Request::RequestRange(request)) => Op::Range(range(request)?),
        Some(Request::RequestTxn(request)) => Op::Txn(Box::new(txn(request)?)),
        None => return Err(plain(KEY_NOT_FOUND)),
    })
}

pub fn put_txn(txn: Txn) -> etcd::TxnRequest {
    etcd::TxnRequest {
        compare: txn.compare.into_iter().map(put_compare).collect(),
        success: txn.success.into_iter().map(put_op).collect(),
        failure: txn.failure.into_iter().map(put_op).collect(),
    }
}

/// The depth is bounded by the decoder, which refuses more than a hundred nested messages.
pub fn txn(request: etcd::TxnRequest) -> Result<Txn, Status> {
    Ok(Txn {
        compare: request.compare.into_iter().map(compare).collect::<Result<_, _>>()?,
        success: request.success.into_iter().map(op).collect::<Result<_, _>>()?,
        failure: request.failure.into_iter().map(op).collect::<Result<_, _>>()?,
    })
}

/// Nested replies carry the revision alone, and those of transactions not even that, as etcd's do. What deletes nothing
/// before the first change says the revision before.
pub fn put_txn_reply(header: Option<ResponseHeader>, reply: TxnReply) -> etcd::TxnResponse {
    let before = Revision(reply.revision.0 - u64::from(changes(&reply)));
    put_txn_after(header, before, &mut false, reply)
}

fn changes(reply: &TxnReply) -> bool {
    reply.ops.iter().any(|op| match op {
        OpReply::Put { .. } => true,
        OpReply::Delete { deleted, .. } => *deleted > 0,
        OpReply::Range(_) => false,
        OpReply::Txn(txn) => changes(txn),
    })
}

fn put_txn_after(
    header: Option<ResponseHeader>,
    before: Revision,
    changed: &mut bool,
    reply: TxnReply,
) -> etcd::TxnResponse {
    let nested =
        |revision: Revision| Some(ResponseHeader { revision: revision.0.cast_signed(), ..ResponseHeader::default() });
    let response = |reply| match reply {
        OpReply::Put { prev } => {
            *changed = true;
            Response::ResponsePut(etcd::PutResponse {
                header: nested(Revision(before.0 + 1)),
                prev_kv: prev.map(put_kv),
            })
        }
        OpReply::Delete { deleted, prev } => {
            *changed |= deleted > 0;
            let now = Revision(before.0 + u64::from(*changed));
            Response::ResponseDeleteRange(put_delete_reply(nested(now), deleted, prev))
        }
        OpReply::Range(range) => Response::ResponseRange(put_range_reply(nested(range.revision), range)),
        OpReply::Txn(txn) => {
            Response::ResponseTxn(put_txn_after(Some(ResponseHeader::default()), before, changed, txn))
        }
    };
    let responses = reply.ops.into_iter().map(response).map(|response| etcd::ResponseOp { response: Some(response) });
    etcd::TxnResponse { header, succeeded: reply.succeeded, responses: responses.collect() }
}

pub fn txn_reply(response: etcd::TxnResponse) -> Result<TxnReply, StoreError> {
    let op = |op: etcd::ResponseOp| match op.response {
        Some(Response::ResponsePut(put)) => Ok(OpReply::Put { prev: put.prev_kv.map(kv) }),
        Some(Response::ResponseDeleteRange(delete)) => Ok(OpReply::Delete {
            deleted: unsigned(delete.deleted),
            prev: delete.prev_kvs.into_iter().map(kv).collect(),
        }),
        Some(Response::ResponseRange(range)) => Ok(OpReply::Range(range_reply(range))),
        Some(Response::ResponseTxn(txn)) => txn_reply(txn).map(OpReply::Txn),
        None => Err(StoreError::Unknown("a reply to an operation is missing".into())),
    };
    Ok(TxnReply {
        succeeded: response.succeeded,
        revision: header_revision(response.header.as_ref()),
        ops: response.responses.into_iter().map(op).collect::<Result<_, _>>()?,
    })
}

pub fn put_watch(request: WatchRequest) -> etcd::WatchCreateRequest {
    etcd::WatchCreateRequest {
        key: first_key(request.start),
        range_end: request.end,
        start_revision: request.from.0.cast_signed(),
        prev_kv: request.prev_kv,
        ..Default::default()
    }
}

/// No key means the first that there can be (etcd's rule for watches).
pub fn watch(request: &etcd::WatchCreateRequest) -> WatchRequest {
    let (start, end) = (first_key(request.key.clone()), request.range_end.clone());
    // Before the first revision there is nothing to miss, unless that is compacted.
    let from = if request.start_revision < 0 { Revision(1) } else { revision(request.start_revision) };
    WatchRequest { start, end, from, prev_kv: request.prev_kv }
}

/// Whether no key can be in a watch's range.
pub fn is_empty_range(request: &etcd::WatchCreateRequest) -> bool {
    !matches!(request.range_end[..], [] | [0]) && first_key(request.key.clone()) >= request.range_end
}

pub fn put_event(event: Event) -> etcd::Event {
    etcd::Event {
        r#type: match event.kind {
            EventKind::Put => etcd::event::EventType::Put.into(),
            EventKind::Delete => etcd::event::EventType::Delete.into(),
        },
        kv: Some(put_kv(event.kv)),
        prev_kv: event.prev_kv.map(put_kv),
    }
}

pub fn batch(response: etcd::WatchResponse) -> WatchBatch {
    let event = |event: etcd::Event| Event {
        kind: match event.r#type() {
            etcd::event::EventType::Put => EventKind::Put,
            etcd::event::EventType::Delete => EventKind::Delete,
        },
        kv: kv(event.kv.unwrap_or_default()),
        prev_kv: event.prev_kv.map(kv),
    };
    let events: Vec<Event> = response.events.into_iter().map(event).collect();
    // A watch of an etcd that catches up names the newest revision in every answer, also before the last.
    let last = events.last().map(|event| event.kv.mod_revision);
    WatchBatch { revision: last.unwrap_or_else(|| header_revision(response.header.as_ref())), events }
}
