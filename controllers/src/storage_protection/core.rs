//! Decides when a claim or a volume that is being deleted may go: a claim when no pod on a machine mounts it, a volume when
//! it is bound to no claim. One that was made before anybody held it is held.

use gantry_apimachinery::kinds::{self, Kind};
use gantry_apimachinery::meta::ObjectMeta;
use serde_json::json;

use super::types::Observed;
use crate::owner::remove_finalizer;
use crate::plan::{Plan, Write};

const CLAIM: &str = "kubernetes.io/pvc-protection";
const VOLUME: &str = "kubernetes.io/pv-protection";

pub fn reconcile(observed: &Observed) -> Plan {
    let (kind, meta, finalizer, used) = match observed {
        Observed::Claim(claim, used) => (&kinds::PERSISTENT_VOLUME_CLAIM, &claim.metadata, CLAIM, *used),
        Observed::Volume(volume) => {
            let bound = volume.status.phase.as_deref() == Some("Bound");
            (&kinds::PERSISTENT_VOLUME, &volume.metadata, VOLUME, bound)
        }
    };
    let mut plan = Plan::default();
    let held = meta.finalizers.iter().any(|known| known == finalizer);
    match (meta.deletion_timestamp.is_some(), held) {
        (true, true) if !used => remove_finalizer(kind, meta, finalizer).into_iter().for_each(|write| plan.push(write)),
        (false, false) => plan.push(hold(kind, meta, finalizer)),
        _ => {}
    }
    plan
}

fn hold(kind: &'static Kind, meta: &ObjectMeta, finalizer: &str) -> Write {
    let finalizers: Vec<&str> = meta.finalizers.iter().map(String::as_str).chain([finalizer]).collect();
    let body =
        json!({"metadata": {"uid": meta.uid, "resourceVersion": meta.resource_version, "finalizers": finalizers}});
    Write::merge(kind, &meta.namespace, &meta.name, body)
}
