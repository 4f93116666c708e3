//! What a BatchCapacity means to the API: what a machine lends to batch beyond its allocatable. How much that is, the reclaim
//! controller decides.

use super::columns::{self, Column};
use super::value::at;
use super::{Ctx, Strategy, quantities};
use gantry_apimachinery::names;
use gantry_apimachinery::status::FieldErrors;
use gantry_apimachinery::time::Timestamp;
use serde_json::Value;

pub struct BatchCapacity;

const COLUMNS: &[Column] = &[
    Column::NAME,
    Column::text("CPU", "What the machine lends beyond its allocatable."),
    Column::text("Memory", "What the machine lends beyond its allocatable."),
    Column::AGE,
];
/// What can be taken back from who has borrowed it.
pub const LENT: [&str; 2] = ["cpu", "memory"];

impl Strategy for BatchCapacity {
    fn validate(&self, new: &Value, _old: Option<&Value>, _ctx: &Ctx, errors: &mut FieldErrors) {
        if let Some(name) = new["metadata"]["name"].as_str()
            && let Err(why) = names::dns1123_subdomain(name)
        {
            errors.invalid("metadata.name", name, why);
        }
        let Some(lendable) = at(new, "spec.lendable") else {
            return errors.required_because("spec.lendable", "what the machine lends; {} for nothing");
        };
        for (resource, amount) in lendable.as_object().into_iter().flatten() {
            let path = format!("spec.lendable[{resource}]");
            if LENT.contains(&resource.as_str()) {
                quantities::not_negative(amount, &path, errors);
            } else {
                errors.not_supported("spec.lendable", resource.as_str(), &LENT);
            }
        }
    }

    fn columns(&self) -> &'static [Column] {
        COLUMNS
    }

    fn row(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        let lent = |name: &str| object["spec"]["lendable"].get(name).cloned().unwrap_or_else(|| "0".into());
        vec![columns::name(object), lent("cpu"), lent("memory"), columns::age(object, now)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::testing::{errors, row};
    use serde_json::json;

    #[test]
    fn only_what_can_be_taken_back_is_lent() {
        let check = |spec: Value, expect: &str| {
            let object = json!({"metadata": {"name": "n1"}, "spec": spec});
            assert_eq!(errors(&BatchCapacity, &object, None), expect);
        };
        check(json!({"lendable": {}}), "[]");
        check(json!({"lendable": {"cpu": "1500m", "memory": "0"}}), "[]");
        check(json!({}), "spec.lendable: Required value: what the machine lends; {} for nothing");
        check(
            json!({"lendable": {"cpu": "-1"}}),
            "spec.lendable[cpu]: Invalid value: \"-1\": must be greater than or equal to 0",
        );
        check(
            json!({"lendable": {"pods": "3"}}),
            "spec.lendable: Unsupported value: \"pods\": supported values: \"cpu\", \"memory\"",
        );
    }

    #[test]
    fn a_row_shows_what_is_lent() {
        assert_eq!(row(&BatchCapacity, &json!({"spec": {"lendable": {"cpu": "2"}}})), json!(["x", "2", "0", "5s"]));
    }
}
