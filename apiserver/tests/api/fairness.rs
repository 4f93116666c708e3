//! Priority and fairness as clients see it: the objects, the headers, the tables, who waits for whom, and who is turned away.

use crate::harness::{Api, CONFIG_MAPS, MERGE, PATIENCE, Reply, names, revision};
use futures::stream::{FuturesUnordered, StreamExt};
use gantry_store::{
    MemStore, RangeReply, RangeRequest, Revision, Store, StoreError, Txn, TxnReply, Watch, WatchRequest,
};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::Semaphore;

const GROUP: &str = "/apis/flowcontrol.apiserver.k8s.io/v1";

fn uid(object: &Value) -> String {
    object["metadata"]["uid"].as_str().unwrap().to_owned()
}

/// The schema and the level that an answer names.
fn named(reply: &Reply) -> [String; 2] {
    ["x-kubernetes-pf-flowschema-uid", "x-kubernetes-pf-prioritylevel-uid"]
        .map(|header| reply.headers.get(header).map_or("", |value| value.to_str().unwrap()).to_owned())
}

async fn schema(api: &Api, name: &str, level: &str, group: &str) -> Value {
    let rule = json!({
        "subjects": [{"kind": "Group", "group": {"name": group}}],
        "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "namespaces": ["*"], "clusterScope": true}],
    });
    let spec = json!({
        "priorityLevelConfiguration": {"name": level}, "matchingPrecedence": 500,
        "distinguisherMethod": {"type": "ByUser"}, "rules": [rule],
    });
    api.post(&format!("{GROUP}/flowschemas"), &json!({"metadata": {"name": name}, "spec": spec})).await.ok()
}

async fn level(api: &Api, name: &str, response: Value) -> Value {
    let limited = json!({"nominalConcurrencyShares": 1, "borrowingLimitPercent": 0, "limitResponse": response});
    let body = json!({"metadata": {"name": name}, "spec": {"type": "Limited", "limited": limited}});
    api.post(&format!("{GROUP}/prioritylevelconfigurations"), &body).await.ok()
}

fn queues() -> Value {
    json!({"type": "Queue", "queuing": {"queues": 64, "handSize": 4, "queueLengthLimit": 100}})
}

/// `l` and `s`, as soon as they decide about the group `team`.
async fn team(api: &Api, response: Value) -> [String; 2] {
    let level = uid(&level(api, "l", response).await);
    let schema = uid(&schema(api, "s", "l", "team").await);
    let expect = [schema, level];
    let reply = api.as_user("jane", &["team"]).get_until(CONFIG_MAPS, |reply| named(reply) == expect).await;
    assert_eq!(reply.code, 403, "a refusal names them too");
    expect
}

#[tokio::test]
async fn answers_name_the_objects_that_decided() {
    let api = Api::new().await;
    let exempt = uid(&api.get(&format!("{GROUP}/flowschemas/exempt")).await.ok());
    assert_eq!(named(&api.get(CONFIG_MAPS).await)[0], exempt);
    team(&api, queues()).await;
    api.delete(&format!("{GROUP}/flowschemas/s"), &Value::Null).await.ok();
    let default = uid(&api.get(&format!("{GROUP}/flowschemas/global-default")).await.ok());
    api.as_user("jane", &["team"]).get_until(CONFIG_MAPS, |reply| named(reply)[0] == default).await;
    // What a machine answers is not queued.
    let log = api.as_user("jane", &["team"]).get("/api/v1/namespaces/default/pods/p/log").await;
    assert_eq!((log.code, named(&log)), (403, [String::new(), String::new()]));
    let forbidden = api.as_user("jane", &[]).get_as(CONFIG_MAPS, "application/vnd.kubernetes.protobuf").await;
    assert_eq!(forbidden.headers["content-type"], "application/vnd.kubernetes.protobuf", "{}", forbidden.text);
}

#[tokio::test]
async fn a_schema_without_a_level_says_so() {
    let api = Api::new().await;
    schema(&api, "s", "l", "team").await;
    let path = format!("{GROUP}/flowschemas/s");
    let is = |status: &'static str| move |reply: &Reply| reply.body["status"]["conditions"][0]["status"] == status;
    let dangling = api.get_until(&path, is("True")).await.body["status"]["conditions"][0].clone();
    assert_eq!((&dangling["type"], &dangling["reason"]), (&json!("Dangling"), &json!("NotFound")));
    level(&api, "l", queues()).await;
    api.get_until(&path, is("False")).await;
}

#[tokio::test]
async fn the_servers_own_objects_come_back() {
    let api = Api::new().await;
    for path in ["prioritylevelconfigurations/system", "prioritylevelconfigurations/catch-all", "flowschemas/exempt"] {
        let path = format!("{GROUP}/{path}");
        let before = uid(&api.get(&path).await.ok());
        api.delete(&path, &Value::Null).await.ok();
        api.get_until(&path, |reply| reply.code == 200 && uid(&reply.body) != before).await;
    }
}

