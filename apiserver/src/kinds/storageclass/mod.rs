//! What a StorageClass means to the API: its defaults, its rules, what stays, and what `kubectl get` shows.

use super::columns::{self, Column};
use super::persistentvolumeclaim::or_unset;
use super::pod::validate::{if_set_one_of, one_of};
use super::value::{bool_at, default, items, str_at};
use super::{Ctx, Strategy};
use gantry_apimachinery::names;
use gantry_apimachinery::status::FieldErrors;
use gantry_apimachinery::time::Timestamp;
use serde_json::Value;

pub struct StorageClass;

const MAX_PARAMETERS: usize = 512;
const MAX_PARAMETER_BYTES: usize = 256 * 1024;
const DEFAULT_ANNOTATIONS: [&str; 2] =
    ["storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"];

const COLUMNS: &[Column] = &[
    Column::NAME,
    Column::text("Provisioner", "Who makes the volumes."),
    Column::text("ReclaimPolicy", "What becomes of a volume when its claim is gone."),
    Column::text("VolumeBindingMode", "When a volume is made."),
    Column::text("AllowVolumeExpansion", "Whether its volumes may grow."),
    Column::AGE,
];

impl Strategy for StorageClass {
    fn defaults(&self, object: &mut Value) {
        default(object, "reclaimPolicy", "Delete");
        default(object, "volumeBindingMode", "Immediate");
    }

    fn validate(&self, new: &Value, old: Option<&Value>, _ctx: &Ctx, errors: &mut FieldErrors) {
        provisioner(new, "provisioner", errors);
        parameters(new, errors);
        // A path at the top of the object has no parent.
        let mut top = FieldErrors::new();
        if_set_one_of(new, "reclaimPolicy", "", &["Delete", "Retain"], &mut top);
        one_of(new, "volumeBindingMode", "", &["Immediate", "WaitForFirstConsumer"], &mut top);
        errors.extend(at_top(top));
        topologies(new, errors);
        let Some(old) = old else { return };
        for field in ["parameters", "provisioner", "reclaimPolicy"] {
            if new[field] != old[field] {
                errors.forbidden(field, format!("updates to {field} are forbidden."));
            }
        }
        if new["volumeBindingMode"] != old["volumeBindingMode"] {
            errors.immutable("volumeBindingMode", new["volumeBindingMode"].clone());
        }
    }

    fn columns(&self) -> &'static [Column] {
        COLUMNS
    }

    fn row(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        let annotations = &object["metadata"]["annotations"];
        let default = DEFAULT_ANNOTATIONS.iter().any(|annotation| annotations[*annotation] == "true");
        let name = str_at(object, "metadata.name");
        vec![
            if default { format!("{name} (default)") } else { name.to_owned() }.into(),
            str_at(object, "provisioner").into(),
            or_unset(object, "reclaimPolicy"),
            or_unset(object, "volumeBindingMode"),
            bool_at(object, "allowVolumeExpansion").into(),
            columns::age(object, now),
        ]
    }
}

/// Errors of rules that put a dot before a field, for fields without a parent.
pub fn at_top(errors: FieldErrors) -> FieldErrors {
    let mut top = FieldErrors::new();
    errors.iter().for_each(|error| top.push(error.kind, error.path.trim_start_matches('.'), error.body.clone()));
    top
}

/// Who makes or changes volumes, at the top of an object.
pub fn provisioner(object: &Value, field: &str, errors: &mut FieldErrors) {
    let text = str_at(object, field);
    if text.is_empty() {
        errors.required(field);
    } else if let Err(why) = names::qualified_name(&text.to_lowercase()) {
        errors.invalid(field, text, why);
    }
}

/// What is passed on to a driver: not too much, and everything has a name.
pub fn parameters(object: &Value, errors: &mut FieldErrors) {
    let Some(all) = object["parameters"].as_object() else { return };
    if all.len() > MAX_PARAMETERS {
        errors.too_long("parameters", MAX_PARAMETERS);
        return;
    }
    if all.contains_key("") {
        errors.invalid("parameters", "", "field can not be empty.");
    }
    let size: usize = all.iter().map(|(key, value)| key.len() + value.as_str().map_or(0, str::len)).sum();
    if size > MAX_PARAMETER_BYTES {
        errors.too_long("parameters", MAX_PARAMETER_BYTES);
    }
}

