//! What a Namespace means to the API: it starts active, carries its own name as a label, and only the finalize subresource
//! ends it. It never deletes what is inside.

use super::value::{changed_label, child, default, items, str_at};
use super::{Column, Ctx, Selectable, Strategy, columns};
use gantry_apimachinery::names;
use gantry_apimachinery::status::FieldErrors;
use gantry_apimachinery::time::Timestamp;
use serde_json::{Value, json};

const NAME_LABEL: &str = "kubernetes.io/metadata.name";
const FINALIZER: &str = "kubernetes";
/// How much of the cluster the namespace's team is due, against 1 of other teams.
const TEAM_WEIGHT: &str = "gantry.dev/team-weight";

pub struct Namespace;

impl Strategy for Namespace {
    fn defaults(&self, object: &mut Value) {
        let name = str_at(object, "metadata.name").to_owned();
        // With `generateName` the name comes later, in `prepare_create`.
        if !name.is_empty() {
            child(child(object, "metadata"), "labels")[NAME_LABEL] = name.into();
        }
    }

    fn prepare_create(&self, object: &mut Value, _ctx: &Ctx) {
        self.defaults(object);
        let mut finalizers = items(object, "spec.finalizers").to_vec();
        if !finalizers.iter().any(|f| f == FINALIZER) {
            finalizers.push(FINALIZER.into());
        }
        child(object, "spec")["finalizers"] = finalizers.into();
        object["status"] = json!({"phase": "Active"});
    }

    fn prepare_update(&self, new: &mut Value, old: &Value, ctx: &Ctx) {
        if ctx.subresource != Some("finalize") {
            child(new, "spec")["finalizers"] = old["spec"]["finalizers"].clone();
            default(child(new, "spec"), "finalizers", json!([]));
        }
    }

    fn validate(&self, new: &Value, old: Option<&Value>, _ctx: &Ctx, errors: &mut FieldErrors) {
        if let Some(said) = changed_label(new, old, TEAM_WEIGHT)
            && !said.parse().is_ok_and(|weight: f64| weight.is_finite() && weight > 0.0)
        {
            errors.invalid(format!("metadata.labels[{TEAM_WEIGHT}]"), said, "must be a number above 0");
        }
        for (i, finalizer) in items(new, "spec.finalizers").iter().enumerate() {
            let name = finalizer.as_str().unwrap_or("");
            let path = || format!("spec.finalizers[{i}]");
            if let Err(why) = names::qualified_name(name) {
                errors.invalid(path(), name, why);
            } else if name != FINALIZER && !name.contains('/') {
                errors.invalid(path(), name, "name is neither a standard finalizer name nor is it fully qualified");
            }
        }
    }

    fn columns(&self) -> &'static [Column] {
        const COLUMNS: &[Column] =
            &[Column::NAME, Column::text("Status", "Active, or Terminating while it is being deleted."), Column::AGE];
        COLUMNS
    }

    fn row(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        vec![columns::name(object), str_at(object, "status.phase").into(), columns::age(object, now)]
    }

    fn selectable(&self) -> &'static [Selectable] {
        const FIELDS: &[Selectable] = &[Selectable::path("status.phase"), Selectable::alias("name", "metadata.name")];
        FIELDS
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::testing::{created, errors, row, updated};

    #[test]
    fn the_weight_of_its_team_is_a_number_above_zero() {
        let of = |weight: &str| json!({"metadata": {"name": "a", "labels": {TEAM_WEIGHT: weight}}});
        for weight in ["1", "0.5", "20"] {
            assert_eq!(errors(&Namespace, &of(weight), None), "[]", "{weight}");
        }
        for weight in ["0", "-1", "much", "inf", "NaN", ""] {
            let why = format!(
                "metadata.labels[gantry.dev/team-weight]: Invalid value: \"{weight}\": must be a number above 0"
            );
            assert_eq!(errors(&Namespace, &of(weight), None), why);
            assert_eq!(errors(&Namespace, &of(weight), Some(&of("1"))), why);
            assert_eq!(errors(&Namespace, &of(weight), Some(&of(weight))), "[]");
        }
    }

    #[test]
    fn it_starts_active_with_its_label_and_finalizer() {
        let made = created(&Namespace, &json!({"metadata": {"name": "a"}, "status": {"phase": "Terminating"}}));
        let expect = json!({
            "metadata": {"name": "a", "labels": {NAME_LABEL: "a"}},
            "spec": {"finalizers": ["kubernetes"]},
            "status": {"phase": "Active"},
        });
        assert_eq!(made, expect);
    }

    #[test]
    fn only_finalize_changes_the_finalizers() {
        let old = json!({"metadata": {"name": "a"}, "spec": {"finalizers": ["kubernetes"]}});
        let new = json!({"metadata": {"name": "a"}, "spec": {"finalizers": []}});
        assert_eq!(updated(&Namespace, &new, &old, None)["spec"], old["spec"]);
        assert_eq!(updated(&Namespace, &new, &old, Some("finalize"))["spec"], new["spec"]);
    }

    #[test]
    fn finalizers_are_qualified() {
        let bad = json!({"spec": {"finalizers": ["kubernetes", "a/b", "other"]}});
        let expect = "spec.finalizers[2]: Invalid value: \"other\": name is neither a standard finalizer name nor is it fully qualified";
        assert_eq!(errors(&Namespace, &bad, None), expect);
        assert_eq!(row(&Namespace, &json!({"status": {"phase": "Active"}})), json!(["x", "Active", "5s"]));
    }
}
