//! Create, read, update: metadata, versions, names, dry runs, subresources.

use crate::harness::{Api, CONFIG_MAPS, revision};
use serde_json::json;

#[tokio::test]
async fn a_machine_comes_with_its_status_and_others_get_theirs() {
    let api = Api::new().await;
    let node = json!({"metadata": {"name": "n"}, "status": {"capacity": {"cpu": "4"}}});
    let node = api.post("/api/v1/nodes", &node).await.ok();
    assert_eq!(node["status"]["capacity"]["cpu"], "4");
    let volume = json!({"metadata": {"name": "v"}, "status": {"phase": "Bound"}, "spec": {
        "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/x"}}});
    let volume = api.post("/api/v1/persistentvolumes", &volume).await.ok();
    assert_ne!(volume["status"]["phase"], "Bound");
    let reset = api.put("/api/v1/nodes/n/status", &json!({"metadata": {"name": "n"}})).await.ok();
    assert!(reset["status"].get("capacity").is_none(), "{reset}");
}

#[tokio::test]
async fn a_new_object_gets_its_identity() {
    let api = Api::new().await;
    let made = api.post(CONFIG_MAPS, &json!({"metadata": {"name": "a"}, "data": {"k": "v"}})).await;
    assert_eq!(made.code, 201);
    let made = made.ok();
    let metadata = &made["metadata"];
    assert_eq!((&made["kind"], &made["apiVersion"]), (&json!("ConfigMap"), &json!("v1")));
    assert_eq!(metadata["namespace"], "default");
    assert_eq!(metadata["uid"].as_str().unwrap().len(), 36);
    assert!(metadata["creationTimestamp"].is_string() && metadata["managedFields"].is_array());
    assert_eq!(api.get(&format!("{CONFIG_MAPS}/a")).await.ok(), made);
    let again = api.post(CONFIG_MAPS, &json!({"metadata": {"name": "a"}})).await;
    assert_eq!(again.failure(), "409 AlreadyExists configmaps \"a\" already exists");
}

#[tokio::test]
async fn names_are_generated_and_checked() {
    let api = Api::new().await;
    let made = api.post(CONFIG_MAPS, &json!({"metadata": {"generateName": "x-"}})).await.ok();
    let name = made["metadata"]["name"].as_str().unwrap();
    assert!(name.starts_with("x-") && name.len() == 7, "{name}");
    let rows = [
        (json!({}), 422),
        (json!({"name": "UPPER"}), 422),
        (json!({"name": "a", "namespace": "other"}), 400),
        (json!({"name": "a", "resourceVersion": "5"}), 400),
        (json!({"name": "a", "labels": {"a b": "c"}}), 422),
        (json!({"name": "a", "labels": {"a": "c d"}}), 422),
        (json!({"name": "a", "ownerReferences": [{"kind": "A"}]}), 422),
    ];
    for (metadata, code) in rows {
        let reply = api.post(CONFIG_MAPS, &json!({"metadata": metadata})).await;
        assert_eq!(reply.code, code, "{metadata}: {}", reply.failure());
        if code == 422 {
            assert!(!reply.body["details"]["causes"].as_array().unwrap().is_empty());
        }
    }
}

#[tokio::test]
async fn a_stale_version_conflicts_and_a_failure_changes_nothing() {
    let api = Api::new().await;
    let first = api.config_map("a", json!({})).await;
    let path = format!("{CONFIG_MAPS}/a");
    let mut second = first.clone();
    second["data"]["k"] = "2".into();
    let second = api.put(&path, &second).await.ok();
    assert!(revision(&second) > revision(&first));
    let mut stale = first.clone();
    stale["data"]["k"] = "3".into();
    let reply = api.put(&path, &stale).await;
    assert_eq!(
        reply.failure(),
        "409 Conflict Operation cannot be fulfilled on configmaps \"a\": the object has been modified; please apply your changes to the latest version and try again"
    );
    let mut other = second.clone();
    other["metadata"]["uid"] = "00000000-0000-0000-0000-000000000000".into();
    assert_eq!(api.put(&path, &other).await.code, 409);
    assert_eq!(api.get(&path).await.ok(), second);
    // Without a version the last writer wins.
    let unconditional = json!({"metadata": {"name": "a"}, "data": {"k": "4"}});
    assert_eq!(api.put(&path, &unconditional).await.ok()["data"]["k"], "4");
    assert_eq!(api.put(&format!("{CONFIG_MAPS}/none"), &json!({"metadata": {"name": "none"}})).await.code, 404);
}

