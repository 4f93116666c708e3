//! What a LimitRange means to the API: which limits a missing one follows from, and what must be consistent. Whom it limits is
//! admission's.

use super::columns::{self, Column};
use super::quantities::{self, entries, read};
use super::value::{at, child, default, items, items_mut, str_at};
use super::{Ctx, Strategy};
use gantry_apimachinery::names;
use gantry_apimachinery::status::FieldErrors;
use gantry_apimachinery::time::Timestamp;
use serde_json::Value;
use std::collections::BTreeSet;

pub struct LimitRange;

const TYPES: [&str; 3] = ["Pod", "Container", "PersistentVolumeClaim"];
const MAPS: [&str; 5] = ["max", "min", "default", "defaultRequest", "maxLimitRequestRatio"];

impl Strategy for LimitRange {
    fn defaults(&self, object: &mut Value) {
        for limit in items_mut(child(object, "spec"), "limits") {
            if limit["type"] != "Container" {
                continue;
            }
            fill(limit, "default", "max");
            fill(limit, "defaultRequest", "default");
            fill(limit, "defaultRequest", "min");
        }
    }

    fn validate(&self, new: &Value, _old: Option<&Value>, _ctx: &Ctx, errors: &mut FieldErrors) {
        let mut seen = BTreeSet::new();
        for (position, limit) in items(new, "spec.limits").iter().enumerate() {
            let path = format!("spec.limits[{position}]");
            let kind = str_at(limit, "type");
            if let Err(why) = names::qualified_name(kind) {
                errors.invalid(format!("{path}.type"), kind, why);
            } else if !kind.contains('/') && !TYPES.contains(&kind) {
                errors.invalid(format!("{path}.type"), kind, "must be a standard limit type or fully qualified");
            }
            if !seen.insert(kind) {
                errors.duplicate(format!("{path}.type"), kind);
            }
            item(limit, kind, &path, errors);
        }
    }

    fn columns(&self) -> &'static [Column] {
        const COLUMNS: &[Column] = &[Column::NAME, columns::CREATED_AT];
        COLUMNS
    }

    fn row(&self, object: &Value, _now: Timestamp) -> Vec<Value> {
        vec![columns::name(object), columns::created_at(object)]
    }
}

/// Gives `to` what only `from` says.
fn fill(limit: &mut Value, to: &str, from: &str) {
    let Some(amounts) = at(limit, from).and_then(Value::as_object).cloned() else { return };
    let to = child(limit, to);
    amounts.into_iter().for_each(|(name, amount)| default(to, &name, amount));
}

fn item(limit: &Value, kind: &str, path: &str, errors: &mut FieldErrors) {
    for map in MAPS {
        if kind == "Pod" && map.starts_with("default") && at(limit, map).is_some() {
            errors.forbidden(format!("{path}.{map}"), "may not be specified when `type` is 'Pod'");
        }
        for (name, _, _) in entries(&limit[map]) {
            quantities::resource_name(name, &format!("{path}.{map}[{name}]"), is_known, errors);
        }
    }
    if kind == "PersistentVolumeClaim" && ["min", "max"].iter().all(|map| limit[map].get("storage").is_none()) {
        let why = "either minimum or maximum storage value is required, but neither was provided";
        errors.required_because(format!("{path}.limits"), why);
    }
    let all: BTreeSet<&str> = MAPS.iter().flat_map(|map| entries(&limit[map]).map(|(name, _, _)| name)).collect();
    for name in all {
        consistent(limit, name, path, errors);
    }
}

fn is_known(name: &str) -> bool {
    matches!(name, "cpu" | "memory" | "ephemeral-storage" | "storage") || quantities::is_huge_pages(name)
}

/// What is said of one resource does not contradict itself.
fn consistent(limit: &Value, name: &str, path: &str, errors: &mut FieldErrors) {
    let text = |map: &str| limit[map].get(name).and_then(Value::as_str);
    let mut not_above = |low: &str, high: &str, field: &str, low_name: &str, high_name: &str| {
        let (Some(low), Some(high)) = (text(low), text(high)) else { return };
        if read(&low.into()) > read(&high.into()) {
            let value = text(field).unwrap_or_default();
            let why = format!("{low_name} value {low} is greater than {high_name} value {high}");
            errors.invalid(format!("{path}.{field}[{name}]"), value, why);
        }
    };
    not_above("min", "max", "min", "min", "max");
    not_above("min", "defaultRequest", "defaultRequest", "min", "default request");
    not_above("defaultRequest", "max", "defaultRequest", "default request", "max");
    not_above("defaultRequest", "default", "defaultRequest", "default request", "default limit");
    not_above("min", "default", "default", "min", "default");
    not_above("default", "max", "default", "default", "max");
    if let Some(ratio) = text("maxLimitRequestRatio") {
        self::ratio(ratio, text("min"), text("max"), &format!("{path}.maxLimitRequestRatio[{name}]"), errors);
    }
    let fixed = quantities::is_huge_pages(name) || quantities::is_extended(name);
    if let (true, Some(request), Some(most)) = (fixed, text("defaultRequest"), text("default"))
        && read(&request.into()) != read(&most.into())
    {
        let why = format!("default value {most} must equal to defaultRequest value {request} in {name}");
        errors.invalid(format!("{path}.defaultRequest[{name}]"), request, why);
    }
}

