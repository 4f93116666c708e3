//! The wire's messages to the store's vocabulary and back.

use crate::api::{
    Compare, CompareTarget, Event, EventKind, KeyValue, Op, OpReply, RangeReply, RangeRequest, Revision, StoreError,
    Txn, TxnReply, WatchBatch, WatchRequest,
};
use crate::proto;
use proto::compare::{CompareResult, CompareTarget as Target, TargetUnion};
use proto::request_op::Request;
use proto::response_op::Response;

pub fn header(revision: Revision) -> Option<proto::ResponseHeader> {
    Some(proto::ResponseHeader { revision: revision.0 as i64, ..Default::default() })
}

pub fn revision(header: Option<&proto::ResponseHeader>) -> Revision {
    Revision(header.map_or(0, |header| header.revision.max(0) as u64))
}

fn invalid(what: &str) -> StoreError {
    StoreError::Invalid(what.to_owned())
}

pub fn put_kv(kv: KeyValue) -> proto::KeyValue {
    proto::KeyValue {
        key: kv.key,
        value: kv.value,
        create_revision: kv.create_revision.0 as i64,
        mod_revision: kv.mod_revision.0 as i64,
        version: kv.version as i64,
    }
}

pub fn kv(kv: proto::KeyValue) -> KeyValue {
    KeyValue {
        key: kv.key,
        value: kv.value,
        create_revision: Revision(kv.create_revision as u64),
        mod_revision: Revision(kv.mod_revision as u64),
        version: kv.version as u64,
    }
}

pub fn put_range(request: RangeRequest) -> proto::RangeRequest {
    proto::RangeRequest {
        key: request.start,
        range_end: request.end,
        limit: request.limit as i64,
        revision: request.revision.map_or(0, |revision| revision.0 as i64),
        serializable: request.serializable,
        keys_only: request.keys_only,
        count_only: request.count_only,
    }
}

pub fn range(request: proto::RangeRequest) -> RangeRequest {
    RangeRequest {
        start: request.key,
        end: request.range_end,
        limit: usize::try_from(request.limit).unwrap_or(0),
        revision: (request.revision > 0).then_some(Revision(request.revision as u64)),
        serializable: request.serializable,
        keys_only: request.keys_only,
        count_only: request.count_only,
    }
}

pub fn put_range_reply(reply: RangeReply) -> proto::RangeResponse {
    proto::RangeResponse {
        header: header(reply.revision),
        kvs: reply.kvs.into_iter().map(put_kv).collect(),
        more: reply.more,
        count: reply.count as i64,
    }
}

pub fn range_reply(reply: proto::RangeResponse) -> RangeReply {
    RangeReply {
        revision: revision(reply.header.as_ref()),
        kvs: reply.kvs.into_iter().map(kv).collect(),
        count: reply.count as usize,
        more: reply.more,
    }
}

fn put_compare(compare: Compare) -> proto::Compare {
    let (result, target, union) = match compare.target {
        CompareTarget::ModRevision(revision) => {
            (CompareResult::Equal, Target::Mod, TargetUnion::ModRevision(revision.0 as i64))
        }
        CompareTarget::Exists => (CompareResult::Greater, Target::Version, TargetUnion::Version(0)),
        CompareTarget::Value(value) => (CompareResult::Equal, Target::Value, TargetUnion::Value(value)),
    };
    proto::Compare { result: result.into(), target: target.into(), key: compare.key, target_union: Some(union) }
}

fn compare(compare: proto::Compare) -> Result<Compare, StoreError> {
    let target = match (compare.result(), compare.target(), compare.target_union) {
        (CompareResult::Equal, Target::Mod, Some(TargetUnion::ModRevision(revision))) => {
            CompareTarget::ModRevision(Revision(revision as u64))
        }
        (CompareResult::Greater, Target::Version, None | Some(TargetUnion::Version(0))) => CompareTarget::Exists,
        (CompareResult::Equal, Target::Value, Some(TargetUnion::Value(value))) => CompareTarget::Value(value),
        _ => return Err(invalid("this comparison is not supported")),
    };
    Ok(Compare { key: compare.key, target })
}

fn put_op(op: Op) -> proto::RequestOp {
    let request = match op {
        Op::Put { key, value } => Request::RequestPut(proto::PutRequest { key, value }),
        Op::Delete { key } => Request::RequestDeleteRange(proto::DeleteRangeRequest { key }),
        Op::Get { key } => Request::RequestRange(proto::RangeRequest { key, ..Default::default() }),
    };
    proto::RequestOp { request: Some(request) }
}

