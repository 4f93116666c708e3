//! What a StatefulSet means to the API: its defaults, what must be consistent, which fields may change, and what `kubectl get`
//! shows. In which order pods come and go is the controller's.

mod validate;

use super::columns::{self, Column};
use super::pod::{self, workload};
use super::value::{child, default, i64_at, items, items_mut};
use super::{Ctx, Strategy};
use gantry_apimachinery::status::FieldErrors;
use gantry_apimachinery::time::Timestamp;
use serde_json::Value;

pub struct StatefulSet;

const COLUMNS: &[Column] = &[
    Column::NAME,
    Column::text("Ready", "Number of the pod with ready state"),
    Column::AGE,
    workload::CONTAINERS,
    workload::IMAGES,
];

impl Strategy for StatefulSet {
    fn defaults(&self, object: &mut Value) {
        pod::defaults::template(object);
        let spec = child(object, "spec");
        default(spec, "replicas", 1);
        default(spec, "revisionHistoryLimit", 10);
        default(spec, "podManagementPolicy", "OrderedReady");
        let strategy = child(spec, "updateStrategy");
        default(strategy, "type", "RollingUpdate");
        if strategy["type"] == "RollingUpdate" {
            let rolling = child(strategy, "rollingUpdate");
            default(rolling, "partition", 0);
            default(rolling, "maxUnavailable", 1);
        }
        let retention = child(spec, "persistentVolumeClaimRetentionPolicy");
        default(retention, "whenDeleted", "Retain");
        default(retention, "whenScaled", "Retain");
        for claim in items_mut(spec, "volumeClaimTemplates") {
            default(claim, "apiVersion", "v1");
            default(claim, "kind", "PersistentVolumeClaim");
            default(child(claim, "spec"), "volumeMode", "Filesystem");
            default(child(claim, "status"), "phase", "Pending");
        }
    }

    fn prepare_create(&self, object: &mut Value, _ctx: &Ctx) {
        // Clients that watch for the first counts find them, as Kubernetes' own type has them.
        let status = child(object, "status");
        default(status, "replicas", 0);
        default(status, "availableReplicas", 0);
    }

    fn validate(&self, new: &Value, old: Option<&Value>, ctx: &Ctx, errors: &mut FieldErrors) {
        if ctx.is_status() {
            return validate::status(new, old, errors);
        }
        validate::spec(&new["spec"], old.map(|old| &old["spec"]), errors);
        if let Some(old) = old {
            validate::update(&new["spec"], &old["spec"], errors);
        }
    }

    fn warnings(&self, new: &Value, old: Option<&Value>) -> Vec<String> {
        let mut warnings = workload::warnings(new, old);
        if old.is_none() && !items(new, "spec.volumeClaimTemplates").is_empty() {
            warnings.push("spec.volumeClaimTemplates: not supported yet; its pods are refused".to_owned());
        }
        if i64_at(new, "spec.revisionHistoryLimit").is_some_and(|limit| limit < 0) {
            let why = "a negative value retains all historical revisions; a value >= 0 is recommended";
            warnings.push(format!("spec.revisionHistoryLimit: {why}"));
        }
        warnings
    }

    fn columns(&self) -> &'static [Column] {
        COLUMNS
    }

    fn row(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        let count = |path: &str| i64_at(object, path).unwrap_or(0);
        let [containers, images, _] = workload::wide_cells(object);
        vec![
            columns::name(object),
            format!("{}/{}", count("status.readyReplicas"), count("spec.replicas")).into(),
            columns::age(object, now),
            containers,
            images,
        ]
    }
}

#[cfg(test)]
mod tests;
