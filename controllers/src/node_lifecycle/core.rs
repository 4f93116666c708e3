//! Decides what a machine's conditions say once it is silent, and which taints follow from conditions. Follows Kubernetes:
//! `not-ready` and `unreachable` (NoSchedule at once, NoExecute where eviction is allowed), pressure and cordon taints.
//! Never deletes a pod; taints that are not its own it leaves alone.

use std::time::Duration;

use gantry_apimachinery::kinds;
use gantry_apimachinery::time::Timestamp;
use gantry_client::{EventType, Patch};
use serde_json::json;

use super::types::Observed;
use crate::objects::{Condition, Node, Pod, Taint};
use crate::owner;
use crate::plan::{Plan, Verb, Write};

const NOT_READY: &str = "node.kubernetes.io/not-ready";
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";
const NO_SCHEDULE: &str = "NoSchedule";
const NO_EXECUTE: &str = "NoExecute";
/// Conditions that a silent machine can no longer vouch for.
const VOUCHED: [&str; 4] = ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"];
/// Conditions that keep new pods away while they hold.
const KEEPS_AWAY: [(&str, &str); 4] = [
    ("MemoryPressure", "node.kubernetes.io/memory-pressure"),
    ("DiskPressure", "node.kubernetes.io/disk-pressure"),
    ("PIDPressure", "node.kubernetes.io/pid-pressure"),
    ("NetworkUnavailable", "node.kubernetes.io/network-unavailable"),
];
/// Pods whose readiness is corrected in one pass.
const PODS: usize = 20;

pub fn reconcile(observed: &Observed, now: Timestamp) -> Plan {
    let node = &*observed.node;
    let meta = &node.metadata;
    let mut plan = Plan::default();
    if meta.deletion_timestamp.is_some() {
        return plan;
    }
    let mut seen = node.clone();
    if observed.silent {
        seen.status.conditions = unknown(&node.status.conditions, now);
    }
    if seen.status.conditions != node.status.conditions {
        let body = json!({"metadata": {"resourceVersion": meta.resource_version},
            "status": {"conditions": seen.status.conditions}});
        plan.push(Write::status(&kinds::NODE, "", &meta.name, body));
        if node.ready() == "True" {
            let message = format!("Node {} status is now: NodeNotReady", meta.name);
            plan.note(&owner::reference(&kinds::NODE, meta), EventType::Normal, "NodeNotReady", message);
        }
        // The taints follow once the written status is seen: both writes name the same version.
        return plan;
    }
    let taints = taints(&seen, observed.may_lose, now);
    if taints != node.spec.taints {
        let taints = if taints.is_empty() { json!(null) } else { json!(taints) };
        let body = json!({"metadata": {"resourceVersion": meta.resource_version}, "spec": {"taints": taints}});
        plan.push(Write::merge(&kinds::NODE, "", &meta.name, body));
    }
    if observed.silent && observed.may_lose {
        plan.push_all(observed.ready_pods.iter().take(PODS).map(|pod| not_ready(pod, now)).collect());
        if observed.ready_pods.len() > PODS {
            plan.requeue_in(Duration::from_secs(1));
        }
    }
    plan
}

/// The conditions of a machine that nobody hears of.
fn unknown(conditions: &[Condition], now: Timestamp) -> Vec<Condition> {
    let mut next = conditions.to_vec();
    for kind in VOUCHED {
        match next.iter_mut().find(|c| c.kind == kind) {
            Some(condition) if condition.status == "Unknown" => {}
            Some(condition) => {
                condition.status = "Unknown".to_owned();
                condition.reason = "NodeStatusUnknown".to_owned();
                condition.message = "Kubelet stopped posting node status.".to_owned();
                condition.last_transition_time = Some(now.truncated_to_secs());
            }
            None => {
                let message = "Kubelet never posted node status.";
                next.push(Condition::new(kind, "Unknown", "NodeStatusNeverUpdated", message, now));
            }
        }
    }
    next
}

/// All taints that the machine should have. Those that stay keep their time: evictions count from it.
fn taints(node: &Node, may_lose: bool, now: Timestamp) -> Vec<Taint> {
    let ready = node.condition("Ready").map(|c| c.status.as_str());
    let mut wanted: Vec<(&str, &str)> = Vec::new();
    match ready {
        // It registered and has not said anything yet: whatever keeps pods away meanwhile stays.
        None => wanted.extend(node.spec.taints.iter().filter(|t| t.key == NOT_READY).map(|t| (NOT_READY, effect(t)))),
        Some("True") => {}
        Some("False") => wanted.extend([(NOT_READY, NO_SCHEDULE), (NOT_READY, NO_EXECUTE)]),
        Some(_) if may_lose => wanted.extend([(UNREACHABLE, NO_SCHEDULE), (UNREACHABLE, NO_EXECUTE)]),
        Some(_) => wanted.push((UNREACHABLE, NO_SCHEDULE)),
    }
    let holds = |kind: &str| node.condition(kind).is_some_and(Condition::is_true);
    wanted.extend(KEEPS_AWAY.iter().filter(|(kind, _)| holds(kind)).map(|(_, key)| (*key, NO_SCHEDULE)));
    if node.spec.unschedulable {
        wanted.push((UNSCHEDULABLE, NO_SCHEDULE));
    }
    let keeps = |t: &&Taint| !is_own(t) || wanted.iter().any(|(key, effect)| t.key == *key && t.effect == *effect);
    let mut next: Vec<Taint> = node.spec.taints.iter().filter(keeps).cloned().collect();
    for (key, effect) in wanted {
        if !next.iter().any(|t| t.key == key && t.effect == effect) {
            next.push(Taint {
                key: key.to_owned(),
                value: None,
                effect: effect.to_owned(),
                time_added: Some(now.truncated_to_secs()),
            });
        }
    }
    next
}

fn effect(taint: &Taint) -> &'static str {
    if taint.effect == NO_EXECUTE { NO_EXECUTE } else { NO_SCHEDULE }
}

fn is_own(taint: &Taint) -> bool {
    let key = taint.key.as_str();
    [NOT_READY, UNREACHABLE, UNSCHEDULABLE].contains(&key) || KEEPS_AWAY.iter().any(|(_, own)| *own == key)
}

/// A pod on a lost machine is not ready, whatever its agent said last.
fn not_ready(pod: &Pod, now: Timestamp) -> Write {
    let meta = &pod.metadata;
    let condition = json!({"type": "Ready", "status": "False", "reason": "NodeNotReady",
        "lastTransitionTime": now.truncated_to_secs()});
    let patch = Patch::Strategic(json!({"metadata": {"uid": meta.uid}, "status": {"conditions": [condition]}}));
    let verb = Verb::Patch { subresource: Some("status"), patch };
    Write::new(&kinds::POD, &meta.namespace, &meta.name, verb)
}
