//! A claim or an Ingress that names no class gets the one that is marked as everybody's.

use crate::harness::Api;
use serde_json::{Value, json};

async fn class_of(api: &Api, path: &str, body: Value, field: &str) -> Value {
    api.post(&format!("{path}?dryRun=All"), &body).await.ok()["spec"][field].clone()
}

async fn check(classes: &str, class: Value, mark: &str, path: &str, body: Value, field: &str) {
    let api = Api::new().await;
    assert_eq!(class_of(&api, path, body.clone(), field).await, Value::Null, "there is none");
    let mut marked = class.clone();
    marked["metadata"] = json!({"name": "usual", "annotations": {mark: "true"}});
    let mut other = class;
    other["metadata"] = json!({"name": "other", "annotations": {mark: "false"}});
    api.post(classes, &other).await.ok();
    api.post(classes, &marked).await.ok();
    api.get_until(&format!("{classes}?resourceVersion=0"), |list| {
        list.body["items"].as_array().is_some_and(|all| all.len() == 2)
    })
    .await;
    assert_eq!(class_of(&api, path, body.clone(), field).await, "usual");
    let mut named = body.clone();
    named["spec"][field] = "other".into();
    assert_eq!(class_of(&api, path, named, field).await, "other");
}

#[tokio::test]
async fn claims_get_the_default_storage_class() {
    let claim = json!({"metadata": {"name": "c"}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
    let path = "/api/v1/namespaces/default/persistentvolumeclaims";
    let mark = "storageclass.kubernetes.io/is-default-class";
    let classes = "/apis/storage.k8s.io/v1/storageclasses";
    check(classes, json!({"provisioner": "acme.io/disk"}), mark, path, claim, "storageClassName").await;
}

#[tokio::test]
async fn ingresses_get_the_default_ingress_class() {
    let backend = json!({"service": {"name": "web", "port": {"number": 80}}});
    let ingress = json!({"metadata": {"name": "i"}, "spec": {"defaultBackend": backend}});
    let path = "/apis/networking.k8s.io/v1/namespaces/default/ingresses";
    let mark = "ingressclass.kubernetes.io/is-default-class";
    let classes = "/apis/networking.k8s.io/v1/ingressclasses";
    check(classes, json!({"spec": {"controller": "acme.io/lb"}}), mark, path, ingress, "ingressClassName").await;
}