fn op(op: proto::RequestOp) -> Result<Op, StoreError> {
    match op.request {
        Some(Request::RequestPut(put)) => Ok(Op::Put { key: put.key, value: put.value }),
        Some(Request::RequestDeleteRange(delete)) => Ok(Op::Delete { key: delete.key }),
        Some(Request::RequestRange(get)) if get.range_end.is_empty() => Ok(Op::Get { key: get.key }),
        _ => Err(invalid("this operation is not supported in a transaction")),
    }
}

pub fn put_txn(txn: Txn) -> proto::TxnRequest {
    proto::TxnRequest {
        compare: txn.compare.into_iter().map(put_compare).collect(),
        success: txn.success.into_iter().map(put_op).collect(),
        failure: txn.failure.into_iter().map(put_op).collect(),
    }
}

pub fn txn(request: proto::TxnRequest) -> Result<Txn, StoreError> {
    Ok(Txn {
        compare: request.compare.into_iter().map(compare).collect::<Result<_, _>>()?,
        success: request.success.into_iter().map(op).collect::<Result<_, _>>()?,
        failure: request.failure.into_iter().map(op).collect::<Result<_, _>>()?,
    })
}

pub fn put_txn_reply(reply: TxnReply) -> proto::TxnResponse {
    let response = |reply| match reply {
        OpReply::Put => Response::ResponsePut(proto::PutResponse {}),
        OpReply::Delete { deleted } => {
            Response::ResponseDeleteRange(proto::DeleteRangeResponse { deleted: i64::from(deleted) })
        }
        OpReply::Get(found) => Response::ResponseRange(proto::RangeResponse {
            count: i64::from(found.is_some()),
            kvs: found.into_iter().map(put_kv).collect(),
            ..Default::default()
        }),
    };
    let responses = reply.ops.into_iter().map(|op| proto::ResponseOp { response: Some(response(op)) });
    proto::TxnResponse { header: header(reply.revision), succeeded: reply.succeeded, responses: responses.collect() }
}

pub fn txn_reply(response: proto::TxnResponse) -> Result<TxnReply, StoreError> {
    let op = |op: proto::ResponseOp| match op.response {
        Some(Response::ResponsePut(_)) => Ok(OpReply::Put),
        Some(Response::ResponseDeleteRange(delete)) => Ok(OpReply::Delete { deleted: delete.deleted > 0 }),
        Some(Response::ResponseRange(range)) => Ok(OpReply::Get(range.kvs.into_iter().next().map(kv))),
        None => Err(StoreError::Unknown("a reply to an operation is missing".into())),
    };
    Ok(TxnReply {
        succeeded: response.succeeded,
        revision: revision(response.header.as_ref()),
        ops: response.responses.into_iter().map(op).collect::<Result<_, _>>()?,
    })
}

pub fn put_watch(request: WatchRequest) -> proto::WatchCreateRequest {
    proto::WatchCreateRequest {
        key: request.start,
        range_end: request.end,
        start_revision: request.from.0 as i64,
        prev_kv: request.prev_kv,
    }
}

pub fn watch(request: proto::WatchCreateRequest) -> WatchRequest {
    let from = Revision(request.start_revision.max(0) as u64);
    WatchRequest { start: request.key, end: request.range_end, from, prev_kv: request.prev_kv }
}

pub fn put_batch(batch: WatchBatch) -> proto::WatchResponse {
    let event = |event: Event| proto::Event {
        r#type: match event.kind {
            EventKind::Put => proto::event::EventType::Put.into(),
            EventKind::Delete => proto::event::EventType::Delete.into(),
        },
        kv: Some(put_kv(event.kv)),
        prev_kv: event.prev_kv.map(put_kv),
    };
    proto::WatchResponse { header: header(batch.revision), events: batch.events.into_iter().map(event).collect() }
}

pub fn batch(response: proto::WatchResponse) -> WatchBatch {
    let event = |event: proto::Event| Event {
        kind: match event.r#type() {
            proto::event::EventType::Put => EventKind::Put,
            proto::event::EventType::Delete => EventKind::Delete,
        },
        kv: kv(event.kv.unwrap_or_default()),
        prev_kv: event.prev_kv.map(kv),
    };
    let revision = revision(response.header.as_ref());
    WatchBatch { revision, events: response.events.into_iter().map(event).collect() }
}
