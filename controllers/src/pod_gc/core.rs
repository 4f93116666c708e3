//! Decides which pods nobody else will ever delete: those of machines that no longer exist, those told to go before they were
//! placed, and the oldest finished ones above the limit. Never touches a pod whose machine exists.

use gantry_apimachinery::kinds;
use gantry_apimachinery::time::Timestamp;
use gantry_client::DeleteOptions;
use serde_json::json;

use super::types::Observed;
use crate::objects::{Condition, Pod};
use crate::plan::{Plan, Step, Write};

pub fn reconcile(observed: &Observed, now: Timestamp) -> Plan {
    let mut plan = Plan::default();
    for pod in &observed.stranded {
        match pod.node() {
            Some(node) if observed.gone.contains(node) => {
                if !pod.is_finished() {
                    plan.steps.push(Step::All(vec![fail(pod, now)]));
                }
                plan.steps.push(Step::All(vec![delete(pod)]));
            }
            Some(_) => {}
            None if pod.is_terminating() => plan.steps.push(Step::All(vec![delete(pod)])),
            None => {}
        }
    }
    let excess = observed.finished.len().saturating_sub(observed.kept);
    let mut oldest: Vec<&Pod> = observed.finished.iter().map(|pod| &**pod).collect();
    oldest.sort_by(|a, b| {
        let key = |p: &Pod| (p.metadata.creation_timestamp, p.metadata.namespace.clone(), p.metadata.name.clone());
        key(a).cmp(&key(b))
    });
    plan.push_all(oldest.into_iter().take(excess).map(delete).collect());
    plan
}

fn delete(pod: &Pod) -> Write {
    let meta = &pod.metadata;
    let options = DeleteOptions { grace_period_seconds: Some(0), ..DeleteOptions::uid(meta.uid.to_string()) };
    Write::delete(&kinds::POD, &meta.namespace, &meta.name, options)
}

/// Controllers count it as failed, and the user reads why.
fn fail(pod: &Pod, now: Timestamp) -> Write {
    let meta = &pod.metadata;
    let why = "PodGC: node no longer exists";
    let condition = Condition::new("DisruptionTarget", "True", "DeletionByPodGC", why, now);
    let patch = gantry_client::Patch::Strategic(
        json!({"metadata": {"uid": meta.uid}, "status": {"phase": "Failed", "conditions": [condition]}}),
    );
    let verb = crate::plan::Verb::Patch { subresource: Some("status"), patch };
    Write::new(&kinds::POD, &meta.namespace, &meta.name, verb)
}
