//! What a PodDisruptionBudget means to the API: what must be consistent, and what `kubectl get` shows. How many pods may go is the
//! controller's.

use super::columns::{self, Column};
use super::pod::validate::if_set_one_of;
use super::pod::workload;
use super::selectors;
use super::value::{at, child, default, i64_at, items, str_at};
use super::{Ctx, Strategy};
use gantry_apimachinery::status::FieldErrors;
use gantry_apimachinery::time::Timestamp;
use serde_json::Value;

pub struct PodDisruptionBudget;

const COLUMNS: &[Column] = &[
    Column::NAME,
    Column::text("Min Available", "The minimum number of pods that must be available."),
    Column::text("Max Unavailable", "The maximum number of pods that may be unavailable."),
    Column::number("Allowed Disruptions", "Calculated number of pods that may be disrupted at this time."),
    Column::AGE,
];
const COUNTS: [&str; 4] = ["disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"];

impl Strategy for PodDisruptionBudget {
    fn prepare_create(&self, object: &mut Value, _ctx: &Ctx) {
        // Kubernetes' own type always has these counts.
        let status = child(object, "status");
        COUNTS.iter().for_each(|count| default(status, count, 0));
    }

    fn validate(&self, new: &Value, _old: Option<&Value>, ctx: &Ctx, errors: &mut FieldErrors) {
        if ctx.is_status() {
            workload::counts(new, &COUNTS, errors);
            for (position, condition) in items(new, "status.conditions").iter().enumerate() {
                let path = format!("status.conditions[{position}]");
                super::conditions::validate(condition, &path, errors);
            }
            return;
        }
        let spec = &new["spec"];
        let (least, most) = (at(spec, "minAvailable"), at(spec, "maxUnavailable"));
        if least.is_some() && most.is_some() {
            errors.invalid("spec", spec.clone(), "minAvailable and maxUnavailable cannot be both set");
        }
        for field in ["minAvailable", "maxUnavailable"] {
            workload::int_or_percent(spec, field, "spec", errors);
            workload::at_most_all(spec, field, "spec", errors);
        }
        selectors::label_selector(&spec["selector"], "spec.selector", errors);
        if_set_one_of(spec, "unhealthyPodEvictionPolicy", "spec", &["AlwaysAllow", "IfHealthyBudget"], errors);
    }

    fn columns(&self) -> &'static [Column] {
        COLUMNS
    }

    fn row(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        let amount = |path: &str| match at(object, path) {
            None => "N/A".to_owned(),
            Some(Value::Number(number)) => number.to_string(),
            Some(_) => str_at(object, path).to_owned(),
        };
        vec![
            columns::name(object),
            amount("spec.minAvailable").into(),
            amount("spec.maxUnavailable").into(),
            i64_at(object, "status.disruptionsAllowed").unwrap_or(0).into(),
            columns::age(object, now),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::testing::{errors, errors_of, row};
    use serde_json::json;

    #[test]
    fn what_is_wrong_is_named() {
        let check = |spec: Value, expect: &str| {
            assert_eq!(errors(&PodDisruptionBudget, &json!({"spec": spec}), None), expect);
        };
        check(json!({"minAvailable": 1, "selector": {"matchLabels": {"a": "b"}}}), "[]");
        check(
            json!({"minAvailable": 1, "maxUnavailable": 1}),
            "spec: Invalid value: {\"maxUnavailable\":1,\"minAvailable\":1}: minAvailable and maxUnavailable cannot be both set",
        );
        check(json!({"minAvailable": -1}), "spec.minAvailable: Invalid value: -1: must be greater than or equal to 0");
        check(
            json!({"maxUnavailable": "101%"}),
            "spec.maxUnavailable: Invalid value: \"101%\": must not be greater than 100%",
        );
        check(
            json!({"maxUnavailable": 1, "selector": {"matchExpressions": [{"key": "a", "operator": "Is"}]}}),
            "spec.selector.matchExpressions[0].operator: Invalid value: \"Is\": not a valid selector operator",
        );
        check(
            json!({"unhealthyPodEvictionPolicy": "Never"}),
            "spec.unhealthyPodEvictionPolicy: Unsupported value: \"Never\": supported values: \"AlwaysAllow\", \"IfHealthyBudget\"",
        );
        let wrong = json!({"status": {"currentHealthy": -1}});
        let expect = "status.currentHealthy: Invalid value: -1: must be greater than or equal to 0";
        assert_eq!(errors_of(&PodDisruptionBudget, &wrong, Some(&wrong), Some("status")), expect);
    }

    #[test]
    fn the_row_is_kubectls() {
        let check = |spec: Value, expect: Value| {
            let object = json!({"spec": spec, "status": {"disruptionsAllowed": 2}});
            assert_eq!(row(&PodDisruptionBudget, &object), expect);
        };
        check(json!({"minAvailable": 3}), json!(["x", "3", "N/A", 2, "5s"]));
        check(json!({"maxUnavailable": "25%"}), json!(["x", "N/A", "25%", 2, "5s"]));
    }
}
