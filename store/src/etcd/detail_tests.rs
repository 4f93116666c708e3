//! Small print of etcd's interface: what its clients are told in corners that few of them look into.

use super::tests::{Lone, op, put, range, refused};
use crate::group::tests::wait;
use crate::proto::etcd::compare::{CompareResult, CompareTarget, TargetUnion};
use crate::proto::etcd::maintenance_client::MaintenanceClient;
use crate::proto::etcd::request_op::Request as Operation;
use crate::proto::etcd::response_op::Response as Answer;
use crate::proto::etcd::*;
use crate::proto::health::HealthCheckRequest;
use crate::proto::health::health_check_response::ServingStatus;
use crate::proto::health::health_client::HealthClient;
use http_body_util::{BodyExt, Empty};
use tonic::Code;

fn delete(key: &str) -> RequestOp {
    op(Operation::RequestDeleteRange(DeleteRangeRequest { key: key.to_owned().into(), ..Default::default() }))
}

fn nested(success: Vec<RequestOp>) -> RequestOp {
    op(Operation::RequestTxn(TxnRequest { success, ..TxnRequest::default() }))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn comparisons_and_bounds_with_numbers_that_cannot_be() {
    let lone = Lone::open(|_| {}).await;
    let mut kv = lone.kv();
    kv.put(put("k", 1)).await.unwrap();
    // A union of another kind than the target is none, whatever it says.
    for (target, union, relation, holds) in [
        (CompareTarget::Version, TargetUnion::ModRevision(-1), CompareResult::Equal, true),
        (CompareTarget::Version, TargetUnion::ModRevision(-1), CompareResult::Greater, false),
        (CompareTarget::Version, TargetUnion::Version(-1), CompareResult::Greater, true),
        (CompareTarget::Value, TargetUnion::ModRevision(-1), CompareResult::NotEqual, false),
    ] {
        let compare = Compare {
            result: relation.into(),
            target: target.into(),
            key: "none".into(),
            target_union: Some(union),
            ..Compare::default()
        };
        let what = format!("{compare:?}");
        let reply = kv.txn(TxnRequest { compare: vec![compare], ..TxnRequest::default() }).await.unwrap();
        assert_eq!(reply.into_inner().succeeded, holds, "{what}");
    }
    for (bounded, found) in [
        (RangeRequest { max_mod_revision: -1, ..range("k") }, 0),
        (RangeRequest { max_create_revision: -1, ..range("k") }, 0),
        (RangeRequest { min_mod_revision: -1, ..range("k") }, 1),
        (RangeRequest { min_create_revision: -1, ..range("k") }, 1),
    ] {
        let what = format!("{bounded:?}");
        assert_eq!(kv.range(bounded).await.unwrap().into_inner().kvs.len(), found, "{what}");
    }
    lone.group.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn which_error_comes_first() {
    let lone = Lone::open(|_| {}).await;
    let mut kv = lone.kv();
    let bad = PutRequest { ignore_value: true, ..put("", 1) };
    refused("no key before a value", kv.put(bad).await, Code::InvalidArgument, "etcdserver: key is not provided");
    let bad = PutRequest { ignore_value: true, lease: 42, ..put("none", 0) };
    let no_lease = "etcdserver: requested lease not found";
    refused("no lease before no key", kv.put(bad).await, Code::NotFound, no_lease);
    let empty = TxnRequest { success: vec![RequestOp::default()], ..TxnRequest::default() };
    refused("an empty operation", kv.txn(empty).await, Code::InvalidArgument, "etcdserver: key not found");
    let large = "grpc: received message larger than max";
    refused("a message of 3 MiB", kv.put(put("k", 3 << 20)).await, Code::ResourceExhausted, large);
    let mut deep = TxnRequest::default();
    for _ in 0..60 {
        deep = TxnRequest { success: vec![op(Operation::RequestTxn(deep))], ..TxnRequest::default() };
    }
    let too_deep = "etcdserver: transactions are nested too deeply";
    refused("sixty in each other", kv.txn(deep).await, Code::InvalidArgument, too_deep);
    let mut maintenance = MaintenanceClient::new(lone.channel());
    let move_leader = maintenance.move_leader(MoveLeaderRequest { target_id: 99 }).await;
    refused("nobody to lead", move_leader, Code::FailedPrecondition, "etcdserver: bad leader transferee");
    lone.group.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn headers_inside_a_transaction() {
    let lone = Lone::open(|_| {}).await;
    let mut kv = lone.kv();
    kv.put(put("a", 1)).await.unwrap();
    let success = vec![
        delete("none"),
        op(Operation::RequestPut(put("b", 1))),
        delete("none"),
        nested(vec![op(Operation::RequestPut(put("c", 1)))]),
        nested(vec![delete("c")]),
    ];
    let reply = kv.txn(TxnRequest { success, ..TxnRequest::default() }).await.unwrap().into_inner();
    let now = reply.header.unwrap().revision;
    fn revisions(reply: Vec<ResponseOp>) -> Vec<i64> {
        let of = |op: ResponseOp| match op.response.unwrap() {
            Answer::ResponsePut(put) => vec![put.header.unwrap().revision],
            Answer::ResponseDeleteRange(delete) => vec![delete.header.unwrap().revision],
            Answer::ResponseRange(range) => vec![range.header.unwrap().revision],
            Answer::ResponseTxn(txn) => [vec![txn.header.unwrap().revision], revisions(txn.responses)].concat(),
        };
        reply.into_iter().flat_map(of).collect()
    }
    assert_eq!(revisions(reply.responses), [now - 1, now, now, 0, now, 0, now]);
    assert_eq!(kv.range(range("c")).await.unwrap().into_inner().count, 0, "put and deleted in one transaction");
    let then = RangeRequest { revision: now, ..range("c") };
    assert_eq!(kv.range(then).await.unwrap().into_inner().count, 0);
    let nothing = TxnRequest { success: vec![delete("none")], ..TxnRequest::default() };
    assert_eq!(revisions(kv.txn(nothing).await.unwrap().into_inner().responses), [now]);
    lone.group.shutdown().await;
}

/// The code and the text of a page.
async fn page(address: &str, path: &str) -> (u16, String) {
    let stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let io = hyper_util::rt::TokioIo::new(stream);
    let (mut client, connection) = hyper::client::conn::http1::handshake(io).await.unwrap();
    tokio::spawn(connection);
    let request = http::Request::get(path).header("host", address).body(Empty::<bytes::Bytes>::new()).unwrap();
    let response = client.send_request(request).await.unwrap();
    let code = response.status().as_u16();
    (code, String::from_utf8(response.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn probes_can_fail() {
    let lone = Lone::open(|_| {}).await;
    let healthy = (200, r#"{"health":"true","reason":""}"#.to_owned());
    assert_eq!(page(&lone.address, "/health").await, healthy);
    assert!(page(&lone.address, "/version").await.1.starts_with(r#"{"etcdserver":"3.5."#));
    let mut health = HealthClient::new(lone.channel());
    let serving = health.check(HealthCheckRequest::default()).await.unwrap().into_inner();
    assert_eq!(serving.status(), ServingStatus::Serving);
    let mut maintenance = MaintenanceClient::new(lone.channel());
    let hash = maintenance.hash_kv(HashKvRequest { revision: 0 }).await.unwrap().into_inner();
    assert_eq!(hash.compact_revision, -1, "it was never compacted");
    let raise = AlarmRequest {
        action: alarm_request::AlarmAction::Activate.into(),
        member_id: 1,
        alarm: AlarmType::Nospace.into(),
    };
    maintenance.alarm(raise).await.unwrap();
    let alarmed = (503, r#"{"health":"false","reason":"ALARM NOSPACE"}"#.to_owned());
    assert_eq!(page(&lone.address, "/health").await, alarmed);
    assert_eq!(page(&lone.address, "/health?exclude=NOSPACE").await, healthy);
    lone.group.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_without_encryption_says_so() {
    let lone = Lone::open(|_| {}).await;
    let mut cluster = cluster_client::ClusterClient::new(lone.channel());
    let members = cluster.member_list(MemberListRequest::default()).await.unwrap().into_inner().members;
    assert_eq!(members[0].client_ur_ls, [format!("http://{}", lone.address)]);
    lone.group.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_learner_answers_only_reads_that_may_be_old() {
    let lone = Lone::open(|_| {}).await;
    lone.kv().put(put("k", 1)).await.unwrap();
    let seed = lone.address.clone();
    let mut place = String::new();
    let learner = Lone::open(|config| {
        place = config.members[&1].clone();
        config.member = 2;
        config.join = true;
        config.members = std::collections::BTreeMap::from([(1, seed), (2, place.clone())]);
    })
    .await;
    assert_eq!(lone.group.handle().add_member(&place).await.unwrap(), 2);
    wait(|| learner.group.applied_revision() == lone.group.applied_revision()).await;
    wait(|| learner.group.handle().is_learner()).await;

    let mut kv = learner.kv();
    let old = RangeRequest { serializable: true, ..range("k") };
    assert_eq!(kv.range(old).await.unwrap().into_inner().kvs.len(), 1);
    let text = "etcdserver: rpc not supported for learner";
    refused("a range", kv.range(range("k")).await, Code::Unavailable, text);
    refused("a put", kv.put(put("k", 1)).await, Code::Unavailable, text);
    refused("a transaction", kv.txn(TxnRequest::default()).await, Code::Unavailable, text);
    let all = DeleteRangeRequest { key: "k".into(), ..DeleteRangeRequest::default() };
    refused("a delete", kv.delete_range(all).await, Code::Unavailable, text);
    let compact = CompactionRequest { revision: 2, physical: false };
    refused("a compaction", kv.compact(compact).await, Code::Unavailable, text);
    learner.group.shutdown().await;
    lone.group.shutdown().await;
}
