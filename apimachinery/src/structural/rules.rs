//! Which keywords a schema may use, and which may stand together, wherever it stands in the tree. It decides this schema by
//! schema; what makes the whole structural is in `invariants`.

use super::field_path;
use super::node::{Additional, Kind, Node};
use super::prune::HEADER;
use super::view::View;
use crate::status::FieldErrors;
use serde_json::Value;

/// Where a schema stands, as far as it matters.
#[derive(Clone, Copy)]
struct Place<'p> {
    root: bool,
    /// Inside the schema of `apiVersion`, `kind` or `metadata`.
    in_header: bool,
    /// Why defaults are not allowed here.
    no_default: Option<&'p str>,
}

pub(super) fn check(root: View<'_>, node: &Node, path: &str, errors: &mut FieldErrors) {
    if root.flag("nullable") {
        errors.forbidden(format!("{path}.nullable"), "nullable cannot be true at the root");
    }
    schema(root, Place { root: true, in_header: false, no_default: None }, path, errors);
    expressions(root, node, path, errors);
}

fn schema(view: View<'_>, place: Place<'_>, path: &str, errors: &mut FieldErrors) {
    keywords(view, place, path, errors);
    if view.flag("uniqueItems") {
        let why = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
        errors.forbidden(format!("{path}.uniqueItems"), why);
    }
    below(view, place, path, errors);
    if view.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(false)) {
        errors.invalid(format!("{path}.x-kubernetes-preserve-unknown-fields"), false, "must be true or undefined");
    }
    map_type(view, path, errors);
    list_type(view, path, errors);
    map_keys(view, path, errors);
}

fn keywords(view: View<'_>, place: Place<'_>, path: &str, errors: &mut FieldErrors) {
    let kind = view.text("type");
    if !kind.is_empty() && Kind::from_word(kind).is_none() {
        errors.not_supported(format!("{path}.type"), kind, &Kind::words());
    }
    if let Some(reason) = place.no_default.filter(|_| view.get("default").is_some()) {
        errors.forbidden(format!("{path}.default"), format!("must not be set {reason}"));
    }
    let used = |keyword: &str| match view.get(keyword) {
        Some(Value::String(text)) => !text.is_empty() || keyword == "$ref",
        Some(Value::Object(map)) => !map.is_empty() || keyword == "dependencies",
        other => other.is_some(),
    };
    for keyword in ["id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref"] {
        if used(keyword) {
            errors.forbidden(format!("{path}.{keyword}"), format!("{keyword} is not supported"));
        }
    }
    if kind == "null" {
        let why = "type cannot be set to null, use nullable as an alternative";
        errors.forbidden(format!("{path}.type"), why);
    }
    if view.get("items").is_some_and(Value::is_array) {
        errors.forbidden(format!("{path}.items"), "items must be a schema object and not an array");
    }
    if place.in_header && view.flag("x-kubernetes-embedded-resource") {
        let why = "must not be used inside of resource meta";
        errors.forbidden(format!("{path}.x-kubernetes-embedded-resource"), why);
    }
}

fn below(view: View<'_>, place: Place<'_>, path: &str, errors: &mut FieldErrors) {
    let inner = Place { root: false, ..place };
    if let Some(additional) = view.get("additionalProperties") {
        if view.has_properties() && additional != &Value::Bool(true) {
            let why = "additionalProperties and properties are mutual exclusive";
            errors.forbidden(format!("{path}.additionalProperties"), why);
        }
        if let Some(child) = View::of(additional) {
            let why = "inside additionalProperties applying to object metadata";
            let no_default = if place.in_header { Some(why) } else { place.no_default };
            schema(child, Place { no_default, ..inner }, &format!("{path}.additionalProperties"), errors);
        }
    }
    for (name, child) in view.members("properties") {
        let mut at = inner;
        let why = format!("in top-level {name}");
        if HEADER.contains(&name) && (place.root || view.flag("x-kubernetes-embedded-resource")) {
            at.in_header = true;
            if place.root {
                at.no_default = Some(&why);
            }
        }
        schema(child, at, &format!("{path}.properties[{name}]"), errors);
    }
    if let Some(child) = view.schema("not") {
        schema(child, inner, &format!("{path}.not"), errors);
    }
    for keyword in ["allOf", "oneOf", "anyOf"] {
        for (index, child) in view.schemas(keyword).enumerate() {
            schema(child, inner, &format!("{path}.{keyword}[{index}]"), errors);
        }
    }
    if let Some(child) = view.schema("items") {
        schema(child, inner, &format!("{path}.items"), errors);
    }
}

