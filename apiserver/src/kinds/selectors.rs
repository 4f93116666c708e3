//! Label selectors inside objects, which many kinds check alike. Decides what is well formed; never what is selected.

use super::pod::validate::label;
use super::value::{at, items, str_at};
use gantry_apimachinery::names;
use gantry_apimachinery::status::FieldErrors;
use serde_json::Value;

/// A `metav1.LabelSelector`, one error per wrong field. Absent is for the caller to judge.
pub fn label_selector(selector: &Value, path: &str, errors: &mut FieldErrors) {
    for (key, value) in selector["matchLabels"].as_object().into_iter().flatten() {
        label(&format!("{path}.matchLabels"), key, value.as_str().unwrap_or_default(), errors);
    }
    for (position, expression) in items(selector, "matchExpressions").iter().enumerate() {
        requirement(expression, &format!("{path}.matchExpressions[{position}]"), errors);
    }
}

fn requirement(expression: &Value, path: &str, errors: &mut FieldErrors) {
    let values = items(expression, "values");
    match str_at(expression, "operator") {
        "In" | "NotIn" if values.is_empty() => {
            let why = "must be specified when `operator` is 'In' or 'NotIn'";
            errors.required_because(format!("{path}.values"), why);
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            let why = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
            errors.forbidden(format!("{path}.values"), why);
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
        other => errors.invalid(format!("{path}.operator"), other, "not a valid selector operator"),
    }
    let key = str_at(expression, "key");
    if let Err(why) = names::qualified_name(key) {
        errors.invalid(format!("{path}.key"), key, why);
    }
    for (position, value) in items(expression, "values").iter().enumerate() {
        let value = value.as_str().unwrap_or_default();
        if let Err(why) = names::label_value(value) {
            errors.invalid(format!("{path}.values[{position}]"), value, why);
        }
    }
}

/// Whether it has neither labels nor expressions.
pub fn is_empty(selector: &Value) -> bool {
    let labels = at(selector, "matchLabels").and_then(Value::as_object).is_none_or(serde_json::Map::is_empty);
    labels && items(selector, "matchExpressions").is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn each_wrong_field_is_named() {
        let check = |selector: Value, expect: &[&str]| {
            let mut errors = FieldErrors::new();
            label_selector(&selector, "s", &mut errors);
            let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
            assert_eq!(texts.len(), expect.len(), "{texts:?}");
            for (text, expect) in texts.iter().zip(expect) {
                assert!(text.starts_with(expect), "{text}");
            }
        };
        check(json!({"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "c", "operator": "Exists"}]}), &[]);
        check(
            json!({"matchLabels": {"a b": "c d"}}),
            &["s.matchLabels: Invalid value: \"a b\"", "s.matchLabels: Invalid value: \"c d\""],
        );
        let expressions = json!({"matchExpressions": [
            {"key": "a", "operator": "In"},
            {"key": "a", "operator": "Exists", "values": ["x"]},
            {"key": "", "operator": "Near", "values": ["x y"]},
        ]});
        check(
            expressions,
            &[
                "s.matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'",
                "s.matchExpressions[1].values: Forbidden: may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
                "s.matchExpressions[2].operator: Invalid value: \"Near\": not a valid selector operator",
                "s.matchExpressions[2].key: Invalid value: \"\": ",
                "s.matchExpressions[2].values[0]: Invalid value: \"x y\"",
            ],
        );
        assert!(is_empty(&json!({"matchLabels": {}})) && !is_empty(&json!({"matchLabels": {"a": ""}})));
    }
}
