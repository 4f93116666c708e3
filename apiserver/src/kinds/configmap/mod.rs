//! What a ConfigMap means to the API: which keys it may have, how large it may be, and that an immutable one stays as it is.

use super::value::{at, bool_at};
use super::{Column, Ctx, Strategy, columns};
use gantry_apimachinery::names;
use gantry_apimachinery::status::FieldErrors;
use gantry_apimachinery::time::Timestamp;
use serde_json::Value;

/// All values of one ConfigMap or Secret together.
pub const MAX_DATA: usize = 1024 * 1024;

pub struct ConfigMap;

impl Strategy for ConfigMap {
    fn validate(&self, new: &Value, old: Option<&Value>, _ctx: &Ctx, errors: &mut FieldErrors) {
        let binary = &new["binaryData"];
        for key in keys(&new["data"]) {
            check_key(key, "data", errors);
            if binary.get(key).is_some() {
                errors.invalid(format!("data[{key}]"), key, "duplicate of key present in binaryData");
            }
        }
        for key in keys(binary) {
            check_key(key, "binaryData", errors);
        }
        let decoded = |text: usize| text / 4 * 3;
        if size(&new["data"]) + decoded(size(binary)) > MAX_DATA {
            errors.too_long("data", MAX_DATA);
        }
        if let Some(old) = old {
            immutable(new, old, &["data", "binaryData"], errors);
        }
    }

    fn columns(&self) -> &'static [Column] {
        const COLUMNS: &[Column] = &[Column::NAME, Column::text("Data", "How many keys it has."), Column::AGE];
        COLUMNS
    }

    fn row(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        let count = keys(&object["data"]).count() + keys(&object["binaryData"]).count();
        vec![columns::name(object), count.into(), columns::age(object, now)]
    }
}

pub fn keys(data: &Value) -> impl Iterator<Item = &str> {
    data.as_object().into_iter().flatten().map(|(key, _)| key.as_str())
}

/// The length of all values.
pub fn size(data: &Value) -> usize {
    data.as_object().into_iter().flatten().filter_map(|(_, value)| value.as_str()).map(str::len).sum()
}

/// A key is also a file name when the object is mounted.
pub fn check_key(key: &str, field: &str, errors: &mut FieldErrors) {
    if let Err(why) = names::config_key(key) {
        errors.invalid(format!("{field}[{key}]"), key, why);
    }
}

/// Once `immutable` is set, it and `fields` stay.
pub fn immutable(new: &Value, old: &Value, fields: &[&str], errors: &mut FieldErrors) {
    if !bool_at(old, "immutable") {
        return;
    }
    let why = "field is immutable when `immutable` is set";
    if !bool_at(new, "immutable") {
        errors.forbidden("immutable", why);
    }
    let empty = |v: Option<&Value>| v.is_none_or(|v| v.as_object().is_some_and(serde_json::Map::is_empty));
    for field in fields {
        let (new, old) = (at(new, field), at(old, field));
        if new != old && !(empty(new) && empty(old)) {
            errors.forbidden(*field, why);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::testing::{errors, row};
    use serde_json::json;

    #[test]
    fn bad_keys_and_sizes_are_named() {
        let check = |new: Value, expect: &str| assert_eq!(errors(&ConfigMap, &new, None), expect);
        check(json!({"data": {"a.b-c_D": ""}, "binaryData": {"e": "AAAA"}}), "[]");
        check(
            json!({"data": {"a b": ""}}),
            "data[a b]: Invalid value: \"a b\": a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')",
        );
        check(
            json!({"data": {"a": ""}, "binaryData": {"a": ""}}),
            "data[a]: Invalid value: \"a\": duplicate of key present in binaryData",
        );
        check(json!({"data": {"a": "x".repeat(MAX_DATA + 1)}}), "data: Too long: may not be more than 1048576 bytes");
    }

    #[test]
    fn an_immutable_one_stays() {
        let old = json!({"immutable": true, "data": {"a": "1"}});
        let check = |new: Value, expect: &str| assert_eq!(errors(&ConfigMap, &new, Some(&old)), expect);
        check(json!({"immutable": true, "data": {"a": "1"}, "metadata": {"labels": {"x": "y"}}}), "[]");
        check(json!({"immutable": true, "data": {"a": "2"}}), "data: Forbidden: field is immutable when `immutable` is set");
        check(json!({"data": {"a": "1"}}), "immutable: Forbidden: field is immutable when `immutable` is set");
    }

    #[test]
    fn a_row_counts_keys() {
        assert_eq!(row(&ConfigMap, &json!({"data": {"a": ""}, "binaryData": {"b": ""}})), json!(["x", 2, "5s"]));
    }
}
