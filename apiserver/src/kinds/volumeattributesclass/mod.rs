//! What a VolumeAttributesClass means to the API: whose parameters it holds; neither changes.

use super::columns::{self, Column};
use super::storageclass::{parameters, provisioner};
use super::value::str_at;
use super::{Ctx, Strategy};
use gantry_apimachinery::status::FieldErrors;
use gantry_apimachinery::time::Timestamp;
use serde_json::Value;

pub struct VolumeAttributesClass;

impl Strategy for VolumeAttributesClass {
    fn validate(&self, new: &Value, old: Option<&Value>, _ctx: &Ctx, errors: &mut FieldErrors) {
        provisioner(new, "driverName", errors);
        parameters(new, errors);
        if new["parameters"].as_object().is_none_or(serde_json::Map::is_empty) {
            errors.required_because("parameters", "must contain at least one key/value pair");
        }
        let Some(old) = old else { return };
        for field in ["driverName", "parameters"] {
            if new[field] != old[field] {
                errors.forbidden(field, format!("updates to {field} are forbidden."));
            }
        }
    }

    fn columns(&self) -> &'static [Column] {
        const COLUMNS: &[Column] = &[Column::NAME, Column::text("DriverName", "Whose parameters these are."), Column::AGE];
        COLUMNS
    }

    fn row(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        vec![columns::name(object), str_at(object, "driverName").into(), columns::age(object, now)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::testing::{errors, row};
    use serde_json::json;

    #[test]
    fn a_class_is_complete_and_stays() {
        let good = json!({"driverName": "d.example.com", "parameters": {"iops": "100"}});
        assert_eq!(errors(&VolumeAttributesClass, &good, None), "[]");
        let expect = "[driverName: Required value, parameters: Required value: must contain at least one key/value pair]";
        assert_eq!(errors(&VolumeAttributesClass, &json!({}), None), expect);
        let other = json!({"driverName": "d.example.com", "parameters": {"iops": "200"}});
        let expect = "parameters: Forbidden: updates to parameters are forbidden.";
        assert_eq!(errors(&VolumeAttributesClass, &other, Some(&good)), expect);
        assert_eq!(row(&VolumeAttributesClass, &good), json!(["x", "d.example.com", "5s"]));
    }
}
