//! What a DeviceClass means to the API: the devices that belong to it, and how they are configured.

use super::devices::{self, bounded};
use super::{Ctx, Strategy, quantities};
use super::value::str_at;
use gantry_apimachinery::names;
use gantry_apimachinery::status::FieldErrors;
use serde_json::Value;

pub struct DeviceClass;

impl Strategy for DeviceClass {
    fn validate(&self, new: &Value, _old: Option<&Value>, _ctx: &Ctx, errors: &mut FieldErrors) {
        let spec = &new["spec"];
        devices::selectors(spec, "spec", errors);
        for (path, config) in bounded(spec, "config", "spec", devices::MAX_CONFIGS, errors) {
            devices::opaque(config, &path, errors);
        }
        let extended = str_at(spec, "extendedResourceName");
        if extended.is_empty() {
            return;
        }
        if let Err(why) = names::qualified_name(extended) {
            errors.invalid("spec.extendedResourceName", extended, why);
        } else if !quantities::is_extended(extended) {
            errors.invalid("spec.extendedResourceName", extended, "must be a valid extended resource name");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::testing::{errors, row};
    use serde_json::json;

    #[test]
    fn what_is_wrong_is_named() {
        let check = |spec: Value, expect: &str| assert_eq!(errors(&DeviceClass, &json!({"spec": spec}), None), expect);
        check(json!({"selectors": [{"cel": {"expression": "device.driver == 'd'"}}], "extendedResourceName": "example.com/gpu"}), "[]");
        check(json!({"selectors": [{}]}), "spec.selectors[0].cel: Required value");
        check(
            json!({"selectors": [{"cel": {"expression": "1"}}]}),
            "spec.selectors[0].cel.expression: Invalid value: \"1\": must evaluate to bool or the unknown type",
        );
        check(json!({"selectors": [{"cel": {}}]}), "spec.selectors[0].cel.expression: Required value");
        check(
            json!({"config": [{"opaque": {"parameters": [1]}}]}),
            "[spec.config[0].opaque.driver: Required value, \
             spec.config[0].opaque.parameters: Invalid value: [1]: parameters must be a valid JSON object]",
        );
        check(
            json!({"extendedResourceName": "cpu"}),
            "spec.extendedResourceName: Invalid value: \"cpu\": must be a valid extended resource name",
        );
        assert_eq!(row(&DeviceClass, &json!({})), json!(["x", "5s"]));
    }
}
