//! What a PlacementReview means to the API: a question about a pod that is there, or about pods that are not made yet. The answer,
//! in its status, is the scheduler's.

use super::columns::{self, Column};
use super::pod::validate::if_set_one_of;
use super::pod::{self, unheeded, validate as pod_rules};
use super::podgroup::at_most;
use super::value::{at, child, default, i64_at, str_at};
use super::{Ctx, Strategy};
use gantry_apimachinery::names;
use gantry_apimachinery::status::FieldErrors;
use gantry_apimachinery::time::Timestamp;
use serde_json::Value;

pub struct PlacementReview;

const COLUMNS: &[Column] = &[
    Column::NAME,
    Column::text("About", "The pod that is asked about, or how many of a template."),
    Column::text("Phase", "Whether there is an answer."),
    Column::text("Message", "The answer in short."),
    Column::AGE,
];
const PHASES: &[&str] = &["Answered", "Failed"];
const MOST_REPLICAS: i64 = 10_000;

impl Strategy for PlacementReview {
    fn defaults(&self, object: &mut Value) {
        if at(object, "spec.template").is_some() {
            // A pod's defaults and no template's: requests follow limits as they will when such a pod is made.
            pod::defaults::pod(child(child(object, "spec"), "template"));
            default(child(object, "spec"), "replicas", 1);
        }
    }

    fn validate(&self, new: &Value, old: Option<&Value>, ctx: &Ctx, errors: &mut FieldErrors) {
        if ctx.is_status() {
            return if_set_one_of(&new["status"], "phase", "status", PHASES, errors);
        }
        let spec = &new["spec"];
        if let Some(old) = old {
            if old["spec"] != *spec {
                errors.immutable("spec", "");
            }
            return;
        }
        let name = str_at(spec, "podName");
        match (name, at(spec, "template")) {
            ("", None) => errors.required_because("spec.podName", "a question names a pod of its namespace, or has a template"),
            ("", Some(template)) => pod_rules::template(template, "spec.template", errors),
            (_, Some(_)) => errors.forbidden("spec.template", "may not be specified when `podName` is not empty"),
            (name, None) => {
                if let Err(why) = names::dns1123_subdomain(name) {
                    errors.invalid("spec.podName", name, why);
                }
                if at(spec, "replicas").is_some() {
                    errors.forbidden("spec.replicas", "may not be specified when `podName` is not empty");
                }
            }
        }
        at_most(spec, "replicas", "spec", MOST_REPLICAS, errors);
    }

    fn warnings(&self, new: &Value, old: Option<&Value>) -> Vec<String> {
        if old.is_some() || at(new, "spec.template").is_none() {
            return Vec::new();
        }
        unheeded::in_template(&new["spec"]["template"]["spec"], "spec.template.spec")
    }

    fn columns(&self) -> &'static [Column] {
        COLUMNS
    }

    fn row(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        let about = match str_at(object, "spec.podName") {
            "" => format!("{} of a template", i64_at(object, "spec.replicas").unwrap_or(1)),
            name => format!("pod {name}"),
        };
        let phase = match str_at(object, "status.phase") {
            "" => "Waiting",
            phase => phase,
        };
        let message = str_at(object, "status.message").into();
        vec![columns::name(object), about.into(), phase.into(), message, columns::age(object, now)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::testing::{defaulted, errors, errors_of, row};
    use serde_json::json;

    fn template() -> Value {
        json!({"spec": {"containers": [{"name": "c", "image": "i:1"}]}})
    }

    #[test]
    fn it_asks_about_a_pod_or_about_a_template() {
        let check = |spec: Value, expect: &str| {
            let made = defaulted(&PlacementReview, &json!({"spec": spec}));
            assert_eq!(errors(&PlacementReview, &made, None), expect);
        };
        check(json!({"podName": "web-1"}), "[]");
        check(json!({"template": template(), "replicas": 10_000}), "[]");
        check(json!({}), "spec.podName: Required value: a question names a pod of its namespace, or has a template");
        check(
            json!({"podName": "a", "template": template()}),
            "spec.template: Forbidden: may not be specified when `podName` is not empty",
        );
        check(
            json!({"podName": "a", "replicas": 2}),
            "spec.replicas: Forbidden: may not be specified when `podName` is not empty",
        );
        check(
            json!({"template": template(), "replicas": 10_001}),
            "spec.replicas: Invalid value: 10001: must be between 1 and 10000, inclusive",
        );
        check(json!({"template": {"spec": {}}}), "spec.template.spec.containers: Required value");
    }

    #[test]
    fn a_template_is_filled_in_as_a_pods() {
        let made = defaulted(&PlacementReview, &json!({"spec": {"template": template()}}));
        assert_eq!((&made["spec"]["replicas"], &made["spec"]["template"]["spec"]["restartPolicy"]), (&json!(1), &json!("Always")));
        let limits = json!({"cpu": "2", "nvidia.com/gpu": "8"});
        let mut limited = template();
        limited["spec"]["containers"][0]["resources"] = json!({"limits": limits, "requests": {"cpu": "1"}});
        let made = defaulted(&PlacementReview, &json!({"spec": {"template": limited}}));
        let requests = &made["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"];
        assert_eq!(*requests, json!({"cpu": "1", "nvidia.com/gpu": "8"}));
        assert_eq!(defaulted(&PlacementReview, &json!({"spec": {"podName": "a"}})), json!({"spec": {"podName": "a"}}));
    }

    #[test]
    fn the_question_stays_and_the_answer_is_of_known_phases() {
        let old = json!({"spec": {"podName": "a"}});
        let new = json!({"spec": {"podName": "b"}});
        assert_eq!(errors(&PlacementReview, &new, Some(&old)), "spec: Invalid value: \"\": field is immutable");
        let answered = |phase: &str| {
            let answered = json!({"spec": {"podName": "a"}, "status": {"phase": phase, "result": {"any": [1]}}});
            errors_of(&PlacementReview, &answered, Some(&old), Some("status"))
        };
        assert_eq!(answered("Answered"), "[]");
        assert!(answered("Maybe").starts_with("status.phase: Unsupported value"));
    }

    #[test]
    fn a_row_shows_question_and_answer() {
        let open = json!({"spec": {"template": template(), "replicas": 7}});
        assert_eq!(row(&PlacementReview, &open), json!(["x", "7 of a template", "Waiting", "", "5s"]));
        let answered = json!({"spec": {"podName": "a"}, "status": {"phase": "Answered", "message": "no room"}});
        assert_eq!(row(&PlacementReview, &answered), json!(["x", "pod a", "Answered", "no room", "5s"]));
    }
}
