//! What a Lease means to the API: durations and counts that make sense, and who holds it. It is on the heartbeats' path and
//! does as little as it can.

use super::value::{i64_at, str_at};
use super::{Column, Ctx, Strategy, columns};
use gantry_apimachinery::status::FieldErrors;
use gantry_apimachinery::time::Timestamp;
use serde_json::Value;

pub struct Lease;

impl Strategy for Lease {
    fn validate(&self, new: &Value, _old: Option<&Value>, _ctx: &Ctx, errors: &mut FieldErrors) {
        if let Some(seconds) = i64_at(new, "spec.leaseDurationSeconds").filter(|s| *s <= 0) {
            errors.invalid("spec.leaseDurationSeconds", seconds, "must be greater than 0");
        }
        if let Some(count) = i64_at(new, "spec.leaseTransitions").filter(|n| *n < 0) {
            errors.invalid("spec.leaseTransitions", count, "must be greater than or equal to 0");
        }
        if !str_at(new, "spec.preferredHolder").is_empty() && str_at(new, "spec.strategy").is_empty() {
            errors.forbidden("spec.preferredHolder", "may only be specified if `strategy` is defined");
        }
    }

    fn columns(&self) -> &'static [Column] {
        const COLUMNS: &[Column] = &[Column::NAME, Column::text("Holder", "Who holds it."), Column::AGE];
        COLUMNS
    }

    fn row(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        vec![columns::name(object), str_at(object, "spec.holderIdentity").into(), columns::age(object, now)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::testing::{errors, row};
    use serde_json::json;

    #[test]
    fn numbers_make_sense() {
        let bad = json!({"spec": {"leaseDurationSeconds": 0, "leaseTransitions": -1}});
        assert_eq!(
            errors(&Lease, &bad, None),
            "[spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0, spec.leaseTransitions: Invalid value: -1: must be greater than or equal to 0]"
        );
        assert_eq!(errors(&Lease, &json!({"spec": {"holderIdentity": "a", "leaseDurationSeconds": 40}}), None), "[]");
        assert_eq!(row(&Lease, &json!({"spec": {"holderIdentity": "h"}})), json!(["x", "h", "5s"]));
    }
}
