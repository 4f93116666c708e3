//! A cluster for tests of rules: machines and pods from JSON, and the answers of one rule about all machines.

use std::sync::Arc;

use gantry_apimachinery::meta::ObjectMeta;
use serde_json::{Value, json};

use super::{Checked, Preparing, Reason, Scored, Uses};
use crate::api::{Node, PersistentVolumeClaim, Pod, StorageClass};
use crate::pod::{PodInfo, Spec};
use crate::schedule::scaled;
use crate::snapshot::{Ask, Cause, Snapshot, Tier, Version, Watch};

#[derive(Default)]
pub(crate) struct Cluster {
    pub snapshot: Snapshot,
}

/// A pod's spec that asks for this much CPU.
pub(crate) fn cpu(amount: &str) -> Value {
    json!({"containers": [{"resources": {"requests": {"cpu": amount}}}]})
}

pub(crate) fn owned<T>((name, value): (&str, T)) -> (String, T) {
    (name.to_owned(), value)
}

pub(crate) fn pod(ns: &str, name: &str, owner: &str, app: &str, spec: Value) -> PodInfo {
    let mut pod = Pod { spec: serde_json::from_value(spec).expect("a pod's spec"), ..Pod::default() };
    pod.metadata = ObjectMeta { namespace: ns.into(), name: name.into(), uid: name.into(), ..ObjectMeta::default() };
    if !app.is_empty() {
        pod.metadata.labels.insert("app".into(), app.into());
    }
    changed(PodInfo::read(&pod), |spec| spec.owner = owner.into())
}

/// The pod with another spec.
pub(crate) fn changed(info: PodInfo, change: impl FnOnce(&mut Spec)) -> PodInfo {
    let mut spec = (*info.spec).clone();
    change(&mut spec);
    PodInfo { spec: Arc::new(spec), ..info }
}

impl Cluster {
    /// A registered machine whose watches have caught up.
    pub fn machine(&mut self, name: &str, node: Value) {
        let mut node: Node = serde_json::from_value(node).expect("a node");
        node.metadata.name = name.into();
        self.snapshot.node_applied(&node);
        self.snapshot.allocation_applied(name, Version { revision: 1, cause: Cause::Pods(0), ..Version::default() });
        self.snapshot.reached(Watch::Pods, 1);
        self.snapshot.validate();
    }

    /// A claim of namespace `ns`; one with a volume is bound to it. `meta` is its metadata but for the name.
    pub fn claim(&mut self, name: &str, spec: Value, meta: Value) {
        let phase = if spec.get("volumeName").is_some() { "Bound" } else { "Pending" };
        let claim = json!({"metadata": meta, "spec": spec, "status": {"phase": phase}});
        let mut claim: PersistentVolumeClaim = serde_json::from_value(claim).expect("a claim");
        (claim.metadata.namespace, claim.metadata.name) = ("ns".to_owned(), name.to_owned());
        claim.metadata.uid = name.into();
        self.snapshot.claim_applied(&claim);
    }

    /// One that has no claim is available.
    pub fn volume(&mut self, name: &str, spec: Value, labels: Value) {
        let phase = if spec.get("claimRef").is_some() { "Bound" } else { "Available" };
        let volume = json!({"metadata": {"name": name, "labels": labels}, "spec": spec, "status": {"phase": phase}});
        self.snapshot.volume_applied(&serde_json::from_value(volume).expect("a volume"));
    }

    pub fn storage_class(&mut self, name: &str, class: Value) {
        let mut class: StorageClass = serde_json::from_value(class).expect("a storage class");
        class.metadata.name = name.into();
        self.snapshot.storage_class_applied(&class);
    }

    /// The machine takes so many volumes of the driver.
    pub fn limit(&mut self, machine: &str, driver: &str, count: i64) {
        let spec = json!({"drivers": [{"name": driver, "allocatable": {"count": count}}]});
        let node = json!({"metadata": {"name": machine}, "spec": spec});
        self.snapshot.volume_limits_applied(&serde_json::from_value(node).expect("a CSINode"));
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

    pub fn place(&mut self, info: PodInfo, machine: &str) {
        let info = self.snapshot.adopt(info);
        self.snapshot.pod_bound(info, machine);
        self.snapshot.validate();
    }

    pub fn bound(&mut self, name: &str, machine: &str, spec: Value) {
        self.place(pod("ns", name, "", "", spec), machine);
    }

    pub fn bound_of(&mut self, owner: &str, name: &str, machine: &str) {
        self.place(pod("ns", name, owner, "", json!({})), machine);
    }

    pub fn bound_labelled(&mut self, name: &str, machine: &str, app: &str, spec: Value) {
        self.place(pod("ns", name, "", app, spec), machine);
    }

    pub fn bound_in(&mut self, ns: &str, name: &str, machine: &str, app: &str) {
        self.place(pod(ns, name, "", app, json!({})), machine);
    }

    /// What the closure makes of the pod prepared, as an ordinary one.
    fn prepared<T>(&mut self, info: &PodInfo, prepare: impl FnOnce(&mut Preparing) -> T) -> T {
        let ask = Ask::read(&info.requests, |name| self.snapshot.resource_id(name));
        let info = (*self.snapshot.adopt(info.clone())).clone();
        let carried = self.snapshot.carried_about(&info);
        let tier = Tier::of(self.snapshot.band(&info.class));
        let mut uses = Uses::default();
        let snapshot = &mut self.snapshot;
        prepare(&mut Preparing { snapshot, info: &info, ask: &ask, tier, carried: &carried, uses: &mut uses })
    }

    /// The machines that the rule refuses, each with its first reason.
    pub fn refused(&mut self, rule: fn(&mut Preparing) -> Checked, info: &PodInfo) -> Vec<(String, Reason)> {
        let Some(check) = self.prepared(info, rule) else { return Vec::new() };
        let refused = |machine| {
            let mut reasons = Vec::new();
            check.refuse(&self.snapshot, machine, &[], &mut reasons);
            assert_eq!(reasons.is_empty(), check.admits(&self.snapshot, machine), "both ways to ask agree");
            reasons.into_iter().next().map(|reason| (self.snapshot.name(machine).to_owned(), reason))
        };
        self.snapshot.machines().filter_map(refused).collect()
    }

    /// The rule's scores, scaled; none when it has nothing to say.
    pub fn scores(&mut self, rule: fn(&mut Preparing) -> Scored, info: &PodInfo) -> Vec<(String, i64)> {
        let Some(score) = self.prepared(info, rule) else { return Vec::new() };
        let machines: Vec<usize> = self.snapshot.machines().collect();
        let mut scores = Vec::new();
        score.score(&self.snapshot, &machines, &mut scores);
        scaled(score.scale(), &mut scores);
        machines.iter().map(|m| self.snapshot.name(*m).to_owned()).zip(scores).collect()
    }
}
