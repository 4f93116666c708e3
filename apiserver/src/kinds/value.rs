//! Reading and defaulting fields of decoded JSON objects. Decides nothing about any kind.

use serde_json::{Map, Value};

/// The value at a dotted path, or `None` when any step is missing or null.
pub fn at<'a>(object: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.').try_fold(object, |value, step| value.get(step)).filter(|value| !value.is_null())
}

pub fn str_at<'a>(object: &'a Value, path: &str) -> &'a str {
    at(object, path).and_then(Value::as_str).unwrap_or("")
}

/// A label that a write brings or changes. One that is stored already, whatever it says, keeps nobody from writing the rest.
pub fn changed_label<'a>(new: &'a Value, old: Option<&Value>, key: &str) -> Option<&'a str> {
    let said = new["metadata"]["labels"][key].as_str()?;
    old.is_none_or(|old| old["metadata"]["labels"][key] != said).then_some(said)
}

pub fn i64_at(object: &Value, path: &str) -> Option<i64> {
    at(object, path).and_then(Value::as_i64)
}

pub fn bool_at(object: &Value, path: &str) -> bool {
    at(object, path).and_then(Value::as_bool).unwrap_or(false)
}

/// The elements of the array at a path; none when it is absent.
pub fn items<'a>(object: &'a Value, path: &str) -> &'a [Value] {
    at(object, path).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Sets `object[key]` when it is absent or null. `object` must be a JSON object or null (which becomes one).
pub fn default(object: &mut Value, key: &str, value: impl Into<Value>) {
    let map = object_mut(object);
    match map.get_mut(key) {
        Some(slot) if slot.is_null() => *slot = value.into(),
        Some(_) => {}
        None => {
            map.insert(key.to_owned(), value.into());
        }
    }
}

/// The JSON object itself; anything else is replaced by an empty one.
pub fn object_mut(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    value.as_object_mut().expect("made an object above")
}

/// `object[key]` as an object, made when absent.
pub fn child<'a>(object: &'a mut Value, key: &str) -> &'a mut Value {
    object_mut(object_mut(object).entry(key).or_insert_with(|| Value::Object(Map::new())));
    &mut object[key]
}

/// The array at `object[key]`, mutable; empty when absent.
pub fn items_mut<'a>(object: &'a mut Value, key: &str) -> &'a mut [Value] {
    object.get_mut(key).and_then(Value::as_array_mut).map_or(&mut [], Vec::as_mut_slice)
}

pub fn remove(object: &mut Value, key: &str) -> Option<Value> {
    object.as_object_mut().and_then(|map| map.remove(key))
}

/// Whether two objects differ in any top-level field other than `except`. Absent and null are the same.
pub fn differs_outside(a: &Value, b: &Value, except: &[&str]) -> bool {
    let one_way = |x: &Value, y: &Value| {
        x.as_object().is_some_and(|map| {
            map.iter()
                .any(|(key, value)| !except.contains(&key.as_str()) && value != y.get(key).unwrap_or(&Value::Null))
        })
    };
    one_way(a, b) || one_way(b, a)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn paths_and_defaults() {
        let mut object = json!({"spec": {"n": 1, "gone": null, "list": [1, 2]}});
        assert_eq!(i64_at(&object, "spec.n"), Some(1));
        assert_eq!(at(&object, "spec.gone"), None);
        assert_eq!(items(&object, "spec.list").len(), 2);
        default(&mut object["spec"], "gone", "x");
        default(&mut object["spec"], "n", 7);
        child(&mut object, "status")["phase"] = "Active".into();
        assert_eq!(object, json!({"spec": {"n": 1, "gone": "x", "list": [1, 2]}, "status": {"phase": "Active"}}));
    }

    #[test]
    fn differences_ignore_the_named_fields_and_nulls() {
        let rows = [
            (json!({"spec": 1, "status": 2}), json!({"spec": 1, "status": 3}), false),
            (json!({"spec": 1}), json!({"spec": 2}), true),
            (json!({"spec": null}), json!({}), false),
            (json!({}), json!({"data": {}}), true),
        ];
        for (a, b, expect) in rows {
            assert_eq!(differs_outside(&a, &b, &["status"]), expect, "{a} {b}");
        }
    }
}