/// Limits may be no closer together than once, and no further apart than the range allows.
fn ratio(text: &str, min: Option<&str>, max: Option<&str>, path: &str, errors: &mut FieldErrors) {
    let amount = |text: &str| read(&text.into()).map_or(0.0, |amount| amount.milli() as f64);
    if amount(text) < 1000.0 {
        errors.invalid(path, text, format!("ratio {text} is less than 1"));
    }
    if let (Some(min), Some(max)) = (min.map(amount).filter(|min| *min > 0.0), max.map(amount))
        && amount(text) / 1000.0 > max / min
    {
        errors.invalid(path, text, format!("ratio {text} is greater than max/min = {:.6}", max / min));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::testing::{defaulted, errors, row};
    use serde_json::json;

    fn range(limit: Value) -> Value {
        json!({"spec": {"limits": [limit]}})
    }

    #[test]
    fn a_missing_limit_follows_from_the_others() {
        let check = |limit: Value, default: Value, request: Value| {
            let made = defaulted(&LimitRange, &range(limit));
            let limit = &made["spec"]["limits"][0];
            assert_eq!((&limit["default"], &limit["defaultRequest"]), (&default, &request));
        };
        let cpu = |amount: &str| json!({"cpu": amount});
        check(json!({"type": "Container", "max": cpu("2")}), cpu("2"), cpu("2"));
        check(json!({"type": "Container", "max": cpu("2"), "default": cpu("1")}), cpu("1"), cpu("1"));
        check(json!({"type": "Container", "min": cpu("1")}), Value::Null, cpu("1"));
        check(json!({"type": "Pod", "max": cpu("2")}), Value::Null, Value::Null);
    }

    #[test]
    fn what_is_wrong_is_named() {
        let check = |limit: Value, expect: &str| assert_eq!(errors(&LimitRange, &range(limit), None), expect);
        let cpu = |amount: &str| json!({"cpu": amount});
        check(json!({"type": "Container", "min": cpu("1"), "max": cpu("2"), "maxLimitRequestRatio": cpu("2")}), "[]");
        check(
            json!({"type": "Thing"}),
            "spec.limits[0].type: Invalid value: \"Thing\": must be a standard limit type or fully qualified",
        );
        check(
            json!({"type": "Pod", "default": cpu("1")}),
            "spec.limits[0].default: Forbidden: may not be specified when `type` is 'Pod'",
        );
        check(
            json!({"type": "PersistentVolumeClaim"}),
            "spec.limits[0].limits: Required value: either minimum or maximum storage value is required, but neither was provided",
        );
        check(
            json!({"type": "Container", "min": cpu("3"), "max": cpu("2")}),
            "spec.limits[0].min[cpu]: Invalid value: \"3\": min value 3 is greater than max value 2",
        );
        check(
            json!({"type": "Container", "defaultRequest": cpu("3"), "default": cpu("2")}),
            "spec.limits[0].defaultRequest[cpu]: Invalid value: \"3\": default request value 3 is greater than default limit value 2",
        );
        check(
            json!({"type": "Container", "min": cpu("1"), "max": cpu("2"), "maxLimitRequestRatio": cpu("3")}),
            "spec.limits[0].maxLimitRequestRatio[cpu]: Invalid value: \"3\": ratio 3 is greater than max/min = 2.000000",
        );
        check(
            json!({"type": "Container", "maxLimitRequestRatio": cpu("500m")}),
            "spec.limits[0].maxLimitRequestRatio[cpu]: Invalid value: \"500m\": ratio 500m is less than 1",
        );
        check(
            json!({"type": "Container", "max": {"apples": "1"}}),
            "spec.limits[0].max[apples]: Invalid value: \"apples\": must be a standard resource type or fully qualified",
        );
        let twice = json!({"spec": {"limits": [{"type": "Pod"}, {"type": "Pod"}]}});
        assert_eq!(errors(&LimitRange, &twice, None), "spec.limits[1].type: Duplicate value: \"Pod\"");
    }

    #[test]
    fn the_row_tells_when_it_was_made() {
        assert_eq!(row(&LimitRange, &json!({})), json!(["x", "1970-01-01T00:00:10Z"]));
    }
}
