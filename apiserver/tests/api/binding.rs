//! Binding: room, versions, at-most-one claims, graceful pod deletion.

use crate::harness::{Api, MERGE, STRATEGIC, revision};
use serde_json::{Value, json};

pub const PODS: &str = "/api/v1/namespaces/default/pods";
pub const BULK: &str = "/apis/gantry.dev/v1/bindings";

pub async fn cluster(nodes: &[&str], cpu: &str) -> Api {
    let api = Api::new().await;
    api.post("/api/v1/namespaces/default/serviceaccounts", &json!({"metadata": {"name": "default"}})).await.ok();
    api.get("/api/v1/serviceaccounts").await.ok();
    for name in nodes {
        api.post("/api/v1/nodes", &json!({"metadata": {"name": name}})).await.ok();
        let status = json!({"status": {"allocatable": {"cpu": cpu, "memory": "8Gi", "pods": "100"}}});
        api.patch(MERGE, &format!("/api/v1/nodes/{name}/status"), &status).await.ok();
    }
    api
}

pub async fn pod(api: &Api, name: &str, metadata: Value) -> Value {
    let mut body = json!({"metadata": {"name": name}, "spec": {
        "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}]}});
    for (key, value) in metadata.as_object().unwrap() {
        body["metadata"][key] = value.clone();
    }
    api.post(PODS, &body).await.ok()
}

pub async fn bind(api: &Api, pod: &str, node: &str) -> crate::harness::Reply {
    let body = json!({"metadata": {"name": pod}, "target": {"kind": "Node", "name": node}});
    api.post(&format!("{PODS}/{pod}/binding"), &body).await
}

pub async fn allocation(api: &Api, node: &str) -> Value {
    api.get(&format!("/apis/gantry.dev/v1/nodeallocations/{node}")).await.ok()
}

pub fn item(pod: &Value, node: &str, version: u64) -> Value {
    let metadata = &pod["metadata"];
    json!({"namespace": "default", "name": metadata["name"], "uid": metadata["uid"], "node": node, "allocationVersion": version.to_string()})
}

pub async fn bulk(api: &Api, items: Vec<Value>) -> Vec<u64> {
    let body = json!({"apiVersion": "gantry.dev/v1", "kind": "BindingBatch", "items": items});
    let reply = api.post(BULK, &body).await.ok();
    reply["items"].as_array().unwrap().iter().map(|item| item["code"].as_u64().unwrap()).collect()
}

#[tokio::test]
async fn a_bind_sets_the_machine_and_moves_its_allocation() {
    let api = cluster(&["n"], "4").await;
    pod(&api, "a", json!({})).await;
    let before = allocation(&api, "n").await;
    assert_eq!(bind(&api, "a", "n").await.code, 201);
    let bound = api.get(&format!("{PODS}/a")).await.ok();
    assert_eq!(bound["spec"]["nodeName"], "n");
    let scheduled =
        bound["status"]["conditions"].as_array().unwrap().iter().find(|c| c["type"] == "PodScheduled").unwrap();
    assert_eq!(scheduled["status"], "True");
    let after = allocation(&api, "n").await;
    assert!(revision(&after) > revision(&before));
    assert_eq!((&after["status"]["requested"]["cpu"], &after["status"]["pods"]), (&json!("1"), &json!(1)));
    assert!(bind(&api, "a", "n").await.failure().contains("already assigned to node"));
    assert_eq!(bind(&api, "none", "n").await.code, 404);
    pod(&api, "b", json!({})).await;
    assert_eq!(bind(&api, "b", "none").await.code, 404);
    let here = api.get("/api/v1/pods?fieldSelector=spec.nodeName%3Dn").await.ok();
    assert_eq!(crate::harness::names(&here), ["a"]);
}

#[tokio::test]
async fn a_resize_takes_its_room_from_those_who_decide_meanwhile() {
    let api = cluster(&["n"], "4").await;
    pod(&api, "a", json!({})).await;
    bind(&api, "a", "n").await.ok();
    let seen = revision(&allocation(&api, "n").await);
    let wish = json!({"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "3"}}}]}});
    let reply = api.patch(STRATEGIC, &format!("{PODS}/a/resize"), &wish).await;
    assert!(reply.warnings().iter().any(|text| text.contains("resources: stored, but not acted upon yet")));
    reply.ok();
    let after = allocation(&api, "n").await;
    assert!(revision(&after) > seen);
    assert_eq!(after["status"]["requested"]["cpu"], "3");
    let late = pod(&api, "b", json!({})).await;
    assert_eq!(bulk(&api, vec![item(&late, "n", seen)]).await, [409]);
}

#[tokio::test]
async fn two_binders_never_exceed_a_machine() {
    let api = cluster(&["n"], "3").await;
    let twin = api.twin().await;
    for at in 0..10 {
        pod(&api, &format!("p{at}"), json!({})).await;
    }
    let tasks: Vec<_> = (0..10)
        .map(|at| {
            let api = if at % 2 == 0 { api.clone() } else { twin.clone() };
            tokio::spawn(async move { bind(&api, &format!("p{at}"), "n").await.code })
        })
        .collect();
    let mut bound = 0;
    for task in tasks {
        let code = task.await.unwrap();
        assert!(code == 201 || code == 409, "{code}");
        bound += usize::from(code == 201);
    }
    // Some may have lost all their tries to races; asking again one by one fills the machine and not more.
    for at in 0..10 {
        bound += usize::from(bind(&api, &format!("p{at}"), "n").await.code == 201);
    }
    assert_eq!(bound, 3);
    assert_eq!(allocation(&api, "n").await["status"]["requested"]["cpu"], "3");
}

#[tokio::test]
async fn a_bulk_bind_holds_only_from_the_version_it_was_decided_from() {
    let api = cluster(&["n", "m"], "4").await;
    let (a, b, c) = (pod(&api, "a", json!({})).await, pod(&api, "b", json!({})).await, pod(&api, "c", json!({})).await);
    let (n, m) = (revision(&allocation(&api, "n").await), revision(&allocation(&api, "m").await));
    let mut wrong_uid = item(&c, "m", m);
    wrong_uid["uid"] = "other".into();
    let mut missing = item(&c, "m", m);
    missing["name"] = "none".into();
    let codes = bulk(&api, vec![item(&a, "n", n), item(&a, "n", n), item(&b, "m", m), wrong_uid, missing]).await;
    assert_eq!(codes, [201, 409, 201, 409, 404]);
    assert_eq!(api.get(&format!("{PODS}/b")).await.ok()["spec"]["nodeName"], "m");
    assert_eq!(bulk(&api, vec![item(&c, "n", n)]).await, [409], "the version has moved");
    // A pod that changed in something else still binds.
    let n = revision(&allocation(&api, "n").await);
    api.patch(MERGE, &format!("{PODS}/c"), &json!({"metadata": {"labels": {"x": "y"}}})).await.ok();
    assert_eq!(bulk(&api, vec![item(&c, "n", n)]).await, [201]);
}

#[tokio::test]
async fn whatever_takes_room_moves_the_version() {
    let api = cluster(&["n"], "4").await;
    let mut last = revision(&allocation(&api, "n").await);
    let mut moved = async |api: &Api, expect: bool, what: &str| {
        let at = allocation(api, "n").await;
        let now = revision(&at);
        assert_eq!(now > last, expect, "{what}");
        assert!(!expect || at["bound"] == u64::from(what.contains("create")), "{what}: {}", at["bound"]);
        last = now;
    };
    let status = |cpu: &str| json!({"status": {"allocatable": {"cpu": cpu}}});
    api.patch(MERGE, "/api/v1/nodes/n/status", &status("5")).await.ok();
    moved(&api, false, "allocatable up").await;
    api.patch(MERGE, "/api/v1/nodes/n/status", &status("3")).await.ok();
    moved(&api, true, "allocatable down").await;
    let placed =
        json!({"metadata": {"name": "placed"}, "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]}});
    api.post(PODS, &placed).await.ok();
    moved(&api, true, "a create with a machine").await;
    api.delete(&format!("{PODS}/placed"), &json!({"gracePeriodSeconds": 0})).await.ok();
    moved(&api, false, "a pod's end").await;
    let lends = |cpu: &str| json!({"metadata": {"name": "n"}, "spec": {"lendable": {"cpu": cpu}}});
    let path = "/apis/gantry.dev/v1/batchcapacities";
    api.post(path, &lends("2")).await.ok();
    moved(&api, false, "lending").await;
    api.patch(MERGE, &format!("{path}/n"), &lends("3")).await.ok();
    moved(&api, false, "lending more").await;
    api.patch(MERGE, &format!("{path}/n"), &lends("2500m")).await.ok();
    moved(&api, true, "lending less").await;
    api.delete(&format!("{path}/n"), &json!(null)).await.ok();
    moved(&api, true, "lending nothing").await;
    api.delete("/api/v1/nodes/n", &json!(null)).await.ok();
    assert_eq!(api.get("/apis/gantry.dev/v1/nodeallocations/n").await.code, 404);
    assert_eq!(api.post("/apis/gantry.dev/v1/nodeallocations", &json!({"metadata": {"name": "x"}})).await.code, 405);
}

#[tokio::test]
async fn batch_goes_where_a_machine_lends_and_the_others_stay_within_allocatable() {
    let api = cluster(&["n"], "4").await;
    let lends = json!({"metadata": {"name": "n"}, "spec": {"lendable": {"cpu": "2", "memory": "1Gi"}}});
    api.post("/apis/gantry.dev/v1/batchcapacities", &lends).await.ok();
    let asks = async |name: &str, class: &str, cpu: &str| {
        let spec = json!({"priorityClassName": class, "containers": [
            {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}]});
        api.post(PODS, &json!({"metadata": {"name": name}, "spec": spec})).await.ok();
        bind(&api, name, "n").await
    };
    asks("p1", "production", "3").await.ok();
    asks("b1", "batch", "2").await.ok();
    let refused = asks("p2", "production", "1500m").await.failure();
    assert!(refused.contains("node n has no room: cpu: wants 1500m, 1 free"), "{refused}");
    assert!(asks("b2", "best-effort", "1100m").await.failure().contains("cpu: wants 1100m, 1 free"));
    asks("o1", "", "1").await.ok();
    assert!(asks("b3", "batch", "1m").await.failure().contains("0 free"));
    api.delete(&format!("{PODS}/b1"), &json!({"gracePeriodSeconds": 0})).await.ok();
    // A list answers once this server has heard of the end.
    api.get(PODS).await.ok();
    assert!(asks("o2", "", "1m").await.failure().contains("0 free"), "others do not borrow");
    asks("b4", "best-effort", "2").await.ok();
}

#[tokio::test]
async fn a_claim_is_taken_by_the_bind_and_freed_by_the_machines_agent() {
    let api = cluster(&["n"], "4").await;
    let opt_in = json!({"annotations": {"gantry.dev/at-most-one": "true"}});
    let claim = "/apis/gantry.dev/v1/namespaces/default/atmostoneclaims/pod-a";
    let first = pod(&api, "a", opt_in.clone()).await;
    assert_eq!(bind(&api, "a", "n").await.code, 201);
    let held = api.get(claim).await.ok();
    assert_eq!((&held["holder"]["uid"], &held["epoch"]), (&first["metadata"]["uid"], &json!(1)));
    assert_eq!(api.get(&format!("{PODS}/a")).await.ok()["metadata"]["annotations"]["gantry.dev/epoch"], "1");
    // An administrator's force delete proves nothing about the containers.
    api.delete(&format!("{PODS}/a"), &json!({"gracePeriodSeconds": 0})).await.ok();
    assert_eq!(api.get(claim).await.ok()["holder"]["uid"], first["metadata"]["uid"]);
    pod(&api, "a", opt_in.clone()).await;
    assert!(bind(&api, "a", "n").await.failure().contains("claim"));
}

#[tokio::test]
async fn the_agents_word_frees_the_claim_and_epochs_grow() {
    let api = cluster(&["n"], "4").await;
    let opt_in = json!({"annotations": {"gantry.dev/at-most-one": "true"}});
    let claim = "/apis/gantry.dev/v1/namespaces/default/atmostoneclaims/pod-a";
    pod(&api, "a", opt_in.clone()).await;
    bind(&api, "a", "n").await.ok();
    api.get("/api/v1/pods").await.ok();
    let agent = api.as_user("system:node:n", &["system:nodes"]);
    agent.delete(&format!("{PODS}/a"), &json!({"gracePeriodSeconds": 0})).await.ok();
    assert_eq!(api.get(claim).await.ok()["holder"], json!({}));
    pod(&api, "a", opt_in).await;
    bind(&api, "a", "n").await.ok();
    assert_eq!(api.get(claim).await.ok()["epoch"], 2);
}

#[tokio::test]
async fn pods_end_gracefully_once_they_have_a_machine() {
    let api = cluster(&["n"], "4").await;
    pod(&api, "waiting", json!({})).await;
    api.delete(&format!("{PODS}/waiting"), &json!(null)).await.ok();
    assert_eq!(api.get(&format!("{PODS}/waiting")).await.code, 404, "nothing runs anywhere");
    pod(&api, "a", json!({})).await;
    bind(&api, "a", "n").await.ok();
    let path = format!("{PODS}/a");
    let ending = api.delete(&path, &json!(null)).await.ok();
    assert_eq!(ending["metadata"]["deletionGracePeriodSeconds"], 30);
    let shorter = api.delete(&path, &json!({"gracePeriodSeconds": 5})).await.ok();
    assert_eq!(shorter["metadata"]["deletionGracePeriodSeconds"], 5);
    let longer = api.delete(&path, &json!({"gracePeriodSeconds": 60})).await.ok();
    assert_eq!(longer["metadata"]["deletionGracePeriodSeconds"], 5);
    let gone = api.delete(&path, &json!({"gracePeriodSeconds": 0})).await.ok();
    assert_eq!(gone["kind"], "Pod");
    assert_eq!(api.get(&path).await.code, 404);
}

#[tokio::test]
async fn new_pods_get_account_priority_and_tolerations() {
    let api = cluster(&[], "1").await;
    let made = pod(&api, "a", json!({})).await;
    let spec = &made["spec"];
    assert_eq!(
        (&spec["serviceAccountName"], &spec["priority"], &spec["preemptionPolicy"]),
        (&json!("default"), &json!(0), &json!("PreemptLowerPriority"))
    );
    assert!(spec["volumes"][0]["name"].as_str().unwrap().starts_with("kube-api-access-"));
    assert_eq!(spec["containers"][0]["volumeMounts"][0]["mountPath"], "/var/run/secrets/kubernetes.io/serviceaccount");
    assert_eq!(spec["tolerations"].as_array().unwrap().len(), 2);
    let with = |name: &str, class: &str| json!({"metadata": {"name": name}, "spec": {"priorityClassName": class, "containers": [{"name": "c", "image": "i"}]}});
    assert_eq!(api.post(PODS, &with("b", "batch")).await.ok()["spec"]["priority"], -1_000);
    assert_eq!(
        api.post(PODS, &with("c", "none")).await.failure(),
        "403 Forbidden pods \"c\" is forbidden: no PriorityClass with name none was found"
    );
    let stranger = json!({"metadata": {"name": "d"}, "spec": {"serviceAccountName": "x", "containers": [{"name": "c", "image": "i"}]}});
    assert_eq!(api.post(PODS, &stranger).await.code, 403);
}

#[tokio::test]
async fn a_pod_that_asks_for_more_than_was_decided_is_not_bound() {
    let api = cluster(&["n"], "4").await;
    let decided = pod(&api, "a", json!({})).await;
    let seen = revision(&allocation(&api, "n").await);
    let of = |generation: i64| {
        let mut item = item(&decided, "n", seen);
        item["generation"] = json!(generation);
        item
    };
    let generation = decided["metadata"]["generation"].as_i64().unwrap();
    let wish = json!({"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "3"}}}]}});
    let resized = api.patch(STRATEGIC, &format!("{PODS}/a/resize"), &wish).await.ok();
    assert_eq!(resized["metadata"]["generation"], generation + 1, "{resized}");
    assert_eq!(bulk(&api, vec![of(generation)]).await, [409], "it was decided for one CPU");
    let status = json!({"status": {"conditions": [{"type": "example.com/x", "status": "True"}]}});
    api.patch(STRATEGIC, &format!("{PODS}/a/status"), &status).await.ok();
    assert_eq!(bulk(&api, vec![of(generation + 1)]).await, [201], "a status may change meanwhile");
}

#[tokio::test]
async fn an_allocation_says_what_its_version_came_with() {
    let api = cluster(&["n"], "4").await;
    let cause = async || {
        let now = allocation(&api, "n").await;
        (now["by"].clone(), now["bound"].clone(), now["nodeAt"].clone(), revision(&now))
    };
    let (by, bound, _, first) = cause().await;
    assert_eq!((by, bound), (json!("Node"), json!(0)));
    let pods = [pod(&api, "a", json!({})).await, pod(&api, "b", json!({})).await];
    assert_eq!(bulk(&api, pods.iter().map(|pod| item(pod, "n", first)).collect()).await, [201, 201]);
    let (by, bound, node_at, second) = cause().await;
    assert_eq!((by, bound, node_at), (Value::Null, json!(2), json!(first)), "the Node as of its first version");
    let less = json!({"status": {"allocatable": {"cpu": "2"}}});
    api.patch(STRATEGIC, "/api/v1/nodes/n/status", &less).await.ok();
    let (by, bound, node_at, third) = cause().await;
    assert_eq!((by, bound, node_at), (json!("Node"), json!(0), json!(first)));
    assert!(third > second);
    pod(&api, "c", json!({})).await;
    let more =
        json!({"metadata": {"name": "d"}, "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]}});
    api.post(PODS, &more).await.ok();
    let (by, bound, node_at, _) = cause().await;
    assert_eq!((by, bound, node_at), (Value::Null, json!(1), json!(third)));
}