#[tokio::test]
async fn an_unchanged_update_writes_nothing() {
    let api = Api::new().await;
    let made = api.config_map("a", json!({"x": "y"})).await;
    let same = api.put(&format!("{CONFIG_MAPS}/a"), &made).await.ok();
    assert_eq!(same, made);
}

#[tokio::test]
async fn what_the_server_owns_cannot_be_written() {
    let api = Api::new().await;
    let made = api.config_map("a", json!({})).await;
    let mut forged = made.clone();
    forged["metadata"]["creationTimestamp"] = "2000-01-01T00:00:00Z".into();
    forged["metadata"]["deletionTimestamp"] = "2000-01-01T00:00:00Z".into();
    forged["metadata"]["generation"] = 7.into();
    assert_eq!(api.put(&format!("{CONFIG_MAPS}/a"), &forged).await.ok(), made);
}

#[tokio::test]
async fn a_dry_run_answers_and_leaves_nothing() {
    let api = Api::new().await;
    let path = format!("{CONFIG_MAPS}/a");
    let reply = api.post(&format!("{CONFIG_MAPS}?dryRun=All"), &json!({"metadata": {"name": "a"}})).await;
    assert_eq!(reply.code, 201);
    assert_eq!(api.get(&path).await.code, 404);
    let made = api.config_map("a", json!({})).await;
    assert_eq!(api.post(&format!("{CONFIG_MAPS}?dryRun=All"), &json!({"metadata": {"name": "a"}})).await.code, 409);
    let mut changed = made.clone();
    changed["data"]["k"] = "other".into();
    assert_eq!(api.put(&format!("{path}?dryRun=All"), &changed).await.ok()["data"]["k"], "other");
    assert_eq!(api.delete(&format!("{path}?dryRun=All"), &json!(null)).await.code, 200);
    assert_eq!(api.get(&path).await.ok(), made);
    assert_eq!(api.post(&format!("{CONFIG_MAPS}?dryRun=Some"), &json!({"metadata": {"name": "b"}})).await.code, 400);
}

