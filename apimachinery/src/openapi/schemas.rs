//! Decides how types are written as OpenAPI schemas, with Kubernetes' extensions for lists, patches and kinds.

use super::{Dialect, Prose};
use crate::schema::{Field, ListType, Schema, Shape, Type};
use serde_json::{Map, Value, json};

const PROPS: &str = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps";

/// Shapes that have a schema of their own under an official name.
const NAMED: [(Shape, &str, &str); 10] = [
    (Shape::Time, "io.k8s.apimachinery.pkg.apis.meta.v1.Time", r#"{"type":"string","format":"date-time"}"#),
    (Shape::MicroTime, "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime", r#"{"type":"string","format":"date-time"}"#),
    (
        Shape::Quantity,
        "io.k8s.apimachinery.pkg.api.resource.Quantity",
        r#"{"oneOf":[{"type":"string"},{"type":"number"}]}"#,
    ),
    (
        Shape::IntOrString,
        "io.k8s.apimachinery.pkg.util.intstr.IntOrString",
        r#"{"format":"int-or-string","oneOf":[{"type":"integer"},{"type":"string"}]}"#,
    ),
    (Shape::Fields, "io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1", r#"{"type":"object"}"#),
    (Shape::Raw, "io.k8s.apimachinery.pkg.runtime.RawExtension", r#"{"type":"object"}"#),
    (Shape::Any, "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSON", "{}"),
    (Shape::SchemaOrList, "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrArray", "{}"),
    (Shape::SchemaOrBool, "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrBool", "{}"),
    (
        Shape::SchemaOrStrings,
        "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrStringArray",
        "{}",
    ),
];

/// The struct that a leaf stands for, where there is one.
pub(super) fn referred(ty: Type<'static>) -> Option<Type<'static>> {
    let schema = matches!(ty.shape(), Shape::SchemaOrList | Shape::SchemaOrBool | Shape::SchemaOrStrings);
    if schema { Schema::builtin().named(PROPS) } else { None }
}

pub(super) fn of(types: &[Type<'static>], dialect: Dialect, prose: &dyn Prose) -> Map<String, Value> {
    let mut schemas = Map::new();
    for ty in types {
        schemas.insert(ty.name(), structure(*ty, dialect, prose));
    }
    let leaves: Vec<Shape> = types.iter().flat_map(|ty| ty.fields()).map(|field| innermost(field.ty())).collect();
    for (_, name, schema) in NAMED.iter().filter(|(shape, _, _)| leaves.contains(shape)) {
        let mut schema: Value = serde_json::from_str(schema).unwrap_or_default();
        if dialect == Dialect::V2 && schema.get("oneOf").is_some() {
            schema = json!({ "type": "string", "format": schema["format"].as_str().unwrap_or("quantity") });
        }
        describe(&mut schema, prose.describe(name, None));
        schemas.insert((*name).to_string(), schema);
    }
    schemas
}

fn innermost(ty: Type<'_>) -> Shape {
    ty.items().or_else(|| ty.map_value()).map_or(ty.shape(), innermost)
}

fn structure(ty: Type<'static>, dialect: Dialect, prose: &dyn Prose) -> Value {
    let name = ty.name();
    let mut schema = json!({ "type": "object" });
    describe(&mut schema, prose.describe(&name, None));
    let mut properties = Map::new();
    for field in ty.fields() {
        let mut property = property(&field, dialect);
        describe(&mut property, prose.describe(&name, Some(field.name())));
        properties.insert(field.name().to_string(), property);
    }
    if !properties.is_empty() {
        schema["properties"] = properties.into();
    }
    let required: Vec<&str> = ty.fields().filter(|f| f.required()).map(|f| f.name()).collect();
    if !required.is_empty() {
        schema["required"] = required.into();
    }
    if ty.is_atomic() {
        schema["x-kubernetes-map-type"] = "atomic".into();
    }
    if ty.is_preserve_unknown() {
        schema["x-kubernetes-preserve-unknown-fields"] = true.into();
    }
    let kinds: Vec<Value> = ty.kinds().map(|(group, version, kind)| gvk(group, version, kind)).collect();
    if !kinds.is_empty() {
        schema["x-kubernetes-group-version-kind"] = kinds.into();
    }
    schema
}

pub(super) fn gvk(group: &str, version: &str, kind: &str) -> Value {
    json!({ "group": group, "version": version, "kind": kind })
}

fn describe(schema: &mut Value, text: Option<String>) {
    if let Some(text) = text {
        schema["description"] = text.into();
    }
}

fn property(field: &Field<'static>, dialect: Dialect) -> Value {
    let ty = field.ty();
    let mut schema = expression(ty, dialect, true);
    if ty.shape() == Shape::List && (ty.list_type() != ListType::Atomic || field.is_atomic_by_rule()) {
        schema["x-kubernetes-list-type"] = match ty.list_type() {
            ListType::Map => "map",
            ListType::Set => "set",
            ListType::Atomic => "atomic",
        }
        .into();
    }
    let keys: Vec<&str> = ty.list_keys().collect();
    if !keys.is_empty() {
        schema["x-kubernetes-list-map-keys"] = keys.into();
    }
    if ty.shape() == Shape::Map && ty.is_atomic() {
        schema["x-kubernetes-map-type"] = "atomic".into();
    }
    let strategy = field.patch_strategy().to_string();
    if !strategy.is_empty() {
        schema["x-kubernetes-patch-strategy"] = strategy.into();
    }
    if let Some(key) = field.merge_key() {
        schema["x-kubernetes-patch-merge-key"] = key.into();
    }
    if let Some(value) = field.default_value() {
        schema["default"] = value.into();
    }
    schema
}

/// A type where it is used. `in_field`: siblings (description, extensions) follow, so v3 wraps a reference in `allOf`.
fn expression(ty: Type<'static>, dialect: Dialect, in_field: bool) -> Value {
    if let Some(items) = ty.items() {
        return json!({ "type": "array", "items": expression(items, dialect, false) });
    }
    if let Some(value) = ty.map_value() {
        return json!({ "type": "object", "additionalProperties": expression(value, dialect, false) });
    }
    let scalar = |kind: &str, format: &str| json!({ "type": kind, "format": format });
    match ty.shape() {
        Shape::String => json!({ "type": "string" }),
        Shape::Bool => json!({ "type": "boolean" }),
        Shape::Int32 => scalar("integer", "int32"),
        Shape::Int64 => scalar("integer", "int64"),
        Shape::Double => scalar("number", "double"),
        Shape::Bytes => scalar("string", "byte"),
        shape => {
            let named = NAMED.iter().find(|(named, _, _)| *named == shape);
            let name = named.map_or_else(|| ty.name(), |(_, name, _)| (*name).to_string());
            let reference = json!({ "$ref": dialect.reference(&name) });
            if in_field && dialect == Dialect::V3 { json!({ "allOf": [reference] }) } else { reference }
        }
    }
}
