//! Lists: consistency, selectors, pages, versions.

use crate::harness::{Api, CONFIG_MAPS, Reply, names, revision};
use gantry_apimachinery::clock::{Clock, SystemClock};
use gantry_apimachinery::protobuf;
use gantry_apimachinery::schema::decode::from_yaml;
use gantry_apimachinery::schema::{Schema, Type};
use http::Request;
use http_body_util::{BodyExt, Full};
use serde_json::json;

#[tokio::test]
async fn a_list_has_every_acknowledged_write_at_the_stores_revision() {
    let api = Api::new().await;
    for n in 0..30 {
        let made = api.config_map(&format!("c{n:02}"), json!({})).await;
        let list = api.get(CONFIG_MAPS).await.ok();
        assert_eq!(names(&list).len(), n + 1);
        assert!(revision(&list) >= revision(&made));
    }
    // The list's version is the store's, not the newest item's.
    api.post("/api/v1/namespaces/default/secrets", &json!({"metadata": {"name": "s"}})).await.ok();
    let (list, newest) = (api.get(CONFIG_MAPS).await.ok(), api.get(&format!("{CONFIG_MAPS}/c29")).await.ok());
    assert!(revision(&list) > revision(&newest));
    assert_eq!((&list["kind"], &list["apiVersion"]), (&json!("ConfigMapList"), &json!("v1")));
}

#[tokio::test]
async fn selectors_select() {
    let api = Api::new().await;
    api.config_map("a", json!({"tier": "web", "x": "1"})).await;
    api.config_map("b", json!({"tier": "db"})).await;
    api.post(
        "/api/v1/namespaces/kube-system/configmaps",
        &json!({"metadata": {"name": "a", "labels": {"tier": "web"}}}),
    )
    .await
    .ok();
    let check = |path: &'static str, query: &'static str, expect: &'static [&'static str]| {
        let api = api.clone();
        async move {
            let list = api.get(&format!("{path}?{query}")).await.ok();
            assert_eq!(names(&list), expect, "{path} {query}");
        }
    };
    let all = "/api/v1/configmaps";
    check(all, "", &["a", "b", "a"]).await;
    check(CONFIG_MAPS, "", &["a", "b"]).await;
    check(all, "labelSelector=tier%3Dweb", &["a", "a"]).await;
    check(CONFIG_MAPS, "labelSelector=tier%20in%20(web,db),x", &["a"]).await;
    check(CONFIG_MAPS, "labelSelector=!x", &["b"]).await;
    check(all, "fieldSelector=metadata.name%3Da", &["a", "a"]).await;
    check(CONFIG_MAPS, "fieldSelector=metadata.name%3Da", &["a"]).await;
    check(CONFIG_MAPS, "fieldSelector=metadata.name!%3Da", &["b"]).await;
    check(all, "fieldSelector=metadata.namespace%3Dkube-system", &["a"]).await;
    check("/api/v1/namespaces/nowhere/configmaps", "", &[]).await;
}

