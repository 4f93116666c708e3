//! Deletion: at once, by finalizers, by policy, by preconditions, in collections.

use crate::harness::{Api, CONFIG_MAPS, MERGE, names};
use gantry_store::{Op, Txn};
use serde_json::{Value, json};

const PODS: &str = "/api/v1/namespaces/default/pods";

/// A pod on a machine, so that its deletion takes time.
async fn bound_pod(api: &Api, name: &str) -> Value {
    api.post("/api/v1/namespaces/default/serviceaccounts", &json!({"metadata": {"name": "default"}})).await;
    api.get("/api/v1/serviceaccounts").await.ok();
    let spec = json!({"nodeName": "n1", "containers": [{"name": "c", "image": "i"}]});
    api.post(PODS, &json!({"metadata": {"name": name}, "spec": spec})).await.ok()
}

#[tokio::test]
async fn a_plain_delete_answers_status() {
    let api = Api::new().await;
    let made = api.config_map("a", json!({})).await;
    let gone = api.delete(&format!("{CONFIG_MAPS}/a"), &json!(null)).await.ok();
    assert_eq!((&gone["kind"], &gone["status"]), (&json!("Status"), &json!("Success")));
    assert_eq!(gone["details"], json!({"name": "a", "kind": "configmaps", "uid": made["metadata"]["uid"]}));
    assert_eq!(
        api.delete(&format!("{CONFIG_MAPS}/a"), &json!(null)).await.failure(),
        "404 NotFound configmaps \"a\" not found"
    );
}

#[tokio::test]
async fn finalizers_hold_an_object_until_the_last_is_removed() {
    let api = Api::new().await;
    let path = format!("{CONFIG_MAPS}/a");
    api.post(CONFIG_MAPS, &json!({"metadata": {"name": "a", "finalizers": ["x.io/y", "x.io/z"]}})).await.ok();
    let held = api.delete(&path, &json!(null)).await.ok();
    assert!(held["metadata"]["deletionTimestamp"].is_string());
    assert_eq!(api.delete(&path, &json!(null)).await.ok(), held, "deleting again changes nothing");
    let added = api.patch(MERGE, &path, &json!({"metadata": {"finalizers": ["x.io/y", "new.io/n"]}})).await;
    assert_eq!(added.code, 422, "{}", added.text);
    api.patch(MERGE, &path, &json!({"metadata": {"finalizers": ["x.io/y"]}})).await.ok();
    api.patch(MERGE, &path, &json!({"metadata": {"finalizers": []}})).await.ok();
    assert_eq!(api.get(&path).await.code, 404);
}

#[tokio::test]
async fn propagation_becomes_a_finalizer() {
    let api = Api::new().await;
    for (policy, expect) in [("Foreground", json!(["foregroundDeletion"])), ("Orphan", json!(["orphan"]))] {
        api.config_map("a", json!({})).await;
        let path = format!("{CONFIG_MAPS}/a");
        let held = api.delete(&path, &json!({"propagationPolicy": policy})).await.ok();
        assert_eq!(held["metadata"]["finalizers"], expect, "{policy}");
        api.patch(MERGE, &path, &json!({"metadata": {"finalizers": null}})).await.ok();
        assert_eq!(api.get(&path).await.code, 404);
    }
    api.config_map("a", json!({})).await;
    let path = format!("{CONFIG_MAPS}/a?propagationPolicy=");
    assert_eq!(api.delete(&format!("{path}Sideways"), &json!(null)).await.code, 400);
    assert_eq!(api.delete(&format!("{path}Background"), &json!(null)).await.code, 200);
}

#[tokio::test]
async fn preconditions_hold() {
    let api = Api::new().await;
    let made = api.config_map("a", json!({})).await;
    let path = format!("{CONFIG_MAPS}/a");
    let rows = [(json!({"uid": "other"}), 409), (json!({"resourceVersion": "1"}), 409)];
    for (preconditions, code) in rows {
        assert_eq!(api.delete(&path, &json!({"preconditions": preconditions})).await.code, code);
    }
    let right = json!({"uid": made["metadata"]["uid"], "resourceVersion": made["metadata"]["resourceVersion"]});
    assert_eq!(api.delete(&path, &json!({"preconditions": right})).await.code, 200);
}

#[tokio::test]
async fn a_collection_is_deleted_by_selection() {
    let api = Api::new().await;
    for (name, tier) in [("a", "x"), ("b", "y"), ("c", "x")] {
        api.config_map(name, json!({"tier": tier})).await;
    }
    let gone = api.delete(&format!("{CONFIG_MAPS}?labelSelector=tier%3Dx"), &json!(null)).await.ok();
    assert_eq!(names(&gone), ["a", "c"]);
    assert_eq!(names(&api.get(CONFIG_MAPS).await.ok()), ["b"]);
    api.delete(CONFIG_MAPS, &json!(null)).await.ok();
    assert!(names(&api.get(CONFIG_MAPS).await.ok()).is_empty());
}

