//! Generated selectors, immutable templates, and the row.

use super::Job;
use crate::kinds::testing::{created, errors, row};
use serde_json::{Value, json};

fn job(change: impl FnOnce(&mut Value)) -> Value {
    let mut object = json!({ "metadata": { "name": "sum", "uid": "u-1" }, "spec": { "template": {
        "spec": { "restartPolicy": "Never", "containers": [{ "name": "c", "image": "i:1" }] } } } });
    change(&mut object["spec"]);
    created(&Job, &object)
}

#[test]
fn a_job_is_tied_to_its_pods() {
    let job = job(|_| {});
    let labels = json!({"batch.kubernetes.io/controller-uid": "u-1", "controller-uid": "u-1",
        "batch.kubernetes.io/job-name": "sum", "job-name": "sum"});
    assert_eq!(job["spec"]["template"]["metadata"]["labels"], labels);
    assert_eq!(job["spec"]["selector"], json!({"matchLabels": {"batch.kubernetes.io/controller-uid": "u-1"}}));
    assert_eq!(errors(&Job, &job, None), "[]");
}

#[test]
fn defaults_follow_what_was_given() {
    let check = |given: Value, expect: [Value; 4]| {
        let made = job(|spec| given.as_object().into_iter().flatten().for_each(|(k, v)| spec[k] = v.clone()));
        let spec = &made["spec"];
        let fields = ["completions", "parallelism", "backoffLimit", "completionMode"];
        assert_eq!(fields.map(|field| spec.get(field).cloned().unwrap_or(Value::Null)), expect, "{given}");
    };
    check(json!({}), [json!(1), json!(1), json!(6), json!("NonIndexed")]);
    check(json!({"parallelism": 3}), [Value::Null, json!(3), json!(6), json!("NonIndexed")]);
    check(json!({"completions": 10}), [json!(10), json!(1), json!(6), json!("NonIndexed")]);
    check(
        json!({"completions": 2, "completionMode": "Indexed", "backoffLimitPerIndex": 1}),
        [json!(2), json!(1), json!(i32::MAX), json!("Indexed")],
    );
}

#[test]
fn what_is_wrong_is_named() {
    let check = |change: &dyn Fn(&mut Value), expect: &str| {
        let text = errors(&Job, &job(change), None);
        assert!(text.contains(expect), "{text}");
    };
    check(
        &|spec| spec["template"]["spec"]["restartPolicy"] = json!("Always"),
        "spec.template.spec.restartPolicy: Required value: valid values: \"OnFailure\", \"Never\"",
    );
    check(&|spec| spec["backoffLimit"] = json!(-1), "spec.backoffLimit: Invalid value: -1");
    check(
        &|spec| {
            spec["parallelism"] = json!(2);
            spec["template"]["metadata"] = json!({"annotations": {"gantry.dev/at-most-one": "true"}});
        },
        "spec.template.metadata.annotations[gantry.dev/at-most-one]: Forbidden: a Job of parallelism 2",
    );
    check(
        &|spec| spec["template"]["metadata"] = json!({"labels": {"controller-uid": "mine"}}),
        "`selector` not auto-generated",
    );
}

#[test]
fn the_template_stays_unless_it_never_started() {
    let check = |suspended: bool, field: &str, value: Value, expect: bool| {
        let old = job(|spec| spec["suspend"] = json!(suspended));
        let mut new = old.clone();
        new["spec"]["template"]["spec"][field] = value;
        assert_eq!(errors(&Job, &new, Some(&old)) == "[]", expect, "{suspended} {field}");
    };
    check(false, "nodeSelector", json!({"a": "b"}), false);
    check(true, "nodeSelector", json!({"a": "b"}), true);
    check(true, "dnsPolicy", json!("Default"), false);
    let old = job(|_| {});
    let mut new = old.clone();
    new["spec"]["completions"] = json!(2);
    assert_eq!(errors(&Job, &new, Some(&old)), "spec.completions: Invalid value: 2: field is immutable");
}

#[test]
fn the_row_is_kubectls() {
    let mut object = job(|spec| spec["completions"] = json!(10));
    object["status"] = json!({"succeeded": 4, "startTime": "1970-01-01T00:00:12Z"});
    let selector = "batch.kubernetes.io/controller-uid=u-1";
    assert_eq!(row(&Job, &object), json!(["x", "Running", "4/10", "3s", "5s", "c", "i:1", selector]));
    object["status"]["conditions"] = json!([{"type": "Complete", "status": "True"}]);
    object["status"]["completionTime"] = json!("1970-01-01T00:00:14Z");
    assert_eq!(row(&Job, &object), json!(["x", "Complete", "4/10", "2s", "5s", "c", "i:1", selector]));
}

#[test]
fn what_is_not_acted_upon_is_said() {
    use crate::kinds::Strategy;
    assert!(Job.warnings(&job(|_| {}), None).is_empty());
    let strict = job(|spec| spec["podFailurePolicy"] = json!({"rules": []}));
    assert_eq!(Job.warnings(&strict, None), ["spec.podFailurePolicy: stored, but not acted upon yet"]);
}
