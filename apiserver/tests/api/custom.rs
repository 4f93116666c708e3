//! Custom resources: a definition makes an API, which has all that a built-in kind has.

use crate::harness::{APPLY, Api, JSON_PATCH, MERGE, STRATEGIC};
use serde_json::{Value, json};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const WIDGETS: &str = "/apis/example.com/v1/namespaces/default/widgets";

fn schema() -> Value {
    json!({"type": "object", "properties": {
        "spec": {"type": "object", "required": ["size"], "properties": {
            "size": {"type": "integer", "minimum": 1},
            "colour": {"type": "string", "default": "grey", "enum": ["grey", "red"]},
            "parts": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                "items": {"type": "object", "required": ["name"], "properties": {
                    "name": {"type": "string"}, "count": {"type": "integer"}}}},
            "replicas": {"type": "integer"},
        }},
        "status": {"type": "object", "properties": {"replicas": {"type": "integer"}, "selector": {"type": "string"}}},
    }})
}

fn version(name: &str, storage: bool) -> Value {
    json!({"name": name, "served": true, "storage": storage, "schema": {"openAPIV3Schema": schema()},
        "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas",
            "labelSelectorPath": ".status.selector"}},
        "selectableFields": [{"jsonPath": ".spec.colour"}],
        "additionalPrinterColumns": [{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}]})
}

fn definition(versions: Value) -> Value {
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget", "shortNames": ["wd"], "categories": ["all"]},
            "versions": versions}})
}

fn widget(name: &str, size: i64) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name}, "spec": {"size": size}})
}

pub async fn defined(api: &Api) {
    api.post(DEFINITIONS, &definition(json!([version("v1", true)]))).await.ok();
}

#[tokio::test]
async fn a_definition_is_established_and_discovered() {
    let api = Api::new().await;
    assert_eq!(api.get(WIDGETS).await.code, 404);
    defined(&api).await;
    // No waiting: whoever asks after the answer is served.
    assert_eq!(api.get(WIDGETS).await.ok()["kind"], "WidgetList");
    let made = api.get(&format!("{DEFINITIONS}/widgets.example.com")).await.ok();
    assert_eq!(made["status"]["acceptedNames"]["listKind"], "WidgetList");
    let conditions = made["status"]["conditions"].as_array().unwrap();
    assert!(conditions.iter().any(|c| c["type"] == "Established" && c["status"] == "True"), "{made}");
    let resources = api.get("/apis/example.com/v1").await.ok();
    assert_eq!(resources["resources"][0]["shortNames"], json!(["wd"]));
    let document = api.get("/openapi/v3/apis/example.com/v1").await.ok();
    let schema = &document["components"]["schemas"]["com.example.v1.Widget"];
    assert_eq!(schema["properties"]["spec"]["properties"]["size"]["minimum"], 1);
    let patch = &document["paths"]["/apis/example.com/v1/namespaces/{namespace}/widgets/{name}"]["patch"];
    assert!(patch["requestBody"]["content"][STRATEGIC].is_null() && patch["requestBody"]["content"][APPLY].is_object());
    let v2 = api.get("/openapi/v2").await.ok();
    assert!(v2["definitions"]["com.example.v1.Widget"].is_object());
}

#[tokio::test]
async fn objects_are_pruned_defaulted_and_validated() {
    let api = Api::new().await;
    defined(&api).await;
    let mut object = widget("a", 3);
    object["spec"]["nonsense"] = json!({"x": 1});
    let made = api.post(WIDGETS, &object).await;
    assert_eq!(made.warnings(), ["299 - \"unknown field \\\"spec.nonsense\\\"\""]);
    let made = made.ok();
    assert_eq!(made["spec"], json!({"size": 3, "colour": "grey"}));
    assert_eq!(made["metadata"]["generation"], 1);
    let strict = api.post(&format!("{WIDGETS}?fieldValidation=Strict"), &object).await;
    assert_eq!(strict.failure(), "400 BadRequest strict decoding error: unknown field \"spec.nonsense\"");
    let bad = api.post(WIDGETS, &widget("b", 0)).await;
    assert_eq!(
        bad.failure(),
        "422 Invalid Widget.example.com \"b\" is invalid: spec.size: Invalid value: 0: spec.size in body should be greater than or equal to 1"
    );
    assert_eq!(api.get(&format!("{WIDGETS}/b")).await.code, 404, "nothing is stored");
}

