//! Roles and bindings: what they let whom do, who may grant them, and what reviews say of them.

use crate::harness::{Api, CONFIG_MAPS, PATIENCE, Reply};
use http::Method;
use serde_json::{Value, json};
use std::time::Duration;

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const REVIEWS: &str = "/apis/authorization.k8s.io/v1";

fn rule(verbs: &[&str], resources: &[&str]) -> Value {
    json!({"verbs": verbs, "apiGroups": [""], "resources": resources})
}

async fn role(api: &Api, namespace: &str, name: &str, rules: Value) -> Reply {
    let body = json!({"metadata": {"name": name}, "rules": rules});
    api.post(&format!("{RBAC}/namespaces/{namespace}/roles"), &body).await
}

async fn cluster_role(api: &Api, name: &str, labels: Value, more: Value) -> Reply {
    let mut body = json!({"metadata": {"name": name, "labels": labels}});
    for (key, value) in more.as_object().unwrap() {
        body[key.as_str()] = value.clone();
    }
    api.post(&format!("{RBAC}/clusterroles"), &body).await
}

/// `role`: `Role/NAME` or `ClusterRole/NAME`; `subject`: `User/NAME`, `Group/NAME` or `ServiceAccount/NAME`. Returns once this server
/// has heard of it.
async fn bind(api: &Api, namespace: &str, name: &str, role: &str, subject: &str) -> Reply {
    let pair = |text: &str| text.split_once('/').map(|(kind, name)| json!({"kind": kind, "name": name})).unwrap();
    let mut subject = pair(subject);
    if namespace.is_empty() && subject["kind"] == "ServiceAccount" {
        subject["namespace"] = "default".into();
    }
    let body = json!({"metadata": {"name": name}, "roleRef": pair(role), "subjects": [subject]});
    let path = if namespace.is_empty() {
        format!("{RBAC}/clusterrolebindings")
    } else {
        format!("{RBAC}/namespaces/{namespace}/rolebindings")
    };
    let reply = api.post(&path, &body).await;
    if reply.code == 201 {
        api.get(&path).await;
    }
    reply
}

async fn namespace(api: &Api, name: &str) {
    api.post("/api/v1/namespaces", &json!({"metadata": {"name": name}})).await.ok();
}

async fn can_i(api: &Api, verb: &str, resource: &str, namespace: &str) -> Value {
    let ask = json!({"spec": {"resourceAttributes": {"verb": verb, "resource": resource, "namespace": namespace}}});
    api.post(&format!("{REVIEWS}/selfsubjectaccessreviews"), &ask).await.ok()["status"].clone()
}

/// Asks until the condition holds.
async fn eventually<F: Future<Output = bool>>(what: &str, holds: impl Fn() -> F) {
    let all = async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    assert!(tokio::time::timeout(PATIENCE, all).await.is_ok(), "{what} in time");
}

#[tokio::test]
async fn an_account_reads_only_the_namespace_that_a_binding_opens() {
    let api = Api::new().await;
    namespace(&api, "other").await;
    role(&api, "default", "reader", json!([rule(&["get", "list", "watch"], &["configmaps", "namespaces"])])).await.ok();
    let account =
        api.as_user("system:serviceaccount:default:app", &["system:serviceaccounts", "system:serviceaccounts:default"]);
    assert_eq!(account.get(CONFIG_MAPS).await.code, 403);
    bind(&api, "default", "reader", "Role/reader", "ServiceAccount/app").await.ok();
    let rows = [
        (Method::GET, CONFIG_MAPS, 200),
        (Method::GET, "/api/v1/namespaces/default/configmaps?watch=1&timeoutSeconds=1", 200),
        (Method::GET, "/api/v1/namespaces/default", 200),
        (Method::GET, "/api/v1/namespaces/other", 403),
        (Method::GET, "/api/v1/namespaces", 403),
        (Method::GET, "/api/v1/namespaces/other/configmaps", 403),
        (Method::GET, "/api/v1/configmaps", 403),
        (Method::GET, "/api/v1/namespaces/default/secrets", 403),
        (Method::DELETE, "/api/v1/namespaces/default/configmaps/x", 403),
    ];
    for (method, path, code) in rows {
        let reply = account.send(method.clone(), path, &[], "").await;
        assert_eq!(reply.code, code, "{method} {path} {}", reply.text);
    }
    // The binding's end is the end of it.
    api.delete(&format!("{RBAC}/namespaces/default/rolebindings/reader"), &Value::Null).await.ok();
    api.get(&format!("{RBAC}/rolebindings")).await.ok();
    assert_eq!(account.get(CONFIG_MAPS).await.code, 403);
}

