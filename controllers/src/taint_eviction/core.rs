//! Decides which pods a machine's NoExecute taints evict, and when: at once what does not tolerate one, after
//! `tolerationSeconds` from when the taint was added what tolerates it for a while. Never adds a taint.

use gantry_apimachinery::kinds;
use gantry_apimachinery::time::Timestamp;
use gantry_client::DeleteOptions;

use super::types::Observed;
use crate::objects::{Node, Pod, Taint, tolerates};
use crate::owner;
use crate::plan::{Plan, Write};

/// The taints that evict.
pub fn evicting(node: &Node) -> impl Iterator<Item = &Taint> {
    node.spec.taints.iter().filter(|t| t.effect == "NoExecute")
}

pub fn reconcile(observed: &Observed, now: Timestamp) -> Plan {
    let taints: Vec<&Taint> = evicting(&observed.node).collect();
    let mut plan = Plan::default();
    let mut writes = Vec::new();
    for pod in observed.pods.iter().filter(|pod| pod.is_active()) {
        match taints.iter().filter_map(|taint| due(pod, taint, now)).min() {
            Some(due) if due <= now => writes.push(evict(pod)),
            Some(due) => plan.requeue_in(due.since(now)),
            None => {}
        }
    }
    plan.push_all(writes);
    plan
}

/// When this taint evicts the pod; `None` for never.
fn due(pod: &Pod, taint: &Taint, now: Timestamp) -> Option<Timestamp> {
    match pod.spec.tolerations.iter().find(|t| tolerates(t, taint)) {
        None => Some(now),
        Some(toleration) => toleration.toleration_seconds.map(|s| taint.time_added.unwrap_or(now).add_secs(s.max(0))),
    }
}

fn evict(pod: &Pod) -> Write {
    let meta = &pod.metadata;
    let message = format!("Marking for deletion Pod {}/{}", meta.namespace, meta.name);
    Write::delete(&kinds::POD, &meta.namespace, &meta.name, DeleteOptions::uid(meta.uid.to_string())).announced(
        &owner::reference(&kinds::POD, meta),
        Some(("TaintManagerEviction", &message)),
        None,
    )
}