#[tokio::test]
async fn a_long_list_is_the_same_in_every_form() {
    let api = Api::new().await;
    for n in 0..5 {
        let data = json!({"text": "a: 'b'\n  - c\n\n# d\n", "long": "é\n".repeat(30_000), "empty": ""});
        api.post(CONFIG_MAPS, &json!({"metadata": {"name": format!("c{n}")}, "data": data})).await.ok();
    }
    let mut json = api.get(CONFIG_MAPS).await.ok();
    let in_form = &api;
    let bytes_as = |accept: &'static str| async move {
        let request = Request::builder().uri(CONFIG_MAPS).header("accept", accept).body(Full::default()).unwrap();
        let response = in_form.raw(request).await;
        let type_of = response.headers()["content-type"].to_str().unwrap().to_owned();
        (type_of, response.into_body().collect().await.unwrap().to_bytes())
    };
    let (type_of, yaml) = bytes_as("application/yaml").await;
    assert_eq!(type_of, "application/yaml");
    let back = from_yaml(&yaml, Type::any()).unwrap().object;
    assert_eq!((&back["kind"], &back["items"]), (&json["kind"], &json["items"]));
    let (type_of, yaml) = bytes_as("application/yaml;as=Table;v=v1;g=meta.k8s.io").await;
    assert_eq!(type_of, "application/yaml");
    let table = from_yaml(&yaml, Type::any()).unwrap().object;
    assert_eq!((table["rows"].as_array().unwrap().len(), &table["rows"][4]["cells"][0]), (5, &json!("c4")), "{table}");
    let protobuf = "application/vnd.kubernetes.protobuf";
    let (type_of, bytes) = bytes_as(protobuf).await;
    assert_eq!(type_of, protobuf);
    // What is in a message does not say its kind.
    for item in json["items"].as_array_mut().unwrap() {
        item.as_object_mut().unwrap().retain(|field, _| !["kind", "apiVersion"].contains(&field.as_str()));
    }
    let ty = Schema::builtin().kind("", "v1", "ConfigMapList").unwrap();
    let back = protobuf::decode(&bytes, ty).unwrap();
    assert_eq!((&back["kind"], &back["items"]), (&json["kind"], &json["items"]));
    assert!(revision(&back) >= revision(&json));
}

#[tokio::test]
async fn pages_are_one_consistent_list() {
    let api = Api::new().await;
    for n in 0..7 {
        api.config_map(&format!("c{n}"), json!({"odd": (n % 2).to_string()})).await;
    }
    let first = api.get(&format!("{CONFIG_MAPS}?limit=3")).await.ok();
    assert_eq!(names(&first), ["c0", "c1", "c2"]);
    assert_eq!(first["metadata"]["remainingItemCount"], 4);
    // What happens between the pages is not seen.
    api.config_map("c3a", json!({})).await;
    api.delete(&format!("{CONFIG_MAPS}/c5"), &json!(null)).await.ok();
    let next = |page: &serde_json::Value| {
        format!("{CONFIG_MAPS}?limit=3&continue={}", page["metadata"]["continue"].as_str().unwrap())
    };
    let twin = api.twin().await;
    let second = twin.get(&next(&first)).await.ok();
    assert_eq!(names(&second), ["c3", "c4", "c5"]);
    assert_eq!((&second["metadata"]["remainingItemCount"], revision(&second)), (&json!(1), revision(&first)));
    let third = api.get(&next(&second)).await.ok();
    assert_eq!(names(&third), ["c6"]);
    assert_eq!((third["metadata"].get("continue"), third["metadata"].get("remainingItemCount")), (None, None));

    let odd = api.get(&format!("{CONFIG_MAPS}?limit=1&labelSelector=odd%3D1")).await.ok();
    assert_eq!(names(&odd), ["c1"]);
    assert_eq!(odd["metadata"].get("remainingItemCount"), None);
    let rest = api
        .get(&format!("{CONFIG_MAPS}?labelSelector=odd%3D1&continue={}", odd["metadata"]["continue"].as_str().unwrap()))
        .await
        .ok();
    assert_eq!(names(&rest), ["c3"]);
}

#[tokio::test]
async fn an_old_token_answers_410_with_one_to_go_on() {
    let api = Api::new().await;
    for n in 0..4 {
        api.config_map(&format!("c{n}"), json!({})).await;
    }
    let first = api.get(&format!("{CONFIG_MAPS}?limit=2")).await.ok();
    api.config_map("c4", json!({})).await;
    let now = api.stores.state.read_revision().await.unwrap();
    api.stores.state.compact(now).await.unwrap();
    let token = first["metadata"]["continue"].as_str().unwrap();
    let expired = api.get(&format!("{CONFIG_MAPS}?limit=2&continue={token}")).await;
    assert!(expired.failure().starts_with("410 Expired The provided continue parameter is too old"));
    let token = expired.body["metadata"]["continue"].as_str().unwrap();
    let rest = api.get(&format!("{CONFIG_MAPS}?continue={token}")).await.ok();
    assert_eq!(names(&rest), ["c2", "c3", "c4"]);
    let exact = format!("{CONFIG_MAPS}?resourceVersion={}&resourceVersionMatch=Exact", revision(&first));
    assert_eq!(api.get(&exact).await.code, 410);
}

