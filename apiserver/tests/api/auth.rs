//! Who may do what; tokens and reviews.

use crate::harness::{Api, CONFIG_MAPS};
use gantry_apiserver::auth::peers::Peer;
use http::Method;
use serde_json::{Value, json};

const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";

#[tokio::test]
async fn identities_get_what_they_need_and_nothing_else() {
    let api = Api::new().await;
    api.post("/api/v1/nodes", &json!({"metadata": {"name": "n1"}})).await.ok();
    api.config_map("a", json!({})).await;
    let node = api.as_user("system:node:n1", &["system:nodes"]);
    let proxy = api.as_user("system:node-proxy:n1", &["system:node-proxiers"]);
    let scheduler = api.as_user("system:kube-scheduler", &[]);
    let controllers = api.as_user("system:kube-controller-manager", &[]);
    let jane = api.as_user("jane", &[]);
    let account = api.as_user("system:serviceaccount:default:x", &["system:serviceaccounts"]);
    let rows: Vec<(&Api, Method, &str, bool)> = vec![
        (&node, Method::GET, "/api/v1/nodes/n1", true),
        (&node, Method::PATCH, "/api/v1/nodes/n2/status", false),
        (&node, Method::GET, "/api/v1/pods", false),
        (&node, Method::GET, "/api/v1/pods?fieldSelector=spec.nodeName%3Dn1", true),
        (&node, Method::GET, "/api/v1/pods?fieldSelector=spec.nodeName%3Dn2", false),
        (&node, Method::GET, CONFIG_MAPS, false),
        (&node, Method::GET, "/api/v1/pods?fieldSelector=metadata.name!%3Da%5C,spec.nodeName%3Dn1", false),
        (&node, Method::POST, CONFIG_MAPS, false),
        (&node, Method::GET, "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/n2", false),
        (&proxy, Method::GET, "/api/v1/services", true),
        (&proxy, Method::GET, "/api/v1/secrets", false),
        (&scheduler, Method::GET, "/api/v1/pods", true),
        (&scheduler, Method::GET, "/api/v1/secrets", false),
        (&scheduler, Method::DELETE, "/api/v1/nodes/n1", false),
        (&controllers, Method::GET, "/api/v1/secrets", true),
        (&controllers, Method::POST, "/apis/gantry.dev/v1/bindings", false),
        (&jane, Method::GET, CONFIG_MAPS, false),
        (&jane, Method::GET, "/apis/apps/v1", true),
        (&jane, Method::GET, "/metrics", false),
        (&account, Method::GET, CONFIG_MAPS, false),
    ];
    for (who, method, path, allowed) in rows {
        let reply = who.send(method.clone(), path, &[], "{}").await;
        assert_eq!(reply.code != 403, allowed, "{} {method} {path}: {} {}", who.user.username, reply.code, reply.text);
        if !allowed {
            assert!(reply.failure().contains("cannot"), "{}", reply.text);
        }
    }
    let forbidden = jane.get(&format!("{CONFIG_MAPS}/a")).await.failure();
    assert_eq!(
        forbidden,
        "403 Forbidden configmaps \"a\" is forbidden: User \"jane\" cannot get resource \"configmaps\" in API group \"\" in the namespace \"default\""
    );
}

#[tokio::test]
async fn nobody_sees_only_health_and_version() {
    let api = Api::new().await;
    let mut nobody = api.clone();
    nobody.user = gantry_apiserver::UserInfo::anonymous();
    for path in ["/healthz", "/livez", "/readyz", "/version"] {
        assert_eq!(nobody.get(path).await.code, 200, "{path}");
    }
    for path in ["/api", "/metrics", "/openid/v1/jwks", "/healthzz", "/readyz/ping", "/openapi/v3"] {
        let expect = format!("403 Forbidden forbidden: User \"system:anonymous\" cannot get path {path:?}");
        assert_eq!(nobody.get(path).await.failure(), expect);
    }
    assert_eq!(nobody.get(CONFIG_MAPS).await.code, 403);
}

