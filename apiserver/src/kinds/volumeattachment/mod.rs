//! What a VolumeAttachment means to the API: what it attaches where stays, and what `kubectl get` shows.

use super::columns::{self, Column};
use super::persistentvolume::rules as volume_rules;
use super::pod::validate::{name, required};
use super::value::{at, bool_at, str_at};
use super::{Ctx, Strategy};
use gantry_apimachinery::names;
use gantry_apimachinery::status::FieldErrors;
use gantry_apimachinery::time::Timestamp;
use serde_json::{Value, json};

pub struct VolumeAttachment;

const COLUMNS: &[Column] = &[
    Column::NAME,
    Column { format: "name", ..Column::text("Attacher", "The driver that attaches.") },
    Column::text("PV", "The volume."),
    Column::text("Node", "The machine."),
    Column { kind: "boolean", ..Column::text("Attached", "Whether it is attached.") },
    Column::AGE,
];

impl Strategy for VolumeAttachment {
    fn defaults(&self, object: &mut Value) {
        if let Some(inline) = object.pointer_mut("/spec/source/inlineVolumeSpec") {
            volume_rules::defaults(inline);
        }
    }

    fn prepare_create(&self, object: &mut Value, _ctx: &Ctx) {
        object["status"] = json!({"attached": false});
    }

    fn validate(&self, new: &Value, old: Option<&Value>, ctx: &Ctx, errors: &mut FieldErrors) {
        if ctx.is_status() {
            return;
        }
        let spec = &new["spec"];
        required(spec, "attacher", "spec", errors);
        volume_rules::driver_name(str_at(spec, "attacher"), "spec.attacher", errors);
        source(&spec["source"], errors);
        if required(spec, "nodeName", "spec", errors) {
            name(spec, "nodeName", names::dns1123_subdomain, "spec", errors);
        }
        if old.is_some_and(|old| old["spec"] != *spec) {
            errors.immutable("spec", spec.clone());
        }
    }

    fn columns(&self) -> &'static [Column] {
        COLUMNS
    }

    fn row(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        vec![
            columns::name(object),
            str_at(object, "spec.attacher").into(),
            str_at(object, "spec.source.persistentVolumeName").into(),
            str_at(object, "spec.nodeName").into(),
            bool_at(object, "status.attached").into(),
            columns::age(object, now),
        ]
    }
}

fn source(source: &Value, errors: &mut FieldErrors) {
    const WHY: &str = "must specify exactly one of inlineVolumeSpec and persistentVolumeName";
    match (at(source, "inlineVolumeSpec"), at(source, "persistentVolumeName")) {
        (None, None) => errors.required_because("spec.source", WHY),
        (Some(_), Some(_)) => errors.forbidden("spec.source", WHY),
        (Some(inline), None) => volume_rules::spec(inline, "spec.source.inlineVolumeSpec", errors),
        (None, Some(volume)) if volume == "" => {
            let why = "must specify non empty persistentVolumeName";
            errors.required_because("spec.source.persistentVolumeName", why);
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::testing::{created, errors, row};

    fn attachment(change: impl FnOnce(&mut Value)) -> Value {
        let mut object = json!({"spec": {"attacher": "d.example.com", "nodeName": "n", "source": {"persistentVolumeName": "v"}}});
        change(&mut object["spec"]);
        created(&VolumeAttachment, &object)
    }

    #[test]
    fn what_is_wrong_is_named() {
        let check = |change: &dyn Fn(&mut Value), expect: &str| {
            assert_eq!(errors(&VolumeAttachment, &attachment(change), None), expect);
        };
        check(&|_| {}, "[]");
        check(
            &|spec| *spec = json!({}),
            "[spec.attacher: Required value, spec.source: Required value: must specify exactly one of inlineVolumeSpec and \
             persistentVolumeName, spec.nodeName: Required value]",
        );
        check(
            &|spec| spec["source"]["inlineVolumeSpec"] = json!({}),
            "spec.source: Forbidden: must specify exactly one of inlineVolumeSpec and persistentVolumeName",
        );
        let old = attachment(|_| {});
        let new = attachment(|spec| spec["nodeName"] = json!("m"));
        assert!(errors(&VolumeAttachment, &new, Some(&old)).ends_with(": field is immutable"));
    }

    #[test]
    fn the_row_is_kubectls() {
        assert_eq!(row(&VolumeAttachment, &attachment(|_| {})), json!(["x", "d.example.com", "v", "n", false, "5s"]));
    }
}
