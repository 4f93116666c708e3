//! What a schema cannot say by its keywords alone: lists whose items must differ, and the headers of embedded resources. It
//! decides these two; unchanged values are checked, too.

use super::node::Node;
use crate::names;
use crate::schema::ListType;
use crate::status::FieldErrors;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// How many errors are worth telling.
const MAX_ERRORS: usize = 1000;

/// Items that occur more than once in sets and list maps.
pub(super) fn lists(value: &Value, node: &Node, path: &str, errors: &mut FieldErrors) {
    if let Value::Array(items) = value {
        match node.list {
            Some(ListType::Set) => duplicates(items.iter().cloned().map(Some), path, errors),
            Some(ListType::Map) => list_map(items, node, path, errors),
            _ => {}
        }
    }
    each(value, node, path, |value, node, path| lists(value, node, path, errors));
}

/// Calls `act` for each value inside `value` about which the schema says something.
fn each(value: &Value, node: &Node, path: &str, mut act: impl FnMut(&Value, &Node, &str)) {
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                match node.properties.get(name) {
                    Some(child) if path.is_empty() => act(member, child, name),
                    Some(child) => act(member, child, &format!("{path}.{name}")),
                    None => {
                        if let Some(Some(child)) = node.member(name) {
                            act(member, child, &format!("{path}[{name}]"));
                        }
                    }
                }
            }
        }
        Value::Array(items) => {
            if let Some(child) = node.items.as_deref() {
                for (index, item) in items.iter().enumerate() {
                    act(item, child, &format!("{path}[{index}]"));
                }
            }
        }
        _ => {}
    }
}

/// Names the second place of each value that occurs more than once.
fn duplicates(values: impl Iterator<Item = Option<Value>>, path: &str, errors: &mut FieldErrors) {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    for (index, value) in values.enumerate() {
        let times = seen.entry(value.as_ref().map_or_else(String::new, Value::to_string)).or_default();
        *times += 1;
        if *times == 2 && errors.len() < MAX_ERRORS {
            errors.duplicate(format!("{path}[{index}]"), value.unwrap_or_else(|| Value::Object(Map::new())));
        }
    }
}

fn list_map(items: &[Value], node: &Node, path: &str, errors: &mut FieldErrors) {
    if let Some((index, item)) = items.iter().enumerate().find(|(_, item)| !item.is_object() && !item.is_null()) {
        let why = "must be an object for an array of list-type map";
        return errors.invalid(format!("{path}[{index}]"), item.clone(), why);
    }
    let key = |item: &Value| {
        let present = node.list_keys.iter().filter_map(|key| Some((key.clone(), item.get(key)?.clone())));
        Some(Value::Object(present.collect()))
    };
    duplicates(items.iter().map(key), path, errors);
}

/// The headers of embedded resources. The root's own is checked like that of every other object.
pub(super) fn headers(value: &Value, node: &Node, path: &str, errors: &mut FieldErrors) {
    if let Value::Object(members) = value
        && node.embedded
        && errors.len() < MAX_ERRORS
    {
        header(members, path, errors);
    }
    each(value, node, path, |value, node, path| headers(value, node, path, errors));
}

fn header(members: &Map<String, Value>, path: &str, errors: &mut FieldErrors) {
    for name in ["apiVersion", "kind"] {
        let place = format!("{path}.{name}");
        match members.get(name) {
            None => errors.required(place),
            Some(Value::String(text)) if text.is_empty() => errors.required(place),
            Some(Value::String(text)) if name == "apiVersion" => {
                if text.matches('/').count() > 1 {
                    let why = format!("unexpected GroupVersion string: {text}");
                    errors.invalid(place, text.as_str(), why);
                }
            }
            Some(Value::String(text)) => {
                if let Err(why) = names::dns1035_label(&text.to_lowercase()) {
                    let why = format!("may have mixed case, but should otherwise match: {why}");
                    errors.invalid(place, text.as_str(), why);
                }
            }
            Some(other) => errors.invalid(place, other.clone(), "must be a string"),
        }
    }
    if let Some(metadata) = members.get("metadata") {
        self::metadata(metadata, &format!("{path}.metadata"), errors);
    }
}

fn metadata(metadata: &Value, path: &str, errors: &mut FieldErrors) {
    let ty = crate::schema::Schema::builtin().named("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta");
    if let Err(error) = crate::schema::decode::validate_types(metadata, ty.unwrap_or(crate::schema::Type::any())) {
        return errors.invalid(path, metadata.clone(), error.to_string());
    }
    let text = |name: &str| metadata.get(name).and_then(Value::as_str).unwrap_or_default();
    if !text("name").is_empty()
        && let Err(why) = names::path_segment(text("name"))
    {
        errors.invalid(format!("{path}.name"), text("name"), why);
    }
    if !text("namespace").is_empty()
        && let Err(why) = names::dns1123_label(text("namespace"))
    {
        errors.invalid(format!("{path}.namespace"), text("namespace"), why);
    }
    for (key, value) in metadata.get("labels").and_then(Value::as_object).into_iter().flatten() {
        if let Err(why) = names::qualified_name(key) {
            errors.invalid(format!("{path}.labels"), key.as_str(), why);
        }
        let value = value.as_str().unwrap_or_default();
        if let Err(why) = names::label_value(value) {
            errors.invalid(format!("{path}.labels"), value, why);
        }
    }
    for (key, _) in metadata.get("annotations").and_then(Value::as_object).into_iter().flatten() {
        if let Err(why) = names::qualified_name(&key.to_lowercase()) {
            errors.invalid(format!("{path}.annotations"), key.as_str(), why);
        }
    }
}
