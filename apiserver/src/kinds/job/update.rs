//! Decides what of a Job may change after its creation.

use super::workload;
use crate::kinds::value::{at, remove};
use gantry_apimachinery::status::FieldErrors;
use serde_json::Value;

const STATUS_COUNTS: &[&str] = &["active", "succeeded", "failed", "ready", "terminating"];

/// Before a suspended job first starts, where its pods run may still be decided.
const SCHEDULING: [&str; 4] = ["affinity", "nodeSelector", "tolerations", "schedulingGates"];

pub fn spec(new: &Value, old: &Value, started: bool, errors: &mut FieldErrors) {
    for field in
        ["selector", "completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy"]
    {
        if new.get(field) != old.get(field) {
            errors.immutable(format!("spec.{field}"), new[field].clone());
        }
    }
    if new["completions"] != old["completions"] {
        let both_follow = new["completionMode"] == "Indexed" && new["completions"] == new["parallelism"];
        if !both_follow {
            errors.immutable("spec.completions", new["completions"].clone());
        }
    }
    let (mut now, before) = (new["template"].clone(), &old["template"]);
    if old["suspend"] == true && !started {
        for field in SCHEDULING {
            put_back(&mut now["spec"], &before["spec"], field);
        }
        for field in ["annotations", "labels"] {
            put_back(&mut now["metadata"], &before["metadata"], field);
        }
    }
    if now != *before {
        errors.immutable("spec.template", new["template"].clone());
    }
}

fn put_back(now: &mut Value, before: &Value, field: &str) {
    match before.get(field) {
        Some(value) => now[field] = value.clone(),
        None => drop(remove(now, field)),
    }
}

pub fn status(new: &Value, old: Option<&Value>, errors: &mut FieldErrors) {
    workload::counts(new, STATUS_COUNTS, errors);
    let finished = |job: &Value| super::has_condition(job, "Complete") || super::has_condition(job, "Failed");
    if old.is_some_and(finished) && !finished(new) {
        errors.invalid("status.conditions", new["status"]["conditions"].clone(), "a finished job stays finished");
    }
    let (start, end) = (at(new, "status.startTime"), at(new, "status.completionTime"));
    if end.is_some() && start.is_none() {
        errors.required_because("status.startTime", "a job that has ended has started");
    }
}