/// Requires the `type` that an extension is for.
fn needs_type(view: View<'_>, wanted: &str, extension: &str, path: &str, errors: &mut FieldErrors) {
    let why = format!("must be {wanted} if {extension} is specified");
    match view.text("type") {
        kind if kind == wanted => {}
        "" => errors.required_because(format!("{path}.type"), &why),
        kind => errors.invalid(format!("{path}.type"), kind, why),
    }
}

fn map_type(view: View<'_>, path: &str, errors: &mut FieldErrors) {
    const KEY: &str = "x-kubernetes-map-type";
    let Some(word) = view.get(KEY).and_then(Value::as_str) else { return };
    needs_type(view, "object", KEY, path, errors);
    if !["atomic", "granular"].contains(&word) {
        errors.not_supported(format!("{path}.{KEY}"), word, &["atomic", "granular"]);
    }
}

fn list_type(view: View<'_>, path: &str, errors: &mut FieldErrors) {
    const KEY: &str = "x-kubernetes-list-type";
    let Some(word) = view.get(KEY).and_then(Value::as_str) else { return };
    needs_type(view, "array", KEY, path, errors);
    let items = view.schema("items");
    if let Some(items) = items.filter(|_| word == "set" && view.text("type") == "array") {
        let why = "must be atomic as item of a list with x-kubernetes-list-type=set";
        let (inner_list, inner_map) = (items.get(KEY), items.get("x-kubernetes-map-type"));
        match items.text("type") {
            "array" if inner_list.is_some_and(|list| list != "atomic") => {
                errors.invalid(format!("{path}.items.{KEY}"), inner_list.cloned().unwrap_or_default(), why);
            }
            "object" if inner_map.is_none_or(|map| map != "atomic") => {
                let value = inner_map.cloned().unwrap_or_default();
                errors.invalid(format!("{path}.items.x-kubernetes-map-type"), value, why);
            }
            _ => {}
        }
    }
    if !["atomic", "set", "map"].contains(&word) {
        errors.not_supported(format!("{path}.{KEY}"), word, &["atomic", "set", "map"]);
    }
    if let Some(items) = items.filter(|_| ["set", "map"].contains(&word)) {
        if items.flag("nullable") {
            let why = format!("cannot be nullable when x-kubernetes-list-type is {word}");
            errors.forbidden(format!("{path}.items.nullable"), why);
        }
        if word == "map" {
            keys_are_present(view, items, path, errors);
        }
    }
}

/// Every item must have its keys, so they are required or defaulted.
fn keys_are_present(view: View<'_>, items: View<'_>, path: &str, errors: &mut FieldErrors) {
    for key in view.texts("x-kubernetes-list-map-keys") {
        let Some(property) = items.property(key) else { continue };
        let place = format!("{path}.items.properties[{key}]");
        if property.get("default").is_none() && !items.texts("required").any(|name| name == key) {
            let why =
                "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property";
            errors.required_because(format!("{place}.default"), why);
        }
        if property.flag("nullable") {
            let why = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable";
            errors.forbidden(format!("{place}.nullable"), why);
        }
    }
}

