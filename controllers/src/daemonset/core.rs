//! Decides which machines get, keep or lose a daemon set's pod, which old pods an update replaces now, and what the status
//! says. Follows Kubernetes' daemon-set controller: a new pod is made once the old one is gone from its machine, unless the
//! update may surge. Never binds a pod.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use gantry_apimachinery::kinds;
use gantry_apimachinery::meta::Object;
use gantry_apimachinery::time::Timestamp;
use gantry_client::{DeleteOptions, EventType, ObjectRef};
use serde_json::{Value, json};

use super::placement::{self, Place};
use super::types::{DaemonSet, DaemonSetStatus, Observed};
use super::update::{self, OnNode};
use crate::objects::{Pod, Toleration, compile};
use crate::owner;
use crate::plan::{Plan, Write};
use crate::revision::{self, HASH_LABEL};
use crate::status;

/// Pods created or deleted in one step.
const BURST: usize = 250;
/// How long a failed pod stays before it is replaced: one that fails at once must not be made in a tight circle.
const FAILED_STAYS: Duration = Duration::from_secs(5);

pub fn reconcile(observed: &Observed, now: Timestamp) -> Plan {
    let set = &*observed.set;
    let mut plan = Plan::default();
    let Some(selector) = compile(&set.spec.selector) else { return plan };
    let kind = &kinds::DAEMON_SET;
    let claim = owner::claim(&set.metadata, kind, &observed.pods, |pod| selector.matches(&pod.metadata.labels));
    plan.push_all(claim.writes);
    if set.metadata.deletion_timestamp.is_some() {
        return plan;
    }
    let old = owner::claim_kind(&set.metadata, kind, &kinds::CONTROLLER_REVISION, &observed.revisions, |revision| {
        selector.matches(&revision.metadata.labels)
    });
    plan.push_all(old.writes);
    let collisions = set.status.collision_count.unwrap_or(0) + i32::from(observed.collided);
    let history = revision::current(&set.metadata, kind, &set.spec.template, collisions, &old.owned);
    history.writes.into_iter().for_each(|write| plan.push(write));
    let spec = set.spec.template.value()["spec"].clone();
    let mut look = Look { set, observed, hash: history.hash, spec, now, plan };
    let nodes = look.nodes(&claim.owned);
    look.manage(&nodes);
    look.write_status(&nodes, collisions);
    let live: BTreeSet<&str> = claim.owned.iter().filter_map(|p| hash_of(p)).chain([look.hash.as_str()]).collect();
    let limit = usize::try_from(set.spec.revision_history_limit.unwrap_or(10)).unwrap_or(0);
    look.plan.push_all(revision::surplus(&old.owned, &live, limit));
    look.plan
}

fn hash_of(pod: &Pod) -> Option<&str> {
    pod.metadata.labels.get(HASH_LABEL).map(String::as_str)
}

struct Look<'a> {
    set: &'a DaemonSet,
    observed: &'a Observed,
    hash: String,
    spec: Value,
    now: Timestamp,
    plan: Plan,
}

