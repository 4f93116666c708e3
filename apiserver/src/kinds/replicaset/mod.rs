//! What a ReplicaSet means to the API: its defaults, what must be consistent, and what `kubectl get` shows.

use super::columns::{self, Column};
use super::pod::{self, workload};
use super::value::{child, default, i64_at};
use super::{Ctx, Selectable, Strategy};
use gantry_apimachinery::status::FieldErrors;
use gantry_apimachinery::time::Timestamp;
use serde_json::Value;

pub struct ReplicaSet;

const COLUMNS: &[Column] = &[
    Column::NAME,
    Column::number("Desired", "How many pods there should be."),
    Column::number("Current", "How many pods there are."),
    Column::number("Ready", "How many pods are ready."),
    Column::AGE,
    workload::CONTAINERS,
    workload::IMAGES,
    workload::SELECTOR,
];
const STATUS_COUNTS: &[&str] =
    &["observedGeneration", "replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas"];

impl Strategy for ReplicaSet {
    fn defaults(&self, object: &mut Value) {
        pod::defaults::template(object);
        default(child(object, "spec"), "replicas", 1);
    }

    fn prepare_create(&self, object: &mut Value, _ctx: &Ctx) {
        // Written by clients that watch for the first count, as Kubernetes' own type has it.
        default(child(object, "status"), "replicas", 0);
    }

    fn validate(&self, new: &Value, old: Option<&Value>, ctx: &Ctx, errors: &mut FieldErrors) {
        if ctx.is_status() {
            return workload::counts(new, STATUS_COUNTS, errors);
        }
        workload::replicated(&new["spec"], errors);
        workload::selector(&new["spec"], "replica set", errors);
        workload::template(&new["spec"]["template"], "ReplicaSet", errors);
        workload::same_selector(new, old, errors);
    }

    fn warnings(&self, new: &Value, old: Option<&Value>) -> Vec<String> {
        workload::warnings(new, old)
    }

    fn columns(&self) -> &'static [Column] {
        COLUMNS
    }

    fn row(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        let count = |path: &str| Value::from(i64_at(object, path).unwrap_or(0));
        let mut row = vec![
            columns::name(object),
            count("spec.replicas"),
            count("status.replicas"),
            count("status.readyReplicas"),
            columns::age(object, now),
        ];
        row.extend(workload::wide_cells(object));
        row
    }

    fn selectable(&self) -> &'static [Selectable] {
        const FIELDS: &[Selectable] = &[Selectable::or("status.replicas", "0")];
        FIELDS
    }
}
