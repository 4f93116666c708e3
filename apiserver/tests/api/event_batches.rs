//! `EventBatch`: many events in one request.

use crate::harness::Api;
use serde_json::{Value, json};

const BATCHES: &str = "/apis/gantry.dev/v1/events";

fn event(namespace: &str, name: &str, count: i64) -> Value {
    json!({"metadata": {"name": name, "namespace": namespace}, "reason": "Started", "message": format!("time {count}"),
        "involvedObject": {"kind": "Pod", "namespace": namespace, "name": "p"}, "type": "Normal", "count": count,
        "source": {"component": "c"}, "firstTimestamp": "2026-01-01T00:00:00Z", "lastTimestamp": "2026-01-01T00:00:00Z"})
}

fn batch(items: &[Value]) -> Value {
    json!({"apiVersion": "gantry.dev/v1", "kind": "EventBatch", "items": items})
}

fn codes(answer: &Value) -> Vec<u64> {
    answer["items"].as_array().unwrap().iter().map(|item| item["code"].as_u64().unwrap()).collect()
}

#[tokio::test]
async fn events_are_made_and_told_again() {
    let api = Api::new().await;
    let answer = api.post(BATCHES, &batch(&[event("default", "a", 1), event("kube-system", "b", 1)])).await.ok();
    assert_eq!((codes(&answer), &answer["kind"]), (vec![201, 201], &json!("EventBatchResult")));
    let mut elsewhere = event("nowhere", "c", 1);
    elsewhere["involvedObject"]["namespace"] = json!("nowhere");
    let second = [event("default", "a", 2), elsewhere, event("", "d", 1), event("default", "e", 1)];
    let answer = api.post(BATCHES, &batch(&second)).await.ok();
    assert_eq!(codes(&answer), [200, 404, 400, 201], "{answer}");
    assert!(answer["items"][1]["message"].as_str().unwrap().contains("nowhere"), "{answer}");
    let a = api.get("/api/v1/namespaces/default/events/a").await.ok();
    assert_eq!((&a["count"], &a["message"]), (&json!(2), &json!("time 2")));
    assert_eq!((&a["firstTimestamp"], &a["involvedObject"]["name"]), (&json!("2026-01-01T00:00:00Z"), &json!("p")));
}

#[tokio::test]
async fn each_event_is_allowed_by_itself() {
    let api = Api::new().await;
    let rule = json!({"apiGroups": [""], "resources": ["events"], "verbs": ["create", "patch"]});
    let role = json!({"metadata": {"name": "teller"}, "rules": [rule]});
    api.post("/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles", &role).await.ok();
    let subject = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "ann"});
    let binding = json!({"metadata": {"name": "ann"}, "subjects": [subject],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "teller"}});
    api.post("/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings", &binding).await.ok();
    // A consistent list waits for the cache, which authorisation reads.
    api.get("/apis/rbac.authorization.k8s.io/v1/rolebindings").await.ok();
    let ann = api.as_user("ann", &["system:authenticated"]);
    let answer = ann.post(BATCHES, &batch(&[event("default", "a", 1), event("kube-system", "b", 1)])).await.ok();
    assert_eq!(codes(&answer), [201, 403], "{answer}");
}

#[tokio::test]
async fn a_batch_that_is_none_is_refused() {
    let api = Api::new().await;
    let many: Vec<Value> = (0..257).map(|n| event("default", &format!("e{n}"), 1)).collect();
    let refused = api.post(BATCHES, &batch(&many)).await.failure();
    assert_eq!(refused, "400 BadRequest items: at most 256 events at once");
    assert_eq!(api.post(BATCHES, &json!({"kind": "EventBatch"})).await.code, 400);
    assert_eq!(api.post(BATCHES, &batch(&[json!({"metadata": {"name": 5}})])).await.code, 400);
    assert_eq!(api.get(BATCHES).await.code, 405);
}
