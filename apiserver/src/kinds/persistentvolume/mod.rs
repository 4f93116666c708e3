//! What a PersistentVolume means to the API: its defaults, its rules, and what `kubectl get` shows. Which claim it is bound to is the
//! controller's.

pub mod rules;

use super::columns::{self, Column};
use super::persistentvolumeclaim::{or_unset, rules as claim_rules};
use super::value::{at, child, default, str_at};
use super::{Ctx, Strategy};
use gantry_apimachinery::status::FieldErrors;
use gantry_apimachinery::time::Timestamp;
use serde_json::{Value, json};

pub struct PersistentVolume;

const COLUMNS: &[Column] = &[
    Column::NAME,
    Column::text("Capacity", "How much it holds."),
    Column::text("Access Modes", "How it may be mounted."),
    Column::text("Reclaim Policy", "What becomes of it when its claim is gone."),
    Column::text("Status", "Whether it is available, bound, released or failed."),
    Column::text("Claim", "The claim that it is bound to."),
    Column::text("StorageClass", "StorageClass of the pv"),
    Column::text("VolumeAttributesClass", "VolumeAttributesClass of the pv"),
    Column::text("Reason", "Why it is in this state."),
    Column::AGE,
    Column::text("VolumeMode", "Whether it is mounted as a file system.").wide(),
];

impl Strategy for PersistentVolume {
    fn defaults(&self, object: &mut Value) {
        rules::defaults(child(object, "spec"));
        default(child(object, "status"), "phase", "Pending");
    }

    fn prepare_create(&self, object: &mut Value, ctx: &Ctx) {
        object["status"] = json!({"phase": "Pending", "lastPhaseTransitionTime": ctx.now.to_string()});
    }

    fn prepare_update(&self, new: &mut Value, old: &Value, ctx: &Ctx) {
        if !ctx.is_status() || new["status"]["phase"] == old["status"]["phase"] {
            return;
        }
        if new["status"]["lastPhaseTransitionTime"] == old["status"]["lastPhaseTransitionTime"] {
            new["status"]["lastPhaseTransitionTime"] = ctx.now.to_string().into();
        }
    }

    fn validate(&self, new: &Value, old: Option<&Value>, ctx: &Ctx, errors: &mut FieldErrors) {
        if ctx.is_status() {
            return;
        }
        rules::spec(&new["spec"], "spec", errors);
        if let Some(old) = old {
            rules::update(&new["spec"], &old["spec"], errors);
        }
    }

    fn warnings(&self, new: &Value, old: Option<&Value>) -> Vec<String> {
        if old.is_none() && new["spec"]["persistentVolumeReclaimPolicy"] == "Recycle" {
            let why = "The Recycle reclaim policy is deprecated. Instead, the recommended approach is to use dynamic provisioning.";
            return vec![format!("spec.persistentVolumeReclaimPolicy: {why}")];
        }
        Vec::new()
    }

    fn columns(&self) -> &'static [Column] {
        COLUMNS
    }

    fn row(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        let spec = &object["spec"];
        let deleted = at(object, "metadata.deletionTimestamp").is_some();
        let claim = at(spec, "claimRef").map(|claim| format!("{}/{}", str_at(claim, "namespace"), str_at(claim, "name")));
        vec![
            columns::name(object),
            str_at(&spec["capacity"], "storage").into(),
            claim_rules::short_modes(&spec["accessModes"]).into(),
            str_at(spec, "persistentVolumeReclaimPolicy").into(),
            if deleted { "Terminating" } else { str_at(object, "status.phase") }.into(),
            claim.unwrap_or_default().into(),
            claim_rules::class(object).into(),
            or_unset(object, "spec.volumeAttributesClassName"),
            str_at(object, "status.reason").into(),
            columns::age(object, now),
            or_unset(object, "spec.volumeMode"),
        ]
    }
}

#[cfg(test)]
mod tests;
