//! Decides whether what the scheduler reads is valid: selectors, affinity, tolerations, spreading, gates.

use super::validate::{if_set_one_of, label, one_of, required};
use crate::kinds::podgroup::MOST_MEMBERS;
use crate::kinds::value::{at, changed_label, i64_at, items, str_at};
use gantry_apimachinery::labels::Selector;
use gantry_apimachinery::names;
use gantry_apimachinery::status::FieldErrors;
use serde_json::Value;

const NODE_OPERATORS: &[&str] = &["DoesNotExist", "Exists", "Gt", "In", "Lt", "NotIn"];
const EFFECTS: &[&str] = &["NoSchedule", "PreferNoSchedule", "NoExecute"];
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";
const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";

/// On pods whose group has no PodGroup: how many of them start together.
const MIN_MEMBER: &str = "gantry.dev/min-member";

/// The labels of a pod that the scheduler reads as figures. What stays as it was is let be.
pub fn labels(new: &Value, old: Option<&Value>, errors: &mut FieldErrors) {
    let Some(count) = changed_label(new, old, MIN_MEMBER) else { return };
    if !count.parse().is_ok_and(|count: i64| (1..=MOST_MEMBERS).contains(&count)) {
        let why = format!("must be a whole number from 1 to {MOST_MEMBERS}");
        errors.invalid(format!("metadata.labels[{MIN_MEMBER}]"), count, why);
    }
}

pub fn validate(spec: &Value, path: &str, errors: &mut FieldErrors) {
    for (key, value) in spec["nodeSelector"].as_object().into_iter().flatten() {
        label(&format!("{path}.nodeSelector"), key, value.as_str().unwrap_or_default(), errors);
    }
    node_affinity(&spec["affinity"]["nodeAffinity"], &format!("{path}.affinity.nodeAffinity"), errors);
    for kind in ["podAffinity", "podAntiAffinity"] {
        pod_affinity(&spec["affinity"][kind], &format!("{path}.affinity.{kind}"), errors);
    }
    for (position, toleration) in items(spec, "tolerations").iter().enumerate() {
        self::toleration(toleration, &format!("{path}.tolerations[{position}]"), errors);
    }
    spread(spec, path, errors);
    let mut gates = vec![];
    for (position, gate) in items(spec, "schedulingGates").iter().enumerate() {
        let name = str_at(gate, "name");
        let path = format!("{path}.schedulingGates[{position}]");
        if let Err(why) = names::qualified_name(name) {
            errors.invalid(format!("{path}.name"), name, why);
        }
        super::validate::unique(&mut gates, name, &path, errors);
    }
}

fn node_affinity(affinity: &Value, path: &str, errors: &mut FieldErrors) {
    if let Some(selector) = at(affinity, REQUIRED) {
        node_selector(selector, &format!("{path}.{REQUIRED}"), errors);
    }
    for (position, preference) in items(affinity, PREFERRED).iter().enumerate() {
        let path = format!("{path}.{PREFERRED}[{position}]");
        weight(preference, &path, errors);
        node_term(&preference["preference"], &format!("{path}.preference"), errors);
    }
}

/// Terms of which a machine must match one.
pub fn node_selector(selector: &Value, path: &str, errors: &mut FieldErrors) {
    let path = format!("{path}.nodeSelectorTerms");
    if items(selector, "nodeSelectorTerms").is_empty() {
        errors.required_because(path.as_str(), "must have at least one node selector term");
    }
    for (position, term) in items(selector, "nodeSelectorTerms").iter().enumerate() {
        node_term(term, &format!("{path}[{position}]"), errors);
    }
}

fn weight(preference: &Value, path: &str, errors: &mut FieldErrors) {
    let weight = i64_at(preference, "weight").unwrap_or(0);
    if !(1..=100).contains(&weight) {
        errors.invalid(format!("{path}.weight"), weight, "must be in the range 1-100");
    }
}

fn node_term(term: &Value, path: &str, errors: &mut FieldErrors) {
    for (position, expression) in items(term, "matchExpressions").iter().enumerate() {
        let path = format!("{path}.matchExpressions[{position}]");
        let values = items(expression, "values").len();
        one_of(expression, "operator", &path, NODE_OPERATORS, errors);
        match str_at(expression, "operator") {
            "In" | "NotIn" if values == 0 => {
                let why = "must be specified when `operator` is 'In' or 'NotIn'";
                errors.required_because(format!("{path}.values"), why);
            }
            "Exists" | "DoesNotExist" if values > 0 => {
                let why = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
                errors.forbidden(format!("{path}.values"), why);
            }
            "Gt" | "Lt" if values != 1 => {
                let why = "must be specified single value when `operator` is 'Lt' or 'Gt'";
                errors.required_because(format!("{path}.values"), why);
            }
            _ => {}
        }
        if let Err(why) = names::qualified_name(str_at(expression, "key")) {
            errors.invalid(format!("{path}.key"), str_at(expression, "key"), why);
        }
    }
}

