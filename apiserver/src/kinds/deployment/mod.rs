//! What a Deployment means to the API: its defaults, what must be consistent, and what `kubectl get` shows. How it rolls is the
//! controller's.

use super::columns::{self, Column};
use super::pod::{self, validate as pod_rules, workload};
use super::value::{at, child, default, i64_at, str_at};
use super::{Ctx, Strategy};
use gantry_apimachinery::status::FieldErrors;
use gantry_apimachinery::time::Timestamp;
use serde_json::Value;

pub struct Deployment;

const COLUMNS: &[Column] = &[
    Column::NAME,
    Column::text("Ready", "Number of the pod with ready state"),
    Column::text("Up-to-date", "How many pods have the newest template."),
    Column::text("Available", "How many pods have been ready for long enough."),
    Column::AGE,
    workload::CONTAINERS,
    workload::IMAGES,
    workload::SELECTOR,
];

impl Strategy for Deployment {
    fn defaults(&self, object: &mut Value) {
        pod::defaults::template(object);
        let spec = child(object, "spec");
        default(spec, "replicas", 1);
        default(spec, "revisionHistoryLimit", 10);
        default(spec, "progressDeadlineSeconds", 600);
        let strategy = child(spec, "strategy");
        default(strategy, "type", "RollingUpdate");
        if strategy["type"] == "RollingUpdate" {
            let rolling = child(strategy, "rollingUpdate");
            default(rolling, "maxUnavailable", "25%");
            default(rolling, "maxSurge", "25%");
        }
    }

    fn validate(&self, new: &Value, old: Option<&Value>, ctx: &Ctx, errors: &mut FieldErrors) {
        if ctx.is_status() {
            return workload::counts(new, STATUS_COUNTS, errors);
        }
        let spec = &new["spec"];
        workload::replicated(spec, errors);
        workload::selector(spec, "deployment", errors);
        workload::template(&spec["template"], "ReplicaSet", errors);
        workload::same_selector(new, old, errors);
        for field in ["revisionHistoryLimit", "progressDeadlineSeconds"] {
            pod_rules::at_least(spec, field, 0, "spec", errors);
        }
        if let (Some(deadline), ready) =
            (i64_at(spec, "progressDeadlineSeconds"), i64_at(spec, "minReadySeconds").unwrap_or(0))
            && deadline <= ready
        {
            errors.invalid("spec.progressDeadlineSeconds", deadline, "must be greater than minReadySeconds");
        }
        strategy(spec, errors);
    }

    fn warnings(&self, new: &Value, old: Option<&Value>) -> Vec<String> {
        workload::warnings(new, old)
    }

    fn columns(&self) -> &'static [Column] {
        COLUMNS
    }

    fn row(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        let count = |path: &str| i64_at(object, path).unwrap_or(0);
        let mut row = vec![
            columns::name(object),
            format!("{}/{}", count("status.readyReplicas"), count("spec.replicas")).into(),
            count("status.updatedReplicas").into(),
            count("status.availableReplicas").into(),
            columns::age(object, now),
        ];
        row.extend(workload::wide_cells(object));
        row
    }
}

const STATUS_COUNTS: &[&str] =
    &["observedGeneration", "replicas", "updatedReplicas", "readyReplicas", "availableReplicas", "unavailableReplicas"];

fn strategy(spec: &Value, errors: &mut FieldErrors) {
    pod_rules::one_of(&spec["strategy"], "type", "spec.strategy", &["Recreate", "RollingUpdate"], errors);
    let rolling = at(spec, "strategy.rollingUpdate");
    let rolls = str_at(spec, "strategy.type") == "RollingUpdate";
    let surge = rolling.map_or(0, |rolling| workload::amount(&rolling["maxSurge"]));
    match rolling {
        Some(_) if !rolls => {
            let why = "may not be specified when strategy `type` is 'Recreate'";
            errors.forbidden("spec.strategy.rollingUpdate", why);
        }
        Some(rolling) => {
            let path = "spec.strategy.rollingUpdate";
            workload::int_or_percent(rolling, "maxUnavailable", path, errors);
            workload::int_or_percent(rolling, "maxSurge", path, errors);
            workload::at_most_all(rolling, "maxUnavailable", path, errors);
            if workload::amount(&rolling["maxUnavailable"]) == 0 && surge == 0 {
                let value = rolling["maxUnavailable"].clone();
                errors.invalid(format!("{path}.maxUnavailable"), value, "may not be 0 when `maxSurge` is 0");
            }
        }
        None => {}
    }
    if pod::is_at_most_one(&spec["template"]) && rolls && surge != 0 {
        let why =
            "a Deployment that surges runs old and new pods together: set strategy.type to Recreate or maxSurge to 0";
        errors.forbidden(pod::at_most_one_path("spec.template"), why);
    }
}

#[cfg(test)]
mod tests;