#[tokio::test]
async fn a_missing_role_is_hinted_at() {
    let api = Api::new().await;
    bind(&api, "default", "b", "ClusterRole/none", "User/jane").await.ok();
    let jane = api.as_user("jane", &[]);
    assert_eq!(
        jane.get(CONFIG_MAPS).await.failure(),
        "403 Forbidden configmaps is forbidden: User \"jane\" cannot list resource \"configmaps\" in API group \"\" in the namespace \"default\": RBAC: clusterrole.rbac.authorization.k8s.io \"none\" not found"
    );
    let said = can_i(&jane, "list", "configmaps", "default").await;
    let hint = "RBAC: clusterrole.rbac.authorization.k8s.io \"none\" not found";
    assert_eq!(said, json!({"allowed": false, "reason": hint}));
}

#[tokio::test]
async fn aggregation_adds_rules() {
    let api = Api::new().await;
    bind(&api, "default", "viewer", "ClusterRole/view", "User/jane").await.ok();
    let jane = api.as_user("jane", &[]);
    assert_eq!(jane.get("/api/v1/namespaces/default/pods").await.code, 200);
    assert_eq!(jane.get("/api/v1/namespaces/default/secrets").await.code, 403);
    let labels = json!({"rbac.authorization.k8s.io/aggregate-to-view": "true"});
    let rules = json!({"rules": [rule(&["list"], &["secrets"])]});
    cluster_role(&api, "secret-viewer", labels, rules).await.ok();
    // view is a part of edit, which is a part of admin.
    for name in ["view", "edit", "admin"] {
        let path = &format!("{RBAC}/clusterroles/{name}");
        let api = &api;
        eventually(name, || async move {
            api.get(path).await.ok()["rules"].as_array().unwrap().contains(&rule(&["list"], &["secrets"]))
        })
        .await;
    }
    assert_eq!(jane.get("/api/v1/namespaces/default/secrets").await.code, 200);
    // What is taken from a part is taken from the whole.
    api.delete(&format!("{RBAC}/clusterroles/secret-viewer"), &Value::Null).await.ok();
    let jane = &jane;
    eventually("no secrets", || async move { jane.get("/api/v1/namespaces/default/secrets").await.code == 403 }).await;
}

#[tokio::test]
async fn can_i_answers_as_the_gate_does() {
    let api = Api::new().await;
    role(&api, "default", "r", json!([rule(&["get"], &["pods"])])).await.ok();
    bind(&api, "default", "b", "Role/r", "Group/dev").await.ok();
    let jane = api.as_user("jane", &["dev"]);
    let reason = "RBAC: allowed by RoleBinding \"b/default\" of Role \"r\" to Group \"dev\"";
    assert_eq!(can_i(&jane, "get", "pods", "default").await, json!({"allowed": true, "reason": reason}));
    assert_eq!(can_i(&jane, "delete", "pods", "default").await, json!({"allowed": false}));
    assert_eq!(can_i(&jane, "get", "pods", "").await, json!({"allowed": false}));
}

#[tokio::test]
async fn a_rules_review_lists_what_the_roles_give() {
    let api = Api::new().await;
    role(&api, "default", "r", json!([rule(&["get"], &["pods"])])).await.ok();
    bind(&api, "default", "b", "Role/r", "User/jane").await.ok();
    let jane = api.as_user("jane", &[]);
    let review = |who: Api, namespace: &'static str| async move {
        let ask = json!({"spec": {"namespace": namespace}});
        who.post(&format!("{REVIEWS}/selfsubjectrulesreviews"), &ask).await.ok()["status"].clone()
    };
    let status = review(jane.clone(), "default").await;
    let rules = status["resourceRules"].as_array().unwrap();
    assert!(rules.contains(&rule(&["get"], &["pods"])), "{status}");
    assert_eq!(status["incomplete"], false);
    let paths = &status["nonResourceRules"];
    assert!(paths.to_string().contains("/openapi/*"), "{paths}");
    let elsewhere = review(jane, "kube-system").await;
    assert!(!elsewhere["resourceRules"].as_array().unwrap().contains(&rule(&["get"], &["pods"])));
    let all = json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]});
    assert!(review(api.clone(), "default").await["resourceRules"].as_array().unwrap().contains(&all));
    let node = review(api.as_user("system:node:n1", &["system:nodes"]), "default").await;
    assert_eq!(node["incomplete"], true);
}