fn pod_affinity(affinity: &Value, path: &str, errors: &mut FieldErrors) {
    for (position, term) in items(affinity, REQUIRED).iter().enumerate() {
        pod_term(term, &format!("{path}.{REQUIRED}[{position}]"), errors);
    }
    for (position, preference) in items(affinity, PREFERRED).iter().enumerate() {
        let path = format!("{path}.{PREFERRED}[{position}]");
        weight(preference, &path, errors);
        pod_term(&preference["podAffinityTerm"], &format!("{path}.podAffinityTerm"), errors);
    }
}

fn pod_term(term: &Value, path: &str, errors: &mut FieldErrors) {
    if str_at(term, "topologyKey").is_empty() {
        errors.required_because(format!("{path}.topologyKey"), "can not be empty");
    } else if let Err(why) = names::qualified_name(str_at(term, "topologyKey")) {
        errors.invalid(format!("{path}.topologyKey"), str_at(term, "topologyKey"), why);
    }
    selector(&term["labelSelector"], &format!("{path}.labelSelector"), errors);
    selector(&term["namespaceSelector"], &format!("{path}.namespaceSelector"), errors);
}

/// A label selector that can be read at all.
pub fn selector(selector: &Value, path: &str, errors: &mut FieldErrors) {
    if let Some(Err(why)) = (!selector.is_null()).then(|| Selector::from_json(Some(selector))) {
        errors.invalid(path, selector.clone(), why.to_string());
    }
}

pub fn toleration(toleration: &Value, path: &str, errors: &mut FieldErrors) {
    let (key, operator) = (str_at(toleration, "key"), str_at(toleration, "operator"));
    if key.is_empty() {
        if operator != "Exists" {
            let why = "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
            errors.invalid(format!("{path}.operator"), operator, why);
        }
    } else if let Err(why) = names::qualified_name(key) {
        errors.invalid(format!("{path}.key"), key, why);
    }
    match operator {
        "" | "Equal" => {
            if let Err(why) = names::label_value(str_at(toleration, "value")) {
                errors.invalid(format!("{path}.operator"), str_at(toleration, "value"), why);
            }
        }
        "Exists" if !str_at(toleration, "value").is_empty() => {
            let why = "value must be empty when `operator` is 'Exists'";
            errors.invalid(format!("{path}.operator"), toleration.clone(), why);
        }
        "Exists" => {}
        other => errors.not_supported(format!("{path}.operator"), other, &["Equal", "Exists"]),
    }
    if_set_one_of(toleration, "effect", path, EFFECTS, errors);
    if at(toleration, "tolerationSeconds").is_some() && toleration["effect"] != "NoExecute" {
        let why = "effect must be 'NoExecute' when `tolerationSeconds` is set";
        errors.invalid(format!("{path}.effect"), str_at(toleration, "effect"), why);
    }
}

fn spread(spec: &Value, path: &str, errors: &mut FieldErrors) {
    let mut seen = vec![];
    for (position, rule) in items(spec, "topologySpreadConstraints").iter().enumerate() {
        let path = format!("{path}.topologySpreadConstraints[{position}]");
        let skew = i64_at(rule, "maxSkew").unwrap_or(0);
        if skew <= 0 {
            errors.invalid(format!("{path}.maxSkew"), skew, "must be greater than zero");
        }
        required(rule, "topologyKey", &path, errors);
        one_of(rule, "whenUnsatisfiable", &path, &["DoNotSchedule", "ScheduleAnyway"], errors);
        let pair = (str_at(rule, "topologyKey"), str_at(rule, "whenUnsatisfiable"));
        if seen.contains(&pair) {
            let pair = format!("{{{}, {}}}", pair.0, pair.1);
            errors.duplicate(format!("{path}.{{topologyKey, whenUnsatisfiable}}"), pair);
        }
        seen.push(pair);
        if let Some(domains) = i64_at(rule, "minDomains") {
            if domains <= 0 {
                errors.invalid(format!("{path}.minDomains"), domains, "must be greater than 0");
            }
            if pair.1 != "DoNotSchedule" {
                let why = format!("can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {}", pair.1);
                errors.invalid(format!("{path}.minDomains"), domains, why);
            }
        }
        for policy in ["nodeAffinityPolicy", "nodeTaintsPolicy"] {
            if_set_one_of(rule, policy, &path, &["Honor", "Ignore"], errors);
        }
        selector(&rule["labelSelector"], &format!("{path}.labelSelector"), errors);
    }
}
