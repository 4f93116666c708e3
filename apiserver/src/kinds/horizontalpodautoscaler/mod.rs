//! What a HorizontalPodAutoscaler (`autoscaling/v2`) means to the API: its defaults, its rules, and what `kubectl get` shows. How many
//! replicas there should be is the controller's.

mod behavior;
mod metrics;

use super::columns::{self, Column};
use super::pod::validate::{at_least, required};
use super::value::{at, child, default, i64_at, items, str_at};
use super::{Ctx, Strategy};
use gantry_apimachinery::names;
use gantry_apimachinery::status::FieldErrors;
use gantry_apimachinery::time::Timestamp;
use serde_json::{Value, json};

pub struct HorizontalPodAutoscaler;

const COLUMNS: &[Column] = &[
    Column::NAME,
    Column::text("Reference", "What is scaled."),
    Column::text("Targets", "The metrics as they are and as they should be."),
    Column::text("MinPods", "The least number of pods."),
    Column::text("MaxPods", "The greatest number of pods."),
    Column::text("Replicas", "How many pods there are."),
    Column::AGE,
];
/// How many per cent of what its containers ask for a pod should use, when no metric is named.
const CPU_UTILIZATION: i64 = 80;

impl Strategy for HorizontalPodAutoscaler {
    fn defaults(&self, object: &mut Value) {
        let spec = child(object, "spec");
        default(spec, "minReplicas", 1);
        if items(spec, "metrics").is_empty() {
            let target = json!({"type": "Utilization", "averageUtilization": CPU_UTILIZATION});
            spec["metrics"] = json!([{"type": "Resource", "resource": {"name": "cpu", "target": target}}]);
        }
        behavior::defaults(spec);
    }

    fn prepare_create(&self, object: &mut Value, _ctx: &Ctx) {
        object["status"] = json!({"desiredReplicas": 0});
    }

    fn validate(&self, new: &Value, _old: Option<&Value>, ctx: &Ctx, errors: &mut FieldErrors) {
        if ctx.is_status() {
            at_least(&new["status"], "currentReplicas", 0, "status", errors);
            return at_least(&new["status"], "desiredReplicas", 0, "status", errors);
        }
        let spec = &new["spec"];
        let least = i64_at(spec, "minReplicas");
        at_least(spec, "minReplicas", 1, "spec", errors);
        let most = i64_at(spec, "maxReplicas").unwrap_or(0);
        if most < 1 {
            errors.invalid("spec.maxReplicas", most, "must be greater than 0");
        }
        if least.is_some_and(|least| most < least) {
            errors.invalid("spec.maxReplicas", most, "must be greater than or equal to `minReplicas`");
        }
        reference(&spec["scaleTargetRef"], "spec.scaleTargetRef", errors);
        for (position, metric) in items(spec, "metrics").iter().enumerate() {
            metrics::validate(metric, &format!("spec.metrics[{position}]"), errors);
        }
        behavior::validate(&spec["behavior"], errors);
    }

    fn columns(&self) -> &'static [Column] {
        COLUMNS
    }

    fn row(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        let target = &object["spec"]["scaleTargetRef"];
        let least = i64_at(object, "spec.minReplicas").map_or("<unset>".to_owned(), |number| number.to_string());
        vec![
            columns::name(object),
            format!("{}/{}", str_at(target, "kind"), str_at(target, "name")).into(),
            metrics::targets(object).into(),
            least.into(),
            i64_at(object, "spec.maxReplicas").unwrap_or(0).into(),
            i64_at(object, "status.currentReplicas").unwrap_or(0).into(),
            columns::age(object, now),
        ]
    }
}

/// Another object, by kind and name.
fn reference(reference: &Value, path: &str, errors: &mut FieldErrors) {
    for field in ["kind", "name"] {
        if required(reference, field, path, errors)
            && let Err(why) = names::path_segment(str_at(reference, field))
        {
            errors.invalid(format!("{path}.{field}"), str_at(reference, field), why);
        }
    }
}

/// Whether a map holds the field, whatever its value.
fn has(object: &Value, field: &str) -> bool {
    at(object, field).is_some()
}

#[cfg(test)]
mod tests;
