//! Decides whether the spec of a Job is valid, also where a CronJob holds it as a template.

use crate::kinds::pod::{self, validate as pod_rules};
use crate::kinds::value::{at, default, i64_at, items, items_mut, str_at};
use gantry_apimachinery::status::FieldErrors;
use serde_json::Value;

/// Kubernetes' bound for jobs whose indexes are counted one by one.
const MAX_INDEXED_PARALLELISM: i64 = 100_000;

pub fn failure_policy_defaults(spec: &mut Value) {
    let Some(policy) = spec.get_mut("podFailurePolicy").filter(|policy| policy.is_object()) else { return };
    for rule in items_mut(policy, "rules") {
        items_mut(rule, "onPodConditions").iter_mut().for_each(|pattern| default(pattern, "status", "True"));
    }
}

pub fn spec(spec: &Value, path: &str, errors: &mut FieldErrors) {
    let counts = [
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "backoffLimitPerIndex",
        "maxFailedIndexes",
        "ttlSecondsAfterFinished",
    ];
    for field in counts {
        pod_rules::at_least(spec, field, 0, path, errors);
    }
    pod_rules::if_set_one_of(spec, "completionMode", path, &["NonIndexed", "Indexed"], errors);
    pod_rules::if_set_one_of(spec, "podReplacementPolicy", path, &["Failed", "TerminatingOrFailed"], errors);
    if at(spec, "podFailurePolicy").is_some() && !matches!(str_at(spec, "podReplacementPolicy"), "" | "Failed") {
        let value = str_at(spec, "podReplacementPolicy");
        errors.not_supported(format!("{path}.podReplacementPolicy"), value, &["Failed"]);
    }
    let indexed = spec["completionMode"] == "Indexed";
    let parallelism = i64_at(spec, "parallelism").unwrap_or(0);
    if indexed && at(spec, "completions").is_none() {
        errors.required_because(format!("{path}.completions"), "when completion mode is Indexed");
    }
    if indexed && parallelism > MAX_INDEXED_PARALLELISM {
        let why = format!("must be less than or equal to {MAX_INDEXED_PARALLELISM} when completion mode is Indexed");
        errors.invalid(format!("{path}.parallelism"), parallelism, why);
    }
    if !indexed && at(spec, "backoffLimitPerIndex").is_some() {
        let why = "requires indexed completion mode";
        errors.invalid(format!("{path}.backoffLimitPerIndex"), spec["backoffLimitPerIndex"].clone(), why);
    }
    pod_rules::template(&spec["template"], &format!("{path}.template"), errors);
    if !matches!(str_at(&spec["template"]["spec"], "restartPolicy"), "OnFailure" | "Never") {
        errors.required_because(format!("{path}.template.spec.restartPolicy"), "valid values: \"OnFailure\", \"Never\"");
    }
    failure_policy(spec, path, errors);
    if pod::is_at_most_one(&spec["template"]) && parallelism > 1 {
        let why = format!("a Job of parallelism {parallelism} runs pods together: set parallelism to 1");
        errors.forbidden(pod::at_most_one_path(&format!("{path}.template")), why);
    }
}

fn failure_policy(spec: &Value, path: &str, errors: &mut FieldErrors) {
    if at(spec, "podFailurePolicy").is_some() && spec["template"]["spec"]["restartPolicy"] != "Never" {
        let value = str_at(&spec["template"]["spec"], "restartPolicy");
        let why = "only \"Never\" is supported when podFailurePolicy is specified";
        errors.invalid(format!("{path}.template.spec.restartPolicy"), value, why);
    }
    for (position, rule) in items(spec, "podFailurePolicy.rules").iter().enumerate() {
        let path = format!("{path}.podFailurePolicy.rules[{position}]");
        pod_rules::one_of(rule, "action", &path, &["Count", "FailIndex", "FailJob", "Ignore"], errors);
        if at(rule, "onExitCodes").is_none() && items(rule, "onPodConditions").is_empty() {
            errors.invalid(path, rule.clone(), "specifying one of OnExitCodes and OnPodConditions is required");
        }
    }
}
