//! What a PodTemplate means to the API: the defaults and rules of its pods, and what `kubectl get` shows.

use super::columns::{self, Column};
use super::pod::{self, unheeded, validate as pod_rules};
use super::value::{child, items, str_at};
use super::{Ctx, Strategy};
use gantry_apimachinery::status::FieldErrors;
use gantry_apimachinery::time::Timestamp;
use serde_json::Value;

pub struct PodTemplate;

const COLUMNS: &[Column] = &[
    Column::NAME,
    Column::text("Containers", "Names of each container in the template."),
    Column::text("Images", "Images referenced by each container in the template."),
    Column::text("Pod Labels", "The labels of pods made from it."),
];

impl Strategy for PodTemplate {
    fn defaults(&self, object: &mut Value) {
        pod::defaults::spec(child(child(object, "template"), "spec"));
    }

    fn validate(&self, new: &Value, _old: Option<&Value>, _ctx: &Ctx, errors: &mut FieldErrors) {
        pod_rules::template(&new["template"], "template", errors);
    }

    fn warnings(&self, new: &Value, old: Option<&Value>) -> Vec<String> {
        if old.is_some_and(|old| old["template"] == new["template"]) {
            return Vec::new();
        }
        unheeded::in_template(&new["template"]["spec"], "template.spec")
    }

    fn columns(&self) -> &'static [Column] {
        COLUMNS
    }

    fn row(&self, object: &Value, _now: Timestamp) -> Vec<Value> {
        let each = |field: &str| {
            let containers = items(object, "template.spec.containers").iter();
            containers.map(|container| str_at(container, field)).collect::<Vec<_>>().join(",").into()
        };
        let labels = columns::labels(&object["template"]["metadata"]["labels"]);
        vec![columns::name(object), each("name"), each("image"), labels]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::testing::{defaulted, errors, row};
    use serde_json::json;

    #[test]
    fn a_template_is_that_of_a_pod() {
        let object = json!({"template": {"metadata": {"labels": {"a": "b"}},
            "spec": {"containers": [{"name": "c", "image": "i:1"}]}}});
        let made = defaulted(&PodTemplate, &object);
        assert_eq!(made["template"]["spec"]["restartPolicy"], "Always");
        assert_eq!(errors(&PodTemplate, &made, None), "[]");
        assert_eq!(row(&PodTemplate, &made), json!(["x", "c", "i:1", "a=b"]));
        let empty = defaulted(&PodTemplate, &json!({}));
        assert_eq!(errors(&PodTemplate, &empty, None), "template.spec.containers: Required value");
    }
}