#[tokio::test]
async fn patches_apply_and_status_work_as_for_built_in_kinds() {
    let api = Api::new().await;
    defined(&api).await;
    api.post(WIDGETS, &widget("a", 1)).await.ok();
    let path = format!("{WIDGETS}/a");
    let patched = api.patch(MERGE, &path, &json!({"spec": {"size": 2}})).await.ok();
    assert_eq!((&patched["spec"]["size"], &patched["metadata"]["generation"]), (&json!(2), &json!(2)));
    let add = json!([{"op": "add", "path": "/spec/parts", "value": [{"name": "x", "count": 1}]}]);
    api.patch(JSON_PATCH, &path, &add).await.ok();
    assert_eq!(api.patch(STRATEGIC, &path, &json!({"spec": {"size": 9}})).await.code, 415);
    // Two managers own two entries of one list.
    let apply = |part: &str| json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "a"}, "spec": {"size": 2, "parts": [{"name": part}]}});
    for (manager, part) in [("one", "y"), ("two", "z")] {
        api.patch(APPLY, &format!("{path}?fieldManager={manager}&force=true"), &apply(part)).await.ok();
    }
    let now = api.get(&path).await.ok();
    let names: Vec<&str> =
        now["spec"]["parts"].as_array().unwrap().iter().map(|p| p["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["x", "y", "z"]);
    let generation = now["metadata"]["generation"].clone();
    let status = json!({"status": {"replicas": 4, "selector": "a=b"}, "spec": {"size": 77}});
    let written = api.patch(MERGE, &format!("{path}/status"), &status).await.ok();
    assert_eq!((&written["status"]["replicas"], &written["spec"]["size"]), (&json!(4), &json!(2)));
    assert_eq!(written["metadata"]["generation"], generation);
    let scale = api.patch(MERGE, &format!("{path}/scale"), &json!({"spec": {"replicas": 5}})).await.ok();
    assert_eq!((&scale["spec"]["replicas"], &scale["status"]), (&json!(5), &json!({"replicas": 4, "selector": "a=b"})));
    assert_eq!(api.get(&path).await.ok()["spec"]["replicas"], 5);
}

#[tokio::test]
async fn lists_tables_selectors_and_watches_work() {
    let api = Api::new().await;
    defined(&api).await;
    api.post(WIDGETS, &widget("a", 1)).await.ok();
    let mut red = widget("b", 2);
    red["spec"]["colour"] = "red".into();
    api.post(WIDGETS, &red).await.ok();
    let list = api.get(&format!("{WIDGETS}?fieldSelector=spec.colour%3Dred")).await.ok();
    assert_eq!((list["items"].as_array().unwrap().len(), &list["items"][0]["metadata"]["name"]), (1, &json!("b")));
    let table = api.get_as(WIDGETS, "application/json;as=Table;g=meta.k8s.io;v=v1").await.ok();
    assert_eq!(table["columnDefinitions"][1]["name"], "Size");
    assert_eq!(table["rows"][1]["cells"], json!(["b", 2]));
    let mut watch = api.watch(&format!("{WIDGETS}?watch=1&resourceVersion=0")).await;
    for name in ["a", "b"] {
        assert_eq!(watch.brief().await, format!("ADDED {name}"));
    }
    api.delete(&format!("{WIDGETS}/a"), &Value::Null).await.ok();
    assert_eq!(watch.brief().await, "DELETED a");
}

#[tokio::test]
async fn whole_numbers_are_integers_however_they_are_written() {
    let api = Api::new().await;
    defined(&api).await;
    let body = r#"{"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "a"}, "spec": {"size": 4.0, "replicas": 1e1}}"#;
    let headers = [("content-type", "application/json")];
    let made = api.send(http::Method::POST, WIDGETS, &headers, body).await;
    assert!(made.text.contains("\"size\":4,") || made.text.contains("\"size\":4}"), "{}", made.text);
    assert_eq!(api.get(&format!("{WIDGETS}/a/scale")).await.ok()["spec"]["replicas"], 10);
    let before = made.ok();
    let same = api.patch(MERGE, &format!("{WIDGETS}/a"), &json!({"spec": {"size": 4.0}})).await.ok();
    assert_eq!(same["metadata"]["generation"], before["metadata"]["generation"]);
    let applied = json!({"apiVersion": "example.com/v1", "kind": "Widget", "spec": {"size": 5.0}});
    let applied = api.patch(APPLY, &format!("{WIDGETS}/a?fieldManager=m&force=true"), &applied).await;
    assert!(applied.text.contains("\"size\":5,") || applied.text.contains("\"size\":5}"), "{}", applied.text);
}

#[tokio::test]
async fn a_status_write_writes_the_status_alone() {
    let api = Api::new().await;
    defined(&api).await;
    api.post(WIDGETS, &widget("a", 1)).await.ok();
    let status = format!("{WIDGETS}/a/status");
    let told = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"size": 9}, "status": {"replicas": 2}});
    let told = api.patch(MERGE, &status, &told).await.ok();
    assert_eq!((&told["status"]["replicas"], &told["spec"]["size"]), (&json!(2), &json!(1)));
    assert!(told["metadata"].get("labels").is_none(), "{told}");
    let removed = api.patch(JSON_PATCH, &status, &json!([{"op": "remove", "path": "/status"}])).await.ok();
    assert!(removed.get("status").is_none(), "{removed}");
}

