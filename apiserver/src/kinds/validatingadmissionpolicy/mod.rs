//! What a ValidatingAdmissionPolicy means to the API: its defaults, its rules, and what `kubectl get` shows. Its expressions are kept
//! as they are: nobody runs them here.

use super::columns::{self, Column};
use super::pod::validate::{if_set_one_of, required};
use super::value::{at, child, default, items, str_at};
use super::matching::{self, Yields};
use super::{Ctx, Strategy, conditions};
use gantry_apimachinery::names;
use gantry_apimachinery::status::FieldErrors;
use gantry_apimachinery::time::Timestamp;
use serde_json::{Value, json};

pub struct ValidatingAdmissionPolicy;

const REASONS: &[&str] = &["Forbidden", "Invalid", "RequestEntityTooLarge", "Unauthorized"];
const MAX_ANNOTATIONS: usize = 20;

const COLUMNS: &[Column] = &[
    Column::NAME,
    Column::number("Validations", "Validations indicates the number of validation rules defined in this configuration"),
    Column::text("ParamKind", "ParamKind specifies the kind of resources used to parameterize this policy"),
    Column::AGE,
];

impl Strategy for ValidatingAdmissionPolicy {
    fn defaults(&self, object: &mut Value) {
        let spec = child(object, "spec");
        default(spec, "failurePolicy", "Fail");
        if let Some(constraints) = spec.get_mut("matchConstraints").filter(|constraints| constraints.is_object()) {
            matching::defaults(constraints, &["resourceRules", "excludeResourceRules"]);
        }
    }

    fn prepare_create(&self, object: &mut Value, _ctx: &Ctx) {
        object["status"] = json!({});
    }

    fn validate(&self, new: &Value, _old: Option<&Value>, ctx: &Ctx, errors: &mut FieldErrors) {
        if ctx.is_status() {
            for (position, condition) in items(new, "status.conditions").iter().enumerate() {
                conditions::validate(condition, &format!("status.conditions[{position}]"), errors);
            }
            return;
        }
        let spec = &new["spec"];
        matching::failure_policy(spec, "spec", errors);
        if let Some(kind) = at(spec, "paramKind") {
            param_kind(kind, errors);
        }
        match at(spec, "matchConstraints") {
            None => errors.required("spec.matchConstraints"),
            Some(constraints) => {
                matching::resources(constraints, "spec.matchConstraints", errors);
                if items(constraints, "resourceRules").is_empty() {
                    errors.required("spec.matchConstraints.resourceRules");
                }
            }
        }
        let mut known = vec!["object", "oldObject", "request", "namespaceObject"];
        if at(spec, "paramKind").is_some() {
            known.push("params");
        }
        matching::conditions(spec, "spec", &known, errors);
        known.push("variables");
        variables(spec, &known, errors);
        expressions(spec, &known, errors);
    }

    fn columns(&self) -> &'static [Column] {
        COLUMNS
    }

    fn row(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        let kind = at(object, "spec.paramKind");
        let kind = kind.map(|kind| format!("{}/{}", str_at(kind, "apiVersion"), str_at(kind, "kind")));
        vec![
            columns::name(object),
            items(object, "spec.validations").len().into(),
            kind.unwrap_or_else(|| "<unset>".to_owned()).into(),
            columns::age(object, now),
        ]
    }
}

fn param_kind(kind: &Value, errors: &mut FieldErrors) {
    let path = "spec.paramKind";
    if required(kind, "apiVersion", path, errors) {
        let text = str_at(kind, "apiVersion");
        let (group, version) = text.split_once('/').unwrap_or(("", text));
        let fine = !version.contains('/') && (group.is_empty() || names::dns1123_subdomain(group).is_ok());
        if !fine || names::dns1035_label(version).is_err() {
            errors.invalid(format!("{path}.apiVersion"), text, "must be a group and a version, such as 'apps/v1'");
        }
    }
    if required(kind, "kind", path, errors)
        && let Err(why) = names::dns1035_label(&str_at(kind, "kind").to_lowercase())
    {
        let why = format!("may have mixed case, but should otherwise match: {why}");
        errors.invalid(format!("{path}.kind"), str_at(kind, "kind"), why);
    }
}

