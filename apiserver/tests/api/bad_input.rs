//! What is wrong with a request, and what it answers.

use crate::harness::{Api, CONFIG_MAPS};
use http::Method;
use serde_json::json;

/// As in Kubernetes: who asks for an object names its namespace, or there is no such path.
#[tokio::test]
async fn an_object_without_its_namespace_is_nowhere() {
    let api = Api::new().await;
    crate::custom::defined(&api).await;
    let methods = [Method::GET, Method::HEAD, Method::POST, Method::PUT, Method::PATCH, Method::DELETE];
    let places = ["/api/v1/pods", "/apis/apps/v1/deployments", "/apis/example.com/v1/widgets"];
    let below = ["", "/status", "/log", "/exec", "/proxy/x", "/scale", "/eviction", "/none"];
    for place in places {
        for (method, sub) in methods.iter().flat_map(|method| below.iter().map(move |sub| (method, sub))) {
            let path = format!("{place}/web{sub}");
            let kind = if method == Method::PATCH { crate::harness::MERGE } else { "application/json" };
            let reply = api.send(method.clone(), &path, &[("content-type", kind)], "{}").await;
            assert_eq!(reply.code, 404, "{method} {path}: {}", reply.text);
            if method != Method::HEAD {
                assert_eq!(reply.failure(), "404 NotFound the server could not find the requested resource");
            }
        }
        assert_eq!(api.get(&format!("{place}/web?watch=1")).await.code, 404, "{place}");
    }
    for (place, code) in [("/api/v1/pods", 405), ("/apis/example.com/v1/widgets", 404)] {
        assert_eq!(api.get(place).await.code, 200, "{place}: of all namespaces");
        assert_eq!(api.post(place, &json!({})).await.code, code, "{place}: it differs in Kubernetes, too");
    }
}

#[tokio::test]
async fn every_bad_request_answers_a_status() {
    let api = Api::new().await;
    let json_type = "application/json";
    let big = format!("{{\"metadata\":{{\"name\":\"a\"}},\"data\":{{\"k\":\"{}\"}}}}", "x".repeat(3 << 20));
    let over_store =
        format!("{{\"metadata\":{{\"name\":\"a\"}},\"revision\":1,\"data\":{{\"k\":\"{}\"}}}}", "x".repeat(2 << 20));
    let rows: Vec<(Method, &str, &str, String, u16, &str)> = vec![
        (Method::POST, CONFIG_MAPS, json_type, "{\"metadata\": {\"name\": \"a\",}}".into(), 400, "line 1 column"),
        (Method::POST, CONFIG_MAPS, "application/yaml", "metadata:\n  name: [a".into(), 400, "line"),
        (Method::POST, CONFIG_MAPS, json_type, "{\"metadata\":{\"name\":7}}".into(), 400, "metadata.name"),
        (Method::POST, CONFIG_MAPS, json_type, "[]".into(), 400, ""),
        (Method::POST, CONFIG_MAPS, json_type, String::new(), 400, "empty"),
        (Method::POST, CONFIG_MAPS, json_type, "{\"kind\":\"Secret\",\"apiVersion\":\"v1\"}".into(), 400, "Secret"),
        (Method::POST, CONFIG_MAPS, json_type, "{\"kind\":\"ConfigMap\",\"apiVersion\":\"v2\"}".into(), 400, "v2"),
        (Method::POST, CONFIG_MAPS, "text/plain", "{}".into(), 415, "unknown format"),
        (Method::POST, CONFIG_MAPS, "application/merge-patch+json", "{}".into(), 415, ""),
        (Method::PATCH, CONFIG_MAPS, json_type, "{}".into(), 405, ""),
        (Method::PATCH, "/api/v1/namespaces/default/configmaps/a", json_type, "{}".into(), 415, ""),
        (Method::POST, CONFIG_MAPS, json_type, big, 413, "limit is 3145728"),
        (Method::POST, "/apis/apps/v1/namespaces/default/controllerrevisions", json_type, over_store, 413, ""),
        (
            Method::POST,
            "/api/v1/namespaces/default/nothings",
            json_type,
            "{}".into(),
            404,
            "could not find the requested resource",
        ),
        (Method::GET, "/apis/none/v1/x", json_type, String::new(), 404, "could not find the requested resource"),
        (Method::GET, "/api/v1/namespaces/default/nodes", json_type, String::new(), 404, ""),
        (
            Method::GET,
            "/api/v1/namespaces/default/configmaps/none",
            json_type,
            String::new(),
            404,
            "configmaps \"none\" not found",
        ),
        (Method::POST, "/api/v1/namespaces/default/configmaps/a/none", json_type, "{}".into(), 404, ""),
        (Method::POST, "/api/v1/configmaps", json_type, "{}".into(), 405, ""),
        (Method::GET, "/nowhere", json_type, String::new(), 404, ""),
        (Method::GET, "/api/v1/configmaps?labelSelector=a%20b", json_type, String::new(), 400, ""),
        (
            Method::GET,
            "/api/v1/configmaps?fieldSelector=spec.x%3Dy",
            json_type,
            String::new(),
            400,
            "field label not supported: spec.x",
        ),
        (Method::GET, "/api/v1/configmaps?limit=x", json_type, String::new(), 400, "limit"),
        (Method::GET, "/api/v1/configmaps?continue=x", json_type, String::new(), 400, "continue key is not valid"),
        (Method::GET, "/api/v1/configmaps?resourceVersion=x", json_type, String::new(), 400, "resourceVersion"),
    ];
    for (method, path, kind, body, code, part) in rows {
        let reply = api.send(method.clone(), path, &[("content-type", kind)], body).await;
        assert_eq!(reply.code, code, "{method} {path}: {}", reply.text);
        let failure = reply.failure();
        assert!(failure.contains(part), "{method} {path}: {failure}");
    }
    assert_eq!(api.get(CONFIG_MAPS).await.ok()["items"], json!([]));
    assert_eq!(api.get_as(CONFIG_MAPS, "text/html").await.code, 406);
}

