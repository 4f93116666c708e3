//! What a PriorityClass means to the API: a value that never changes, user values below the system's, and the band that its
//! label names. It never decides who preempts whom.

use super::value::{bool_at, default, i64_at, str_at};
use super::{Column, Ctx, Strategy, columns};
use gantry_apimachinery::status::FieldErrors;
use gantry_apimachinery::time::Timestamp;
use serde_json::Value;

const MAX_USER_VALUE: i64 = 1_000_000_000;
const SYSTEM_PREFIX: &str = "system-";
const SYSTEM_CLASSES: &[(&str, i64)] = &[("system-cluster-critical", 2_000_000_000), ("system-node-critical", 2_000_001_000)];
const POLICIES: &[&str] = &["Never", "PreemptLowerPriority"];
/// Names a class's band.
pub const BAND: &str = "gantry.dev/band";
const BANDS: &[&str] = &["batch", "best-effort", "production"];

/// Whether pods of this band take what machines lend. All others are reserved.
pub fn borrows(band: &str) -> bool {
    band == "batch" || band == "best-effort"
}

pub struct PriorityClass;

impl Strategy for PriorityClass {
    fn defaults(&self, object: &mut Value) {
        default(object, "value", 0);
        default(object, "preemptionPolicy", "PreemptLowerPriority");
    }

    fn validate(&self, new: &Value, old: Option<&Value>, _ctx: &Ctx, errors: &mut FieldErrors) {
        if let Some(old) = old {
            for field in ["value", "preemptionPolicy"] {
                if new[field] != old[field] {
                    errors.forbidden(field, "may not be changed in an update.");
                }
            }
        }
        if let Some(old) = old {
            let borrows = |class: &Value| class["metadata"]["labels"][BAND].as_str().is_some_and(borrows);
            if borrows(old) != borrows(new) {
                let why = "may not move between batch and reserved: pods of the class have been counted";
                errors.forbidden(format!("metadata.labels[{BAND}]"), why);
            }
        }
        check_value(new, errors);
        let policy = str_at(new, "preemptionPolicy");
        if !POLICIES.contains(&policy) {
            errors.not_supported("preemptionPolicy", policy, POLICIES);
        }
        if let Some(band) = new["metadata"]["labels"][BAND].as_str()
            && !BANDS.contains(&band)
        {
            errors.not_supported(format!("metadata.labels[{BAND}]"), band, BANDS);
        }
    }

    fn columns(&self) -> &'static [Column] {
        const COLUMNS: &[Column] = &[
            Column::NAME,
            Column::text("Value", "The priority; higher goes first."),
            Column::text("Global-Default", "Whether pods without a class get it."),
            Column::AGE,
            Column::text("PreemptionPolicy", "Whether its pods may push others out."),
        ];
        COLUMNS
    }

    fn row(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        vec![
            columns::name(object),
            i64_at(object, "value").unwrap_or(0).into(),
            bool_at(object, "globalDefault").into(),
            columns::age(object, now),
            str_at(object, "preemptionPolicy").into(),
        ]
    }
}

/// Names with the system's prefix belong to the system's classes alone; everybody else stays below them.
fn check_value(class: &Value, errors: &mut FieldErrors) {
    let (name, value) = (str_at(class, "metadata.name"), i64_at(class, "value").unwrap_or(0));
    if SYSTEM_CLASSES.contains(&(name, value)) {
        return;
    }
    if name.starts_with(SYSTEM_PREFIX) {
        let why = "priority class names with 'system-' prefix are reserved for system use only";
        errors.forbidden("metadata.name", why);
    }
    if value > MAX_USER_VALUE {
        errors.forbidden("value", format!("maximum allowed value of a user defined priority is {MAX_USER_VALUE}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::testing::{defaulted, errors, row};
    use serde_json::json;

    fn class(name: &str, value: i64) -> Value {
        json!({"metadata": {"name": name}, "value": value, "preemptionPolicy": "PreemptLowerPriority"})
    }

    #[test]
    fn values_stay_in_their_range() {
        let check = |new: Value, expect: &str| assert_eq!(errors(&PriorityClass, &new, None), expect);
        check(class("a", -10_000), "[]");
        check(class("system-node-critical", 2_000_001_000), "[]");
        check(class("a", 1_000_000_001), "value: Forbidden: maximum allowed value of a user defined priority is 1000000000");
        check(
            class("system-mine", 5),
            "metadata.name: Forbidden: priority class names with 'system-' prefix are reserved for system use only",
        );
        let mut banded = class("a", 1);
        banded["metadata"]["labels"] = json!({BAND: "silver"});
        check(
            banded,
            "metadata.labels[gantry.dev/band]: Unsupported value: \"silver\": supported values: \"batch\", \"best-effort\", \"production\"",
        );
    }

    #[test]
    fn a_band_does_not_change_what_its_pods_were_counted_as() {
        let of = |band: &str| {
            let mut class = class("a", 1);
            class["metadata"]["labels"] = json!({BAND: band});
            class
        };
        let expect = "metadata.labels[gantry.dev/band]: Forbidden: may not move between batch and reserved: pods of the class have been counted";
        let check = |new: Value, old: Value, expect: &str| assert_eq!(errors(&PriorityClass, &new, Some(&old)), expect);
        check(of("production"), class("a", 1), "[]");
        check(of("best-effort"), of("batch"), "[]");
        check(of("production"), of("batch"), expect);
        check(class("a", 1), of("batch"), expect);
        check(of("batch"), class("a", 1), expect);
    }

    #[test]
    fn a_value_never_changes() {
        let expect = "value: Forbidden: may not be changed in an update.";
        assert_eq!(errors(&PriorityClass, &class("a", 2), Some(&class("a", 1))), expect);
        assert_eq!(
            defaulted(&PriorityClass, &json!({})),
            json!({"value": 0, "preemptionPolicy": "PreemptLowerPriority"})
        );
        assert_eq!(row(&PriorityClass, &class("a", 2)), json!(["x", 2, false, "5s", "PreemptLowerPriority"]));
    }
}
