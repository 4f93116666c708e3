//! What a store in other processes does with the lifetime of keys. A member of our own stands for an etcd.

use super::super::tests::{DEADLINE, Lone};
use super::*;
use crate::api::Op;

/// A store whose keys live for `ttl`, on what it takes for an etcd.
fn mortal(lone: &Lone, ttl: Duration) -> RemoteStore {
    let store = RemoteStore::new(std::slice::from_ref(&lone.address), None).unwrap().with_lifetime(ttl);
    store.lifetime.as_ref().unwrap().ours.set(false).unwrap();
    store
}

fn put(key: String) -> Txn {
    Txn { success: vec![Op::put(key, "v")], ..Txn::default() }
}

/// The leases of the keys that begin with `prefix`, one for each key.
async fn leases(store: &dyn Store, prefix: &'static str) -> Vec<LeaseId> {
    store.range(RangeRequest::prefix(prefix)).await.unwrap().kvs.iter().map(|kv| kv.lease).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writes_of_one_moment_share_a_lease_and_another_follows_when_it_is_gone() {
    let lone = Lone::open(|_| {}).await;
    let store = mortal(&lone, Duration::from_secs(3_600));
    let replies = store.txn_batch((0..50).map(|n| put(format!("a{n}"))).collect()).await.unwrap();
    assert!(replies.iter().all(Result::is_ok), "{replies:?}");
    let first = leases(&store, "a").await;
    assert_eq!(first, [first[0]; 50]);
    let granted: Vec<_> = lone.group.view().leases().map(|(id, lease)| (*id, lease.ttl_s)).collect();
    assert_eq!(granted, [(first[0], 3_660)]);

    let revoke = etcd::LeaseRevokeRequest { id: first[0].0 };
    LeaseClient::new(lone.channel()).lease_revoke(revoke).await.unwrap();
    store.txn(put("b".into())).await.unwrap();
    let second = leases(&store, "b").await;
    assert!(second[0] != LeaseId::NONE && second[0] != first[0], "{second:?}");
    assert_eq!(leases(&store, "a").await, []);
    // What hangs on a lease of its own keeps it.
    let own = Op::Put(crate::api::Put { key: "c".into(), lease: LeaseId(99), ..Default::default() });
    let refused = store.txn(Txn { success: vec![own], ..Txn::default() }).await;
    assert!(matches!(refused, Err(StoreError::NoLease(LeaseId(99)))), "{refused:?}");
    lone.group.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_not_written_again_goes() {
    let lone = Lone::open(|_| {}).await;
    let store = mortal(&lone, Duration::from_secs(1));
    store.txn(put("k".into())).await.unwrap();
    let gone = async {
        while !leases(&store, "k").await.is_empty() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(DEADLINE, gone).await.expect("the key goes in time");
    store.txn(put("k".into())).await.unwrap();
    lone.group.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_of_our_own_are_given_no_leases() {
    let lone = Lone::open(|_| {}).await;
    let addresses = std::slice::from_ref(&lone.address);
    let store = RemoteStore::new(addresses, None).unwrap().with_lifetime(Duration::from_secs(3_600));
    store.txn(put("k".into())).await.unwrap();
    assert_eq!(leases(&store, "k").await, [LeaseId::NONE]);
    assert_eq!(lone.group.view().leases().len(), 0);
    lone.group.shutdown().await;
}
