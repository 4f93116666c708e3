//! How long anything may take: bodies that do not come, stores that do not answer.

use crate::harness::{Api, CONFIG_MAPS};
use bytes::Bytes;
use futures::FutureExt;
use gantry_store::{
    MemStore, RangeReply, RangeRequest, Revision, Store, StoreError, Txn, TxnReply, Watch, WatchRequest,
};
use http::Request;
use http_body_util::StreamBody;
use hyper::body::Frame;
use serde_json::json;
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tower::Service;

#[tokio::test]
async fn a_slow_body_holds_nobodys_seat() {
    let api = Api::new().await.as_user("system:kube-controller-manager", &[]);
    let mut service = api.server.in_process(api.user.clone());
    let body = StreamBody::new(futures::stream::pending::<Result<Frame<Bytes>, Infallible>>());
    let request = Request::post(CONFIG_MAPS).header("content-type", "application/json").body(body).unwrap();
    let mut answer = service.call(request);
    assert!((&mut answer).now_or_never().is_none(), "it waits for its body");
    assert!(api.server.core().fairness.load().iter().all(|(_, executing, _)| *executing == 0));
}

#[tokio::test]
async fn slow_bodies_of_one_leave_room_for_others() {
    let api = Api::new().await;
    let jane = api.as_user("jane", &["system:masters"]);
    let body = || StreamBody::new(futures::stream::pending::<Result<Frame<Bytes>, Infallible>>());
    let mut service = jane.server.in_process(jane.user.clone());
    let uploads: Vec<_> = (0..100)
        .map(|_| {
            let request = Request::post(CONFIG_MAPS).header("content-type", "application/json").body(body());
            let mut answer = service.call(request.unwrap());
            ((&mut answer).now_or_never().map(|answer| answer.unwrap().status().as_u16()), answer)
        })
        .collect();
    // 3 MiB each, as nobody knows how long they become: 42 in 128 MiB.
    let waiting = uploads.iter().filter(|(answered, _)| answered.is_none()).count();
    assert_eq!((waiting, uploads[99].0), (42, Some(429)));
    // What is small goes on until the share is full, and others have theirs.
    let object = |name: &str| json!({"metadata": {"name": name}});
    assert_eq!(api.post(CONFIG_MAPS, &object("a")).await.code, 201);
    let headers = [("content-type", "application/json"), ("content-length", "3145728")];
    let refused = jane.send(http::Method::POST, CONFIG_MAPS, &headers, object("b").to_string()).await;
    let expect = "429 TooManyRequests bodies of writes of \"jane\" take all 128 MiB that one user may have";
    assert_eq!(refused.failure(), expect);
    drop(uploads);
    assert_eq!(jane.post(CONFIG_MAPS, &object("b")).await.code, 201);
}

/// A store that at some point stops answering writes, and whose watches tell everything as late as it says.
#[derive(Default)]
struct Troubled {
    inner: MemStore,
    stalled: AtomicBool,
    late: Duration,
}

#[async_trait::async_trait]
impl Store for Troubled {
    async fn txn(&self, txn: Txn) -> Result<TxnReply, StoreError> {
        if self.stalled.load(Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
        self.inner.txn(txn).await
    }
    async fn txn_batch(&self, txns: Vec<Txn>) -> Result<Vec<Result<TxnReply, StoreError>>, StoreError> {
        self.inner.txn_batch(txns).await
    }
    async fn range(&self, request: RangeRequest) -> Result<RangeReply, StoreError> {
        self.inner.range(request).await
    }
    async fn watch(&self, request: WatchRequest) -> Result<Watch, StoreError> {
        let mut inner = self.inner.watch(request).await?;
        let late = self.late;
        let (sender, receiver) = tokio::sync::mpsc::channel(64);
        tokio::spawn(async move {
            while let Some(batch) = inner.next().await {
                tokio::time::sleep(late).await;
                if sender.send(batch).await.is_err() {
                    return;
                }
            }
        });
        Ok(Watch::new(receiver, None))
    }
    async fn read_revision(&self) -> Result<Revision, StoreError> {
        self.inner.read_revision().await
    }
    async fn compact(&self, revision: Revision) -> Result<(), StoreError> {
        self.inner.compact(revision).await
    }
}

#[tokio::test(start_paused = true)]
async fn a_write_that_the_store_never_answers_ends() {
    let store = Arc::new(Troubled::default());
    let api = Api::over_state(store.clone()).await;
    let body = json!({"metadata": {"name": "a"}});
    api.post(CONFIG_MAPS, &body).await.ok();
    store.stalled.store(true, Ordering::Relaxed);
    let late = api.post(CONFIG_MAPS, &json!({"metadata": {"name": "b"}})).await;
    assert_eq!(late.failure(), "504 Timeout Timeout: request did not complete within the allotted timeout");
}

/// Its condition is one more write, which comes later than the definition itself.
#[tokio::test(start_paused = true)]
async fn a_new_definition_serves_whoever_asks_next() {
    let api = Api::over_state(Arc::new(Troubled { late: Duration::from_millis(100), ..Troubled::default() })).await;
    let definition = json!({"metadata": {"name": "widgets.example.com"}, "spec": {
        "group": "example.com", "scope": "Cluster", "names": {"plural": "widgets", "kind": "Widget"},
        "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}]}});
    api.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &definition).await.ok();
    assert_eq!(api.get("/apis/example.com/v1/widgets").await.ok()["kind"], "WidgetList");
}
