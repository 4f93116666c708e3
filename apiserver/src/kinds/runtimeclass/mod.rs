//! What a RuntimeClass means to the API: the handler that runs its pods, which stays, and what they cost besides.

use super::columns::{self, Column};
use super::pod::scheduling::toleration;
use super::pod::validate::label;
use super::quantities::{self, entries};
use super::value::{items, str_at};
use super::{Ctx, Strategy};
use gantry_apimachinery::names;
use gantry_apimachinery::status::FieldErrors;
use gantry_apimachinery::time::Timestamp;
use serde_json::Value;

pub struct RuntimeClass;

impl Strategy for RuntimeClass {
    fn validate(&self, new: &Value, old: Option<&Value>, _ctx: &Ctx, errors: &mut FieldErrors) {
        let handler = str_at(new, "handler");
        if let Err(why) = names::dns1123_label(handler) {
            errors.invalid("handler", handler, why);
        }
        for (name, value, _) in entries(&new["overhead"]["podFixed"]) {
            let path = format!("overhead.podFixed[{name}]");
            let standard =
                |name: &str| matches!(name, "cpu" | "memory" | "ephemeral-storage") || quantities::is_huge_pages(name);
            quantities::resource_name(name, &path, standard, errors);
            quantities::not_negative(value, &path, errors);
        }
        for (key, value) in new["scheduling"]["nodeSelector"].as_object().into_iter().flatten() {
            label("scheduling.nodeSelector", key, value.as_str().unwrap_or_default(), errors);
        }
        let tolerations = items(new, "scheduling.tolerations");
        for (position, one) in tolerations.iter().enumerate() {
            let path = format!("scheduling.tolerations[{position}]");
            toleration(one, &path, errors);
            if tolerations[..position].contains(one) {
                errors.duplicate(path, one.clone());
            }
        }
        if old.is_some_and(|old| old["handler"] != new["handler"]) {
            errors.immutable("handler", handler);
        }
    }

    fn columns(&self) -> &'static [Column] {
        const COLUMNS: &[Column] = &[Column::NAME, Column::text("Handler", "What runs its pods."), Column::AGE];
        COLUMNS
    }

    fn row(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        vec![columns::name(object), str_at(object, "handler").into(), columns::age(object, now)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::testing::{errors, row};
    use serde_json::json;

    #[test]
    fn a_class_is_well_formed_and_its_handler_stays() {
        let check = |class: Value, expect: &str| {
            let text = errors(&RuntimeClass, &class, None);
            assert!(text.starts_with(expect), "{text}");
        };
        let good = json!({"handler": "runsc", "overhead": {"podFixed": {"cpu": "100m"}},
            "scheduling": {"nodeSelector": {"a": "b"}, "tolerations": [{"key": "k", "operator": "Exists"}]}});
        check(good.clone(), "[]");
        check(json!({"handler": "a_b"}), "handler: Invalid value: \"a_b\": a lowercase RFC 1123 label must");
        check(
            json!({"handler": "h", "overhead": {"podFixed": {"cpu": "-1"}}}),
            "overhead.podFixed[cpu]: Invalid value: \"-1\": must be greater than or equal to 0",
        );
        check(
            json!({"handler": "h", "scheduling": {"tolerations": [{"operator": "Exists"}, {"operator": "Exists"}]}}),
            "scheduling.tolerations[1]: Duplicate value: ",
        );
        let expect = "handler: Invalid value: \"kata\": field is immutable";
        assert_eq!(errors(&RuntimeClass, &json!({"handler": "kata"}), Some(&good)), expect);
        assert_eq!(row(&RuntimeClass, &good), json!(["x", "runsc", "5s"]));
    }
}
