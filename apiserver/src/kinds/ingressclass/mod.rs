//! What an IngressClass means to the API: which controller it stands for, which stays, and what `kubectl get` shows.

use super::columns::{self, Column};
use super::pod::validate::{name, one_of, required};
use super::value::{at, default, str_at};
use super::{Ctx, Strategy};
use gantry_apimachinery::names;
use gantry_apimachinery::status::FieldErrors;
use gantry_apimachinery::time::Timestamp;
use serde_json::Value;

pub struct IngressClass;

const MAX_CONTROLLER: usize = 250;
const COLUMNS: &[Column] = &[
    Column::NAME,
    Column::text("Controller", "Controller that is responsible for handling this class"),
    Column::text("Parameters", "A reference to a resource with additional parameters"),
    Column::AGE,
];

impl Strategy for IngressClass {
    fn defaults(&self, object: &mut Value) {
        if let Some(parameters) = object.pointer_mut("/spec/parameters").filter(|parameters| parameters.is_object()) {
            default(parameters, "scope", "Cluster");
        }
    }

    fn validate(&self, new: &Value, old: Option<&Value>, _ctx: &Ctx, errors: &mut FieldErrors) {
        let spec = &new["spec"];
        let controller = str_at(spec, "controller");
        if controller.len() > MAX_CONTROLLER {
            errors.too_long("spec.controller", MAX_CONTROLLER);
        }
        domain_prefixed(controller, "spec.controller", errors);
        if let Some(reference) = at(spec, "parameters") {
            parameters(reference, "spec.parameters", errors);
        }
        if old.is_some_and(|old| old["spec"]["controller"] != spec["controller"]) {
            errors.immutable("spec.controller", controller);
        }
    }

    fn columns(&self) -> &'static [Column] {
        COLUMNS
    }

    fn row(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        let parameters = at(object, "spec.parameters").map(|parameters| {
            let group = Some(str_at(parameters, "apiGroup")).filter(|group| !group.is_empty());
            let group = group.map(|group| format!(".{group}")).unwrap_or_default();
            format!("{}{group}/{}", str_at(parameters, "kind"), str_at(parameters, "name"))
        });
        vec![
            columns::name(object),
            str_at(object, "spec.controller").into(),
            parameters.unwrap_or_else(|| "<none>".to_owned()).into(),
            columns::age(object, now),
        ]
    }
}

/// `example.com/what`.
pub fn domain_prefixed(text: &str, path: &str, errors: &mut FieldErrors) {
    if text.is_empty() {
        return errors.required(path);
    }
    match text.split_once('/') {
        Some((domain, rest)) if !domain.is_empty() && !rest.is_empty() => {
            if let Err(why) = names::dns1123_subdomain(domain) {
                errors.invalid(path, domain, why);
            }
            let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/-._~%!$&'()*+,;=:".contains(&byte);
            if !rest.bytes().all(plain) {
                errors.invalid(path, rest, "Invalid path");
            }
        }
        _ => errors.invalid(path, text, "must be a domain-prefixed path (such as \"acme.io/foo\")"),
    }
}

fn parameters(reference: &Value, path: &str, errors: &mut FieldErrors) {
    name(reference, "apiGroup", names::dns1123_subdomain, path, errors);
    for field in ["kind", "name"] {
        if required(reference, field, path, errors) {
            name(reference, field, names::path_segment, path, errors);
        }
    }
    one_of(reference, "scope", path, &["Cluster", "Namespace"], errors);
    let namespace = at(reference, "namespace").is_some();
    match str_at(reference, "scope") {
        "Namespace" if !namespace => {
            errors.required_because(format!("{path}.namespace"), "`parameters.scope` is set to 'Namespace'");
        }
        "Cluster" if namespace => {
            errors.forbidden(format!("{path}.namespace"), "`parameters.scope` is set to 'Cluster'");
        }
        _ => name(reference, "namespace", names::dns1123_label, path, errors),
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
            let made = defaulted(&IngressClass, &json!({"spec": spec}));
            assert_eq!(errors(&IngressClass, &made, None), expect);
        };
        check(json!({"controller": "example.com/lb", "parameters": {"kind": "P", "name": "n"}}), "[]");
        check(json!({}), "spec.controller: Required value");
        check(
            json!({"controller": "lb"}),
            "spec.controller: Invalid value: \"lb\": must be a domain-prefixed path (such as \"acme.io/foo\")",
        );
        check(
            json!({"controller": "a.b/c", "parameters": {"kind": "P", "name": "n", "scope": "Namespace"}}),
            "spec.parameters.namespace: Required value: `parameters.scope` is set to 'Namespace'",
        );
        check(
            json!({"controller": "a.b/c", "parameters": {"kind": "P", "name": "n", "namespace": "x"}}),
            "spec.parameters.namespace: Forbidden: `parameters.scope` is set to 'Cluster'",
        );
        let class = |controller: &str| json!({"spec": {"controller": controller}});
        let expect = "spec.controller: Invalid value: \"a.b/d\": field is immutable";
        assert_eq!(errors(&IngressClass, &class("a.b/d"), Some(&class("a.b/c"))), expect);
    }

    #[test]
    fn the_row_is_kubectls() {
        let object = json!({"spec": {"controller": "a.b/c", "parameters": {"apiGroup": "x.io", "kind": "P", "name": "n"}}});
        assert_eq!(row(&IngressClass, &object), json!(["x", "a.b/c", "P.x.io/n", "5s"]));
        assert_eq!(row(&IngressClass, &json!({"spec": {"controller": "a.b/c"}}))[2], "<none>");
    }
}