#[tokio::test]
async fn impersonation_is_a_permission() {
    let api = Api::new().await;
    let rules = json!({"rules": [
        {"verbs": ["impersonate"], "apiGroups": [""], "resources": ["users"], "resourceNames": ["bob"]},
        {"verbs": ["impersonate"], "apiGroups": ["authentication.k8s.io"], "resources": ["userextras/scopes"]},
    ]});
    cluster_role(&api, "be-bob", json!({}), rules).await.ok();
    bind(&api, "", "be-bob", "ClusterRole/be-bob", "User/helper").await.ok();
    role(&api, "default", "be-app", json!([rule(&["impersonate"], &["serviceaccounts"])])).await.ok();
    bind(&api, "default", "be-app", "Role/be-app", "User/helper").await.ok();
    let helper = api.as_user("helper", &[]);
    let path = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let check = async |headers: &[(&str, &str)], expect: u16| {
        let headers = [&[("content-type", "application/json")], headers].concat();
        let reply = helper.send(Method::POST, path, &headers, "{}").await;
        assert_eq!(reply.code, expect, "{headers:?} {}", reply.text);
        reply.body
    };
    let bob = check(&[("impersonate-user", "bob"), ("impersonate-extra-scopes", "a")], 201).await;
    assert_eq!(bob["status"]["userInfo"]["username"], "bob");
    assert_eq!(bob["status"]["userInfo"]["extra"]["scopes"], json!(["a"]));
    check(&[("impersonate-user", "alice")], 403).await;
    check(&[("impersonate-user", "bob"), ("impersonate-group", "system:masters")], 403).await;
    check(&[("impersonate-user", "bob"), ("impersonate-extra-other", "a")], 403).await;
    check(&[("impersonate-user", "bob"), ("impersonate-uid", "1")], 403).await;
    let app = check(&[("impersonate-user", "system:serviceaccount:default:app")], 201).await;
    let groups = json!(["system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated"]);
    assert_eq!(app["status"]["userInfo"]["groups"], groups);
    check(&[("impersonate-user", "system:serviceaccount:kube-system:app")], 403).await;
}

#[tokio::test]
async fn a_web_socket_into_a_container_is_no_read() {
    let api = Api::new().await;
    role(&api, "default", "r", json!([rule(&["get"], &["pods/exec", "pods/log"])])).await.ok();
    bind(&api, "default", "b", "Role/r", "User/jane").await.ok();
    let jane = api.as_user("jane", &[]);
    assert_eq!(jane.get("/api/v1/namespaces/default/pods/p/log").await.code, 404);
    let refused = jane.get("/api/v1/namespaces/default/pods/p/exec?command=x").await.failure();
    assert!(refused.contains("cannot create resource \"pods/exec\""), "{refused}");
}

