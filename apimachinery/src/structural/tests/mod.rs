//! Tests of what schemas say about objects.

mod parse;
mod properties;
mod rules;
mod validate;

use super::*;
use serde_json::json;

pub(super) fn parsed(schema: Value) -> Structural {
    let mut errors = FieldErrors::new();
    Structural::parse(&schema, "schema", &mut errors).unwrap_or_else(|| panic!("{errors}"))
}

/// A schema whose `spec` is this.
pub(super) fn with_spec(spec: Value) -> Structural {
    parsed(json!({ "type": "object", "properties": { "spec": spec } }))
}

#[test]
fn unknown_fields_go_and_are_named() {
    let check = |spec: Value, object: Value, expect: Value, unknown: &[&str]| {
        let schema = with_spec(spec);
        let mut pruned = json!({"spec": object});
        assert_eq!(schema.prune(&mut pruned), unknown, "{object}");
        assert_eq!(pruned["spec"], expect);
        assert_eq!(schema.prune(&mut pruned), [""; 0], "pruned already");
    };
    let object = |properties: Value| json!({"type": "object", "properties": properties});
    let text = json!({"type": "string"});
    check(object(json!({"a": text})), json!({"a": "x", "b": 1}), json!({"a": "x"}), &["spec.b"]);
    check(object(json!({})), json!({"a": {"b": 1}}), json!({}), &["spec.a"]);
    check(json!({"type": "object"}), json!("scalar"), json!("scalar"), &[]);
    let list = json!({"type": "array", "items": object(json!({"a": text}))});
    check(list, json!([{"a": "x"}, {"b": 1, "a": "y"}]), json!([{"a": "x"}, {"a": "y"}]), &["spec[1].b"]);
    let map = json!({"type": "object", "additionalProperties": object(json!({"a": text}))});
    check(map, json!({"k": {"a": "x", "b": 1}}), json!({"k": {"a": "x"}}), &["spec.k.b"]);
    let any = json!({"type": "object", "additionalProperties": true});
    check(any, json!({"k": {"b": 1}, "l": [{"c": 1}]}), json!({"k": {}, "l": [{}]}), &["spec.k.b", "spec.l[0].c"]);
    let mut keep = object(json!({"a": object(json!({"b": text}))}));
    keep["x-kubernetes-preserve-unknown-fields"] = true.into();
    check(keep.clone(), json!({"z": {"y": 1}, "a": {"c": 1}}), json!({"z": {"y": 1}, "a": {}}), &["spec.a.c"]);
    let keep_list =
        json!({"x-kubernetes-preserve-unknown-fields": true, "items": object(json!({"a": object(json!({}))}))});
    check(keep_list, json!([{"b": 1, "a": {"c": 1}}]), json!([{"b": 1, "a": {}}]), &["spec[0].a.c"]);
    let mut embedded = object(json!({"a": text}));
    embedded["x-kubernetes-embedded-resource"] = true.into();
    let resource = json!({"apiVersion": "v1", "kind": "X", "metadata": {"name": "n", "nome": 1}, "b": 1});
    let expect = json!({"apiVersion": "v1", "kind": "X", "metadata": {"name": "n"}});
    check(embedded, resource, expect, &["spec.b", "spec.metadata.nome"]);
}

#[test]
fn the_header_of_the_root_stays() {
    let schema = parsed(json!({"type": "object"}));
    let mut object =
        json!({"apiVersion": "a/v1", "kind": "X", "metadata": {"name": "n", "labels": {"a": "b"}}, "z": 1});
    assert_eq!(schema.prune(&mut object), ["z"]);
    assert_eq!(object, json!({"apiVersion": "a/v1", "kind": "X", "metadata": {"name": "n", "labels": {"a": "b"}}}));
}