#[tokio::test]
async fn a_starting_server_puts_suggestions_right_where_it_may() {
    let api = Api::new().await;
    let of = |name: &str| format!("{GROUP}/prioritylevelconfigurations/{name}");
    let shares = |n: u32| json!({"spec": {"limited": {"nominalConcurrencyShares": n}}});
    let annotated =
        |value: Option<&str>| json!({"metadata": {"annotations": {"apf.kubernetes.io/autoupdate-spec": value}}});
    for (name, auto) in [("system", Some("true")), ("node-high", Some("false")), ("workload-low", None)] {
        api.patch(MERGE, &of(name), &annotated(auto)).await.ok();
        api.patch(MERGE, &of(name), &shares(7)).await.ok();
    }
    level(&api, "old", queues()).await;
    api.patch(MERGE, &of("old"), &annotated(Some("true"))).await.ok();
    // This one may look at its objects at any time, too.
    api.twin().await;
    api.get_until(&of("old"), |reply| reply.code == 404).await;
    // The last one was changed before anybody said whose it is.
    for (name, shares, auto) in [("system", 30, "true"), ("node-high", 7, "false"), ("workload-low", 7, "false")] {
        let wanted = |reply: &Reply| {
            let annotations = &reply.body["metadata"]["annotations"];
            reply.body["spec"]["limited"]["nominalConcurrencyShares"] == shares
                && annotations["apf.kubernetes.io/autoupdate-spec"] == auto
        };
        api.get_until(&of(name), wanted).await;
    }
}

#[tokio::test]
async fn the_tables_are_served_to_who_may_see_them() {
    let api = Api::new().await;
    for what in ["dump_priority_levels", "dump_queues", "dump_requests"] {
        let path = format!("/debug/api_priority_and_fairness/{what}");
        let text = api.get(&path).await.text;
        assert!(text.starts_with("PriorityLevelName,"), "{text}");
        assert_eq!(api.as_user("jane", &[]).get(&path).await.code, 403);
    }
    // The request that asks for the table runs.
    let text = api.get("/debug/api_priority_and_fairness/dump_requests?includeRequestDetails=1").await.text;
    let asking = text.lines().find(|line| line.contains("kubernetes-admin")).unwrap();
    assert!(asking.contains("exempt") && asking.contains("/debug/api_priority_and_fairness/dump_requests"), "{text}");
    assert_eq!(api.get("/debug/api_priority_and_fairness/other").await.code, 404);
}

/// The seats that requests of the exempt level were reckoned to take so far. Asking takes one.
async fn seats(api: &Api) -> usize {
    let name = r#"apiserver_flowcontrol_work_estimated_seats_sum{flow_schema="exempt",priority_level="exempt"} "#;
    let metrics = api.get("/metrics").await.text;
    metrics.lines().find_map(|line| line.strip_prefix(name)).unwrap().parse().unwrap()
}

#[tokio::test]
async fn requests_are_as_wide_as_what_they_make_the_server_do() {
    let api = Api::new().await;
    for n in 0..150 {
        api.config_map(&format!("c{n:03}"), json!({})).await;
    }
    // This server has seen all of them by then.
    assert_eq!(names(&api.get(CONFIG_MAPS).await.ok()).len(), 150);
    let check = async |path: &str, expect: usize| {
        let before = seats(&api).await;
        api.get(path).await.ok();
        assert_eq!(seats(&api).await - before - 1, expect, "{path}");
    };
    check(CONFIG_MAPS, 2).await;
    check("/api/v1/configmaps", 2).await;
    check(&format!("{CONFIG_MAPS}?limit=50"), 1).await;
    check(&format!("{CONFIG_MAPS}?limit=50&labelSelector=a"), 2).await;
    check(&format!("{CONFIG_MAPS}/c000"), 1).await;
    check("/api/v1/namespaces/kube-system/configmaps", 1).await;
    let at = revision(&api.get(CONFIG_MAPS).await.ok());
    let mut watches = Vec::new();
    for _ in 0..600 {
        watches.push(api.watch(&format!("/api/v1/configmaps?watch=1&resourceVersion={at}")).await);
    }
    let before = seats(&api).await;
    api.config_map("told", json!({})).await;
    assert_eq!(seats(&api).await - before - 1, 2, "six milliseconds of telling");
}

/// A store whose writes, once it is slow, each wait for the test.
struct Slow {
    inner: MemStore,
    slow: AtomicBool,
    permits: Semaphore,
}

impl Slow {
    async fn turn(&self) {
        if self.slow.load(Ordering::Relaxed) {
            self.permits.acquire().await.unwrap().forget();
        }
    }
}

#[async_trait::async_trait]
impl Store for Slow {
    async fn txn(&self, txn: Txn) -> Result<TxnReply, StoreError> {
        self.turn().await;
        self.inner.txn(txn).await
    }
    async fn txn_batch(&self, txns: Vec<Txn>) -> Result<Vec<Result<TxnReply, StoreError>>, StoreError> {
        self.turn().await;
        self.inner.txn_batch(txns).await
    }
    async fn range(&self, request: RangeRequest) -> Result<RangeReply, StoreError> {
        self.inner.range(request).await
    }
    async fn watch(&self, request: WatchRequest) -> Result<Watch, StoreError> {
        self.inner.watch(request).await
    }
    async fn read_revision(&self) -> Result<Revision, StoreError> {
        self.inner.read_revision().await
    }
    async fn compact(&self, revision: Revision) -> Result<(), StoreError> {
        self.inner.compact(revision).await
    }
}

