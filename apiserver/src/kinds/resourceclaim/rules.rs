//! Decides what a claim for devices means when unsaid and whether it is valid, wherever it stands.

use crate::kinds::devices::{self, bounded};
use crate::kinds::pod::validate::{name, required};
use crate::kinds::quantities;
use crate::kinds::value::{at, default, i64_at, items, items_mut, str_at};
use gantry_apimachinery::names;
use gantry_apimachinery::status::FieldErrors;
use serde_json::Value;
use std::collections::BTreeSet;

const MAX_REQUESTS: usize = 32;
const MAX_CONSTRAINTS: usize = 32;
const MAX_ALTERNATIVES: usize = 8;
const MODES: &[&str] = &["All", "ExactCount"];

pub fn defaults(spec: &mut Value) {
    let Some(claim) = spec.get_mut("devices").filter(|claim| claim.is_object()) else { return };
    for request in items_mut(claim, "requests") {
        if let Some(exactly) = request.get_mut("exactly").filter(|exactly| exactly.is_object()) {
            request_defaults(exactly);
        }
        items_mut(request, "firstAvailable").iter_mut().for_each(request_defaults);
    }
}

fn request_defaults(request: &mut Value) {
    default(request, "allocationMode", "ExactCount");
    if request["allocationMode"] == "ExactCount" && i64_at(request, "count").unwrap_or(0) == 0 {
        request["count"] = 1.into();
    }
    devices::toleration_defaults(request);
}

pub fn spec(spec: &Value, path: &str, errors: &mut FieldErrors) {
    let (claim, path) = (&spec["devices"], format!("{path}.devices"));
    let known = requests(claim, &path, errors);
    for (path, constraint) in bounded(claim, "constraints", &path, MAX_CONSTRAINTS, errors) {
        references(constraint, &known, &path, errors);
        match (at(constraint, "matchAttribute"), at(constraint, "distinctAttribute")) {
            (Some(attribute), None) => {
                let attribute = attribute.as_str().unwrap_or_default();
                devices::qualified(attribute, true, &format!("{path}.matchAttribute"), errors);
            }
            (None, Some(attribute)) => {
                let attribute = attribute.as_str().unwrap_or_default();
                devices::qualified(attribute, true, &format!("{path}.distinctAttribute"), errors);
            }
            (None, None) => errors.required(format!("{path}.matchAttribute")),
            (Some(_), Some(_)) => {
                errors.invalid(path, constraint.clone(), "only one of `matchAttribute` or `distinctAttribute` may be set");
            }
        }
    }
    for (path, config) in bounded(claim, "config", &path, devices::MAX_CONFIGS, errors) {
        references(config, &known, &path, errors);
        devices::opaque(config, &path, errors);
    }
}

/// Returns the names that constraints and configurations may refer to.
fn requests(claim: &Value, path: &str, errors: &mut FieldErrors) -> BTreeSet<String> {
    let mut known = BTreeSet::new();
    for (path, request) in bounded(claim, "requests", path, MAX_REQUESTS, errors) {
        let own = str_at(request, "name");
        identity(request, &path, errors);
        if !own.is_empty() && !known.insert(own.to_owned()) {
            errors.duplicate(format!("{path}.name"), own);
        }
        let alternatives = items(request, "firstAvailable");
        match (at(request, "exactly"), alternatives.is_empty()) {
            (Some(exactly), true) => self::request(exactly, &format!("{path}.exactly"), errors),
            (None, false) => {
                for (path, sub) in bounded(request, "firstAvailable", &path, MAX_ALTERNATIVES, errors) {
                    identity(sub, &path, errors);
                    if !known.insert(format!("{own}/{}", str_at(sub, "name"))) {
                        errors.duplicate(format!("{path}.name"), str_at(sub, "name"));
                    }
                    self::request(sub, &path, errors);
                }
            }
            (None, true) => {
                errors.required_because(path, "exactly one of `exactly` or `firstAvailable` is required");
            }
            (Some(_), false) => {
                let why = "exactly one of `exactly` or `firstAvailable` is required, but multiple fields are set";
                errors.invalid(path, Value::Null, why);
            }
        }
    }
    known
}

fn identity(request: &Value, path: &str, errors: &mut FieldErrors) {
    if required(request, "name", path, errors) {
        name(request, "name", names::dns1123_label, path, errors);
    }
}

fn request(request: &Value, path: &str, errors: &mut FieldErrors) {
    if required(request, "deviceClassName", path, errors) {
        name(request, "deviceClassName", names::dns1123_subdomain, path, errors);
    }
    devices::selectors(request, path, errors);
    let (mode, count) = (str_at(request, "allocationMode"), i64_at(request, "count").unwrap_or(0));
    match mode {
        "All" if count != 0 => {
            let why = format!("must not be specified when allocationMode is '{mode}'");
            errors.invalid(format!("{path}.count"), count, why);
        }
        "ExactCount" if count <= 0 => errors.invalid(format!("{path}.count"), count, "must be greater than zero"),
        "All" | "ExactCount" => {}
        other => errors.not_supported(format!("{path}.allocationMode"), other, MODES),
    }
    devices::tolerations(request, path, errors);
    for (resource, value) in request["capacity"]["requests"].as_object().into_iter().flatten() {
        let path = format!("{path}.capacity.requests[{resource}]");
        devices::qualified(resource, false, &path, errors);
        quantities::not_negative(value, &path, errors);
    }
}

fn references(object: &Value, known: &BTreeSet<String>, path: &str, errors: &mut FieldErrors) {
    let mut seen = vec![];
    for (path, request) in bounded(object, "requests", path, MAX_REQUESTS, errors) {
        let text = request.as_str().unwrap_or_default();
        if !known.contains(text) {
            let why = "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'";
            errors.invalid(path.as_str(), text, why);
        }
        if seen.contains(&text) {
            errors.duplicate(path, text);
        }
        seen.push(text);
    }
}