#[test]
fn absent_fields_take_their_defaults() {
    let check = |spec: Value, object: Value, expect: Value| {
        let schema = with_spec(spec);
        let mut object = json!({"spec": object});
        schema.default(&mut object);
        assert_eq!(object["spec"], expect);
        let once = object.clone();
        schema.default(&mut object);
        assert_eq!(object, once, "idempotent");
    };
    let inner = json!({"type": "object", "properties": {"b": {"type": "integer", "default": 2}}});
    let mut outer = json!({"type": "object", "properties": {"a": inner, "n": {"type": "string"}}});
    check(outer.clone(), json!({}), json!({}));
    check(outer.clone(), json!({"a": {}}), json!({"a": {"b": 2}}));
    check(outer.clone(), json!({"a": {"b": null}, "n": null}), json!({"a": {"b": 2}}));
    outer["properties"]["a"]["default"] = json!({});
    check(outer.clone(), json!({}), json!({"a": {"b": 2}}));
    outer["properties"]["n"]["nullable"] = true.into();
    check(outer, json!({"a": null, "n": null}), json!({"a": {"b": 2}, "n": null}));
    let inner = json!({"type": "object", "default": {"c": "d"}, "properties": {"b": {"type": "integer", "default": 2}, "c": {"type": "string"}}});
    let list = json!({"type": "array", "items": inner});
    check(list, json!([{}, null]), json!([{"b": 2}, {"b": 2, "c": "d"}]));
    let map = json!({"type": "object", "additionalProperties": inner});
    check(map, json!({"k": {}, "l": null}), json!({"k": {"b": 2}, "l": {"b": 2, "c": "d"}}));
}

#[test]
fn the_table_has_list_types_and_the_header() {
    let ports = json!({
        "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["port", "protocol"],
        "items": {"type": "object", "properties": {
            "port": {"type": "integer", "default": 80}, "protocol": {"type": "string", "default": "TCP"}}},
    });
    let spec = json!({"type": "object", "properties": {
        "ports": ports,
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        "whole": {"type": "object", "x-kubernetes-map-type": "atomic", "additionalProperties": {"type": "string"}},
        "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
    }});
    let table = with_spec(spec).schema("stable.example.com", "v1", "CronTab");
    let root = table.kind("stable.example.com", "v1", "CronTab").unwrap();
    assert_eq!(root.name(), "com.example.stable.v1.CronTab");
    assert!(root.member("metadata").unwrap().field("labels").is_some());
    let spec = root.field("spec").unwrap().ty();
    let ports = spec.field("ports").unwrap();
    assert_eq!(ports.list_type(), crate::schema::ListType::Map);
    assert_eq!(ports.list_keys().collect::<Vec<_>>(), ["port", "protocol"]);
    assert_eq!(ports.ty().items().unwrap().field("protocol").unwrap().default_json(), Some(json!("TCP")));
    assert_eq!(ports.ty().items().unwrap().field("port").unwrap().default_json(), Some(json!(80)));
    assert!(spec.field("whole").unwrap().is_atomic());
    assert_eq!(spec.field("set").unwrap().list_type(), crate::schema::ListType::Set);
    assert!(spec.member("free").unwrap().is_preserve_unknown());
}

#[test]
fn server_side_apply_owns_open_objects_member_by_member() {
    use crate::patch::apply::{Writer, merge};
    let open = json!({"x-kubernetes-preserve-unknown-fields": true});
    let ports = json!({
        "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["port"],
        "items": {"type": "object", "properties": {"port": {"type": "integer", "default": 80}, "name": {"type": "string"}}},
    });
    let properties = json!({"open": open, "ports": ports});
    let table = with_spec(json!({"type": "object", "properties": properties})).schema("example.com", "v1", "A");
    let ty = table.kind("example.com", "v1", "A").unwrap();
    let object =
        |spec: Value| json!({"apiVersion": "example.com/v1", "kind": "A", "metadata": {"name": "a"}, "spec": spec});
    let apply = |live: Option<&Value>, spec: Value, manager: &str| {
        let now = crate::time::Timestamp::default();
        merge(live, &object(spec), ty, &Writer { manager, subresource: "", now, ignored: &[] }, false).unwrap()
    };
    let first = apply(None, json!({"open": {"a": {"x": 1}, "l": [1]}, "ports": [{"name": "http"}]}), "one");
    let second = apply(Some(&first), json!({"open": {"a": {"y": 2}}, "ports": [{"port": 80}, {"port": 81}]}), "two");
    let expect = json!({
        "open": {"a": {"x": 1, "y": 2}, "l": [1]}, "ports": [{"name": "http", "port": 80}, {"port": 81}],
    });
    assert_eq!(second["spec"], expect);
    let third = apply(Some(&second), json!({}), "one");
    assert_eq!(third["spec"], json!({"open": {"a": {"y": 2}}, "ports": [{"port": 80}, {"port": 81}]}));
}
