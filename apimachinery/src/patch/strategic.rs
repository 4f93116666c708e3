//! Strategic merge patch: a merge patch that merges lists by the keys of the kind's schema.
//!
//! It decides the patched value as Kubernetes does: merge keys, `$patch`, `$retainKeys`, `$setElementOrder`,
//! `$deleteFromPrimitiveList`. It never validates the result, and never changes the document when the patch is bad.

mod lists;
#[cfg(test)]
mod tests;

use crate::schema::{PatchStrategy, Type};
use crate::status::Status;
use serde_json::{Map, Value};

const PATCH: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const DELETE_FROM: &str = "$deleteFromPrimitiveList/";
const SET_ORDER: &str = "$setElementOrder/";

/// What is wrong with a strategic merge patch. The request is at fault; nobody retries.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StrategicError {
    #[error("a strategic merge patch is an object")]
    NotAnObject,
    #[error("invalid strategic merge patch: {path}: unknown $patch directive {directive}")]
    Directive { path: String, directive: String },
    #[error("invalid strategic merge patch: {path}: an element does not contain declared merge key: {key}")]
    NoMergeKey { path: String, key: String },
    #[error("invalid strategic merge patch: {path}: must be a list")]
    NotAList { path: String },
    #[error("invalid strategic merge patch: {path}: {key} is set by the patch, but $retainKeys does not list it")]
    NotRetained { path: String, key: String },
    #[error(
        "invalid strategic merge patch: {path}: an element of the patch is not in $setElementOrder, or in another order"
    )]
    Order { path: String },
}

impl From<StrategicError> for Status {
    fn from(error: StrategicError) -> Status {
        Status::bad_request(error.to_string())
    }
}

/// Patches `doc`, an object of type `ty`. On an error `doc` is unchanged.
pub fn apply(doc: &mut Value, patch: &Value, ty: Type<'_>) -> Result<(), StrategicError> {
    *doc = patched(doc.clone(), patch, ty)?;
    Ok(())
}

/// As [`apply`], of an object that nobody needs any more.
pub fn patched(doc: Value, patch: &Value, ty: Type<'_>) -> Result<Value, StrategicError> {
    let (Value::Object(original), Value::Object(patch)) = (doc, patch) else {
        return Err(StrategicError::NotAnObject);
    };
    Ok(Value::Object(merge_map(original, patch, Some(ty), "")?))
}

type Object = Map<String, Value>;

/// What the schema says about one member of an object.
#[derive(Clone, Copy)]
struct Member<'a> {
    ty: Option<Type<'a>>,
    strategy: PatchStrategy,
    merge_key: Option<&'a str>,
}

fn member<'a>(ty: Option<Type<'a>>, name: &str) -> Member<'a> {
    match ty.and_then(|t| t.field(name)) {
        Some(f) => Member { ty: Some(f.ty()), strategy: f.patch_strategy(), merge_key: f.merge_key() },
        None => {
            let ty = ty.and_then(|t| t.member(name));
            Member { ty, strategy: PatchStrategy::default(), merge_key: None }
        }
    }
}

fn below(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

fn is_directive(key: &str) -> bool {
    key == PATCH || key == RETAIN_KEYS || key.starts_with(DELETE_FROM) || key.starts_with(SET_ORDER)
}

fn merge_map(mut original: Object, patch: &Object, ty: Option<Type<'_>>, path: &str) -> Result<Object, StrategicError> {
    match patch.get(PATCH) {
        None => {}
        Some(Value::String(d)) if d == "replace" => {
            return Ok(patch.iter().filter(|(k, _)| *k != PATCH).map(|(k, v)| (k.clone(), v.clone())).collect());
        }
        Some(Value::String(d)) if d == "delete" => return Ok(Object::new()),
        Some(Value::String(d)) if d == "merge" => {}
        Some(other) => return Err(StrategicError::Directive { path: path.to_owned(), directive: other.to_string() }),
    }
    retain_keys(&mut original, patch, path)?;
    let ordered = patch.keys().filter_map(|k| k.strip_prefix(SET_ORDER));
    let before: Object = ordered.filter_map(|k| Some((k.to_owned(), original.get(k)?.clone()))).collect();
    for (key, value) in patch.iter().filter(|(k, _)| !is_directive(k)) {
        let order = patch.get(&format!("{SET_ORDER}{key}"));
        merge_member(&mut original, key, value, order, member(ty, key), &below(path, key))?;
    }
    for (directive, value) in patch.iter() {
        if let Some(key) = directive.strip_prefix(DELETE_FROM) {
            lists::delete_from(&mut original, key, value, &below(path, key))?;
        } else if let Some(key) = directive.strip_prefix(SET_ORDER) {
            let m = member(ty, key);
            let server = before.get(key).and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
            lists::reorder(&mut original, key, value, server, m.merge_key, &below(path, key))?;
        }
    }
    Ok(original)
}

/// `$retainKeys`: what it does not list is dropped from the original, and the patch may not set more than it lists.
fn retain_keys(original: &mut Object, patch: &Object, path: &str) -> Result<(), StrategicError> {
    let Some(directive) = patch.get(RETAIN_KEYS) else { return Ok(()) };
    let Value::Array(keys) = directive else {
        return Err(StrategicError::NotAList { path: below(path, RETAIN_KEYS) });
    };
    let retained = |key: &str| keys.iter().any(|k| k == key);
    if let Some((key, _)) = patch.iter().find(|(k, v)| !is_directive(k) && !v.is_null() && !retained(k)) {
        return Err(StrategicError::NotRetained { path: path.to_owned(), key: key.clone() });
    }
    original.retain(|key, _| retained(key));
    Ok(())
}

fn merge_member(
    original: &mut Object,
    key: &str,
    value: &Value,
    order: Option<&Value>,
    m: Member<'_>,
    path: &str,
) -> Result<(), StrategicError> {
    if value.is_null() {
        original.remove(key);
        return Ok(());
    }
    let merged = match (original.remove(key), value) {
        (Some(Value::Object(old)), Value::Object(new)) if !m.strategy.replace => {
            Some(Value::Object(merge_map(old, new, m.ty, path)?))
        }
        (Some(Value::Array(old)), Value::Array(new)) if m.strategy.merge => {
            Some(Value::Array(lists::merge(old, new, order, m, path)?))
        }
        (_, value) => fresh(value),
    };
    if let Some(merged) = merged {
        original.insert(key.to_owned(), merged);
    }
    Ok(())
}

/// A patch's value where the original has none: without directives, without nulls, without what it deletes.
fn fresh(value: &Value) -> Option<Value> {
    match value {
        Value::Object(map) => {
            if map.get(PATCH).is_some_and(|d| d == "delete") {
                return None;
            }
            let members = map.iter().filter(|(k, v)| !is_directive(k) && !v.is_null());
            Some(Value::Object(members.filter_map(|(k, v)| Some((k.clone(), fresh(v)?))).collect()))
        }
        Value::Array(items) => Some(Value::Array(items.iter().filter_map(fresh).collect())),
        other => Some(other.clone()),
    }
}
