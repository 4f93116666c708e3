//! What a DaemonSet means to the API: its defaults, what must be consistent, and what `kubectl get` shows.

use super::columns::{self, Column};
use super::pod::{self, validate as pod_rules, workload};
use super::value::{at, child, default, i64_at, str_at};
use super::{Ctx, Strategy};
use gantry_apimachinery::status::FieldErrors;
use gantry_apimachinery::time::Timestamp;
use serde_json::Value;

pub struct DaemonSet;

const COLUMNS: &[Column] = &[
    Column::NAME,
    Column::number("Desired", "How many machines should run the pod."),
    Column::number("Current", "How many machines run at least one."),
    Column::number("Ready", "How many machines have a ready one."),
    Column::number("Up-to-date", "How many machines have the newest template."),
    Column::number("Available", "How many machines have one that was ready for long enough."),
    Column::text("Node Selector", "The machines that are meant."),
    Column::AGE,
    workload::CONTAINERS,
    workload::IMAGES,
    workload::SELECTOR,
];
const STATUS_COUNTS: &[&str] = &[
    "observedGeneration",
    "currentNumberScheduled",
    "desiredNumberScheduled",
    "numberMisscheduled",
    "numberReady",
    "updatedNumberScheduled",
    "numberAvailable",
    "numberUnavailable",
];
const ROLLING: &str = "spec.updateStrategy.rollingUpdate";

impl Strategy for DaemonSet {
    fn defaults(&self, object: &mut Value) {
        pod::defaults::template(object);
        let spec = child(object, "spec");
        default(spec, "revisionHistoryLimit", 10);
        let strategy = child(spec, "updateStrategy");
        default(strategy, "type", "RollingUpdate");
        if strategy["type"] == "RollingUpdate" {
            let rolling = child(strategy, "rollingUpdate");
            default(rolling, "maxUnavailable", 1);
            default(rolling, "maxSurge", 0);
        }
    }

    fn prepare_create(&self, object: &mut Value, _ctx: &Ctx) {
        let status = child(object, "status");
        for count in ["currentNumberScheduled", "desiredNumberScheduled", "numberMisscheduled", "numberReady"] {
            default(status, count, 0);
        }
    }

    fn validate(&self, new: &Value, old: Option<&Value>, ctx: &Ctx, errors: &mut FieldErrors) {
        if ctx.is_status() {
            return workload::counts(new, STATUS_COUNTS, errors);
        }
        let spec = &new["spec"];
        workload::selector(spec, "daemonset", errors);
        workload::template(&spec["template"], "DaemonSet", errors);
        workload::same_selector(new, old, errors);
        for field in ["minReadySeconds", "revisionHistoryLimit"] {
            pod_rules::at_least(spec, field, 0, "spec", errors);
        }
        strategy(spec, errors);
        if pod::is_at_most_one(&spec["template"]) {
            let why = "a DaemonSet runs one pod on every machine, so its pods cannot be at most one";
            errors.forbidden(pod::at_most_one_path("spec.template"), why);
        }
    }

    fn warnings(&self, new: &Value, old: Option<&Value>) -> Vec<String> {
        workload::warnings(new, old)
    }

    fn columns(&self) -> &'static [Column] {
        COLUMNS
    }

    fn row(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        let count = |field: &str| Value::from(i64_at(&object["status"], field).unwrap_or(0));
        let mut row = vec![
            columns::name(object),
            count("desiredNumberScheduled"),
            count("currentNumberScheduled"),
            count("numberReady"),
            count("updatedNumberScheduled"),
            count("numberAvailable"),
            columns::labels(&object["spec"]["template"]["spec"]["nodeSelector"]),
            columns::age(object, now),
        ];
        row.extend(workload::wide_cells(object));
        row
    }
}

fn strategy(spec: &Value, errors: &mut FieldErrors) {
    let strategy = &spec["updateStrategy"];
    pod_rules::one_of(strategy, "type", "spec.updateStrategy", &["OnDelete", "RollingUpdate"], errors);
    if str_at(strategy, "type") != "RollingUpdate" {
        return;
    }
    let Some(rolling) = at(strategy, "rollingUpdate") else {
        errors.required(ROLLING);
        return;
    };
    for field in ["maxUnavailable", "maxSurge"] {
        workload::int_or_percent(rolling, field, ROLLING, errors);
        workload::at_most_all(rolling, field, ROLLING, errors);
    }
    let (unavailable, surge) = (workload::amount(&rolling["maxUnavailable"]), workload::amount(&rolling["maxSurge"]));
    if unavailable == 0 && surge == 0 {
        errors.required_because(format!("{ROLLING}.maxUnavailable"), "cannot be 0 when maxSurge is 0");
    } else if unavailable != 0 && surge != 0 {
        let why = "may not be set when maxUnavailable is non-zero";
        errors.invalid(format!("{ROLLING}.maxSurge"), rolling["maxSurge"].clone(), why);
    }
}
