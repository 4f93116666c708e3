//! Discovery, OpenAPI, version, health.

use crate::harness::Api;
use gantry_apiserver::Stores;
use gantry_store::{Group, GroupConfig};
use http::Method;
use serde_json::json;
use std::collections::BTreeSet;
use std::sync::Arc;

const AGGREGATED: &str =
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList;profile=nopeer,application/json";

#[tokio::test]
async fn plain_and_aggregated_discovery_agree() {
    let api = Api::new().await;
    let groups = api.get("/apis").await.ok();
    let aggregated = api.get_as("/apis", AGGREGATED).await.ok();
    let plain: Vec<&str> = groups["groups"].as_array().unwrap().iter().map(|g| g["name"].as_str().unwrap()).collect();
    let other: Vec<&str> =
        aggregated["items"].as_array().unwrap().iter().map(|g| g["metadata"]["name"].as_str().unwrap()).collect();
    assert_eq!(plain, other);
    assert!(plain.contains(&"apps") && plain.contains(&"gantry.dev"));
    let core = api.get("/api/v1").await.ok();
    let find = |name: &str| core["resources"].as_array().unwrap().iter().find(|r| r["name"] == name).unwrap().clone();
    assert_eq!(find("pods")["shortNames"], json!(["po"]));
    assert_eq!(
        (&find("pods/eviction")["group"], &find("pods/eviction")["kind"]),
        (&json!("policy"), &json!("Eviction"))
    );
    for group in plain {
        let served = api.get(&format!("/apis/{group}")).await.ok();
        assert_eq!(served["kind"], "APIGroup");
        let version = served["preferredVersion"]["groupVersion"].as_str().unwrap();
        assert_eq!(api.get(&format!("/apis/{version}")).await.ok()["kind"], "APIResourceList");
    }
    assert_eq!(api.get("/apis/none").await.code, 404);
    assert_eq!(api.get("/api").await.ok()["versions"], json!(["v1"]));
}

#[tokio::test]
async fn documents_have_tags_and_304_keeps_their_type() {
    let api = Api::new().await;
    for (path, accept) in [
        ("/api", AGGREGATED),
        ("/openapi/v3", "application/json"),
        ("/openapi/v3/api/v1", "application/json"),
        ("/openapi/v2", "application/json"),
    ] {
        let full = api.get_as(path, accept).await;
        let tag = full.headers["etag"].to_str().unwrap().to_owned();
        let again = api.send(Method::GET, path, &[("accept", accept), ("if-none-match", &tag)], "").await;
        assert_eq!((again.code, again.text.as_str()), (304, ""), "{path}");
        assert_eq!(again.headers["content-type"], full.headers["content-type"]);
    }
    let index = api.get("/openapi/v3").await.ok();
    let url = index["paths"]["apis/apps/v1"]["serverRelativeURL"].as_str().unwrap().to_owned();
    assert!(api.get(&url).await.ok()["paths"].is_object());
}

#[tokio::test]
async fn version_health_and_keys() {
    let api = Api::new().await;
    assert_eq!(api.get("/version").await.ok()["gitVersion"], "v1.35.2+gantry");
    for path in ["/healthz", "/livez", "/readyz", "/readyz/ping", "/readyz/store-state"] {
        let reply = api.get(path).await;
        assert_eq!((reply.code, reply.text.as_str()), (200, "ok"), "{path}");
    }
    assert!(api.get("/readyz?verbose").await.text.contains("[+]watch-cache-state ok"));
    assert_eq!(api.get("/readyz/none").await.code, 404);
    let metrics = api.get("/metrics").await.text;
    for name in ["apiserver_request_total", "apiserver_current_inflight_requests", "process_cpu_seconds_total"] {
        assert!(metrics.contains(name), "{name}");
    }
    let parts = api.get("/api/v1/componentstatuses").await;
    assert!(parts.warnings().iter().any(|text| text.contains("deprecated in v1.19+")), "{:?}", parts.warnings());
    assert_eq!(parts.body["items"][0]["conditions"][0], json!({"type": "Healthy", "status": "True", "message": "ok"}));
    assert_eq!(api.get("/api/v1/componentstatuses/store-leases").await.ok()["kind"], "ComponentStatus");
    assert_eq!(api.get("/api/v1/componentstatuses/none").await.code, 404);
    assert!(api.get("/version?pretty=true").await.text.starts_with("{\n  \""));
    assert_eq!(api.get("/openid/v1/jwks").await.ok()["keys"][0]["crv"], "P-256");
    assert!(api.get("/.well-known/openid-configuration").await.ok()["jwks_uri"].is_string());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_members_of_this_process_are_measured_with_the_server() {
    let dir = tempfile::tempdir().unwrap();
    let open = async |name: &str| Group::open(GroupConfig::single(name, dir.path().join(name))).await.unwrap();
    let groups = [open("state").await, open("leases").await, open("events").await];
    let [state, leases, events] = groups.clone().map(Arc::new);
    let api = Api::on(Stores { state, leases, events }).await;
    let text = api.get("/metrics").await.text;
    for group in ["state", "leases", "events"] {
        assert!(text.contains(&format!("\ngantry_store_revision{{group=\"{group}\"}} ")), "{text}");
    }
    let types = || text.lines().filter(|line| line.starts_with("# TYPE "));
    assert_eq!(types().collect::<BTreeSet<_>>().len(), types().count(), "each metric is declared once");
    assert!(text.contains("\napiserver_storage_objects{"), "{text}");
    for group in groups {
        group.shutdown().await;
    }
}