impl Look<'_> {
    /// Every machine with what it is to the set and the set's pods on it, oldest first.
    fn nodes(&mut self, pods: &[Arc<Pod>]) -> BTreeMap<String, OnNode> {
        let tolerations: Vec<Toleration> =
            serde_json::from_value(json!(placement::tolerations(&self.spec))).unwrap_or_default();
        let mut nodes: BTreeMap<String, OnNode> = BTreeMap::new();
        for node in &self.observed.nodes {
            let place = placement::place(&self.spec, &tolerations, node);
            nodes.insert(node.name().to_owned(), OnNode { place, ..OnNode::default() });
        }
        let mut sorted: Vec<&Arc<Pod>> = pods.iter().collect();
        sorted.sort_by_key(|pod| (pod.node().is_none(), pod.metadata.creation_timestamp, pod.metadata.uid.clone()));
        for pod in sorted {
            let target = pod.node().or(pod.spec.pinned_to.as_deref());
            let going = pod.is_terminating() || self.observed.deleting.contains(pod.uid().as_str());
            match target.and_then(|name| nodes.get_mut(name)) {
                Some(on) if going => on.going += 1,
                Some(on) if pod.is_finished() => on.finished.push(pod.clone()),
                Some(on) if hash_of(pod) == Some(&self.hash) => on.new.push(pod.clone()),
                Some(on) => on.old.push(pod.clone()),
                // Its machine went before it was bound: it would wait for ever.
                None if pod.node().is_none() && !going => self.plan.push(self.delete(pod)),
                None => {}
            }
        }
        nodes
    }

    fn on(&self) -> ObjectRef {
        owner::reference(&kinds::DAEMON_SET, &self.set.metadata)
    }

    fn manage(&mut self, nodes: &BTreeMap<String, OnNode>) {
        let updates = update::plan(self.set, nodes, self.now);
        let (mut creates, mut deletes) = (updates.surge_on, updates.replace);
        for (name, on) in nodes {
            deletes.extend(on.surplus().cloned());
            for pod in &on.finished {
                self.retire(pod, &mut deletes);
            }
            if on.place.runs && on.is_empty() {
                creates.push(name.clone());
            }
        }
        deletes.truncate(BURST);
        creates.truncate(BURST);
        let creates = creates.iter().map(|node| self.create(node)).collect();
        let deletes = deletes.iter().map(|pod| self.delete(pod)).collect();
        self.plan.push_all(deletes);
        self.plan.push_slow_start(creates);
    }

    /// A finished daemon pod is replaced, a failed one not at once.
    fn retire(&mut self, pod: &Arc<Pod>, deletes: &mut Vec<Arc<Pod>>) {
        let due = pod.finished_at().map_or(self.now, |at| at + FAILED_STAYS);
        if pod.phase() == "Failed" && due > self.now {
            return self.plan.requeue_in(due.since(self.now));
        }
        if pod.phase() == "Failed" {
            let (namespace, name, node) = (pod.namespace(), pod.name(), pod.node().unwrap_or_default());
            let message = format!("Found failed daemon pod {namespace}/{name} on node {node}, will try to kill it");
            let on = self.on();
            self.plan.note(&on, EventType::Warning, "FailedDaemonPod", message);
        }
        deletes.push(pod.clone());
    }

    fn create(&self, node: &str) -> Write {
        let mut pod = owner::pod_from_template(&self.set.spec.template.value(), &self.set.metadata, &kinds::DAEMON_SET);
        pod["metadata"]["labels"][HASH_LABEL] = json!(self.hash);
        pod["spec"] = placement::pinned(&self.spec, node);
        Write::create(&kinds::POD, self.set.namespace(), pod).announced(
            &self.on(),
            Some(("SuccessfulCreate", "Created pod: {name}")),
            Some(("FailedCreate", "Error creating: {error}")),
        )
    }

    fn delete(&self, pod: &Pod) -> Write {
        let options = DeleteOptions::uid(pod.uid().to_string());
        Write::delete(&kinds::POD, pod.namespace(), pod.name(), options).announced(
            &self.on(),
            Some(("SuccessfulDelete", "Deleted pod: {name}")),
            Some(("FailedDelete", "Error deleting: {error}")),
        )
    }

    fn write_status(&mut self, nodes: &BTreeMap<String, OnNode>, collisions: i32) {
        let (set, min_ready_s) = (self.set, self.set.spec.min_ready_seconds);
        let mut status = DaemonSetStatus {
            observed_generation: set.metadata.generation,
            collision_count: (collisions > 0).then_some(collisions),
            conditions: set.status.conditions.clone(),
            ..DaemonSetStatus::default()
        };
        for on in nodes.values() {
            let Place { runs, .. } = on.place;
            let occupied = !on.is_empty();
            status.desired_number_scheduled += i32::from(runs);
            status.current_number_scheduled += i32::from(runs && occupied);
            status.number_misscheduled += i32::from(!runs && occupied);
            if runs {
                let serving = |pods: &[Arc<Pod>], test: &dyn Fn(&Pod) -> bool| pods.iter().any(|p| test(p));
                let ready = |p: &Pod| p.is_ready();
                let available = |p: &Pod| p.is_available(min_ready_s, self.now);
                status.number_ready += i32::from(serving(&on.new, &ready) || serving(&on.old, &ready));
                status.number_available += i32::from(serving(&on.new, &available) || serving(&on.old, &available));
                status.updated_number_scheduled += i32::from(!on.new.is_empty());
            }
        }
        status.number_unavailable = status.desired_number_scheduled - status.number_available;
        if status.number_available < status.number_ready {
            self.plan.requeue_in(Duration::from_secs(1));
        }
        if status != set.status {
            self.plan.status = Some(status::write(&kinds::DAEMON_SET, &set.metadata, &set.status, &status));
        }
    }
}