#[tokio::test]
async fn unknown_and_duplicate_fields_follow_field_validation() {
    let api = Api::new().await;
    let send = |mode: &'static str, name: &'static str| {
        let api = api.clone();
        async move {
            let body = format!(
                "{{\"metadata\":{{\"name\":\"{name}\"}},\"dats\":{{}},\"immutable\":false,\"immutable\":false}}"
            );
            api.send(Method::POST, &format!("{CONFIG_MAPS}?fieldValidation={mode}"), &[], body).await
        }
    };
    let warned = send("Warn", "a").await;
    assert_eq!(
        warned.warnings(),
        ["299 - \"unknown field \\\"dats\\\"\"", "299 - \"duplicate field \\\"immutable\\\"\""]
    );
    assert_eq!(warned.ok().get("dats"), None);
    assert!(send("Ignore", "b").await.warnings().is_empty());
    let strict = send("Strict", "c").await.failure();
    assert_eq!(strict, "400 BadRequest strict decoding error: unknown field \"dats\", duplicate field \"immutable\"");
    assert_eq!(send("Other", "d").await.code, 400);
    let patched =
        api.patch(crate::harness::MERGE, &format!("{CONFIG_MAPS}/a"), &json!({"nope": 1, "data": {"x": "y"}})).await;
    assert_eq!(patched.warnings(), ["299 - \"unknown field \\\"nope\\\"\""]);
}

#[tokio::test]
async fn yaml_and_protobuf_bodies_are_objects_too() {
    let api = Api::new().await;
    let yaml = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: yam\ndata:\n  k: \"1\"\n";
    let made = api
        .send(Method::POST, CONFIG_MAPS, &[("content-type", "application/yaml"), ("accept", "application/yaml")], yaml)
        .await;
    assert_eq!(made.code, 201, "{}", made.text);
    assert!(made.text.contains("kind: ConfigMap"), "{}", made.text);
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "p"}, "data": {"k": "v"}});
    let ty = gantry_apimachinery::schema::Schema::builtin().kind("", "v1", "ConfigMap").unwrap();
    let bytes = gantry_apimachinery::protobuf::encode(&object, ty);
    let made =
        api.send(Method::POST, CONFIG_MAPS, &[("content-type", "application/vnd.kubernetes.protobuf")], bytes).await;
    let made = made.ok();
    assert_eq!((&made["metadata"]["name"], &made["data"]["k"]), (&json!("p"), &json!("v")));
}
