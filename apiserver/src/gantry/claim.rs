//! At-most-one claims: who may run under an identity (owner and ordinal), and with which epoch. Decides the identity and the
//! claim's content; a claim is taken by a bind and freed by the agent or the node lifecycle, never by deleting anything.

use crate::kinds::value::{at, items, str_at};
use serde_json::{Value, json};

/// Set on a pod by its template: at most one of its identity ever runs.
pub const OPT_IN: &str = "gantry.dev/at-most-one";
/// Written on the pod by the bind that took its claim.
pub const EPOCH: &str = "gantry.dev/epoch";

/// The claim's name for an opted-in pod; `None` for any other.
pub fn identity(pod: &Value) -> Option<String> {
    let metadata = &pod["metadata"];
    let opted = ["annotations", "labels"].iter().any(|map| metadata[*map][OPT_IN] == json!("true"));
    if !opted {
        return None;
    }
    let name = str_at(metadata, "name");
    let owner = items(metadata, "ownerReferences").iter().find(|owner| owner["controller"] == json!(true));
    let Some(owner) = owner else { return Some(format!("pod-{name}")) };
    let (kind, owner_name) = (str_at(owner, "kind"), str_at(owner, "name"));
    Some(match kind {
        "StatefulSet" => format!("statefulset-{name}"),
        // Every rollout makes another ReplicaSet; the Deployment is who may run once.
        "ReplicaSet" => {
            match metadata["labels"]["pod-template-hash"].as_str().and_then(|hash| owner_name.strip_suffix(hash)) {
                Some(deployment) => format!("deployment-{}0", deployment),
                None => format!("replicaset-{owner_name}-0"),
            }
        }
        _ => {
            let index = metadata["annotations"]["batch.kubernetes.io/job-completion-index"].as_str().unwrap_or("0");
            format!("{}-{owner_name}-{index}", kind.to_lowercase())
        }
    })
}

/// Whether nobody holds it.
pub fn is_free(claim: &Value) -> bool {
    at(claim, "holder.uid").is_none_or(|uid| uid == "")
}

/// The claim after this pod took it, and its new epoch. `current` is the claim as it stands, if it was ever made.
pub fn taken(
    current: Option<&Value>,
    namespace: &str,
    identity: &str,
    uid: &str,
    node: &str,
    now: &str,
) -> (Value, u64) {
    let epoch = current.and_then(|claim| claim["epoch"].as_u64()).unwrap_or(0) + 1;
    let metadata = match current {
        Some(claim) => claim["metadata"].clone(),
        None => json!({"namespace": namespace, "name": identity, "uid": uid, "creationTimestamp": now}),
    };
    let claim = json!({
        "apiVersion": "gantry.dev/v1", "kind": "AtMostOneClaim", "metadata": metadata,
        "holder": {"uid": uid, "node": node}, "epoch": epoch,
    });
    (claim, epoch)
}

/// The claim without its holder, if that is this pod. The epoch stays: it never goes back.
pub fn freed(claim: &Value, uid: &str) -> Option<Vec<u8>> {
    (str_at(claim, "holder.uid") == uid).then(|| {
        let mut free = claim.clone();
        free["holder"] = json!({});
        free.to_string().into_bytes()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identities() {
        let owned = |kind: &str, owner: &str, labels: Value| {
            json!({"metadata": {"name": "db-1", "annotations": {OPT_IN: "true"}, "labels": labels,
                "ownerReferences": [{"kind": kind, "name": owner, "controller": true}]}})
        };
        let rows = [
            (json!({"metadata": {"name": "x"}}), None),
            (json!({"metadata": {"name": "x", "labels": {OPT_IN: "true"}}}), Some("pod-x")),
            (owned("StatefulSet", "db", json!({})), Some("statefulset-db-1")),
            (owned("ReplicaSet", "web-abc", json!({"pod-template-hash": "abc"})), Some("deployment-web-0")),
            (owned("Job", "import", json!({})), Some("job-import-0")),
        ];
        for (pod, expect) in rows {
            assert_eq!(identity(&pod).as_deref(), expect);
        }
    }

    #[test]
    fn epochs_only_grow() {
        let (first, epoch) = taken(None, "ns", "a", "u1", "n1", "t");
        assert_eq!((epoch, is_free(&first)), (1, false));
        assert_eq!(freed(&first, "other"), None);
        let free: Value = serde_json::from_slice(&freed(&first, "u1").unwrap()).unwrap();
        assert!(is_free(&free));
        let (second, epoch) = taken(Some(&free), "ns", "a", "u2", "n2", "t");
        assert_eq!((epoch, second["holder"]["uid"].as_str()), (2, Some("u2")));
    }
}