#[tokio::test]
async fn an_agent_reads_only_what_its_pods_refer_to() {
    let api = Api::new().await;
    const SECRETS: &str = "/api/v1/namespaces/default/secrets";
    for name in ["mine", "pull", "other"] {
        api.post(SECRETS, &json!({"metadata": {"name": name}})).await.ok();
    }
    api.config_map("mine", json!({})).await;
    api.config_map("other", json!({})).await;
    for account in ["x", "y"] {
        let body = json!({"metadata": {"name": account}, "imagePullSecrets": [{"name": "pull"}]});
        api.post(ACCOUNTS, &body).await.ok();
    }
    api.get("/api/v1/serviceaccounts").await.ok();
    let pod = |name: &str, node: &str, account: &str, volumes: Value| {
        let containers = json!([{"name": "c", "image": "i"}]);
        let spec =
            json!({"nodeName": node, "serviceAccountName": account, "containers": containers, "volumes": volumes});
        json!({"metadata": {"name": name}, "spec": spec})
    };
    let pods = "/api/v1/namespaces/default/pods";
    let volumes = json!([
        {"name": "a", "secret": {"secretName": "mine"}}, {"name": "b", "configMap": {"name": "mine"}},
    ]);
    let here = api.post(pods, &pod("here", "n1", "x", volumes)).await.ok();
    let there = api.post(pods, &pod("there", "n2", "x", json!([]))).await.ok();
    api.get("/api/v1/pods").await.ok();
    let node = api.as_user("system:node:n1", &["system:nodes"]);
    let rows = [
        (format!("{SECRETS}/mine"), 200),
        (format!("{SECRETS}/pull"), 200),
        (format!("{SECRETS}/other"), 403),
        (format!("{CONFIG_MAPS}/mine"), 200),
        (format!("{CONFIG_MAPS}/other"), 403),
        (SECRETS.to_owned(), 403),
        (format!("{SECRETS}?fieldSelector=metadata.name%3Dmine"), 200),
        (format!("{SECRETS}?fieldSelector=metadata.name!%3Dmine"), 403),
        (format!("{SECRETS}?fieldSelector=metadata.name%3Dother"), 403),
        ("/api/v1/secrets?fieldSelector=metadata.name%3Dmine".to_owned(), 403),
        ("/api/v1/namespaces/kube-system/secrets/mine".to_owned(), 403),
    ];
    for (path, code) in rows {
        assert_eq!(node.get(&path).await.code, code, "{path}");
    }
    let mut watch = node.watch(&format!("{SECRETS}?watch=1&fieldSelector=metadata.name%3Dmine")).await;
    assert_eq!(watch.brief().await, "ADDED mine");

    let bound = |pod: &Value| {
        let metadata = &pod["metadata"];
        json!({"boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": metadata["name"], "uid": metadata["uid"]}})
    };
    let unidentified = json!({"boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": "here"}});
    let rows = [
        ("x", bound(&here), 201),
        ("x", json!({}), 403),
        ("x", unidentified, 403),
        ("x", bound(&there), 403),
        ("y", bound(&there), 403),
    ];
    for (account, spec, code) in rows {
        assert_eq!(token(&node, account, spec.clone()).await.code, code, "{account} {spec}");
    }
}

async fn token(api: &Api, account: &str, spec: Value) -> crate::harness::Reply {
    api.post(&format!("{ACCOUNTS}/{account}/token"), &json!({"spec": spec})).await
}

async fn review(api: &Api, token: &str) -> Value {
    let body = json!({"spec": {"token": token}});
    api.post("/apis/authentication.k8s.io/v1/tokenreviews", &body).await.ok()["status"].clone()
}

#[tokio::test]
async fn tokens_die_with_what_they_are_bound_to() {
    let api = Api::new().await;
    api.post(ACCOUNTS, &json!({"metadata": {"name": "x"}})).await.ok();
    let secret = api.post("/api/v1/namespaces/default/secrets", &json!({"metadata": {"name": "s"}})).await.ok();
    let made = token(&api, "x", json!({})).await;
    assert_eq!(made.code, 201);
    let plain = made.ok()["status"]["token"].as_str().unwrap().to_owned();
    let status = review(&api, &plain).await;
    assert_eq!(status["user"]["username"], "system:serviceaccount:default:x");
    assert!(status["user"]["groups"].as_array().unwrap().contains(&json!("system:serviceaccounts:default")));

    let reference = json!({"kind": "Secret", "apiVersion": "v1", "name": "s", "uid": secret["metadata"]["uid"]});
    let bound = token(&api, "x", json!({"boundObjectRef": reference})).await.ok()["status"]["token"]
        .as_str()
        .unwrap()
        .to_owned();
    assert_eq!(review(&api, &bound).await["authenticated"], true);
    api.delete("/api/v1/namespaces/default/secrets/s", &json!(null)).await.ok();
    api.get("/api/v1/secrets").await.ok();
    assert_eq!(review(&api, &bound).await["authenticated"], false);
    assert_eq!(review(&api, &plain).await["authenticated"], true);
    api.delete(&format!("{ACCOUNTS}/x"), &json!(null)).await.ok();
    api.get("/api/v1/serviceaccounts").await.ok();
    assert_eq!(review(&api, &plain).await["authenticated"], false);
    assert_eq!(review(&api, "a.b.c").await["authenticated"], false);

    api.post(ACCOUNTS, &json!({"metadata": {"name": "y"}})).await.ok();
    let rows = [
        (json!({"expirationSeconds": 10}), 422),
        (json!({"boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": "none"}}), 404),
        (json!({"boundObjectRef": {"kind": "Service", "apiVersion": "v1", "name": "none"}}), 400),
    ];
    for (spec, code) in rows {
        assert_eq!(token(&api, "y", spec).await.code, code);
    }
    assert_eq!(token(&api, "none", json!({})).await.code, 404);
}

