//! DefaultStorageClass and DefaultIngressClass: a claim or an Ingress that names no class gets the one that is marked as
//! everybody's. Of several, the one that was marked last counts, as in Kubernetes.

use super::{Admission, Attributes, Operation};
use crate::core::Core;
use crate::http::Outcome;
use crate::kinds::value::str_at;
use gantry_apimachinery::kinds::{INGRESS, INGRESS_CLASS, Kind, PERSISTENT_VOLUME_CLAIM, STORAGE_CLASS};
use serde_json::Value;
use std::cmp::Reverse;

pub struct DefaultClass;

/// What says that a class is everybody's. The beta name still counts for storage.
const STORAGE_MARKS: &[&str] =
    &["storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"];
const INGRESS_MARKS: &[&str] = &["ingressclass.kubernetes.io/is-default-class"];
/// The annotations that named a class before there was a field.
const OLD_STORAGE: &str = "volume.beta.kubernetes.io/storage-class";
const OLD_INGRESS: &str = "kubernetes.io/ingress.class";

impl Admission for DefaultClass {
    fn mutate(&self, attributes: &Attributes<'_>, object: &mut Value) -> Outcome<()> {
        if attributes.operation != Operation::Create || attributes.call.subresource.is_some() {
            return Ok(());
        }
        let kind = attributes.call.served.resource.kind;
        let (classes, marks, field, old) = if kind == &PERSISTENT_VOLUME_CLAIM {
            (&STORAGE_CLASS, STORAGE_MARKS, "storageClassName", OLD_STORAGE)
        } else if kind == &INGRESS {
            (&INGRESS_CLASS, INGRESS_MARKS, "ingressClassName", OLD_INGRESS)
        } else {
            return Ok(());
        };
        // An empty name is a choice: no class.
        let named = object["spec"].get(field).is_some_and(|class| !class.is_null());
        if named || !object["spec"].is_object() || object["metadata"]["annotations"].get(old).is_some() {
            return Ok(());
        }
        if let Some(class) = marked(attributes.call.core, classes, marks) {
            object["spec"][field] = class.into();
        }
        Ok(())
    }
}

fn marked(core: &Core, classes: &Kind, marks: &[&str]) -> Option<String> {
    let snapshot = core.stored_kind(classes).resource.snapshot();
    let all = snapshot.tree.values().filter_map(|class| class.value().ok());
    newest(all.filter(|class| marks.iter().any(|mark| class["metadata"]["annotations"][*mark] == "true")))
}

/// The youngest; of equally old ones the first by name.
fn newest(classes: impl Iterator<Item = Value>) -> Option<String> {
    let key = |class: &Value| {
        (Reverse(str_at(class, "metadata.creationTimestamp").to_owned()), str_at(class, "metadata.name").to_owned())
    };
    classes.min_by_key(key).map(|class| str_at(&class, "metadata.name").to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn of_several_the_youngest_counts_and_then_the_first() {
        let class = |name: &str, made: &str| json!({"metadata": {"name": name, "creationTimestamp": made}});
        let all = [
            class("a", "2026-01-01T00:00:00Z"),
            class("c", "2026-01-02T00:00:00Z"),
            class("b", "2026-01-02T00:00:00Z"),
        ];
        assert_eq!(newest(all.into_iter()), Some("b".into()));
        assert_eq!(newest(std::iter::empty()), None);
    }
}
