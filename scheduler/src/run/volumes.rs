//! Writes what a decision asks of volumes: for which machine a claim's volume is to be made, or which claim a volume is for.

use gantry_apimachinery::kinds;
use gantry_client::{ApiError, Client, Patch};
use serde_json::{Value, json};

use crate::plugins::claims::VolumeWrite;
use crate::snapshot::volumes::SELECTED_NODE;

/// One write. A conflict means that somebody wrote in between: the pod is decided again.
pub(super) async fn write(client: &Client, write: &VolumeWrite) -> Result<(), ApiError> {
    let split = |key: &str| key.split_once('/').map(|(ns, name)| (ns.to_owned(), name.to_owned())).unwrap_or_default();
    match write {
        VolumeWrite::Select { claim, uid, revision, node } => {
            let (ns, name) = split(claim);
            let meta = json!({"uid": uid, "resourceVersion": revision, "annotations": {SELECTED_NODE: node}});
            let patch = Patch::Merge(json!({"metadata": meta}));
            client.patch::<Value>(&kinds::PERSISTENT_VOLUME_CLAIM, &ns, &name, patch, None).await.map(drop)
        }
        VolumeWrite::Take { volume, revision, claim, uid, is_reserved } => {
            let (ns, name) = split(claim);
            // What a person wrote stays when the claim is gone; what we write goes with it (a Kubernetes rule).
            let annotations =
                if *is_reserved { json!({}) } else { json!({"pv.kubernetes.io/bound-by-controller": "yes"}) };
            let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": ns, "name": name,
                "uid": uid});
            let patch = Patch::Merge(json!({
                "metadata": {"resourceVersion": revision, "annotations": annotations},
                "spec": {"claimRef": claim},
            }));
            client.patch::<Value>(&kinds::PERSISTENT_VOLUME, "", volume, patch, None).await.map(drop)
        }
    }
}