#[tokio::test]
async fn an_eviction_obeys_its_own_options_and_names_its_pod() {
    let api = Api::new().await;
    bound_pod(&api, "p").await;
    let path = format!("{PODS}/p/eviction");
    let evict = |name: &str, options: Value| {
        let kind = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}});
        let mut body = kind;
        body["deleteOptions"] = options;
        body
    };
    assert_eq!(api.post(&path, &evict("other", json!({}))).await.code, 400);
    assert_eq!(api.post(&path, &evict("p", json!({"dryRun": ["Some"]}))).await.code, 400);
    assert_eq!(api.post(&path, &evict("p", json!({"dryRun": ["All"]}))).await.code, 201);
    let kept = api.get(&format!("{PODS}/p")).await.ok();
    assert_eq!(kept["metadata"].get("deletionTimestamp"), None);
    assert_eq!(api.post(&path, &evict("p", json!({}))).await.code, 201);
    assert!(api.get(&format!("{PODS}/p")).await.ok()["metadata"]["deletionTimestamp"].is_string());
}

#[tokio::test]
async fn a_second_delete_does_not_shorten_the_first() {
    let api = Api::new().await;
    bound_pod(&api, "p").await;
    let path = format!("{PODS}/p");
    let first = api.delete(&path, &json!({"gracePeriodSeconds": 300})).await.ok();
    assert_eq!(api.delete(&path, &json!(null)).await.ok()["metadata"], first["metadata"]);
    let shorter = api.delete(&path, &json!({"gracePeriodSeconds": 5})).await.ok();
    assert_eq!(shorter["metadata"]["deletionGracePeriodSeconds"], 5);
}

#[tokio::test]
async fn a_delete_that_changes_nothing_asks_the_store_first() {
    let api = Api::new().await;
    bound_pod(&api, "p").await;
    let path = format!("{PODS}/p");
    api.delete(&path, &json!({"gracePeriodSeconds": 300})).await.ok();
    let list = api.get(PODS).await.ok();
    assert!(list["items"][0]["metadata"]["deletionTimestamp"].is_string(), "the cache has the ending pod");
    // Gone behind the cache's back: on this one thread the feed does not run before the next request is answered.
    let gone = Op::delete("/registry/pods/default/p");
    api.stores.state.txn(Txn { success: vec![gone], ..Txn::default() }).await.unwrap();
    assert_eq!(api.delete(&path, &json!(null)).await.code, 404);
}

#[tokio::test]
async fn an_eviction_asks_the_budget_and_is_counted_once() {
    const BUDGETS: &str = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
    let api = Api::new().await;
    for name in ["p", "q"] {
        bound_pod(&api, name).await;
        let running = json!({"metadata": {"labels": {"app": "a"}},
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}});
        api.patch(MERGE, &format!("{PODS}/{name}"), &running).await.ok();
        api.patch(MERGE, &format!("{PODS}/{name}/status"), &running).await.ok();
    }
    let budget = json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "b"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "a"}}}});
    api.post(BUDGETS, &budget).await.ok();
    api.get(BUDGETS).await.ok();
    let evict = |name: &str, options: Value| {
        let body = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}, "deleteOptions": options});
        (format!("{PODS}/{name}/eviction"), body)
    };
    let dry = json!({"dryRun": ["All"]});
    let (path, body) = evict("p", dry.clone());
    assert_eq!(api.post(&path, &body).await.code, 429, "nobody has counted yet");
    let counted = json!({"status": {"observedGeneration": 1, "disruptionsAllowed": 1, "currentHealthy": 2,
        "desiredHealthy": 1, "expectedPods": 2}});
    api.patch(MERGE, &format!("{BUDGETS}/b/status"), &counted).await.ok();
    api.get(BUDGETS).await.ok();
    assert_eq!(api.post(&path, &body).await.code, 201);
    let (path, body) = evict("p", json!({}));
    assert_eq!(api.post(&path, &body).await.code, 201);
    let spent = api.get(&format!("{BUDGETS}/b")).await.ok();
    assert_eq!(spent["status"]["disruptionsAllowed"], 0);
    assert!(spent["status"]["disruptedPods"]["p"].is_string(), "{spent}");
    // One that is ending asks nobody, the other has to wait.
    assert_eq!(api.post(&path, &body).await.code, 201);
    let (path, body) = evict("q", dry);
    let refused = api.post(&path, &body).await;
    let cause = &refused.body["details"]["causes"][0]["reason"];
    assert_eq!((refused.code, cause), (429, &json!("DisruptionBudget")));
}
