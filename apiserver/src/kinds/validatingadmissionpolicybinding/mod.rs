//! What a ValidatingAdmissionPolicyBinding means to the API: which policy is for whom, with which parameters, and what follows.

use super::columns::{self, Column};
use super::pod::validate::{name, one_of, required};
use super::value::{at, default, items, str_at};
use super::{Ctx, Strategy, matching, selectors};
use gantry_apimachinery::names;
use gantry_apimachinery::status::FieldErrors;
use gantry_apimachinery::time::Timestamp;
use serde_json::Value;

pub struct ValidatingAdmissionPolicyBinding;

const ACTIONS: &[&str] = &["Audit", "Deny", "Warn"];
const COLUMNS: &[Column] = &[
    Column::NAME,
    Column::text("PolicyName", "PolicyName indicates the policy definition which the policy binding binded to"),
    Column::text("ParamRef", "ParamRef indicates the param resource which sets the configration param"),
    Column::AGE,
];

impl Strategy for ValidatingAdmissionPolicyBinding {
    fn defaults(&self, object: &mut Value) {
        if let Some(matching) = object.pointer_mut("/spec/matchResources").filter(|matching| matching.is_object()) {
            matching::defaults(matching, &["resourceRules", "excludeResourceRules"]);
        }
        if let Some(parameters) = object.pointer_mut("/spec/paramRef").filter(|parameters| parameters.is_object()) {
            default(parameters, "parameterNotFoundAction", "Deny");
        }
    }

    fn validate(&self, new: &Value, _old: Option<&Value>, _ctx: &Ctx, errors: &mut FieldErrors) {
        let spec = &new["spec"];
        if required(spec, "policyName", "spec", errors) {
            name(spec, "policyName", names::dns1123_subdomain, "spec", errors);
        }
        if let Some(reference) = at(spec, "paramRef") {
            parameters(reference, "spec.paramRef", errors);
        }
        if let Some(matching) = at(spec, "matchResources") {
            matching::resources(matching, "spec.matchResources", errors);
        }
        actions(spec, "spec.validationActions", errors);
    }

    fn columns(&self) -> &'static [Column] {
        COLUMNS
    }

    fn row(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        let reference = at(object, "spec.paramRef").map(|reference| match (str_at(reference, "namespace"), str_at(reference, "name")) {
            (_, "") => "*".to_owned(),
            ("", name) => name.to_owned(),
            (namespace, name) => format!("{namespace}/{name}"),
        });
        vec![
            columns::name(object),
            str_at(object, "spec.policyName").into(),
            reference.unwrap_or_else(|| "<unset>".to_owned()).into(),
            columns::age(object, now),
        ]
    }
}

fn parameters(reference: &Value, path: &str, errors: &mut FieldErrors) {
    match (str_at(reference, "name").is_empty(), at(reference, "selector")) {
        (true, None) => errors.required_because(path, "one of name or selector must be specified"),
        (false, Some(_)) => errors.forbidden(format!("{path}.name"), "name and selector are mutually exclusive"),
        (false, None) => name(reference, "name", names::path_segment, path, errors),
        (true, Some(selector)) => selectors::label_selector(selector, &format!("{path}.selector"), errors),
    }
    one_of(reference, "parameterNotFoundAction", path, &["Allow", "Deny"], errors);
}

fn actions(spec: &Value, path: &str, errors: &mut FieldErrors) {
    let all = items(spec, "validationActions");
    if all.is_empty() {
        return errors.required_because(path, "at least one validation action is required");
    }
    for (position, action) in all.iter().enumerate() {
        if !ACTIONS.iter().any(|known| action == known) {
            errors.not_supported(format!("{path}[{position}]"), action.clone(), ACTIONS);
        }
        if all[..position].contains(action) {
            errors.duplicate(format!("{path}[{position}]"), action.clone());
        }
    }
    if ["Deny", "Warn"].iter().all(|one| all.iter().any(|action| action == one)) {
        let why = "must not contain both Deny and Warn (repeating the same validation failure information in the API response and \
                   headers serves no purpose)";
        errors.invalid(path, spec["validationActions"].clone(), why);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::testing::{defaulted, errors, row};
    use serde_json::json;

    #[test]
    fn what_is_wrong_is_named() {
        let check = |spec: Value, expect: &str| {
            let made = defaulted(&ValidatingAdmissionPolicyBinding, &json!({"spec": spec}));
            let text = errors(&ValidatingAdmissionPolicyBinding, &made, None);
            assert!(text.starts_with(expect), "{text}");
        };
        check(json!({"policyName": "p", "validationActions": ["Deny"], "paramRef": {"name": "c"}}), "[]");
        check(
            json!({}),
            "[spec.policyName: Required value, spec.validationActions: Required value: at least one validation action is required]",
        );
        check(
            json!({"policyName": "p", "validationActions": ["Deny", "Warn"]}),
            "spec.validationActions: Invalid value: [\"Deny\",\"Warn\"]: must not contain both Deny and Warn",
        );
        check(
            json!({"policyName": "p", "validationActions": ["Log", "Log"]}),
            "[spec.validationActions[0]: Unsupported value: \"Log\": supported values: \"Audit\", \"Deny\", \"Warn\"",
        );
        check(
            json!({"policyName": "p", "validationActions": ["Deny"], "paramRef": {}}),
            "spec.paramRef: Required value: one of name or selector must be specified",
        );
        check(
            json!({"policyName": "p", "validationActions": ["Deny"], "paramRef": {"name": "a", "selector": {}}}),
            "spec.paramRef.name: Forbidden: name and selector are mutually exclusive",
        );
    }

    #[test]
    fn parameters_must_be_there_unless_it_says_otherwise() {
        let object = json!({"spec": {"policyName": "p", "paramRef": {"name": "c", "namespace": "ns"}}});
        let made = defaulted(&ValidatingAdmissionPolicyBinding, &object);
        assert_eq!(made["spec"]["paramRef"]["parameterNotFoundAction"], "Deny");
        assert_eq!(row(&ValidatingAdmissionPolicyBinding, &made), json!(["x", "p", "ns/c", "5s"]));
    }
}