#[tokio::test]
async fn versions_show_the_same_objects() {
    let api = Api::new().await;
    defined(&api).await;
    api.post(WIDGETS, &widget("a", 1)).await.ok();
    // The second version becomes the one that is stored; it fills in another colour.
    let mut second = version("v2", true);
    second["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["shape"] =
        json!({"type": "string", "default": "round"});
    let path = format!("{DEFINITIONS}/widgets.example.com");
    let mut changed = api.get(&path).await.ok();
    changed["spec"]["versions"] = json!([version("v1", false), second]);
    let changed = api.put(&path, &changed).await.ok();
    assert_eq!(changed["status"]["storedVersions"], json!(["v1", "v2"]));
    let newer = WIDGETS.replace("/v1/", "/v2/");
    let old_object = api.get_until(&format!("{newer}/a"), |reply| reply.code == 200).await.ok();
    assert_eq!((&old_object["apiVersion"], &old_object["spec"]["shape"]), (&json!("example.com/v2"), &json!("round")));
    assert_eq!(api.get(&newer).await.ok()["items"][0]["apiVersion"], "example.com/v2");
    let mut made = widget("b", 2);
    made["apiVersion"] = "example.com/v2".into();
    api.post(&newer, &made).await.ok();
    let as_first = api.get(&format!("{WIDGETS}/b")).await.ok();
    assert_eq!(as_first["apiVersion"], "example.com/v1");
    let patched = api.patch(MERGE, &format!("{WIDGETS}/b"), &json!({"spec": {"size": 7}})).await.ok();
    assert_eq!((&patched["apiVersion"], &patched["spec"]["size"]), (&json!("example.com/v1"), &json!(7)));
    let group = api.get("/apis/example.com").await.ok();
    assert_eq!(group["preferredVersion"]["version"], "v2");
}

#[tokio::test]
async fn a_deleted_definition_takes_its_objects_along() {
    let api = Api::new().await;
    defined(&api).await;
    let mut held = widget("a", 1);
    held["metadata"]["finalizers"] = json!(["example.com/held"]);
    api.post(WIDGETS, &held).await.ok();
    let path = format!("{DEFINITIONS}/widgets.example.com");
    let ending = api.delete(&path, &Value::Null).await.ok();
    assert_eq!(ending["metadata"]["finalizers"], json!(["customresourcecleanup.apiextensions.k8s.io"]));
    api.get_until(&format!("{WIDGETS}/a"), |reply| reply.body["metadata"]["deletionTimestamp"].is_string()).await;
    let refused = api.post(WIDGETS, &widget("late", 1)).await;
    assert_eq!(
        refused.failure(),
        "405 MethodNotAllowed create not allowed while custom resource definition is terminating"
    );
    api.patch(MERGE, &format!("{WIDGETS}/a"), &json!({"metadata": {"finalizers": null}})).await.ok();
    api.get_until(&path, |reply| reply.code == 404).await;
    api.get_until(WIDGETS, |reply| reply.code == 404).await;
}

#[tokio::test]
async fn another_server_serves_it_at_once_and_so_does_the_next() {
    let api = Api::new().await;
    let twin = api.twin().await;
    defined(&api).await;
    api.post(WIDGETS, &widget("a", 1)).await.ok();
    assert_eq!(twin.get(&format!("{WIDGETS}/a")).await.ok()["spec"]["size"], 1);
    let later = api.twin().await;
    assert_eq!(later.get(&format!("{WIDGETS}?resourceVersion=0")).await.ok()["items"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn other_faces_of_a_kind_show_the_same_objects() {
    let api = Api::new().await;
    let first = "/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers";
    let second = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers";
    let spec = json!({"maxReplicas": 3, "scaleTargetRef": {"kind": "Deployment", "name": "d", "apiVersion": "apps/v1"},
        "targetCPUUtilizationPercentage": 50});
    let made = api.post(first, &json!({"metadata": {"name": "h"}, "spec": spec})).await.ok();
    assert_eq!((&made["apiVersion"], &made["spec"]["minReplicas"]), (&json!("autoscaling/v1"), &json!(1)));
    let newer = api.get(&format!("{second}/h")).await.ok();
    assert_eq!(newer["spec"]["metrics"][0]["resource"]["target"]["averageUtilization"], 50);
    let path = format!("{first}/h");
    let patched = api.patch(MERGE, &path, &json!({"spec": {"targetCPUUtilizationPercentage": 60}})).await.ok();
    assert_eq!(patched["spec"]["targetCPUUtilizationPercentage"], 60);
    let list = api.get(second).await.ok();
    assert_eq!(list["items"][0]["spec"]["metrics"][0]["resource"]["target"]["averageUtilization"], 60);
    let mut watch = api.watch(&format!("{first}?watch=1&resourceVersion=0")).await;
    assert_eq!(watch.next().await.unwrap()["object"]["apiVersion"], "autoscaling/v1");

    let events = "/apis/events.k8s.io/v1/namespaces/default/events";
    let event = json!({"metadata": {"name": "e"}, "regarding": {"kind": "Pod", "name": "p", "namespace": "default"},
        "note": "n", "reason": "R", "type": "Normal", "eventTime": "2026-01-01T00:00:00.000000Z",
        "reportingController": "c", "reportingInstance": "i", "action": "A"});
    api.post(events, &event).await.ok();
    let core = api.get("/api/v1/namespaces/default/events/e").await.ok();
    assert_eq!((&core["message"], &core["involvedObject"]["name"]), (&json!("n"), &json!("p")));
    let found = api.get(&format!("{events}?fieldSelector=regarding.name%3Dp")).await.ok();
    assert_eq!(found["items"][0]["note"], "n");
    let table = api.get_as(events, "application/json;as=Table;g=meta.k8s.io;v=v1").await.ok();
    assert_eq!(table["rows"][0]["cells"][3], "pod/p");
}