fn topologies(class: &Value, errors: &mut FieldErrors) {
    for (position, term) in items(class, "allowedTopologies").iter().enumerate() {
        let mut keys = vec![];
        for (index, expression) in items(term, "matchLabelExpressions").iter().enumerate() {
            let path = format!("allowedTopologies[{position}].matchLabelExpressions[{index}]");
            let key = str_at(expression, "key");
            let values = items(expression, "values");
            if values.is_empty() {
                errors.required(format!("{path}.values"));
            }
            for (place, value) in values.iter().enumerate().filter(|(place, value)| values[..*place].contains(value)) {
                errors.duplicate(format!("{path}.values[{place}]"), value.clone());
            }
            if let Err(why) = names::qualified_name(key) {
                errors.invalid(format!("{path}.key"), key, why);
            }
            if keys.contains(&key) {
                errors.duplicate(format!("{path}.key"), key);
            }
            keys.push(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::testing::{defaulted, errors, row};
    use serde_json::json;

    fn class(change: impl FnOnce(&mut Value)) -> Value {
        let mut object = json!({"provisioner": "disk.example.com", "parameters": {"type": "ssd"}});
        change(&mut object);
        defaulted(&StorageClass, &object)
    }

    #[test]
    fn what_is_wrong_is_named() {
        let check = |change: &dyn Fn(&mut Value), expect: &str| assert_eq!(errors(&StorageClass, &class(change), None), expect);
        check(&|_| {}, "[]");
        check(&|class| class["provisioner"] = json!(""), "provisioner: Required value");
        check(
            &|class| class["reclaimPolicy"] = json!("Recycle"),
            "reclaimPolicy: Unsupported value: \"Recycle\": supported values: \"Delete\", \"Retain\"",
        );
        check(
            &|class| class["volumeBindingMode"] = json!("Later"),
            "volumeBindingMode: Unsupported value: \"Later\": supported values: \"Immediate\", \"WaitForFirstConsumer\"",
        );
        check(
            &|class| class["allowedTopologies"] = json!([{"matchLabelExpressions": [{"key": "zone", "values": ["a", "a"]}, {"key": "zone"}]}]),
            "[allowedTopologies[0].matchLabelExpressions[0].values[1]: Duplicate value: \"a\", \
             allowedTopologies[0].matchLabelExpressions[1].values: Required value, \
             allowedTopologies[0].matchLabelExpressions[1].key: Duplicate value: \"zone\"]",
        );
    }

    #[test]
    fn how_volumes_are_made_stays() {
        let check = |change: &dyn Fn(&mut Value), expect: &str| {
            assert_eq!(errors(&StorageClass, &class(change), Some(&class(|_| {}))), expect);
        };
        check(&|class| class["allowVolumeExpansion"] = json!(true), "[]");
        check(&|class| class["parameters"] = json!({}), "parameters: Forbidden: updates to parameters are forbidden.");
        check(&|class| class["provisioner"] = json!("other"), "provisioner: Forbidden: updates to provisioner are forbidden.");
        check(&|class| class["reclaimPolicy"] = json!("Retain"), "reclaimPolicy: Forbidden: updates to reclaimPolicy are forbidden.");
        check(
            &|class| class["volumeBindingMode"] = json!("WaitForFirstConsumer"),
            "volumeBindingMode: Invalid value: \"WaitForFirstConsumer\": field is immutable",
        );
    }

    #[test]
    fn the_default_one_is_marked() {
        let mut object = class(|_| {});
        assert_eq!(row(&StorageClass, &object), json!(["x", "disk.example.com", "Delete", "Immediate", false, "5s"]));
        object["metadata"] = json!({"annotations": {"storageclass.kubernetes.io/is-default-class": "true"}});
        assert_eq!(row(&StorageClass, &object)[0], "x (default)");
    }
}
