//! What kubectl looks for in the documents.

use super::*;

fn document(group: &str) -> Value {
    serde_json::from_slice(&v3(&built_in(), group, "v1", &NoProse).expect("served")).expect("JSON")
}

/// Every `$ref` in a document.
fn references(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(members) => {
            for (key, member) in members {
                match member.as_str() {
                    Some(target) if key == "$ref" => drop(found.insert(target.to_string())),
                    _ => references(member, found),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| references(item, found)),
        _ => {}
    }
}

#[test]
fn every_reference_leads_somewhere() {
    let mut documents: Vec<Value> = vec![serde_json::from_slice(&v2(&built_in(), &NoProse)).expect("JSON")];
    let versions: BTreeSet<_> = built_in().iter().map(|row| (row.kind.group, row.kind.version)).collect();
    documents.extend(
        versions
            .iter()
            .map(|(g, v)| serde_json::from_slice(&v3(&built_in(), g, v, &NoProse).expect("served")).expect("JSON")),
    );
    for document in documents {
        let mut found = BTreeSet::new();
        references(&document, &mut found);
        assert!(!found.is_empty());
        for target in found {
            let pointer = target.trim_start_matches('#');
            assert!(document.pointer(pointer).is_some(), "{target} leads nowhere");
        }
    }
}

#[test]
fn patch_takes_the_field_validation_parameter() {
    let document = document("apps");
    let patch = &document["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"]["patch"];
    assert_eq!(
        patch["x-kubernetes-group-version-kind"],
        json!({"group": "apps", "version": "v1", "kind": "Deployment"})
    );
    assert_eq!(patch["x-kubernetes-action"], "patch");
    let parameters = patch["parameters"].as_array().expect("parameters");
    assert!(parameters.iter().any(|p| p["name"] == "fieldValidation" && p["in"] == "query"));
}

#[test]
fn schemas_carry_kubernetes_extensions() {
    let document = document("");
    let schemas = &document["components"]["schemas"];
    let pod = &schemas["io.k8s.api.core.v1.Pod"];
    assert_eq!(pod["x-kubernetes-group-version-kind"], json!([{"group": "", "version": "v1", "kind": "Pod"}]));
    let reference = json!([{"$ref": "#/components/schemas/io.k8s.api.core.v1.PodSpec"}]);
    assert_eq!(pod["properties"]["spec"]["allOf"], reference);
    let spec = &schemas["io.k8s.api.core.v1.PodSpec"]["properties"];
    let containers = json!({"type": "array", "items": {"$ref": "#/components/schemas/io.k8s.api.core.v1.Container"},
        "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
        "x-kubernetes-patch-strategy": "merge", "x-kubernetes-patch-merge-key": "name"});
    assert_eq!(spec["containers"], containers);
    assert_eq!(spec["nodeSelector"]["x-kubernetes-map-type"], "atomic");
    assert_eq!(spec["volumes"]["x-kubernetes-patch-strategy"], "merge,retainKeys");
    assert_eq!(schemas["io.k8s.api.core.v1.LocalObjectReference"]["x-kubernetes-map-type"], "atomic");
    assert_eq!(schemas["io.k8s.api.core.v1.ContainerPort"]["properties"]["protocol"]["default"], "TCP");
}

#[test]
fn the_index_lists_each_document_under_its_hash() {
    let index: Value = serde_json::from_slice(&v3_index(&built_in(), "texts 1", std::iter::empty())).expect("JSON");
    let url = index["paths"]["apis/apps/v1"]["serverRelativeURL"].as_str().expect("listed");
    assert_eq!(url, format!("/openapi/v3/apis/apps/v1?hash={}", hash(&built_in(), "apps", "v1", "texts 1")));
    assert_ne!(hash(&built_in(), "apps", "v1", "texts 1"), hash(&built_in(), "apps", "v1", "texts 2"));
    assert!(index["paths"].get("api/v1").is_some());
}
