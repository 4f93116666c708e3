//! Decides which pods a quota may be limited to, and with which of its resources that fits.

use crate::kinds::value::{items, str_at};
use gantry_apimachinery::status::FieldErrors;
use serde_json::Value;

const SCOPES: [&str; 7] = [
    "Terminating",
    "NotTerminating",
    "BestEffort",
    "NotBestEffort",
    "PriorityClass",
    "CrossNamespacePodAffinity",
    "VolumeAttributesClass",
];
/// What pods without requests have.
const OF_BEST_EFFORT: [&str; 1] = ["pods"];
const OF_PODS: [&str; 11] = [
    "pods",
    "cpu",
    "memory",
    "ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
    "hugepages-",
];
const OF_CLAIMS: [&str; 2] = ["persistentvolumeclaims", "requests.storage"];
const ONLY_EXISTS: &str = "must be 'Exist' only operator when scope is any of ResourceQuotaScopeTerminating, \
    ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or \
    ResourceQuotaScopeCrossNamespacePodAffinity";

pub fn validate(spec: &Value, errors: &mut FieldErrors) {
    let given: Vec<&str> = items(spec, "scopes").iter().filter_map(Value::as_str).collect();
    let (path, list) = ("spec.scopes", &spec["scopes"]);
    for scope in &given {
        if !SCOPES.contains(scope) {
            errors.invalid(path, list.clone(), "unsupported scope");
        }
        if !fits(scope, spec) {
            errors.invalid(path, list.clone(), "unsupported scope applied to resource");
        }
    }
    for pair in [["BestEffort", "NotBestEffort"], ["Terminating", "NotTerminating"]] {
        if pair.iter().all(|scope| given.contains(scope)) {
            errors.invalid(path, list.clone(), "conflicting scopes");
        }
    }
    for expression in items(spec, "scopeSelector.matchExpressions") {
        self::expression(expression, spec, errors);
    }
}

fn expression(expression: &Value, spec: &Value, errors: &mut FieldErrors) {
    let path = "spec.scopeSelector.matchExpressions";
    let (scope, operator) = (str_at(expression, "scopeName"), str_at(expression, "operator"));
    let values = items(expression, "values");
    if !SCOPES.contains(&scope) {
        errors.invalid(format!("{path}.scopeName"), scope, "unsupported scope");
    }
    if !fits(scope, spec) {
        errors.invalid(path, spec["scopeSelector"].clone(), "unsupported scope applied to resource");
    }
    let valueless = !matches!(scope, "PriorityClass" | "VolumeAttributesClass") && SCOPES.contains(&scope);
    if valueless && operator != "Exists" {
        errors.invalid(format!("{path}.operator"), operator, ONLY_EXISTS);
    }
    match operator {
        "In" | "NotIn" if values.is_empty() => {
            let why = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector";
            errors.required_because(format!("{path}.values"), why);
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            let why = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector";
            errors.invalid(format!("{path}.values"), expression["values"].clone(), why);
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
        other => errors.invalid(format!("{path}.operator"), other, "not a valid selector operator"),
    }
}

/// Whether everything that the quota limits is something that the scope's objects have.
fn fits(scope: &str, spec: &Value) -> bool {
    let allowed: &[&str] = match scope {
        "BestEffort" => &OF_BEST_EFFORT,
        "VolumeAttributesClass" => &OF_CLAIMS,
        "Terminating" | "NotTerminating" | "NotBestEffort" | "PriorityClass" | "CrossNamespacePodAffinity" => &OF_PODS,
        _ => return true,
    };
    let known = spec["hard"].as_object().into_iter().flatten().map(|(name, _)| name);
    known.filter(|name| super::is_known(name)).all(|name| {
        let plain = name.strip_prefix("requests.").filter(|rest| rest.starts_with("hugepages-")).unwrap_or(name);
        allowed.iter().any(|allowed| plain == *allowed || allowed.ends_with('-') && plain.starts_with(allowed))
    })
}

/// Whom a quota is for stays.
pub fn stay(new: &Value, old: &Value, errors: &mut FieldErrors) {
    let sorted = |spec: &Value| {
        let mut scopes: Vec<String> = items(spec, "scopes").iter().map(ToString::to_string).collect();
        scopes.sort();
        scopes.dedup();
        scopes
    };
    if sorted(new) != sorted(old) {
        errors.immutable("spec.scopes", new["scopes"].clone());
    }
}

#[cfg(test)]
mod tests {
    use super::super::ResourceQuota;
    use crate::kinds::testing::errors;
    use serde_json::{Value, json};

    #[test]
    fn scopes_fit_their_resources() {
        let check = |spec: Value, expect: &str| {
            let text = errors(&ResourceQuota, &json!({"spec": spec}), None);
            assert!(text.starts_with(expect), "{text}");
        };
        check(json!({"hard": {"pods": "1"}, "scopes": ["BestEffort", "NotTerminating"]}), "[]");
        check(json!({"scopes": ["Some"]}), "spec.scopes: Invalid value: [\"Some\"]: unsupported scope");
        let cpu = json!({"hard": {"requests.cpu": "1"}, "scopes": ["BestEffort"]});
        check(cpu, "spec.scopes: Invalid value: [\"BestEffort\"]: unsupported scope applied to resource");
        let both = json!({"scopes": ["Terminating", "NotTerminating"]});
        check(both, "spec.scopes: Invalid value: [\"Terminating\",\"NotTerminating\"]: conflicting scopes");
        let expression = |scope: &str, operator: &str, values: Value| {
            json!({"hard": {"pods": "1"}, "scopeSelector": {"matchExpressions": [
                {"scopeName": scope, "operator": operator, "values": values}]}})
        };
        check(expression("PriorityClass", "In", json!(["high"])), "[]");
        check(
            expression("PriorityClass", "In", json!([])),
            "spec.scopeSelector.matchExpressions.values: Required value: must be at least one value when",
        );
        check(
            expression("BestEffort", "In", json!(["x"])),
            "spec.scopeSelector.matchExpressions.operator: Invalid value: \"In\": must be 'Exist' only operator",
        );
        check(
            expression("PriorityClass", "Exists", json!(["x"])),
            "spec.scopeSelector.matchExpressions.values: Invalid value: [\"x\"]: must be no value when",
        );
    }

    #[test]
    fn scopes_stay() {
        let quota = |scopes: Value| json!({"spec": {"scopes": scopes}});
        let old = quota(json!(["BestEffort", "Terminating"]));
        assert_eq!(errors(&ResourceQuota, &quota(json!(["Terminating", "BestEffort"])), Some(&old)), "[]");
        let expect = "spec.scopes: Invalid value: [\"BestEffort\"]: field is immutable";
        assert_eq!(errors(&ResourceQuota, &quota(json!(["BestEffort"])), Some(&old)), expect);
    }
}