fn map_keys(view: View<'_>, path: &str, errors: &mut FieldErrors) {
    const KEYS: &str = "x-kubernetes-list-map-keys";
    const LIST: &str = "x-kubernetes-list-type";
    let keys: Vec<&str> = view.texts(KEYS).collect();
    let word = view.get(LIST).and_then(Value::as_str);
    if !keys.is_empty() {
        let why = "must be map if x-kubernetes-list-map-keys is non-empty";
        match word {
            None => errors.required_because(format!("{path}.{LIST}"), why),
            Some("map") => {}
            Some(other) => errors.invalid(format!("{path}.{LIST}"), other, why),
        }
    }
    if word != Some("map") {
        return;
    }
    if keys.is_empty() {
        errors.required_because(format!("{path}.{KEYS}"), "must not be empty if x-kubernetes-list-type is map");
    }
    let Some(items) = view.schema("items") else {
        errors.required_because(format!("{path}.items"), "must have a schema if x-kubernetes-list-type is map");
        return;
    };
    if items.text("type") != "object" {
        let why = "must be object if parent array's x-kubernetes-list-type is map";
        return errors.invalid(format!("{path}.items.type"), items.text("type"), why);
    }
    for (index, key) in keys.iter().enumerate() {
        match items.property(key).map(|property| property.text("type")) {
            Some("array" | "object") => {
                let why = "must be a scalar type if parent array's x-kubernetes-list-type is map";
                errors.invalid(format!("{path}.items.properties[{key}].type"), items.text("type"), why);
            }
            Some(_) => {}
            None => {
                let why = "entries must all be names of item properties";
                errors.invalid(format!("{path}.{KEYS}"), keys.clone(), why);
            }
        }
        if keys[..index].contains(key) {
            errors.invalid(format!("{path}.{KEYS}"), keys.clone(), "must not contain duplicate entries");
        }
    }
}

/// What is said beside the expressions themselves, wherever there are some.
fn expressions(view: View<'_>, node: &Node, path: &str, errors: &mut FieldErrors) {
    for (name, child) in view.members("properties") {
        if let Some(node) = node.properties.get(name) {
            expressions(child, node, &format!("{path}.properties[{name}]"), errors);
        }
    }
    if let (Some(Additional::Of(node)), Some(child)) = (&node.additional, view.schema("additionalProperties")) {
        expressions(child, node, &format!("{path}.additionalProperties"), errors);
    }
    if let (Some(node), Some(child)) = (&node.items, view.schema("items")) {
        expressions(child, node, &format!("{path}.items"), errors);
    }
    for (index, rule) in view.schemas("x-kubernetes-validations").enumerate() {
        expression(rule, node, &format!("{path}.x-kubernetes-validations[{index}]"), errors);
    }
}

fn expression(view: View<'_>, node: &Node, path: &str, errors: &mut FieldErrors) {
    const REASONS: [&str; 4] =
        ["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];
    let breaks = |text: &str| text.contains(['\n', '\r']);
    let (rule, message) = (view.text("rule").trim(), view.text("message"));
    if rule.is_empty() {
        errors.required_because(format!("{path}.rule"), "rule is not specified");
    } else if !message.is_empty() && message.trim().is_empty() {
        errors.invalid(format!("{path}.message"), message, "message must be non-empty if specified");
    } else if breaks(message.trim()) {
        errors.invalid(format!("{path}.message"), message, "message must not contain line breaks");
    } else if breaks(rule) && message.is_empty() {
        errors.required_because(format!("{path}.message"), "message must be specified if rule contains line breaks");
    }
    let expression = view.text("messageExpression");
    if !expression.is_empty() && expression.trim().is_empty() {
        let why = "messageExpression must be non-empty if specified";
        errors.required_because(format!("{path}.messageExpression"), why);
    }
    if let Some(reason) = view.get("reason").and_then(Value::as_str).filter(|reason| !REASONS.contains(reason)) {
        errors.not_supported(format!("{path}.reason"), reason, &REASONS);
    }
    let field = view.text("fieldPath");
    if !field.is_empty() {
        if field.trim().is_empty() {
            errors.invalid(format!("{path}.fieldPath"), field, "fieldPath must be non-empty if specified");
        }
        if breaks(field) {
            errors.invalid(format!("{path}.fieldPath"), field, "fieldPath must not contain line breaks");
        }
        if field_path::normalized(field, node).is_none() {
            errors.invalid(format!("{path}.fieldPath"), field, "fieldPath must be a valid path");
        }
    }
}
