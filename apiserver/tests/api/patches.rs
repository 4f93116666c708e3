//! The four patch types over the write path.

use crate::harness::{APPLY, Api, CONFIG_MAPS, JSON_PATCH, MERGE, STRATEGIC};
use serde_json::{Value, json};

#[tokio::test]
async fn each_patch_type_changes_the_object() {
    let api = Api::new().await;
    api.config_map("a", json!({"x": "1"})).await;
    let path = format!("{CONFIG_MAPS}/a");
    let rows: Vec<(&str, Value, Value)> = vec![
        (MERGE, json!({"data": {"m": "1"}}), json!({"k": "v", "m": "1"})),
        (STRATEGIC, json!({"data": {"s": "2", "m": null}}), json!({"k": "v", "s": "2"})),
        (
            JSON_PATCH,
            json!([{"op": "test", "path": "/data/k", "value": "v"}, {"op": "remove", "path": "/data/s"}]),
            json!({"k": "v"}),
        ),
    ];
    for (kind, body, expect) in rows {
        assert_eq!(api.patch(kind, &path, &body).await.ok()["data"], expect, "{kind}");
    }
    let failing: Vec<(&str, Value, u16)> = vec![
        (JSON_PATCH, json!([{"op": "test", "path": "/data/k", "value": "w"}]), 422),
        (JSON_PATCH, json!([{"op": "remove", "path": "/data/none"}]), 422),
        (JSON_PATCH, json!({"a": 1}), 400),
        (MERGE, json!([1]), 400),
        (MERGE, json!({"data": 7}), 400),
        (MERGE, json!({"metadata": {"resourceVersion": "1"}}), 409),
        (MERGE, json!({"metadata": {"name": "b"}}), 400),
    ];
    let before = api.get(&path).await.ok();
    for (kind, body, code) in failing {
        let reply = api.patch(kind, &path, &body).await;
        assert_eq!(reply.code, code, "{body}: {}", reply.failure());
    }
    assert_eq!(api.get(&path).await.ok(), before);
    assert_eq!(api.patch(MERGE, &format!("{CONFIG_MAPS}/none"), &json!({})).await.code, 404);
}