#[tokio::test]
async fn a_bearer_token_is_an_identity() {
    let api = Api::new().await;
    api.post(ACCOUNTS, &json!({"metadata": {"name": "x"}})).await.ok();
    let token = token(&api, "x", json!({})).await.ok()["status"]["token"].as_str().unwrap().to_owned();
    let who = |token: String| {
        let core = api.server.clone();
        async move {
            let headers =
                http::HeaderMap::from_iter([(http::header::AUTHORIZATION, format!("Bearer {token}").parse().unwrap())]);
            gantry_apiserver::auth::authn::authenticate(core.core(), &headers, &Peer::default())
                .await
                .map(|user| user.username)
        }
    };
    assert_eq!(who(token.clone()).await.unwrap(), "system:serviceaccount:default:x");
    assert_eq!(who(format!("{token}x")).await.unwrap_err().code(), 401);
}

#[tokio::test]
async fn reviews_answer_as_the_gates_do() {
    let api = Api::new().await;
    let jane = api.as_user("jane", &["dev"]);
    let whoami = jane.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", &json!({})).await.ok();
    assert_eq!(whoami["status"]["userInfo"], json!({"username": "jane", "groups": ["dev", "system:authenticated"]}));
    let ask = json!({"spec": {"resourceAttributes": {"verb": "get", "resource": "pods", "namespace": "default"}}});
    let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    assert_eq!(jane.post(path, &ask).await.ok()["status"]["allowed"], false);
    assert_eq!(api.post(path, &ask).await.ok()["status"]["allowed"], true);
    let mut other = ask.clone();
    other["spec"]["user"] = "system:kube-scheduler".into();
    assert_eq!(
        api.post("/apis/authorization.k8s.io/v1/subjectaccessreviews", &other).await.ok()["status"]["allowed"],
        true
    );
    assert_eq!(jane.post("/apis/authorization.k8s.io/v1/subjectaccessreviews", &other).await.code, 403);
    let rules = json!({"spec": {"namespace": "default"}});
    let rules = jane.post("/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", &rules).await.ok();
    assert_eq!(rules["status"]["incomplete"], false);
    let rows = [
        (path, json!({"spec": {}}), 422),
        ("/apis/authorization.k8s.io/v1/subjectaccessreviews", ask.clone(), 422),
        ("/apis/authorization.k8s.io/v1/namespaces/other/localsubjectaccessreviews", other.clone(), 400),
        ("/apis/authorization.k8s.io/v1/namespaces/default/localsubjectaccessreviews", other.clone(), 201),
        ("/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", json!({"spec": {}}), 400),
    ];
    for (path, body, code) in rows {
        assert_eq!(api.post(path, &body).await.code, code, "{path} {body}");
    }
}

#[tokio::test]
async fn masters_may_act_as_somebody_else_and_are_then_nobody_more() {
    let api = Api::new().await;
    let as_bob = [("impersonate-user", "bob")];
    let refused = api.send(Method::GET, CONFIG_MAPS, &as_bob, "").await.failure();
    assert!(refused.contains("User \"bob\" cannot list resource \"configmaps\""), "{refused}");
    let as_admin = [("impersonate-user", "admin"), ("impersonate-group", "system:masters")];
    api.send(Method::GET, CONFIG_MAPS, &as_admin, "").await.ok();
    let jane = api.as_user("jane", &[]);
    let refused = jane.send(Method::GET, "/apis/apps/v1", &as_admin, "").await.failure();
    assert!(refused.starts_with("403") && refused.contains("cannot impersonate"), "{refused}");
}
