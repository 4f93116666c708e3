//! Decides which pods a replica set creates, deletes, adopts and lets go, and what its status says. Follows Kubernetes'
//! replica-set controller: at most 500 pods a step, the least valuable deleted first. Never does I/O.

use std::sync::Arc;
use std::time::Duration;

use gantry_apimachinery::kinds;
use gantry_apimachinery::time::Timestamp;
use gantry_client::{DeleteOptions, ObjectRef};
use serde_json::Value;

use super::types::Observed;
use crate::edge::Failure;
use crate::objects::{Condition, Pod, ReplicaSet, ReplicaSetStatus, compile};
use crate::owner;
use crate::plan::{Plan, Write};
use crate::status;

/// Pods created or deleted in one step.
const BURST: usize = 500;

pub fn reconcile(observed: &Observed, now: Timestamp) -> Plan {
    let set = &*observed.set;
    let mut plan = Plan::default();
    let Some(selector) = compile(&set.spec.selector) else { return plan };
    let claim =
        owner::claim(&set.metadata, &kinds::REPLICA_SET, &observed.pods, |pod| selector.matches(&pod.metadata.labels));
    plan.push_all(claim.writes);
    let active: Vec<&Arc<Pod>> = claim.owned.iter().filter(|pod| pod.is_active()).collect();
    let wanted = usize::try_from(set.replicas()).unwrap_or(0);
    if set.metadata.deletion_timestamp.is_none() {
        scale(&mut plan, observed, &active, wanted, now);
    }
    let status = status_of(set, &active, observed.failure.as_ref(), wanted, now);
    if status.available_replicas < status.ready_replicas {
        plan.requeue_in(next_available(&active, set.spec.min_ready_seconds, now));
    }
    if status != set.status {
        plan.status = Some(status::write(&kinds::REPLICA_SET, &set.metadata, &set.status, &status));
    }
    plan
}

fn scale(plan: &mut Plan, observed: &Observed, active: &[&Arc<Pod>], wanted: usize, now: Timestamp) {
    let set = &*observed.set;
    let on = owner::reference(&kinds::REPLICA_SET, &set.metadata);
    if active.len() < wanted {
        let missing = (wanted - active.len()).min(BURST);
        plan.push_slow_start((0..missing).map(|_| create(set, &on)).collect());
    } else if active.len() > wanted {
        let excess = (active.len() - wanted).min(BURST);
        let mut ranked: Vec<(&Pod, usize)> = active
            .iter()
            .map(|pod| (&***pod, pod.node().and_then(|n| observed.siblings.get(n)).copied().unwrap_or(0)))
            .collect();
        ranked.sort_by(|a, b| Pod::deletion_order(*a, *b, now));
        plan.push_all(ranked.iter().take(excess).map(|(pod, _)| delete(pod, &on)).collect());
    }
}

fn create(set: &ReplicaSet, on: &ObjectRef) -> Write {
    let pod = owner::pod_from_template(&set.spec.template.value(), &set.metadata, &kinds::REPLICA_SET);
    Write::create(&kinds::POD, &set.metadata.namespace, pod).announced(
        on,
        Some(("SuccessfulCreate", "Created pod: {name}")),
        Some(("FailedCreate", "Error creating: {error}")),
    )
}

fn delete(pod: &Pod, on: &ObjectRef) -> Write {
    let options = DeleteOptions::uid(pod.metadata.uid.to_string());
    Write::delete(&kinds::POD, &pod.metadata.namespace, &pod.metadata.name, options).announced(
        on,
        Some(("SuccessfulDelete", "Deleted pod: {name}")),
        Some(("FailedDelete", "Error deleting: {error}")),
    )
}

fn status_of(
    set: &ReplicaSet,
    active: &[&Arc<Pod>],
    failure: Option<&Failure>,
    wanted: usize,
    now: Timestamp,
) -> ReplicaSetStatus {
    let template = set.spec.template.value();
    let labels: Vec<(&str, &str)> = template
        .pointer("/metadata/labels")
        .and_then(Value::as_object)
        .map(|map| map.iter().filter_map(|(k, v)| Some((k.as_str(), v.as_str()?))).collect())
        .unwrap_or_default();
    let fully_labeled =
        |pod: &Pod| labels.iter().all(|(k, v)| pod.metadata.labels.get(*k).is_some_and(|have| have == v));
    let count =
        |test: &dyn Fn(&Pod) -> bool| i32::try_from(active.iter().filter(|pod| test(pod)).count()).unwrap_or(i32::MAX);
    let mut status = ReplicaSetStatus {
        replicas: count(&|_| true),
        fully_labeled_replicas: count(&fully_labeled),
        ready_replicas: count(&Pod::is_ready),
        available_replicas: count(&|pod| pod.is_available(set.spec.min_ready_seconds, now)),
        observed_generation: set.metadata.generation.max(set.status.observed_generation),
        conditions: set.status.conditions.clone(),
    };
    match failure {
        None => status.conditions.retain(|c| c.kind != "ReplicaFailure"),
        Some(failure) if !status.conditions.iter().any(|c| c.kind == "ReplicaFailure") => {
            let reason = if active.len() <= wanted { "FailedCreate" } else { "FailedDelete" };
            let condition = Condition::new("ReplicaFailure", "True", reason, &*failure.message, now);
            status.conditions.push(condition);
        }
        Some(_) => {}
    }
    status
}

/// When the next ready pod becomes available by having been ready for long enough.
fn next_available(active: &[&Arc<Pod>], min_ready_s: i32, now: Timestamp) -> Duration {
    let waits = active.iter().filter(|pod| !pod.is_available(min_ready_s, now)).filter_map(|pod| {
        let due = pod.ready_since()?.add_secs(i64::from(min_ready_s));
        Some(due.since(now))
    });
    waits.min().unwrap_or(Duration::from_secs(1)).max(Duration::from_millis(10))
}
