//! What a namespace gives its pods and what it refuses: LimitRanges and the Pod Security Standards.

use crate::harness::{Api, MERGE};
use serde_json::{Value, json};

const PODS: &str = "/api/v1/namespaces/default/pods";

fn pod(name: &str, container: Value) -> Value {
    let mut one = json!({"name": "c", "image": "i"});
    for (key, value) in container.as_object().unwrap() {
        one[key] = value.clone();
    }
    json!({"metadata": {"name": name}, "spec": {"containers": [one]}})
}

async fn with_account(api: &Api) {
    api.post("/api/v1/namespaces/default/serviceaccounts", &json!({"metadata": {"name": "default"}})).await.ok();
    api.get("/api/v1/namespaces/default/serviceaccounts?limit=1").await.ok();
}

#[tokio::test]
async fn a_limit_range_gives_and_refuses() {
    let api = Api::new().await;
    with_account(&api).await;
    let range = json!({"metadata": {"name": "r"}, "spec": {"limits": [{"type": "Container",
        "default": {"cpu": "200m"}, "defaultRequest": {"cpu": "100m"}, "max": {"cpu": "1"}}]}});
    api.post("/api/v1/namespaces/default/limitranges", &range).await.ok();
    api.get("/api/v1/namespaces/default/limitranges?limit=1").await.ok();
    let made = api.post(PODS, &pod("a", json!({}))).await.ok();
    let resources = |made: &Value| made["spec"]["containers"][0]["resources"].clone();
    assert_eq!(resources(&made), json!({"requests": {"cpu": "100m"}, "limits": {"cpu": "200m"}}));
    let own = api.post(PODS, &pod("b", json!({"resources": {"limits": {"cpu": "500m"}}}))).await.ok();
    assert_eq!(resources(&own), json!({"requests": {"cpu": "500m"}, "limits": {"cpu": "500m"}}));
    let refused = api.post(PODS, &pod("d", json!({"resources": {"limits": {"cpu": "2"}}}))).await;
    assert_eq!(
        refused.failure(),
        "403 Forbidden pods \"d\" is forbidden: maximum cpu usage per Container is 1, but limit is 2"
    );
}

#[tokio::test]
async fn a_namespace_says_how_isolated_its_pods_are() {
    let api = Api::new().await;
    with_account(&api).await;
    let namespace = "/api/v1/namespaces/default";
    let label = |mode: &str, level: &str| json!({"metadata": {"labels": {format!("pod-security.kubernetes.io/{mode}"): level}}});
    api.post(PODS, &pod("before", json!({"securityContext": {"privileged": true}}))).await.ok();
    // A consistent list waits for this server's cache.
    api.get(PODS).await.ok();
    api.patch(MERGE, namespace, &label("warn", "restricted")).await.ok();
    let told = api.patch(MERGE, namespace, &label("enforce", "baseline")).await;
    assert_eq!(
        told.warnings(),
        [
            "299 - \"existing pods in namespace \\\"default\\\" violate the new PodSecurity enforce level \\\"baseline:latest\\\"\"",
            "299 - \"before: privileged\"",
        ]
    );
    api.get("/api/v1/namespaces?limit=1").await.ok();
    let warned = api.post(PODS, &pod("a", json!({}))).await;
    assert!(
        warned.warnings()[0].contains("would violate PodSecurity \\\"restricted:latest\\\""),
        "{:?}",
        warned.warnings()
    );
    warned.ok();
    let refused = api.post(PODS, &pod("b", json!({"securityContext": {"privileged": true}}))).await;
    assert_eq!(
        refused.failure(),
        "403 Forbidden pods \"b\" is forbidden: violates PodSecurity \"baseline:latest\": privileged (container \"c\" must not set securityContext.privileged=true)"
    );
    let wrong = api.patch(MERGE, namespace, &label("enforce", "total")).await;
    assert_eq!(wrong.code, 422, "{}", wrong.text);
}