#[tokio::test]
async fn a_status_patch_merges_deeply_and_leaves_the_spec() {
    let api = Api::new().await;
    let nodes = "/api/v1/nodes";
    api.post(nodes, &json!({"metadata": {"name": "n"}, "spec": {"podCIDR": "10.244.0.0/24"}})).await.ok();
    let path = format!("{nodes}/n/status");
    api.patch(STRATEGIC, &path, &json!({"status": {"capacity": {"cpu": "2"}, "nodeInfo": {"bootID": "b"}}})).await.ok();
    let patched = api
        .patch(STRATEGIC, &path, &json!({"spec": {"unschedulable": true}, "status": {"capacity": {"memory": "1Gi"}, "conditions": [{"type": "Ready", "status": "True"}]}}))
        .await
        .ok();
    assert_eq!(patched["status"]["capacity"], json!({"cpu": "2", "memory": "1Gi"}));
    assert_eq!(patched["spec"].get("unschedulable"), None);
    let conditions = api
        .patch(STRATEGIC, &path, &json!({"status": {"conditions": [{"type": "Ready", "status": "False"}, {"type": "Disk", "status": "True"}]}}))
        .await
        .ok();
    assert_eq!(conditions["status"]["conditions"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn apply_creates_owns_and_conflicts() {
    let api = Api::new().await;
    let path = |manager: &str, more: &str| format!("{CONFIG_MAPS}/a?fieldManager={manager}{more}");
    let object =
        |value: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": value}});
    let made = api.patch(APPLY, &path("one", ""), &object("1")).await;
    assert_eq!(made.code, 201);
    let made = made.ok();
    assert_eq!(made["metadata"]["managedFields"][0]["operation"], "Apply");
    let same = api.patch(APPLY, &path("one", ""), &object("1")).await;
    assert_eq!(same.code, 200);
    assert_eq!(same.ok(), made, "applying the same again changes nothing, not even the version");
    let conflict = api.patch(APPLY, &path("two", ""), &object("2")).await;
    assert_eq!(conflict.failure(), "409 Conflict Apply failed with 1 conflict: conflict with \"one\": .data.k");
    let forced = api.patch(APPLY, &path("two", "&force=true"), &object("2")).await.ok();
    assert_eq!(forced["data"]["k"], "2");
    let given_up = api
        .patch(APPLY, &path("two", ""), &json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}))
        .await
        .ok();
    assert_eq!(given_up.get("data").filter(|data| data.get("k").is_some()), None);
    assert_eq!(api.patch(APPLY, &format!("{CONFIG_MAPS}/a"), &object("1")).await.code, 400);
    assert_eq!(api.patch(MERGE, &path("x", "&force=true"), &json!({})).await.code, 400);
}

#[tokio::test]
async fn concurrent_patches_all_land() {
    let api = Api::new().await;
    api.config_map("a", json!({})).await;
    let writers = (0..20).map(|n| {
        let api = api.clone();
        tokio::spawn(async move {
            let key = format!("w{n}");
            api.patch(MERGE, &format!("{CONFIG_MAPS}/a"), &json!({"data": {key: "1"}})).await.code
        })
    });
    let mut landed = 0;
    for writer in writers {
        let code = writer.await.unwrap();
        assert!(code == 200 || code == 409, "{code}");
        landed += usize::from(code == 200);
    }
    let data = api.get(&format!("{CONFIG_MAPS}/a")).await.ok()["data"].as_object().unwrap().len();
    assert_eq!(data, landed + 1);
    assert!(landed >= 16, "{landed}");
}

#[tokio::test]
async fn scale_reads_and_writes_replicas_alone() {
    let api = Api::new().await;
    let sets = "/apis/apps/v1/namespaces/default/replicasets";
    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let set = json!({"metadata": {"name": "r"}, "spec": {"replicas": 2, "selector": {"matchLabels": {"a": "b"}}, "template": template}});
    let made = api.post(sets, &set).await.ok();
    let scale = api.get(&format!("{sets}/r/scale")).await.ok();
    assert_eq!((&scale["spec"]["replicas"], &scale["status"]["selector"]), (&json!(2), &json!("a=b")));
    let mut more = scale.clone();
    more["spec"]["replicas"] = 5.into();
    assert_eq!(api.put(&format!("{sets}/r/scale"), &more).await.ok()["spec"]["replicas"], 5);
    assert_eq!(api.put(&format!("{sets}/r/scale"), &more).await.code, 409);
    assert_eq!(
        api.patch(MERGE, &format!("{sets}/r/scale"), &json!({"spec": {"replicas": 3}})).await.ok()["spec"]["replicas"],
        3
    );
    let now = api.get(&format!("{sets}/r")).await.ok();
    assert_eq!((&now["spec"]["replicas"], &now["spec"]["template"]), (&json!(3), &made["spec"]["template"]));
    assert_eq!(now["metadata"]["generation"], 3);
    assert_eq!(api.patch(MERGE, &format!("{sets}/r/scale"), &json!({"spec": {"replicas": -1}})).await.code, 422);
}

#[tokio::test]
async fn what_nests_too_deeply_is_refused_through_every_door() {
    let api = Api::new().await;
    let path = "/apis/apps/v1/namespaces/default/controllerrevisions";
    let body = |levels: usize| {
        let data = (0..levels).fold(json!({}), |inner, _| json!({ "a": inner }));
        json!({"metadata": {"name": "r"}, "revision": 1, "data": data})
    };
    let refused = api.post(path, &body(110)).await;
    assert_eq!(refused.failure(), "422 Invalid the object nests deeper than 100 levels");
    api.post(path, &body(50)).await.ok();
    let grow = vec![json!({"op": "copy", "from": "/data", "path": format!("/data{}/b", "/a".repeat(40))}); 3];
    let refused = api.patch(JSON_PATCH, &format!("{path}/r"), &Value::from(grow)).await;
    assert_eq!((refused.code, &refused.body["reason"]), (422, &json!("Invalid")), "{}", refused.text);
}

#[tokio::test]
async fn a_patch_never_changes_what_kind_it_is() {
    let api = Api::new().await;
    api.config_map("a", json!({"x": "1"})).await;
    let path = format!("{CONFIG_MAPS}/a");
    for (kind, body) in [
        (JSON_PATCH, json!([{"op": "remove", "path": "/kind"}])),
        (MERGE, json!({"kind": null, "apiVersion": null})),
        (STRATEGIC, json!({"kind": null, "apiVersion": null})),
        (JSON_PATCH, json!([{"op": "replace", "path": "", "value": {}}])),
    ] {
        let patched = api.patch(kind, &path, &body).await.ok();
        assert_eq!((&patched["kind"], &patched["apiVersion"]), (&json!("ConfigMap"), &json!("v1")), "{body}");
        let stored = api.get(&path).await.ok();
        assert_eq!((&stored["kind"], &stored["metadata"]["name"]), (&json!("ConfigMap"), &json!("a")), "{body}");
    }
    for body in [json!({"kind": "Secret"}), json!({"apiVersion": "v2"})] {
        assert_eq!(api.patch(MERGE, &path, &body).await.code, 400, "{body}");
    }
}

#[tokio::test]
async fn a_patch_that_names_no_version_gets_through_however_many_write() {
    let api = Api::new().await;
    api.config_map("a", json!({})).await;
    let path = format!("{CONFIG_MAPS}/a");
    let patches = (0..60).map(|n| {
        let (api, path) = (api.clone(), path.clone());
        async move { api.patch(MERGE, &path, &json!({"data": {format!("k{n}"): "v"}})).await.ok() }
    });
    futures::future::join_all(patches).await;
    let data = api.get(&path).await.ok()["data"].as_object().map(serde_json::Map::len);
    assert_eq!(data, Some(61), "every patch is there, beside the first key");
}
