//! What a Job means to the API: its defaults, the selector and labels that tie its pods to it, what may change later, and what
//! `kubectl get` shows.

pub mod rules;
mod update;

use super::columns::{self, Column};
use super::pod::unheeded::NOT_ACTED_UPON;
use super::pod::{self, workload};
use super::value::{at, bool_at, child, default, i64_at, items, object_mut, str_at};
use super::{Ctx, Selectable, Strategy};
use gantry_apimachinery::status::FieldErrors;
use gantry_apimachinery::time::{Timestamp, human_duration};
use serde_json::{Value, json};

pub struct Job;

const UID_LABEL: &str = "batch.kubernetes.io/controller-uid";
const NAME_LABEL: &str = "batch.kubernetes.io/job-name";
/// The same labels as older clients know them.
const OLD_UID_LABEL: &str = "controller-uid";
const OLD_NAME_LABEL: &str = "job-name";
/// What the job controller does not read yet. A user is told, instead of finding out from a job that goes on failing.
const UNHEEDED: [&str; 4] = ["podFailurePolicy", "successPolicy", "backoffLimitPerIndex", "maxFailedIndexes"];

const COLUMNS: &[Column] = &[
    Column::NAME,
    Column::text("Status", "Whether the job runs, is complete, has failed or is suspended."),
    Column::text("Completions", "How many pods succeeded, of how many."),
    Column::text("Duration", "Time required to complete the job."),
    Column::AGE,
    workload::CONTAINERS,
    workload::IMAGES,
    workload::SELECTOR,
];

impl Strategy for Job {
    fn defaults(&self, object: &mut Value) {
        pod::defaults::template(object);
        let spec = child(object, "spec");
        // Without either number it is one task; with only a number of tasks they run one at a time.
        if at(spec, "completions").is_none() && at(spec, "parallelism").is_none() {
            spec["completions"] = 1.into();
        }
        default(spec, "parallelism", 1);
        let per_index = at(spec, "backoffLimitPerIndex").is_some();
        default(spec, "backoffLimit", if per_index { i32::MAX } else { 6 });
        default(spec, "completionMode", "NonIndexed");
        default(spec, "suspend", false);
        default(spec, "manualSelector", false);
        let replacement = if at(spec, "podFailurePolicy").is_some() { "Failed" } else { "TerminatingOrFailed" };
        default(spec, "podReplacementPolicy", replacement);
        rules::failure_policy_defaults(spec);
        let labels = object["spec"]["template"]["metadata"]["labels"].clone();
        let unlabelled =
            at(object, "metadata.labels").and_then(Value::as_object).is_none_or(|labels| labels.is_empty());
        if unlabelled && labels.is_object() {
            child(object, "metadata")["labels"] = labels;
        }
        remove_null_labels(object);
    }

    fn prepare_create(&self, job: &mut Value, _ctx: &Ctx) {
        if bool_at(job, "spec.manualSelector") {
            return;
        }
        let uid = str_at(job, "metadata.uid").to_owned();
        let name = str_at(job, "metadata.name").to_owned();
        let spec = child(job, "spec");
        let labels = child(child(child(spec, "template"), "metadata"), "labels");
        for (key, value) in [(UID_LABEL, &uid), (OLD_UID_LABEL, &uid), (NAME_LABEL, &name), (OLD_NAME_LABEL, &name)] {
            default(labels, key, value.as_str());
        }
        child(child(spec, "selector"), "matchLabels")[UID_LABEL] = uid.into();
    }

    fn validate(&self, new: &Value, old: Option<&Value>, ctx: &Ctx, errors: &mut FieldErrors) {
        if ctx.is_status() {
            return update::status(new, old, errors);
        }
        rules::spec(&new["spec"], "spec", errors);
        generated(new, old, errors);
        if let Some(old) = old {
            update::spec(&new["spec"], &old["spec"], at(old, "status.startTime").is_some(), errors);
        }
    }

    fn warnings(&self, new: &Value, old: Option<&Value>) -> Vec<String> {
        let given = UNHEEDED.iter().filter(|field| at(&new["spec"], field).is_some());
        let given = given.map(|field| format!("spec.{field}: {NOT_ACTED_UPON}"));
        given.chain(workload::warnings(new, old)).collect()
    }

    fn columns(&self) -> &'static [Column] {
        COLUMNS
    }

    fn row(&self, job: &Value, now: Timestamp) -> Vec<Value> {
        let mut row = vec![
            columns::name(job),
            state(job).into(),
            completions(job).into(),
            duration(job, now).into(),
            columns::age(job, now),
        ];
        row.extend(workload::wide_cells(job));
        row
    }

    fn selectable(&self) -> &'static [Selectable] {
        const FIELDS: &[Selectable] =
            &[Selectable::alias_or("status.successful", "status.succeeded", "0")];
        FIELDS
    }
}

/// Reading through `[]` on a mutable value leaves nulls behind; an object on the wire has none.
fn remove_null_labels(object: &mut Value) {
    let metadata = child(child(child(object, "spec"), "template"), "metadata");
    let map = object_mut(metadata);
    if map.get("labels").is_some_and(Value::is_null) {
        map.remove("labels");
    }
}

/// The selector and labels that tie pods to this job and to no other.
fn generated(new: &Value, old: Option<&Value>, errors: &mut FieldErrors) {
    let spec = &new["spec"];
    if bool_at(spec, "manualSelector") || old.is_some() {
        workload::selector(spec, "job", errors);
        return;
    }
    let uid = str_at(new, "metadata.uid");
    let own = json!({ "matchLabels": { UID_LABEL: uid } });
    let labels = &spec["template"]["metadata"]["labels"];
    if labels[UID_LABEL] != uid || labels[OLD_UID_LABEL] != uid {
        let why = "`selector` not auto-generated";
        errors.invalid("spec.template.metadata.labels", labels.clone(), why);
    }
    if spec["selector"] != own {
        errors.invalid("spec.selector", spec["selector"].clone(), "`selector` not auto-generated");
    }
}

fn has_condition(job: &Value, kind: &str) -> bool {
    items(job, "status.conditions").iter().any(|condition| condition["type"] == kind && condition["status"] == "True")
}

fn state(job: &Value) -> &'static str {
    if has_condition(job, "Complete") {
        "Complete"
    } else if has_condition(job, "Failed") {
        "Failed"
    } else if at(job, "metadata.deletionTimestamp").is_some() {
        "Terminating"
    } else if has_condition(job, "Suspended") {
        "Suspended"
    } else if has_condition(job, "FailureTarget") {
        "FailureTarget"
    } else if has_condition(job, "SuccessCriteriaMet") {
        "SuccessCriteriaMet"
    } else {
        "Running"
    }
}

fn completions(job: &Value) -> String {
    let done = i64_at(job, "status.succeeded").unwrap_or(0);
    match (i64_at(job, "spec.completions"), i64_at(job, "spec.parallelism").unwrap_or(0)) {
        (Some(all), _) => format!("{done}/{all}"),
        (None, parallelism) if parallelism > 1 => format!("{done}/1 of {parallelism}"),
        (None, _) => format!("{done}/1"),
    }
}

fn duration(job: &Value, now: Timestamp) -> String {
    let time = |path: &str| Timestamp::parse(str_at(job, path)).ok();
    match (time("status.startTime"), time("status.completionTime")) {
        (None, _) => String::new(),
        (Some(start), end) => human_duration(end.unwrap_or(now).secs() - start.secs()),
    }
}

#[cfg(test)]
mod tests;
