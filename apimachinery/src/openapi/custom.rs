//! Decides how a custom resource's own schema appears in the documents: its name, what every object has, and what the v2 dialect
//! cannot say.

use super::{Dialect, schemas::gvk};
use crate::kinds::Kind;
use serde_json::{Map, Value, json};

pub(super) const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";

/// `com.example.v1.Widget` for `widgets.example.com`.
pub(super) fn name(group: &str, version: &str, kind: &str) -> String {
    let mut parts: Vec<&str> = group.split('.').rev().collect();
    parts.extend([version, kind]);
    parts.join(".")
}

/// The schemas of a kind and its list.
pub(super) fn schemas(kind: &Kind, schema: &Value, dialect: Dialect) -> Map<String, Value> {
    let named = |kind_name: &str| name(kind.group, kind.version, kind_name);
    let meta = |what: &str| json!({ "$ref": dialect.reference(&format!("{META}.{what}")) });
    let text = |what: &str| json!({ "type": "string", "description": what });
    let api_version = text("APIVersion defines the versioned schema of this representation of an object.");
    let kind_field = text("Kind is a string value representing the REST resource this object represents.");
    let mut own = schema.clone();
    if dialect == Dialect::V2 {
        simplify(&mut own);
    }
    if !own.is_object() {
        own = json!({});
    }
    own["type"] = "object".into();
    if !own["properties"].is_object() {
        own["properties"] = json!({});
    }
    own["properties"]["apiVersion"] = api_version.clone();
    own["properties"]["kind"] = kind_field.clone();
    own["properties"]["metadata"] = match dialect {
        Dialect::V2 => meta("ObjectMeta"),
        Dialect::V3 => json!({ "allOf": [meta("ObjectMeta")], "description": "Standard object's metadata." }),
    };
    own["x-kubernetes-group-version-kind"] = json!([gvk(kind.group, kind.version, kind.kind)]);
    let list = json!({
        "type": "object",
        "description": format!("{} is a list of {}", kind.list_kind(), kind.kind),
        "required": ["items"],
        "properties": {
            "apiVersion": api_version, "kind": kind_field, "metadata": meta("ListMeta"),
            "items": { "type": "array", "items": { "$ref": dialect.reference(&named(kind.kind)) } },
        },
        "x-kubernetes-group-version-kind": [gvk(kind.group, kind.version, &kind.list_kind())],
    });
    [(named(kind.kind), own), (named(&kind.list_kind()), list)].into_iter().collect()
}

/// Drops what the second version of OpenAPI does not have. What may be anything has no type there.
fn simplify(schema: &mut Value) {
    let Some(map) = schema.as_object_mut() else { return };
    for word in ["oneOf", "anyOf", "allOf", "not", "nullable"] {
        map.remove(word);
    }
    if map.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(true)) {
        map.retain(|word, _| word == "description" || word.starts_with("x-kubernetes-"));
        return;
    }
    if map.get("x-kubernetes-int-or-string") == Some(&Value::Bool(true)) {
        map.remove("type");
    }
    for word in ["items", "additionalProperties"] {
        if let Some(inner) = map.get_mut(word) {
            simplify(inner);
        }
    }
    if let Some(properties) = map.get_mut("properties").and_then(Value::as_object_mut) {
        properties.values_mut().for_each(simplify);
    }
}
