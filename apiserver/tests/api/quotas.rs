//! ResourceQuotas: what is charged, refused and given back, with several servers at once.

use crate::harness::{Api, CONFIG_MAPS, MERGE};
use futures::future::join_all;
use serde_json::{Value, json};

const QUOTAS: &str = "/api/v1/namespaces/default/resourcequotas";

async fn quota(api: &Api, hard: Value) {
    api.post(QUOTAS, &json!({"metadata": {"name": "q"}, "spec": {"hard": hard}})).await.ok();
    // It counts once its status says what is there.
    api.get_until(&format!("{QUOTAS}/q"), |reply| reply.body["status"]["hard"] == reply.body["spec"]["hard"]).await;
}

async fn used_until(api: &Api, name: &str, expect: &str) {
    api.get_until(&format!("{QUOTAS}/q"), |reply| reply.body["status"]["used"][name] == expect).await;
}

fn config_map(name: &str) -> Value {
    json!({"metadata": {"name": name}})
}

#[tokio::test]
async fn a_quota_counts_refuses_and_gives_back() {
    let api = Api::new().await;
    api.post(CONFIG_MAPS, &config_map("before")).await.ok();
    quota(&api, json!({"configmaps": "2", "count/secrets": "0"})).await;
    used_until(&api, "configmaps", "1").await;
    api.post(CONFIG_MAPS, &config_map("a")).await.ok();
    let refused = api.post(CONFIG_MAPS, &config_map("b")).await;
    assert_eq!(
        refused.failure(),
        "403 Forbidden configmaps \"b\" is forbidden: exceeded quota: q, requested: configmaps=1, used: configmaps=2, limited: configmaps=2"
    );
    let secret = api.post("/api/v1/namespaces/default/secrets", &config_map("s")).await;
    assert!(secret.failure().contains("exceeded quota: q, requested: count/secrets=1"), "{}", secret.text);
    api.delete(&format!("{CONFIG_MAPS}/before"), &Value::Null).await.ok();
    used_until(&api, "configmaps", "1").await;
    api.post(&format!("{CONFIG_MAPS}?dryRun=All"), &config_map("dry")).await.ok();
    assert_eq!(api.get(&format!("{QUOTAS}/q")).await.ok()["status"]["used"]["configmaps"], "1");
    // A name that is taken costs nothing in the end.
    assert_eq!(api.post(CONFIG_MAPS, &config_map("a")).await.code, 409);
    used_until(&api, "configmaps", "1").await;
    api.post(CONFIG_MAPS, &config_map("c")).await.ok();
}

/// Whoever charged it may be gone, with its server.
#[tokio::test(start_paused = true)]
async fn a_charge_whose_write_never_came_is_given_back() {
    let api = Api::new().await;
    quota(&api, json!({"configmaps": "2"})).await;
    let lost = json!({"status": {"used": {"configmaps": "2"}}});
    api.patch(MERGE, &format!("{QUOTAS}/q/status"), &lost).await.ok();
    assert_eq!(api.post(CONFIG_MAPS, &config_map("a")).await.code, 403);
    used_until(&api, "configmaps", "0").await;
    api.post(CONFIG_MAPS, &config_map("a")).await.ok();
}

#[tokio::test]
async fn many_at_once_on_two_servers_never_exceed_it() {
    let api = Api::new().await;
    let twin = api.twin().await;
    quota(&api, json!({"count/configmaps": "25"})).await;
    twin.get(QUOTAS).await.ok();
    let (one, two) = (&api, &twin);
    let made = join_all((0..80).map(|n| async move {
        let server = if n % 2 == 0 { one } else { two };
        let code = server.post(CONFIG_MAPS, &config_map(&format!("m{n}"))).await.code;
        if n % 5 == 0 && code == 201 {
            // Room comes back while others take it.
            server.delete(&format!("{CONFIG_MAPS}/m{n}"), &Value::Null).await.ok();
        }
        code
    }))
    .await;
    assert!(made.iter().all(|code| [201, 403].contains(code)), "{made:?}");
    let there = api.get(CONFIG_MAPS).await.ok()["items"].as_array().unwrap().len();
    assert!(there <= 25, "{there}");
    used_until(&api, "count/configmaps", &there.to_string()).await;
    let accepted = made.iter().filter(|code| **code == 201).count();
    assert!(accepted >= 25, "{accepted}");
}

#[tokio::test]
async fn pods_must_say_what_is_measured() {
    let api = Api::new().await;
    api.post("/api/v1/namespaces/default/serviceaccounts", &config_map("default")).await.ok();
    api.get("/api/v1/namespaces/default/serviceaccounts").await.ok();
    quota(&api, json!({"requests.cpu": "1", "pods": "5"})).await;
    let pods = "/api/v1/namespaces/default/pods";
    let pod = |name: &str, resources: Value| json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i", "resources": resources}]}});
    let silent = api.post(pods, &pod("a", json!({}))).await;
    assert_eq!(
        silent.failure(),
        "403 Forbidden pods \"a\" is forbidden: failed quota: q: must specify requests.cpu for: c"
    );
    api.post(pods, &pod("a", json!({"requests": {"cpu": "600m"}}))).await.ok();
    let over = api.post(pods, &pod("b", json!({"requests": {"cpu": "500m"}}))).await;
    assert!(
        over.failure().contains("requested: requests.cpu=500m, used: requests.cpu=600m, limited: requests.cpu=1"),
        "{}",
        over.text
    );
    let done = json!({"status": {"phase": "Succeeded"}});
    api.patch(MERGE, &format!("{pods}/a/status"), &done).await.ok();
    used_until(&api, "requests.cpu", "0").await;
    api.post(pods, &pod("b", json!({"requests": {"cpu": "500m"}}))).await.ok();
}