#[tokio::test]
async fn versions_choose_how_fresh_a_list_is() {
    let api = Api::new().await;
    let first = api.config_map("a", json!({})).await;
    api.config_map("b", json!({})).await;
    let list = |query: String| {
        let api = api.clone();
        async move { api.get(&format!("{CONFIG_MAPS}?{query}")).await }
    };
    let exact = list(format!("resourceVersion={}&resourceVersionMatch=Exact", revision(&first))).await.ok();
    assert_eq!((names(&exact), revision(&exact)), (vec!["a"], revision(&first)));
    let newer = list(format!("resourceVersion={}&resourceVersionMatch=NotOlderThan", revision(&first))).await.ok();
    assert!(revision(&newer) >= revision(&first));
    assert_eq!(list("resourceVersion=0&limit=1".into()).await.code, 200);
    assert_eq!(list("resourceVersionMatch=Exact".into()).await.code, 400);
    assert_eq!(list("resourceVersion=0&resourceVersionMatch=Exact".into()).await.code, 400);
    let future = list("resourceVersion=1000000".into()).await;
    assert!(future.failure().contains("Too large resource version"), "{}", future.text);
    assert_eq!(future.code, 504);
    assert_eq!(future.body["details"]["causes"][0]["reason"], "ResourceVersionTooLarge");
    assert!(future.headers.contains_key("retry-after"));
}

#[tokio::test]
async fn a_page_of_a_named_version_is_of_exactly_that_version() {
    let api = Api::new().await;
    api.config_map("a", json!({})).await;
    let then = revision(&api.config_map("b", json!({})).await);
    api.config_map("aa", json!({})).await;
    let page = api.get(&format!("{CONFIG_MAPS}?limit=2&resourceVersion={then}")).await.ok();
    assert_eq!((names(&page), revision(&page)), (vec!["a", "b"], then));
    // Without a limit any later version will do.
    let list = api.get(&format!("{CONFIG_MAPS}?resourceVersion={then}")).await.ok();
    assert_eq!(names(&list), ["a", "aa", "b"]);
}

#[tokio::test]
async fn a_time_of_the_past_shows_what_there_was() {
    let api = Api::new().await;
    api.config_map("a", json!({})).await;
    let list = |at: String| {
        let api = api.clone();
        async move { api.get(&format!("{CONFIG_MAPS}?at={at}")).await }
    };
    let seen = |reply: &Reply| reply.code == 200 && names(&reply.body) == ["a"];
    api.get_until(&format!("{CONFIG_MAPS}?at=-1s"), seen).await;
    // To the second, and so at least as long after `a` as a second is cut off.
    let then = SystemClock.now().to_string();
    api.delete(&format!("{CONFIG_MAPS}/a"), &json!({})).await.ok();
    let newer = api.config_map("b", json!({})).await;
    let past = list(then.clone()).await.ok();
    assert_eq!(names(&past), ["a"]);
    assert!(revision(&past) < revision(&newer));
    assert_eq!(names(&api.get(CONFIG_MAPS).await.ok()), ["b"]);
    let get = |name: &str| format!("{CONFIG_MAPS}/{name}?at={then}");
    assert_eq!(api.get(&get("a")).await.ok()["metadata"]["name"], "a");
    assert_eq!(api.get(&get("b")).await.code, 404);

    for (at, code, says) in [
        ("2020-01-01T00:00:00Z", 410, "this server knows what there was"),
        ("2999-01-01T00:00:00Z", 400, "in the future"),
        ("2m", 400, "or how long ago as -2m"),
        ("-1s&resourceVersion=1", 400, "goes with neither"),
        ("-1s&watch=true", 400, "a watch goes on from a resourceVersion"),
    ] {
        let refused = list(at.into()).await;
        assert_eq!(refused.code, code, "{at}: {}", refused.text);
        assert!(refused.failure().contains(says), "{at}: {}", refused.text);
    }
}
