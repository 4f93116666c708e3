//! Decides what all kinds with a pod template have in common: selectors that match their templates, amounts that are numbers
//! or per cents, and the wide columns of `kubectl get`.

use super::validate::{at_least, one_of};
use crate::kinds::columns::Column;
use crate::kinds::selectors;
use crate::kinds::value::{at, i64_at, items, str_at};
use gantry_apimachinery::labels::Selector;
use gantry_apimachinery::status::FieldErrors;
use serde_json::Value;
use std::collections::BTreeMap;

pub const CONTAINERS: Column = Column::text("Containers", "Names of each container in the template.").wide();
pub const IMAGES: Column = Column::text("Images", "Images referenced by each container in the template.").wide();
pub const SELECTOR: Column = Column::text("Selector", "The pods that belong to this object.").wide();

/// The cells of the three columns above.
pub fn wide_cells(object: &Value) -> [Value; 3] {
    let each = |field: &str| {
        let containers = items(object, "spec.template.spec.containers").iter();
        containers.map(|container| str_at(container, field)).collect::<Vec<_>>().join(",").into()
    };
    [each("name"), each("image"), selector_text(&object["spec"]["selector"])]
}

pub fn selector_text(selector: &Value) -> Value {
    let text = Selector::from_json(Some(selector)).map(|selector| selector.to_string()).unwrap_or_default();
    if text.is_empty() { "<none>".into() } else { text.into() }
}

/// Replica counts and the time that counts as ready.
pub fn replicated(spec: &Value, errors: &mut FieldErrors) {
    at_least(spec, "replicas", 0, "spec", errors);
    at_least(spec, "minReadySeconds", 0, "spec", errors);
}

pub fn counts(object: &Value, fields: &[&str], errors: &mut FieldErrors) {
    for field in fields {
        at_least(&object["status"], field, 0, "status", errors);
    }
}

/// There is a selector, it says something, and the template's labels satisfy it.
pub fn selector(spec: &Value, kind: &str, errors: &mut FieldErrors) {
    let Some(selector) = at(spec, "selector") else {
        errors.required("spec.selector");
        return;
    };
    selectors::label_selector(selector, "spec.selector", errors);
    if selectors::is_empty(selector) {
        errors.invalid("spec.selector", selector.clone(), format!("empty selector is invalid for {kind}"));
        return;
    }
    match Selector::from_json(Some(selector)) {
        Err(_) => errors.invalid("spec.selector", selector.clone(), "invalid label selector"),
        Ok(parsed) => {
            let labels = labels(&spec["template"]);
            if !parsed.matches(&labels) {
                let why = "`selector` does not match template `labels`";
                errors.invalid("spec.template.metadata.labels", spec["template"]["metadata"]["labels"].clone(), why);
            }
        }
    }
}

fn labels(template: &Value) -> BTreeMap<String, String> {
    let labels = template["metadata"]["labels"].as_object().into_iter().flatten();
    labels.map(|(key, value)| (key.clone(), value.as_str().unwrap_or_default().to_owned())).collect()
}

/// The template is a valid pod that always runs; `kind` is named in errors.
pub fn template(template: &Value, kind: &str, errors: &mut FieldErrors) {
    super::validate::template(template, "spec.template", errors);
    let spec = &template["spec"];
    if super::validate::RESTART_POLICIES.contains(&str_at(spec, "restartPolicy")) {
        one_of(spec, "restartPolicy", "spec.template.spec", &["Always"], errors);
    }
    if at(spec, "activeDeadlineSeconds").is_some() {
        let why = format!("activeDeadlineSeconds in {kind} is not Supported");
        errors.forbidden("spec.template.spec.activeDeadlineSeconds", why);
    }
}

/// No more pods in some state than there are.
pub fn at_most_replicas(status: &Value, fields: &[&str], errors: &mut FieldErrors) {
    let replicas = i64_at(status, "replicas").unwrap_or(0);
    for field in fields {
        if let Some(count) = i64_at(status, field).filter(|count| *count > replicas) {
            errors.invalid(format!("status.{field}"), count, "cannot be greater than status.replicas");
        }
    }
}

/// What the user should know of the template; nothing while the wish stays as it is.
pub fn warnings(new: &Value, old: Option<&Value>) -> Vec<String> {
    if old.is_some_and(|old| old["spec"] == new["spec"]) {
        return Vec::new();
    }
    super::unheeded::in_template(&new["spec"]["template"]["spec"], "spec.template.spec")
}

/// Whose pods these are never changes.
pub fn same_selector(new: &Value, old: Option<&Value>, errors: &mut FieldErrors) {
    if old.is_some_and(|old| old["spec"]["selector"] != new["spec"]["selector"]) {
        errors.immutable("spec.selector", new["spec"]["selector"].clone());
    }
}

/// A whole number or a per cent, neither negative.
pub fn int_or_percent(object: &Value, field: &str, path: &str, errors: &mut FieldErrors) {
    let (value, path) = (&object[field], format!("{path}.{field}"));
    if let Some(text) = value.as_str() {
        let digits = text.strip_suffix('%').unwrap_or_default();
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            let why = "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%', or '93%', \
                       regex used for validation is '[0-9]+%')";
            errors.invalid(path, text, why);
        }
    } else if value.as_i64().is_some_and(|number| number < 0) {
        errors.invalid(path, value.clone(), "must be greater than or equal to 0");
    }
}

/// A per cent of at most all.
pub fn at_most_all(object: &Value, field: &str, path: &str, errors: &mut FieldErrors) {
    let value = &object[field];
    if value.is_string() && amount(value) > 100 {
        errors.invalid(format!("{path}.{field}"), value.clone(), "must not be greater than 100%");
    }
}

/// The number in a number or a per cent; 0 for neither.
pub fn amount(value: &Value) -> i64 {
    let percent = value.as_str().and_then(|text| text.trim_end_matches('%').parse().ok());
    value.as_i64().or(percent).unwrap_or(0)
}