#[tokio::test]
async fn another_server_knows_the_roles_at_once_and_keeps_what_was_added() {
    let api = Api::new().await;
    let path = format!("{RBAC}/clusterrolebindings/system:discovery");
    let more = json!({"subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "extra"}]});
    api.patch(crate::harness::MERGE, &path, &more).await.ok();
    api.delete(&format!("{RBAC}/clusterroles/gantry:scheduler"), &Value::Null).await.ok();
    let twin = api.twin().await;
    let scheduler = twin.as_user("system:kube-scheduler", &[]);
    assert_eq!(scheduler.get("/apis/gantry.dev/v1/nodeallocations").await.code, 200, "made again");
    let subjects = twin.get(&path).await.ok()["subjects"].clone();
    let names: Vec<&str> = subjects.as_array().unwrap().iter().map(|s| s["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["extra", "system:authenticated"]);
}

#[tokio::test]
async fn nobody_grants_more_than_they_hold() {
    let api = Api::new().await;
    role(
        &api,
        "default",
        "manager",
        json!([
            rule(&["get", "list"], &["pods"]),
            {"verbs": ["*"], "apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles", "rolebindings"]},
        ]),
    )
    .await
    .ok();
    bind(&api, "default", "manager", "Role/manager", "User/jane").await.ok();
    role(&api, "default", "secrets", json!([rule(&["get"], &["secrets"])])).await.ok();
    let jane = api.as_user("jane", &[]);
    // `*` on roles is `escalate` and `bind` on them too, so a plainer manager is asked.
    role(&jane, "default", "any", json!([rule(&["get"], &["secrets"])])).await.ok();
    let verbs = ["create", "get", "update", "patch", "delete"];
    let rules = json!([
        rule(&["get", "list"], &["pods"]),
        {"verbs": verbs, "apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles", "rolebindings"]},
    ]);
    role(&api, "default", "plain", rules).await.ok();
    bind(&api, "default", "plain", "Role/plain", "User/joe").await.ok();
    let joe = api.as_user("joe", &["dev"]);
    role(&joe, "default", "fine", json!([rule(&["get"], &["pods"])])).await.ok();
    assert_eq!(
        role(&joe, "default", "more", json!([rule(&["get", "watch"], &["pods"]), rule(&["get"], &["secrets"])]))
            .await
            .failure(),
        "403 Forbidden roles.rbac.authorization.k8s.io \"more\" is forbidden: user \"joe\" (groups=[\"dev\" \"system:authenticated\"]) is attempting to grant RBAC permissions not currently held:\n\
         {APIGroups:[\"\"], Resources:[\"pods\"], Verbs:[\"watch\"]}\n\
         {APIGroups:[\"\"], Resources:[\"secrets\"], Verbs:[\"get\"]}"
    );
    let fine = format!("{RBAC}/namespaces/default/roles/fine");
    let grown = json!({"rules": [rule(&["delete"], &["pods"])]});
    assert_eq!(joe.patch(crate::harness::MERGE, &fine, &grown).await.code, 403);
    joe.patch(crate::harness::MERGE, &fine, &json!({"metadata": {"labels": {"a": "b"}}})).await.ok();
    // Bindings: to what is held, or by the verb `bind`.
    bind(&joe, "default", "to-fine", "Role/fine", "User/x").await.ok();
    let refused = bind(&joe, "default", "to-secrets", "Role/secrets", "User/x").await.failure();
    assert!(
        refused.contains("rolebindings.rbac.authorization.k8s.io \"to-secrets\" is forbidden: user \"joe\""),
        "{refused}"
    );
    let refused = bind(&joe, "default", "to-admin", "ClusterRole/cluster-admin", "User/joe").await.failure();
    assert!(
        refused.ends_with(
            "{APIGroups:[\"*\"], Resources:[\"*\"], Verbs:[\"*\"]}\n{NonResourceURLs:[\"*\"], Verbs:[\"*\"]}"
        ),
        "{refused}"
    );
    assert_eq!(bind(&joe, "default", "to-none", "Role/none", "User/x").await.code, 404);
    let bind_view = json!([{"verbs": ["bind"], "apiGroups": ["rbac.authorization.k8s.io"], "resources": ["clusterroles"], "resourceNames": ["view"]}]);
    role(&api, "default", "bind-view", bind_view).await.ok();
    bind(&api, "default", "bind-view", "Role/bind-view", "User/joe").await.ok();
    bind(&joe, "default", "to-view", "ClusterRole/view", "User/x").await.ok();
    assert_eq!(bind(&joe, "default", "to-edit", "ClusterRole/edit", "User/x").await.code, 403);
}

#[tokio::test]
async fn only_who_holds_everything_aggregates() {
    let api = Api::new().await;
    let rules = json!({"rules": [
        {"verbs": ["*"], "apiGroups": [""], "resources": ["*"]},
        {"verbs": ["create", "update"], "apiGroups": ["rbac.authorization.k8s.io"], "resources": ["clusterroles"]},
    ]});
    cluster_role(&api, "core", json!({}), rules).await.ok();
    bind(&api, "", "core", "ClusterRole/core", "User/joe").await.ok();
    let joe = api.as_user("joe", &[]);
    let gathers = json!({"aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}});
    assert_eq!(
        cluster_role(&joe, "gathers", json!({}), gathers.clone()).await.failure(),
        "403 Forbidden clusterroles.rbac.authorization.k8s.io \"gathers\" is forbidden: must have cluster-admin privileges to use an aggregationRule"
    );
    bind(&api, "", "all", "ClusterRole/cluster-admin", "User/joe").await.ok();
    cluster_role(&joe, "gathers", json!({}), gathers).await.ok();
}

#[tokio::test]
async fn a_put_that_makes_an_object_is_a_create() {
    let api = Api::new().await;
    let body = json!({"metadata": {"name": "new"}, "rules": []});
    let path = format!("{RBAC}/namespaces/default/roles/new");
    let rules = json!([{"verbs": ["update"], "apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles"]}]);
    role(&api, "default", "updater", rules).await.ok();
    bind(&api, "default", "updater", "Role/updater", "User/joe").await.ok();
    let refused = api.as_user("joe", &[]).put(&path, &body).await.failure();
    assert!(refused.contains("User \"joe\" cannot create resource \"roles\""), "{refused}");
    assert_eq!(api.put(&path, &body).await.code, 201);
}
