//! Batches of transactions on the wire: with members that know them, and with those that do not.

use super::super::RemoteStore;
use super::super::tests::Lone;
use super::*;
use crate::api::{Compare, Op, OpReply, Revision};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tower::{Service, ServiceExt};

fn put_of(key: String, bytes: usize) -> Txn {
    Txn { success: vec![Op::put(key, vec![7; bytes])], ..Txn::default() }
}

fn conditional(key: &'static str, at: u64) -> Txn {
    Txn {
        compare: vec![Compare::unchanged(key, Revision(at))],
        success: vec![Op::put(key, "new")],
        failure: vec![Op::get(key)],
    }
}

#[test]
fn a_call_is_bounded_by_count_and_bytes() {
    let rows = [(0, 0, 0), (3, 10, 3), (2_000, 10, MOST), (20, 1 << 20, 8), (2, 10 << 20, 1)];
    for (count, bytes, expect) in rows {
        let txns: Vec<Txn> = (0..count).map(|at| put_of(format!("k{at}"), bytes)).collect();
        assert_eq!(fitting(txns.iter()), expect, "{count} of {bytes} bytes");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_transaction_of_a_batch_has_its_own_outcome() {
    let lone = Lone::open(|_| {}).await;
    let store = RemoteStore::new(std::slice::from_ref(&lone.address), None).unwrap();
    let before = store.txn(put_of("k".into(), 5)).await.unwrap().revision;
    let large = put_of("large".into(), limits::MAX_VALUE_BYTES + 1);
    // More than etcd's interface takes in one request.
    let wide =
        Txn { success: (0..3).map(|at| Op::put(format!("w{at}"), vec![7; 1 << 20])).collect(), ..Txn::default() };
    let txns = vec![conditional("k", before.0), conditional("k", before.0), large, put_of("z".into(), 1), wide];
    let mut replies = store.txn_batch(txns).await.unwrap().into_iter();
    let won = replies.next().unwrap().unwrap();
    assert!(won.succeeded && won.revision > before);
    let lost = replies.next().unwrap().unwrap();
    let found = lost.ops.into_iter().next().and_then(OpReply::into_key_value).unwrap();
    assert!(!lost.succeeded && found.mod_revision == won.revision && found.value == "new");
    assert!(matches!(replies.next().unwrap(), Err(StoreError::TooLarge { .. })));
    assert!(replies.all(|reply| reply.is_ok_and(|reply| reply.succeeded)));
    lone.group.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_no_batch_is_refused() {
    let lone = Lone::open(|_| {}).await;
    let check = async |version: u32, body: Vec<u8>, expect: Result<bool, Code>| {
        let answer = send(lone.channel(), TxnBatch { version, body: body.into() }).await;
        let answer = answer.map(|answer| answer.into_inner().is_some()).map_err(|status| status.code());
        assert_eq!(answer, expect, "version {version}");
    };
    let good = put(&[put_of("k".into(), 1)]).body.to_vec();
    check(VERSION, good.clone(), Ok(true)).await;
    check(VERSION + 1, good.clone(), Ok(false)).await;
    check(VERSION, good[..good.len() - 1].to_vec(), Err(Code::InvalidArgument)).await;
    check(VERSION, [&good[..], &[0]].concat(), Err(Code::InvalidArgument)).await;
    check(VERSION, vec![255; 20], Err(Code::InvalidArgument)).await;
    lone.group.shutdown().await;
}

/// The address of a member that knows etcd's interface only, and how often it was asked for what it does not know.
async fn older(lone: &Lone) -> (String, Arc<AtomicUsize>) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (behind, asked) = (lone.channel(), Arc::new(AtomicUsize::new(0)));
    let count = asked.clone();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (behind, count) = (behind.clone(), count.clone());
            let service = hyper::service::service_fn(move |request: http::Request<Incoming>| {
                let (mut behind, count) = (behind.clone(), count.clone());
                async move {
                    if request.uri().path().contains(SERVICE_NAME) {
                        count.fetch_add(1, Ordering::Relaxed);
                        return Ok(Status::unimplemented("unknown service").into_http());
                    }
                    behind.ready().await?.call(request.map(tonic::body::Body::new)).await
                }
            });
            tokio::spawn(async move {
                let server = auto::Builder::new(TokioExecutor::new());
                server.serve_connection(TokioIo::new(stream), service).await.map_err(|error| error.to_string())
            });
        }
    });
    (address, asked)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_knows_no_batches_is_sent_one_after_the_other() {
    let lone = Lone::open(|_| {}).await;
    let (address, asked) = older(&lone).await;
    let store = RemoteStore::new(&[address], None).unwrap();
    for round in 0..3 {
        let txns = (0..40).map(|at| put_of(format!("{round}/{at}"), 10)).collect();
        let replies = store.txn_batch(txns).await.unwrap();
        assert_eq!(replies.len(), 40);
        assert!(replies.iter().all(|reply| reply.as_ref().is_ok_and(|reply| reply.succeeded)), "{replies:?}");
    }
    assert_eq!(asked.load(Ordering::Relaxed), 1, "it is not asked each time");
    let all = store.range(crate::api::RangeRequest { count_only: true, ..crate::api::RangeRequest::prefix("") }).await;
    assert_eq!(all.unwrap().count, 120);
    lone.group.shutdown().await;
}
