//! What a ReplicationController means to the API: its defaults, what must be consistent, and what `kubectl get` shows.

use super::columns::{self, Column};
use super::pod::{self, validate as pod_rules, workload};
use super::value::{at, child, default, i64_at};
use super::{Ctx, Selectable, Strategy};
use gantry_apimachinery::status::FieldErrors;
use gantry_apimachinery::time::Timestamp;
use serde_json::{Map, Value};

pub struct ReplicationController;

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
    &["replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas", "observedGeneration"];

impl Strategy for ReplicationController {
    fn defaults(&self, object: &mut Value) {
        let spec = child(object, "spec");
        default(spec, "replicas", 1);
        if at(spec, "template").is_none() {
            return;
        }
        pod::defaults::template(object);
        let labels = object["spec"]["template"]["metadata"].get("labels").cloned();
        let Some(labels) = labels.filter(|labels| !is_empty(Some(labels))) else { return };
        if is_empty(at(object, "spec.selector")) {
            object["spec"]["selector"] = labels.clone();
        }
        if is_empty(at(object, "metadata.labels")) {
            child(object, "metadata")["labels"] = labels;
        }
    }

    fn prepare_create(&self, object: &mut Value, _ctx: &Ctx) {
        // Clients that watch for the first count find it, as Kubernetes' own type has it.
        default(child(object, "status"), "replicas", 0);
    }

    fn validate(&self, new: &Value, _old: Option<&Value>, ctx: &Ctx, errors: &mut FieldErrors) {
        if ctx.is_status() {
            workload::counts(new, STATUS_COUNTS, errors);
            return workload::at_most_replicas(&new["status"], &STATUS_COUNTS[1..4], errors);
        }
        let spec = &new["spec"];
        pod_rules::at_least(spec, "minReadySeconds", 0, "spec", errors);
        if is_empty(at(spec, "selector")) {
            errors.required("spec.selector");
        }
        pod_rules::at_least(spec, "replicas", 0, "spec", errors);
        if at(spec, "template").is_none() {
            return errors.required("spec.template");
        }
        let labels = &spec["template"]["metadata"]["labels"];
        let matches = |(key, value): (&String, &Value)| labels.get(key) == Some(value);
        if !spec["selector"].as_object().into_iter().flatten().all(matches) {
            let why = "`selector` does not match template `labels`";
            errors.invalid("spec.template.metadata.labels", labels.clone(), why);
        }
        workload::template(&spec["template"], "ReplicationController", errors);
    }

    fn warnings(&self, new: &Value, old: Option<&Value>) -> Vec<String> {
        workload::warnings(new, old)
    }

    fn columns(&self) -> &'static [Column] {
        COLUMNS
    }

    fn row(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        let count = |path: &str| Value::from(i64_at(object, path).unwrap_or(0));
        let [containers, images, _] = workload::wide_cells(object);
        vec![
            columns::name(object),
            count("spec.replicas"),
            count("status.replicas"),
            count("status.readyReplicas"),
            columns::age(object, now),
            containers,
            images,
            columns::labels(&object["spec"]["selector"]),
        ]
    }

    fn selectable(&self) -> &'static [Selectable] {
        const FIELDS: &[Selectable] = &[Selectable::or("status.replicas", "0")];
        FIELDS
    }
}

fn is_empty(labels: Option<&Value>) -> bool {
    labels.and_then(Value::as_object).is_none_or(Map::is_empty)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::testing::{defaulted, errors, errors_of, row};
    use serde_json::json;

    fn controller(change: impl FnOnce(&mut Value)) -> Value {
        let mut object = json!({ "spec": { "template": { "metadata": { "labels": { "app": "web" } },
            "spec": { "containers": [{ "name": "c", "image": "i:1" }] } } } });
        change(&mut object["spec"]);
        defaulted(&ReplicationController, &object)
    }

    #[test]
    fn selector_and_labels_come_from_the_template() {
        let made = controller(|_| {});
        assert_eq!(made["spec"]["selector"], json!({"app": "web"}));
        assert_eq!(made["metadata"]["labels"], json!({"app": "web"}));
        assert_eq!(made["spec"]["replicas"], 1);
        assert_eq!(defaulted(&ReplicationController, &json!({"spec": {}})), json!({"spec": {"replicas": 1}}));
    }

    #[test]
    fn what_is_wrong_is_named() {
        let check = |change: &dyn Fn(&mut Value), expect: &str| {
            assert_eq!(errors(&ReplicationController, &controller(change), None), expect);
        };
        check(&|_| {}, "[]");
        check(&|spec| *spec = json!({}), "[spec.selector: Required value, spec.template: Required value]");
        check(
            &|spec| spec["selector"] = json!({"app": "other"}),
            "spec.template.metadata.labels: Invalid value: {\"app\":\"web\"}: `selector` does not match template `labels`",
        );
        check(
            &|spec| spec["template"]["spec"]["restartPolicy"] = json!("OnFailure"),
            "spec.template.spec.restartPolicy: Unsupported value: \"OnFailure\": supported values: \"Always\"",
        );
        check(
            &|spec| spec["template"]["spec"]["activeDeadlineSeconds"] = json!(1),
            "spec.template.spec.activeDeadlineSeconds: Forbidden: activeDeadlineSeconds in ReplicationController is not Supported",
        );
        let mut counted = controller(|_| {});
        counted["status"] = json!({"replicas": 1, "readyReplicas": 2});
        let expect = "status.readyReplicas: Invalid value: 2: cannot be greater than status.replicas";
        assert_eq!(errors_of(&ReplicationController, &counted, Some(&counted), Some("status")), expect);
    }

    #[test]
    fn the_row_is_kubectls() {
        let mut object = controller(|spec| spec["replicas"] = json!(3));
        object["status"] = json!({"replicas": 2, "readyReplicas": 1});
        assert_eq!(row(&ReplicationController, &object), json!(["x", 3, 2, 1, "5s", "c", "i:1", "app=web"]));
    }
}