/// One share of six hundred seats in 246 shares: three seats.
const SEATS: usize = 3;

async fn until(what: impl Fn() -> bool) {
    let met = async {
        while !what() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(PATIENCE, met).await.expect("it comes to that in time");
}

fn load(api: &Api) -> (usize, usize) {
    let load = api.server.core().fairness.load();
    load.into_iter().find(|(name, ..)| name == "l").map_or((0, 0), |(_, executing, waiting)| (executing, waiting))
}

/// A server whose store is slow, with a level of three seats for the group `team`.
async fn slow(response: Value) -> (Api, Arc<Slow>) {
    let store = Arc::new(Slow { inner: MemStore::new(), slow: AtomicBool::new(false), permits: Semaphore::new(0) });
    let api = Api::over_state(store.clone()).await;
    team(&api, response).await;
    // The server has nothing of its own to write any more.
    let told = |schema: &Value| schema["status"]["conditions"][0]["status"] == "False";
    api.get_until(&format!("{GROUP}/flowschemas"), |reply| reply.body["items"].as_array().unwrap().iter().all(told))
        .await;
    let rules = json!([{"verbs": ["get", "list", "create"], "apiGroups": [""], "resources": ["configmaps"]}]);
    let rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/default";
    api.post(&format!("{rbac}/roles"), &json!({"metadata": {"name": "r"}, "rules": rules})).await.ok();
    let binding = json!({
        "metadata": {"name": "r"}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "team"}],
    });
    api.post(&format!("{rbac}/rolebindings"), &binding).await.ok();
    api.as_user("jane", &["team"]).get_until(CONFIG_MAPS, |reply| reply.code == 200).await;
    store.slow.store(true, Ordering::Relaxed);
    (api, store)
}

async fn write(api: Api, user: &'static str, n: usize) -> (&'static str, Reply) {
    let name = json!({"metadata": {"name": format!("{user}-{n}")}});
    (user, api.as_user(user, &["team"]).post(CONFIG_MAPS, &name).await)
}

#[tokio::test]
async fn one_flow_that_floods_a_level_does_not_keep_another_waiting() {
    const FLOOD: usize = 60;
    let (api, store) = slow(queues()).await;
    let mut writes: FuturesUnordered<_> = (0..FLOOD).map(|n| tokio::spawn(write(api.clone(), "noisy", n))).collect();
    until(|| load(&api) == (SEATS, FLOOD - SEATS)).await;
    writes.push(tokio::spawn(write(api.clone(), "quiet", 0)));
    until(|| load(&api) == (SEATS, FLOOD - SEATS + 1)).await;
    let mut before = 0;
    loop {
        store.permits.add_permits(1);
        let (user, reply) = writes.next().await.unwrap().unwrap();
        reply.ok();
        if user == "quiet" {
            break;
        }
        before += 1;
    }
    // Those that ran already, and a turn of each of the flow's four queues.
    assert!(before <= SEATS + 4, "{before} of the flood went first");
    store.slow.store(false, Ordering::Relaxed);
    store.permits.add_permits(FLOOD);
    while let Some(done) = writes.next().await {
        assert_eq!(done.unwrap().1.code, 201);
    }
}

#[tokio::test]
async fn a_level_that_rejects_says_when_to_come_again() {
    let (api, store) = slow(json!({"type": "Reject"})).await;
    let running: Vec<_> = (0..SEATS).map(|n| tokio::spawn(write(api.clone(), "noisy", n))).collect();
    until(|| load(&api) == (SEATS, 0)).await;
    let (_, refused) = write(api.clone(), "quiet", 0).await;
    let expect = "429 TooManyRequests the server has received too many requests and has asked us to try again later";
    assert_eq!(refused.failure(), expect);
    assert_eq!(
        (&refused.headers["retry-after"], &refused.body["details"]["retryAfterSeconds"]),
        (&"1".parse().unwrap(), &json!(1))
    );
    assert!(named(&refused).iter().all(|uid| !uid.is_empty()), "it tells who refused");
    let metrics = api.get("/metrics").await.text;
    for expect in [
        r#"apiserver_flowcontrol_rejected_requests_total{flow_schema="s",priority_level="l",reason="concurrency-limit"} 1"#,
        r#"apiserver_flowcontrol_current_executing_requests{flow_schema="s",priority_level="l"} 3"#,
        r#"apiserver_flowcontrol_nominal_limit_seats{priority_level="l"} 3"#,
    ] {
        assert!(metrics.lines().any(|line| line == expect), "{expect}");
    }
    store.permits.add_permits(SEATS);
    for one in running {
        assert_eq!(one.await.unwrap().1.code, 201);
    }
}