fn variables(spec: &Value, known: &[&str], errors: &mut FieldErrors) {
    let all = items(spec, "variables");
    for (position, variable) in all.iter().enumerate() {
        let (name, path) = (str_at(variable, "name"), format!("spec.variables[{position}]"));
        if required(variable, "name", &path, errors) && !is_identifier(name) {
            errors.invalid(format!("{path}.name"), name, "name is not a valid CEL identifier");
        }
        if all[..position].iter().any(|other| other["name"] == variable["name"]) {
            errors.duplicate(format!("{path}.name"), name);
        }
        if str_at(variable, "expression").trim().is_empty() {
            errors.required_because(format!("{path}.expression"), "expression is not specified");
        }
        matching::expression(variable, "expression", &path, known, Yields::Anything, errors);
    }
}

fn is_identifier(name: &str) -> bool {
    const RESERVED: [&str; 4] = ["true", "false", "null", "in"];
    let word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    !RESERVED.contains(&name) && !name.starts_with(|c: char| c.is_ascii_digit()) && name.bytes().all(word)
}

fn expressions(spec: &Value, known: &[&str], errors: &mut FieldErrors) {
    let (validations, annotations) = (items(spec, "validations"), items(spec, "auditAnnotations"));
    if validations.is_empty() && annotations.is_empty() {
        let why = "validations or auditAnnotations must contain at least one item";
        errors.required_because("spec.validations", why);
        errors.required_because("spec.auditAnnotations", why);
    }
    for (position, validation) in validations.iter().enumerate() {
        self::validation(validation, known, &format!("spec.validations[{position}]"), errors);
    }
    if annotations.len() > MAX_ANNOTATIONS {
        let why = format!("must not have more than {MAX_ANNOTATIONS} auditAnnotations");
        errors.invalid("spec.auditAnnotations", spec["auditAnnotations"].clone(), why);
    }
    for (position, annotation) in annotations.iter().enumerate() {
        let (key, path) = (str_at(annotation, "key"), format!("spec.auditAnnotations[{position}]"));
        if required(annotation, "key", &path, errors)
            && let Err(why) = names::qualified_name(key)
        {
            errors.invalid(format!("{path}.key"), key, why);
        }
        if annotations[..position].iter().any(|other| other["key"] == annotation["key"]) {
            errors.duplicate(format!("{path}.key"), key);
        }
        if str_at(annotation, "valueExpression").trim().is_empty() {
            errors.required_because(format!("{path}.valueExpression"), "valueExpression is not specified");
        }
        matching::expression(annotation, "valueExpression", &path, known, Yields::StringOrNull, errors);
    }
}

