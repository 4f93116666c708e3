//! What a PodGroup means to the API: how many pods start together, and for how long that is tried. Placing them is the scheduler's.

use super::columns::{self, Column};
use super::pod::validate::if_set_one_of;
use super::pod::workload;
use super::value::{at, child, default, i64_at, items, str_at};
use super::{Ctx, Strategy, conditions};
use gantry_apimachinery::status::FieldErrors;
use gantry_apimachinery::time::Timestamp;
use serde_json::Value;

pub struct PodGroup;

const COLUMNS: &[Column] = &[
    Column::NAME,
    Column::number("Min Member", "How many pods start together."),
    Column::number("Scheduled", "How many of its pods have a machine."),
    Column::text("Phase", "How far it is."),
    Column::AGE,
];
const PHASES: &[&str] = &["Pending", "Scheduling", "Scheduled", "Unschedulable"];
/// As many pods as one transaction binds.
pub const MOST_MEMBERS: i64 = 512;
const DEFAULT_TIMEOUT_S: i64 = 60;
const MOST_TIMEOUT_S: i64 = 3_600;

/// Adds an error unless the number, where there is one, is from 1 to `most`.
pub(super) fn at_most(object: &Value, field: &str, path: &str, most: i64, errors: &mut FieldErrors) {
    if let Some(number) = i64_at(object, field)
        && !(1..=most).contains(&number)
    {
        errors.invalid(format!("{path}.{field}"), number, format!("must be between 1 and {most}, inclusive"));
    }
}

impl Strategy for PodGroup {
    fn defaults(&self, object: &mut Value) {
        default(child(object, "spec"), "scheduleTimeoutSeconds", DEFAULT_TIMEOUT_S);
    }

    fn validate(&self, new: &Value, _old: Option<&Value>, ctx: &Ctx, errors: &mut FieldErrors) {
        if ctx.is_status() {
            if_set_one_of(&new["status"], "phase", "status", PHASES, errors);
            workload::counts(new, &["scheduled"], errors);
            for (position, condition) in items(new, "status.conditions").iter().enumerate() {
                conditions::validate(condition, &format!("status.conditions[{position}]"), errors);
            }
            return;
        }
        let spec = &new["spec"];
        if at(spec, "minMember").is_none() {
            errors.required_because("spec.minMember", "how many pods start together");
        }
        at_most(spec, "minMember", "spec", MOST_MEMBERS, errors);
        at_most(spec, "scheduleTimeoutSeconds", "spec", MOST_TIMEOUT_S, errors);
    }

    fn columns(&self) -> &'static [Column] {
        COLUMNS
    }

    fn row(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        let phase = match str_at(object, "status.phase") {
            "" => "Pending",
            phase => phase,
        };
        vec![
            columns::name(object),
            i64_at(object, "spec.minMember").unwrap_or(0).into(),
            i64_at(object, "status.scheduled").unwrap_or(0).into(),
            phase.into(),
            columns::age(object, now),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::testing::{defaulted, errors, errors_of, row};
    use serde_json::json;

    #[test]
    fn what_is_wrong_is_named() {
        let check = |spec: Value, expect: &str| assert_eq!(errors(&PodGroup, &json!({"spec": spec}), None), expect);
        check(json!({"minMember": 1}), "[]");
        check(json!({"minMember": 512, "scheduleTimeoutSeconds": 3600}), "[]");
        check(json!({}), "spec.minMember: Required value: how many pods start together");
        check(json!({"minMember": 0}), "spec.minMember: Invalid value: 0: must be between 1 and 512, inclusive");
        check(json!({"minMember": 513}), "spec.minMember: Invalid value: 513: must be between 1 and 512, inclusive");
        check(
            json!({"minMember": 2, "scheduleTimeoutSeconds": 3601}),
            "spec.scheduleTimeoutSeconds: Invalid value: 3601: must be between 1 and 3600, inclusive",
        );
        let status = |status: Value, expect: &str| {
            let group = json!({"spec": {"minMember": 2}, "status": status});
            assert_eq!(errors_of(&PodGroup, &group, Some(&group), Some("status")), expect);
        };
        status(json!({"phase": "Scheduled", "scheduled": 2}), "[]");
        status(
            json!({"phase": "Done"}),
            "status.phase: Unsupported value: \"Done\": supported values: \"Pending\", \"Scheduling\", \"Scheduled\", \"Unschedulable\"",
        );
        status(json!({"scheduled": -1}), "status.scheduled: Invalid value: -1: must be greater than or equal to 0");
    }

    #[test]
    fn a_minute_is_tried_unless_it_says_otherwise() {
        let made = defaulted(&PodGroup, &json!({"spec": {"minMember": 2}}));
        assert_eq!(made["spec"], json!({"minMember": 2, "scheduleTimeoutSeconds": 60}));
        assert_eq!(row(&PodGroup, &made), json!(["x", 2, 0, "Pending", "5s"]));
        let placed = json!({"spec": {"minMember": 2}, "status": {"phase": "Scheduled", "scheduled": 3}});
        assert_eq!(row(&PodGroup, &placed), json!(["x", 2, 3, "Scheduled", "5s"]));
    }
}