#[tokio::test]
async fn status_and_spec_do_not_touch_each_other() {
    let api = Api::new().await;
    let services = "/api/v1/namespaces/default/services";
    let service = json!({"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}, "status": {"loadBalancer": {"ingress": [{"ip": "1.2.3.4"}]}}});
    let made = api.post(services, &service).await.ok();
    assert_eq!(made["status"]["loadBalancer"]["ingress"], json!(null));
    let mut status = made.clone();
    status["status"] = json!({"loadBalancer": {"ingress": [{"ip": "1.2.3.4"}]}});
    status["spec"]["ports"][0]["port"] = 81.into();
    let reported = api.put(&format!("{services}/s/status"), &status).await.ok();
    assert_eq!(reported["spec"], made["spec"]);
    assert_eq!(reported["status"]["loadBalancer"]["ingress"][0]["ip"], "1.2.3.4");
    let mut spec = reported.clone();
    spec["status"] = json!({});
    spec["spec"]["ports"][0]["port"] = 82.into();
    let changed = api.put(&format!("{services}/s"), &spec).await.ok();
    assert_eq!(changed["status"], reported["status"]);
    assert_eq!(changed["spec"]["ports"][0]["port"], 82);
}

#[tokio::test]
async fn nothing_is_created_in_a_missing_or_ending_namespace() {
    let api = Api::new().await;
    let path = "/api/v1/namespaces/n/configmaps";
    let body = json!({"metadata": {"name": "a"}});
    assert_eq!(api.post(path, &body).await.failure(), "404 NotFound namespaces \"n\" not found");
    api.post("/api/v1/namespaces", &json!({"metadata": {"name": "n"}})).await.ok();
    api.post(path, &body).await.ok();
    let ending = api.delete("/api/v1/namespaces/n", &json!(null)).await.ok();
    assert_eq!(ending["status"]["phase"], "Terminating");
    let refused = api.post(path, &json!({"metadata": {"name": "b"}})).await;
    assert_eq!(refused.code, 403);
    assert_eq!(refused.body["details"]["causes"][0]["reason"], "NamespaceTerminating");
    let mut done = ending.clone();
    done["spec"]["finalizers"] = json!([]);
    api.put("/api/v1/namespaces/n/finalize", &done).await.ok();
    assert_eq!(api.get("/api/v1/namespaces/n").await.code, 404);
    assert_eq!(api.delete("/api/v1/namespaces/default", &json!(null)).await.code, 403);
}

#[tokio::test]
async fn a_twin_serves_the_same() {
    let api = Api::new().await;
    let twin = api.twin().await;
    let made = api.config_map("a", json!({})).await;
    assert_eq!(twin.get(&format!("{CONFIG_MAPS}/a")).await.ok(), made);
    assert_eq!(twin.get(CONFIG_MAPS).await.text, api.get(CONFIG_MAPS).await.text);
    let mut changed = made;
    changed["data"]["k"] = "twin".into();
    let changed = twin.put(&format!("{CONFIG_MAPS}/a"), &changed).await.ok();
    assert_eq!(api.get(&format!("{CONFIG_MAPS}/a")).await.ok(), changed);
}

#[tokio::test]
async fn a_status_write_takes_labels_and_annotations_and_nothing_else() {
    let api = Api::new().await;
    let path = "/api/v1/namespaces/a";
    let made = api.post("/api/v1/namespaces", &json!({"metadata": {"name": "a"}})).await.ok();
    let patch = json!({
        "metadata": {"annotations": {"x": "y"}, "labels": {"l": "m"}, "finalizers": ["x.io/y"], "ownerReferences": [
            {"apiVersion": "v1", "kind": "ConfigMap", "name": "c", "uid": "u"}]},
        "spec": {"finalizers": ["x.io/z"]}, "status": {"conditions": [{"type": "T", "status": "True"}]},
    });
    let new = api.patch("application/merge-patch+json", &format!("{path}/status"), &patch).await.ok();
    assert_eq!((&new["metadata"]["annotations"]["x"], &new["metadata"]["labels"]["l"]), (&json!("y"), &json!("m")));
    assert_eq!(new["status"]["conditions"][0]["type"], "T");
    assert_eq!(new["spec"], made["spec"]);
    for kept in ["finalizers", "ownerReferences", "uid", "creationTimestamp"] {
        assert_eq!(new["metadata"].get(kept), made["metadata"].get(kept), "{kept}");
    }
}

#[tokio::test]
async fn addresses_and_ports_that_are_not_for_services_are_refused() {
    let api = Api::new().await;
    let services = "/api/v1/namespaces/default/services";
    let rows = [
        (
            json!({"clusterIP": "10.96.0.10", "ports": [{"port": 53}]}),
            "spec.clusterIPs",
            "provided IP is already allocated",
        ),
        (json!({"clusterIP": "10.97.0.10", "ports": [{"port": 53}]}), "spec.clusterIPs", "not in the valid range"),
        (
            json!({"type": "NodePort", "ports": [{"name": "a", "port": 1, "nodePort": 30001}, {"name": "b", "port": 80, "nodePort": 10250}]}),
            "spec.ports[1].nodePort",
            "The range of valid ports is 30000-32767",
        ),
    ];
    for (spec, path, why) in rows {
        let failure = api.post(services, &json!({"metadata": {"name": "taken"}, "spec": spec})).await.failure();
        assert!(failure.starts_with("422") && failure.contains("Service \"taken\" is invalid"), "{failure}");
        assert!(failure.contains(path) && failure.contains(why), "{failure}");
    }
    api.post(services, &json!({"metadata": {"name": "fine"}, "spec": {"type": "NodePort", "ports": [{"port": 80, "nodePort": 32767}]}})).await.ok();
}
