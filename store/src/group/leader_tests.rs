//! Members with and without a leader, as their clients see them.

use super::tests::{Cluster, DEADLINE, put, wait};
use super::*;
use crate::proto::etcd::kv_client::KvClient;
use crate::proto::etcd::lease_client::LeaseClient;
use crate::proto::etcd::maintenance_client::MaintenanceClient;
use crate::proto::etcd::watch_client::WatchClient;
use crate::proto::etcd::watch_request::RequestUnion;
use crate::proto::etcd::{
    LeaseKeepAliveRequest, PutRequest, StatusRequest, WatchCreateRequest, WatchRequest as WatchMessage,
};
use futures::StreamExt;
use tonic::{Code, Request, Status};

fn asking<T>(message: T) -> Request<T> {
    let mut request = Request::new(message);
    request.metadata_mut().insert("hasleader", "true".parse().unwrap());
    request
}

fn no_leader(status: &Status) {
    assert_eq!((status.code(), status.message()), (Code::Unavailable, "etcdserver: no leader"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_asks_for_a_leader_is_told_that_there_is_none() {
    let mut cluster = Cluster::start(None).await;
    wait(|| cluster.leader().is_some()).await;
    let left = (cluster.leader().unwrap() + 1) % 3;
    let channel = crate::peer::channel(&cluster.members[&(left as u64 + 1)], None).unwrap();
    let create = RequestUnion::CreateRequest(WatchCreateRequest { key: "k".into(), ..Default::default() });
    let requests =
        futures::stream::iter([WatchMessage { request_union: Some(create) }]).chain(futures::stream::pending());
    let mut watch = WatchClient::new(channel.clone()).watch(asking(requests)).await.unwrap().into_inner();
    assert!(watch.message().await.unwrap().unwrap().created);
    let requests = futures::stream::iter([LeaseKeepAliveRequest { id: 7 }]).chain(futures::stream::pending());
    let mut lease = LeaseClient::new(channel.clone()).lease_keep_alive(asking(requests)).await.unwrap().into_inner();
    assert_eq!(lease.message().await.unwrap().unwrap().ttl, 0, "nobody granted it");

    for other in [(left + 1) % 3, (left + 2) % 3] {
        cluster.stop(other).await;
    }
    no_leader(&tokio::time::timeout(DEADLINE, watch.message()).await.unwrap().unwrap_err());
    no_leader(&tokio::time::timeout(DEADLINE, lease.message()).await.unwrap().unwrap_err());
    let write = PutRequest { key: "k".into(), ..PutRequest::default() };
    no_leader(&KvClient::new(channel.clone()).put(asking(write)).await.unwrap_err());
    let status = MaintenanceClient::new(channel).status(StatusRequest {}).await.unwrap().into_inner();
    assert_eq!((status.leader, &status.errors[..]), (0, &["etcdserver: no leader".to_owned()][..]));
    cluster.stop_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_retires_hands_over_first() {
    let mut cluster = Cluster::start(None).await;
    wait(|| cluster.leader().is_some()).await;
    let leader = cluster.leader().unwrap();
    let term = cluster.group(leader).handle.term();
    let retired = cluster.groups[leader].take().unwrap();
    retired.handle.hand_over().await;
    let next = cluster.leader().expect("another leads already");
    assert_eq!((next == leader, cluster.group(next).handle.term()), (false, term + 1), "without an election time-out");
    retired.shutdown().await;
    cluster.group(next).txn(put("k", "v")).await.unwrap();
    cluster.stop_all().await;
}
