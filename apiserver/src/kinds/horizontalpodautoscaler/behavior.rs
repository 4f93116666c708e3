//! Decides how fast an autoscaler may scale when nobody says, and whether what is said is valid.

use crate::kinds::pod::validate::{if_set_one_of, one_of};
use crate::kinds::value::{at, child, default, i64_at, items};
use gantry_apimachinery::status::FieldErrors;
use serde_json::{Value, json};

const MAX_WINDOW_S: i64 = 3600;
const MAX_PERIOD_S: i64 = 1800;

/// Only a behaviour that is there is completed.
pub fn defaults(spec: &mut Value) {
    let Some(behavior) = spec.get_mut("behavior").filter(|behavior| behavior.is_object()) else { return };
    let double = json!({"type": "Percent", "value": 100, "periodSeconds": 15});
    let up = child(behavior, "scaleUp");
    default(up, "stabilizationWindowSeconds", 0);
    default(up, "selectPolicy", "Max");
    default(up, "policies", json!([{"type": "Pods", "value": 4, "periodSeconds": 15}, double]));
    let down = child(behavior, "scaleDown");
    default(down, "selectPolicy", "Max");
    default(down, "policies", json!([double]));
}

pub fn validate(behavior: &Value, errors: &mut FieldErrors) {
    for direction in ["scaleUp", "scaleDown"] {
        if let Some(rules) = at(behavior, direction) {
            self::rules(rules, &format!("spec.behavior.{direction}"), errors);
        }
    }
}

fn rules(rules: &Value, path: &str, errors: &mut FieldErrors) {
    const WINDOW: &str = "stabilizationWindowSeconds";
    match i64_at(rules, WINDOW) {
        Some(seconds) if seconds < 0 => {
            errors.invalid(format!("{path}.{WINDOW}"), seconds, "must be greater than or equal to zero");
        }
        Some(seconds) if seconds > MAX_WINDOW_S => {
            let why = format!("must be less than or equal to {MAX_WINDOW_S}");
            errors.invalid(format!("{path}.{WINDOW}"), seconds, why);
        }
        _ => {}
    }
    if_set_one_of(rules, "selectPolicy", path, &["Disabled", "Max", "Min"], errors);
    if items(rules, "policies").is_empty() {
        errors.required_because(format!("{path}.policies"), "must specify at least one Policy");
    }
    for (position, policy) in items(rules, "policies").iter().enumerate() {
        let path = format!("{path}.policies[{position}]");
        one_of(policy, "type", &path, &["Percent", "Pods"], errors);
        for field in ["value", "periodSeconds"] {
            let number = i64_at(policy, field).unwrap_or(0);
            if number <= 0 {
                errors.invalid(format!("{path}.{field}"), number, "must be greater than zero");
            }
        }
        if let Some(seconds) = i64_at(policy, "periodSeconds").filter(|seconds| *seconds > MAX_PERIOD_S) {
            let why = format!("must be less than or equal to {MAX_PERIOD_S}");
            errors.invalid(format!("{path}.periodSeconds"), seconds, why);
        }
    }
    if let Some(tolerance) = at(rules, "tolerance").filter(|value| value.as_str().is_some_and(|t| t.starts_with('-'))) {
        errors.invalid(format!("{path}.tolerance"), tolerance.clone(), "must be greater than or equal to 0");
    }
}
