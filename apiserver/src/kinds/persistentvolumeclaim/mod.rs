//! What a PersistentVolumeClaim means to the API: its defaults, its rules, and what `kubectl get` shows. Which volume it gets is
//! the controller's.

pub mod rules;

use super::columns::{self, Column};
use super::quantities;
use super::value::{at, child, default, items, str_at};
use super::{Ctx, Strategy};
use gantry_apimachinery::status::FieldErrors;
use gantry_apimachinery::time::Timestamp;
use serde_json::{Value, json};

pub struct PersistentVolumeClaim;

const COLUMNS: &[Column] = &[
    Column::NAME,
    Column::text("Status", "Whether it is bound to a volume."),
    Column::text("Volume", "The volume that it is bound to."),
    Column::text("Capacity", "How much the volume holds."),
    Column::text("Access Modes", "How the volume may be mounted."),
    Column::text("StorageClass", "StorageClass of the pvc"),
    Column::text("VolumeAttributesClass", "VolumeAttributesClass of the pvc"),
    Column::AGE,
    Column::text("VolumeMode", "Whether it is mounted as a file system.").wide(),
];

impl Strategy for PersistentVolumeClaim {
    fn defaults(&self, object: &mut Value) {
        default(child(object, "spec"), "volumeMode", "Filesystem");
        default(child(object, "status"), "phase", "Pending");
    }

    fn prepare_create(&self, object: &mut Value, _ctx: &Ctx) {
        object["status"] = json!({"phase": "Pending"});
        let spec = &mut object["spec"];
        let old_fashioned = |source: &Value| {
            matches!(
                (str_at(source, "apiGroup"), str_at(source, "kind")),
                ("", "PersistentVolumeClaim") | ("snapshot.storage.k8s.io", "VolumeSnapshot")
            )
        };
        // Only these two were ever read from the older field; anything else in it alone was ignored, and still is.
        if at(spec, "dataSourceRef").is_none() && at(spec, "dataSource").is_some_and(|source| !old_fashioned(source)) {
            super::value::remove(spec, "dataSource");
        }
        same_source(spec);
    }

    fn prepare_update(&self, new: &mut Value, _old: &Value, ctx: &Ctx) {
        if !ctx.is_status() {
            same_source(&mut new["spec"]);
        }
    }

    fn validate(&self, new: &Value, old: Option<&Value>, ctx: &Ctx, errors: &mut FieldErrors) {
        if ctx.is_status() {
            return status(new, errors);
        }
        rules::spec(&new["spec"], "spec", errors);
        if let Some(old) = old {
            rules::update(new, old, errors);
        }
    }

    fn columns(&self) -> &'static [Column] {
        COLUMNS
    }

    fn row(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        let deleted = at(object, "metadata.deletionTimestamp").is_some();
        let bound = !str_at(object, "spec.volumeName").is_empty();
        let capacity = if bound { str_at(&object["status"]["capacity"], "storage") } else { "" };
        let modes = if bound { rules::short_modes(&object["status"]["accessModes"]) } else { String::new() };
        vec![
            columns::name(object),
            if deleted { "Terminating" } else { str_at(object, "status.phase") }.into(),
            str_at(object, "spec.volumeName").into(),
            capacity.into(),
            modes.into(),
            rules::class(object).into(),
            or_unset(object, "spec.volumeAttributesClassName"),
            columns::age(object, now),
            or_unset(object, "spec.volumeMode"),
        ]
    }
}

/// The two names of a claim's source say the same; only the newer one can name another namespace.
fn same_source(spec: &mut Value) {
    let (source, reference) = (at(spec, "dataSource").cloned(), at(spec, "dataSourceRef").cloned());
    match (source, reference) {
        (Some(source), None) => spec["dataSourceRef"] = source,
        (None, Some(reference)) if str_at(&reference, "namespace").is_empty() => spec["dataSource"] = reference,
        _ => {}
    }
}

pub fn or_unset(object: &Value, path: &str) -> Value {
    at(object, path).cloned().unwrap_or_else(|| "<unset>".into())
}

fn status(new: &Value, errors: &mut FieldErrors) {
    for field in ["capacity", "allocatedResources"] {
        for (name, value, _) in quantities::entries(&new["status"][field]) {
            quantities::not_negative(value, &format!("status.{field}[{name}]"), errors);
        }
    }
    for (position, condition) in items(new, "status.conditions").iter().enumerate() {
        if str_at(condition, "type").is_empty() {
            errors.required(format!("status.conditions[{position}].type"));
        }
    }
}

#[cfg(test)]
mod tests;
