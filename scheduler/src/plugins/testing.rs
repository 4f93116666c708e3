//! A cluster for tests of rules: machines and pods from JSON, and the answers of one rule about all machines.

use std::sync::Arc;

use gantry_apimachinery::meta::ObjectMeta;
use serde_json::{Value, json};

use super::{Filter, Reason, Scorer};
use crate::api::{Node, Pod};
use crate::pod::PodInfo;
use crate::schedule::scaled;
use crate::snapshot::Snapshot;

#[derive(Default)]
pub(crate) struct Cluster {
    pub snapshot: Snapshot,
}

/// A pod's spec that asks for this much CPU.
pub(crate) fn cpu(amount: &str) -> Value {
    json!({"containers": [{"resources": {"requests": {"cpu": amount}}}]})
}

pub(crate) fn pod(ns: &str, name: &str, owner: &str, app: &str, spec: Value) -> PodInfo {
    let mut pod = Pod { spec: serde_json::from_value(spec).expect("a pod's spec"), ..Pod::default() };
    pod.metadata = ObjectMeta { namespace: ns.into(), name: name.into(), uid: name.into(), ..ObjectMeta::default() };
    if !app.is_empty() {
        pod.metadata.labels.insert("app".into(), app.into());
    }
    PodInfo { owner: owner.into(), ..PodInfo::read(&pod) }
}

impl Cluster {
    /// A registered machine whose watches have caught up.
    pub fn machine(&mut self, name: &str, node: Value) {
        let mut node: Node = serde_json::from_value(node).expect("a node");
        node.metadata.name = name.into();
        self.snapshot.node_applied(&node);
        self.snapshot.allocation_applied(name, 1, 0);
        self.snapshot.pods_reached(1);
    }

    pub fn pod(&self, name: &str, spec: Value) -> PodInfo {
        pod("ns", name, "", "", spec)
    }

    pub fn pod_of(&self, owner: &str, name: &str) -> PodInfo {
        pod("ns", name, owner, "", json!({}))
    }

    pub fn pod_labelled(&self, name: &str, app: &str, spec: Value) -> PodInfo {
        pod("ns", name, "", app, spec)
    }

    pub fn bound(&mut self, name: &str, machine: &str, spec: Value) {
        self.snapshot.pod_bound(Arc::new(pod("ns", name, "", "", spec)), machine);
    }

    pub fn bound_of(&mut self, owner: &str, name: &str, machine: &str) {
        self.snapshot.pod_bound(Arc::new(pod("ns", name, owner, "", json!({}))), machine);
    }

    pub fn bound_labelled(&mut self, name: &str, machine: &str, app: &str, spec: Value) {
        self.snapshot.pod_bound(Arc::new(pod("ns", name, "", app, spec)), machine);
    }

    pub fn bound_in(&mut self, ns: &str, name: &str, machine: &str, app: &str) {
        self.snapshot.pod_bound(Arc::new(pod(ns, name, "", app, json!({}))), machine);
    }

    /// The machines that the rule refuses, each with its first reason.
    pub fn refused<'a>(
        &'a self,
        rule: fn(&'a Snapshot, &'a PodInfo) -> Option<Filter<'a>>,
        pod: &'a PodInfo,
    ) -> Vec<(&'a str, Reason)> {
        let Some(filter) = rule(&self.snapshot, pod) else { return Vec::new() };
        let refused = |m| filter(m).err().map(|reasons| (self.snapshot.name(m), reasons[0].clone()));
        self.snapshot.machines().filter_map(refused).collect()
    }

    /// The rule's scores, scaled; none when it has nothing to say.
    pub fn scores<'a>(
        &'a self,
        rule: fn(&'a Snapshot, &'a PodInfo) -> Option<Scorer<'a>>,
        pod: &'a PodInfo,
    ) -> Vec<(&'a str, i64)> {
        let Some(scorer) = rule(&self.snapshot, pod) else { return Vec::new() };
        let machines: Vec<usize> = self.snapshot.machines().collect();
        let scores = scaled(&scorer, &machines);
        machines.iter().map(|m| self.snapshot.name(*m)).zip(scores).collect()
    }
}
