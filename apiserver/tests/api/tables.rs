//! Projections: tables, metadata, YAML.

use crate::harness::{Api, CONFIG_MAPS};
use serde_json::json;

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
const METADATA: &str = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io,application/json";
const METADATA_LIST: &str = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,application/json";

#[tokio::test]
async fn tables_for_lists_gets_and_watches() {
    let api = Api::new().await;
    api.config_map("a", json!({})).await;
    let list = api.get_as(CONFIG_MAPS, TABLE).await.ok();
    assert_eq!((&list["kind"], &list["apiVersion"]), (&json!("Table"), &json!("meta.k8s.io/v1")));
    assert_eq!(list["columnDefinitions"][0]["name"], "Name");
    let row = &list["rows"][0];
    assert_eq!((&row["cells"][0], &row["object"]["kind"]), (&json!("a"), &json!("PartialObjectMetadata")));
    let get = api.get_as(&format!("{CONFIG_MAPS}/a?includeObject=Object"), TABLE).await.ok();
    assert_eq!(get["rows"][0]["object"]["data"]["k"], "v");
    let none = api.get_as(&format!("{CONFIG_MAPS}?includeObject=None"), TABLE).await.ok();
    assert_eq!(none["rows"][0].get("object"), None);
    assert_eq!(api.get_as(&format!("{CONFIG_MAPS}?includeObject=All"), TABLE).await.code, 400);

    let mut watch = api.watch_as(&format!("{CONFIG_MAPS}?watch=1"), TABLE).await;
    let first = watch.next().await.unwrap();
    assert_eq!((&first["type"], &first["object"]["rows"][0]["cells"][0]), (&json!("ADDED"), &json!("a")));
    assert!(first["object"]["columnDefinitions"].is_array());
    api.config_map("b", json!({})).await;
    let second = watch.next().await.unwrap();
    assert_eq!(
        (&second["object"]["rows"][0]["cells"][0], &second["object"]["columnDefinitions"]),
        (&json!("b"), &json!(null))
    );
}

#[tokio::test]
async fn metadata_alone() {
    let api = Api::new().await;
    let made = api.config_map("a", json!({"x": "y"})).await;
    let get = api.get_as(&format!("{CONFIG_MAPS}/a"), METADATA).await.ok();
    assert_eq!(
        get,
        json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": made["metadata"]})
    );
    let list = api.get_as(CONFIG_MAPS, METADATA_LIST).await.ok();
    assert_eq!((&list["kind"], &list["items"][0]), (&json!("PartialObjectMetadataList"), &get));
    let mut watch = api.watch_as(&format!("{CONFIG_MAPS}?watch=1"), METADATA).await;
    assert_eq!(watch.next().await.unwrap()["object"], get);
}

#[tokio::test]
async fn yaml_is_the_same_object() {
    let api = Api::new().await;
    let made = api.config_map("a", json!({"quoted": "true"})).await;
    let yaml = api.get_as(&format!("{CONFIG_MAPS}/a"), "application/yaml").await;
    assert_eq!(yaml.headers["content-type"], "application/yaml");
    let back =
        gantry_apimachinery::schema::decode::from_yaml(yaml.text.as_bytes(), gantry_apimachinery::schema::Type::any())
            .unwrap();
    assert_eq!(back.object, made);
}

#[tokio::test]
async fn allocations_print_their_totals() {
    let api = Api::new().await;
    api.post("/api/v1/nodes", &json!({"metadata": {"name": "n1"}})).await.ok();
    api.post("/api/v1/namespaces/default/serviceaccounts", &json!({"metadata": {"name": "default"}})).await;
    api.get("/api/v1/serviceaccounts").await.ok();
    let container = json!({"name": "c", "image": "i", "resources": {"requests": {"cpu": "250m", "memory": "1Gi"}}});
    let pod = json!({"metadata": {"name": "p"}, "spec": {"nodeName": "n1", "containers": [container]}});
    api.post("/api/v1/namespaces/default/pods", &pod).await.ok();
    api.get("/api/v1/pods").await.ok();
    let path = "/apis/gantry.dev/v1/nodeallocations";
    for path in [path.to_owned(), format!("{path}/n1")] {
        let table = api.get_as(&path, TABLE).await.ok();
        assert_eq!(
            table["rows"][0]["cells"].as_array().unwrap()[..4],
            [json!("n1"), json!(1), json!("250m"), json!("1Gi")]
        );
    }
    let whole = api.get(path).await.ok();
    assert_eq!(whole["items"][0]["status"]["pods"], 1);
    assert_eq!(api.get(&format!("{path}/n1")).await.ok()["status"]["requested"]["cpu"], "250m");
}
