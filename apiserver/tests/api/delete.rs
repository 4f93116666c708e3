//! Deletion: at once, by finalizers, by policy, by preconditions, in collections.

use crate::harness::{Api, CONFIG_MAPS, MERGE, names};
use serde_json::json;

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