fn validation(validation: &Value, known: &[&str], path: &str, errors: &mut FieldErrors) {
    let text = |field: &str| at(validation, field).and_then(Value::as_str);
    let expression = text("expression").unwrap_or_default().trim();
    if expression.is_empty() {
        errors.required_because(format!("{path}.expression"), "expression is not specified");
    }
    matching::expression(validation, "expression", path, known, Yields::Bool, errors);
    matching::expression(validation, "messageExpression", path, known, Yields::String, errors);
    if let Some(message) = text("messageExpression").filter(|message| message.trim().is_empty()) {
        errors.invalid(format!("{path}.messageExpression"), message, "must be non-empty if specified");
    }
    match text("message") {
        Some(message) if !message.is_empty() && message.trim().is_empty() => {
            errors.invalid(format!("{path}.message"), message, "message must be non-empty if specified");
        }
        Some(message) if message.trim().contains('\n') => {
            errors.invalid(format!("{path}.message"), message, "message must not contain line breaks");
        }
        None | Some("") if expression.contains('\n') => {
            let why = "message must be specified if expression contains line breaks";
            errors.required_because(format!("{path}.message"), why);
        }
        _ => {}
    }
    if_set_one_of(validation, "reason", path, REASONS, errors);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::testing::{created, errors, row};

    fn policy(change: impl FnOnce(&mut Value)) -> Value {
        let rule = json!({"operations": ["CREATE"], "apiGroups": ["apps"], "apiVersions": ["v1"], "resources": ["deployments"]});
        let mut object = json!({"spec": {"matchConstraints": {"resourceRules": [rule]},
            "validations": [{"expression": "object.spec.replicas <= 5"}]}});
        change(&mut object["spec"]);
        created(&ValidatingAdmissionPolicy, &object)
    }

    #[test]
    fn defaults_are_kubernetes() {
        let spec = &policy(|_| {})["spec"];
        assert_eq!((&spec["failurePolicy"], &spec["matchConstraints"]["matchPolicy"]), (&json!("Fail"), &json!("Equivalent")));
        assert_eq!(spec["matchConstraints"]["resourceRules"][0]["scope"], "*");
    }

    #[test]
    fn what_is_wrong_is_named() {
        let check = |change: &dyn Fn(&mut Value), expect: &str| {
            assert_eq!(errors(&ValidatingAdmissionPolicy, &policy(change), None), expect);
        };
        check(&|_| {}, "[]");
        check(
            &|spec| *spec = json!({}),
            "[spec.matchConstraints: Required value, spec.validations: Required value: validations or auditAnnotations must contain at \
             least one item, spec.auditAnnotations: Required value: validations or auditAnnotations must contain at least one item]",
        );
        check(
            &|spec| spec["matchConstraints"] = json!({}),
            "spec.matchConstraints.resourceRules: Required value",
        );
        check(
            &|spec| spec["validations"] = json!([{"expression": " ", "message": "a\nb", "reason": "Whim"}]),
            "[spec.validations[0].expression: Required value: expression is not specified, \
             spec.validations[0].message: Invalid value: \"a\\nb\": message must not contain line breaks, \
             spec.validations[0].reason: Unsupported value: \"Whim\": supported values: \"Forbidden\", \"Invalid\", \"RequestEntityTooLarge\", \"Unauthorized\"]",
        );
        check(
            &|spec| spec["variables"] = json!([{"name": "a b", "expression": "1"}, {"name": "c", "expression": ""}]),
            "[spec.variables[0].name: Invalid value: \"a b\": name is not a valid CEL identifier, \
             spec.variables[1].expression: Required value: expression is not specified]",
        );
        check(
            &|spec| spec["paramKind"] = json!({"apiVersion": "a/b/c"}),
            "[spec.paramKind.apiVersion: Invalid value: \"a/b/c\": must be a group and a version, such as 'apps/v1', \
             spec.paramKind.kind: Required value]",
        );
        check(
            &|spec| spec["validations"] = json!([{"expression": "object.metadata.name"}]),
            "spec.validations[0].expression: Invalid value: \"object.metadata.name\": must evaluate to bool",
        );
        check(
            &|spec| {
                spec["paramKind"] = json!({"apiVersion": "v1", "kind": "ConfigMap"});
                spec["variables"] = json!([{"name": "most", "expression": "int(params.data.most)"}]);
                spec["validations"] = json!([{"expression": "object.spec.replicas <= variables.most", "messageExpression": "'too many'"}]);
            },
            "[]",
        );
        check(
            &|spec| spec["failurePolicy"] = json!("Warn"),
            "spec.failurePolicy: Unsupported value: \"Warn\": supported values: \"Fail\", \"Ignore\"",
        );
    }

    #[test]
    fn the_row_is_kubectls() {
        assert_eq!(row(&ValidatingAdmissionPolicy, &policy(|_| {})), json!(["x", 1, "<unset>", "5s"]));
        let with = policy(|spec| spec["paramKind"] = json!({"apiVersion": "v1", "kind": "ConfigMap"}));
        assert_eq!(row(&ValidatingAdmissionPolicy, &with), json!(["x", 1, "v1/ConfigMap", "5s"]));
    }
}
