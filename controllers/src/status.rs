//! The write that turns one status into another. Decides which fields a merge patch must null; never whether to write:
//! the caller compares first.

use gantry_apimachinery::kinds::Kind;
use gantry_apimachinery::meta::ObjectMeta;
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::plan::Write;

/// A merge patch of the status fields that differ. A field that the new status leaves out is nulled.
pub fn write<S: Serialize>(kind: &'static Kind, meta: &ObjectMeta, old: &S, new: &S) -> Write {
    Write::status(kind, &meta.namespace, &meta.name, json!({"status": changed(old, new)}))
}

/// The same, refused by the server when the object is no longer the version that was looked at.
pub fn write_locked<S: Serialize>(kind: &'static Kind, meta: &ObjectMeta, old: &S, new: &S) -> Write {
    let body = json!({"metadata": {"resourceVersion": meta.resource_version}, "status": changed(old, new)});
    Write::status(kind, &meta.namespace, &meta.name, body)
}

fn changed<S: Serialize>(old: &S, new: &S) -> Value {
    let (old, new) = (fields(old), fields(new));
    let mut patch = Map::new();
    for (key, value) in &new {
        if old.get(key) != Some(value) {
            // A merge patch would mix old and new keys of a nested map; lists and plain values it replaces.
            if let (Some(Value::Object(before)), Value::Object(after)) = (old.get(key), value) {
                let mut nested = after.clone();
                before
                    .keys()
                    .filter(|k| !after.contains_key(*k))
                    .for_each(|k| drop(nested.insert(k.clone(), Value::Null)));
                patch.insert(key.clone(), Value::Object(nested));
            } else {
                patch.insert(key.clone(), value.clone());
            }
        }
    }
    for key in old.keys().filter(|key| !new.contains_key(*key)) {
        patch.insert(key.clone(), Value::Null);
    }
    Value::Object(patch)
}

fn fields<S: Serialize>(status: &S) -> Map<String, Value> {
    match serde_json::to_value(status) {
        Ok(Value::Object(map)) => map,
        _ => Map::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_differs_is_written() {
        let check = |old: Value, new: Value, expect: Value| assert_eq!(changed(&old, &new), expect);
        check(json!({"a": 1}), json!({"a": 1}), json!({}));
        check(json!({"a": 1, "b": 2}), json!({"a": 3}), json!({"a": 3, "b": null}));
        check(json!({"m": {"x": 1, "y": 2}}), json!({"m": {"x": 1}}), json!({"m": {"x": 1, "y": null}}));
        check(json!({"l": [1]}), json!({"l": [2]}), json!({"l": [2]}));
    }
}
