//! What a ControllerRevision means to the API: a numbered copy of a controller's template that never changes.

use super::value::{at, i64_at, items, str_at};
use super::{Column, Ctx, Strategy, columns};
use gantry_apimachinery::meta::split_api_version;
use gantry_apimachinery::status::FieldErrors;
use gantry_apimachinery::time::Timestamp;
use serde_json::Value;

pub struct ControllerRevision;

impl Strategy for ControllerRevision {
    fn validate(&self, new: &Value, old: Option<&Value>, _ctx: &Ctx, errors: &mut FieldErrors) {
        match at(new, "data") {
            None => errors.required_because("data", "data is mandatory"),
            Some(data) if !data.is_object() => errors.invalid("data", data.clone(), "data should be a JSON object"),
            Some(_) => {}
        }
        let revision = i64_at(new, "revision").unwrap_or(0);
        if revision < 0 {
            errors.invalid("revision", revision, "must be greater than or equal to 0");
        }
        if let Some(old) = old
            && at(new, "data") != at(old, "data")
        {
            errors.immutable("data", new["data"].clone());
        }
    }

    fn columns(&self) -> &'static [Column] {
        const COLUMNS: &[Column] = &[
            Column::NAME,
            Column::text("Controller", "Whose template it is."),
            Column::text("Revision", "Its number."),
            Column::AGE,
        ];
        COLUMNS
    }

    fn row(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        let revision = i64_at(object, "revision").unwrap_or(0);
        vec![columns::name(object), controller(object).into(), revision.into(), columns::age(object, now)]
    }
}

/// `daemonset.apps/web`
fn controller(object: &Value) -> String {
    let owners = items(object, "metadata.ownerReferences");
    let Some(owner) = owners.iter().find(|owner| owner["controller"] == true) else { return "<none>".to_owned() };
    let (group, _) = split_api_version(str_at(owner, "apiVersion"));
    let kind = str_at(owner, "kind").to_lowercase();
    let resource = if group.is_empty() { kind } else { format!("{kind}.{group}") };
    format!("{resource}/{}", str_at(owner, "name"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::testing::{errors, row};
    use serde_json::json;

    #[test]
    fn its_data_is_there_and_stays() {
        assert_eq!(errors(&ControllerRevision, &json!({"revision": 1}), None), "data: Required value: data is mandatory");
        let (old, new) = (json!({"data": {"a": 1}}), json!({"data": {"a": 2}}));
        assert_eq!(errors(&ControllerRevision, &new, Some(&old)), "data: Invalid value: {\"a\":2}: field is immutable");
        assert_eq!(
            errors(&ControllerRevision, &json!({"data": {}, "revision": -1}), None),
            "revision: Invalid value: -1: must be greater than or equal to 0"
        );
    }

    #[test]
    fn a_row_names_its_controller() {
        let owner = json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "web", "controller": true});
        let object = json!({"metadata": {"ownerReferences": [owner]}, "revision": 3});
        assert_eq!(row(&ControllerRevision, &object), json!(["x", "daemonset.apps/web", 3, "5s"]));
        assert_eq!(row(&ControllerRevision, &json!({})), json!(["x", "<none>", 0, "5s"]));
    }
}
