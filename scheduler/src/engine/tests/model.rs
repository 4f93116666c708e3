//! Objects for tests, and the bind transaction of the store as a pure model: allocation versions and nothing else.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use super::super::{Bind, BindOutcome};
use crate::api::{Node, NodeAllocation, Pod};
use crate::resources::Resources;
use crate::snapshot::Snapshot;

pub(super) fn node(name: &str, revision: u64, cpu: &str) -> Arc<Node> {
    let node = json!({"metadata": {"name": name, "resourceVersion": revision.to_string()},
        "status": {"allocatable": {"cpu": cpu, "pods": "110"}}});
    Arc::new(serde_json::from_value(node).unwrap())
}

pub(super) fn allocation(name: &str, revision: u64, writes: u64) -> Arc<NodeAllocation> {
    let metadata = json!({"name": name, "resourceVersion": revision.to_string()});
    Arc::new(serde_json::from_value(json!({"metadata": metadata, "writes": writes})).unwrap())
}

pub(super) fn pod(name: &str, cpu: &str, node: &str, extra: Value) -> Arc<Pod> {
    let mut spec = json!({"schedulerName": "default-scheduler", "nodeName": node,
        "containers": [{"resources": {"requests": {"cpu": cpu}}}]});
    spec.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    let pod = json!({"metadata": {"namespace": "ns", "name": name, "uid": name}, "spec": spec});
    Arc::new(serde_json::from_value(pod).unwrap())
}

pub(super) fn with_status(pod: &Pod, status: Value) -> Arc<Pod> {
    Arc::new(Pod { status: serde_json::from_value(status).unwrap(), ..pod.clone() })
}

pub(super) fn deleting(pod: &Pod) -> Arc<Pod> {
    let mut pod = pod.clone();
    pod.metadata.deletion_timestamp = Some(gantry_apimachinery::time::Timestamp::from_secs(1));
    Arc::new(pod)
}

/// CPU taken in thousandths, and pods.
pub(super) fn machine(snapshot: &Snapshot, name: &str) -> (i64, i64) {
    let machine = snapshot.find(name).unwrap();
    (snapshot.room().used(machine).cpu_m, snapshot.room().used_pods(machine))
}

/// What happened at a revision, as the watches tell it.
#[derive(Clone, Debug)]
pub(super) enum Told {
    Pod(Arc<Pod>),
    PodGone(String),
    Node(Arc<Node>),
    Allocation(Arc<NodeAllocation>),
}

/// One revision line; a log from which every watch reads at its own speed.
#[derive(Default)]
pub(super) struct Store {
    pub revision: u64,
    pub log: Vec<(u64, Told)>,
    pub pods: BTreeMap<String, Arc<Pod>>,
    allocations: BTreeMap<String, (u64, u64)>,
    nodes: BTreeMap<String, Arc<Node>>,
}

impl Store {
    pub fn add_node(&mut self, name: &str, cpu: &str) {
        self.revision += 1;
        let node = node(name, self.revision, cpu);
        self.nodes.insert(name.to_owned(), node.clone());
        self.log.push((self.revision, Told::Node(node)));
        self.put_allocation(name, 0);
    }

    fn put_allocation(&mut self, name: &str, writes: u64) {
        self.allocations.insert(name.to_owned(), (self.revision, writes));
        self.log.push((self.revision, Told::Allocation(allocation(name, self.revision, writes))));
    }

    fn bump(&mut self, name: &str) {
        let writes = self.allocations[name].1 + 1;
        self.put_allocation(name, writes);
    }

    pub fn put_pod(&mut self, pod: Arc<Pod>) {
        self.revision += 1;
        self.pods.insert(pod.metadata.name.clone(), pod.clone());
        self.log.push((self.revision, Told::Pod(pod)));
    }

    pub fn delete_pod(&mut self, name: &str) {
        if self.pods.remove(name).is_some() {
            self.revision += 1;
            self.log.push((self.revision, Told::PodGone(name.to_owned())));
        }
    }

    /// Whoever names the machine on create does not ask anybody, but bumps the version.
    pub fn create_bound(&mut self, name: &str, cpu: &str, node: &str) {
        self.put_pod(pod(name, cpu, node, json!({})));
        self.bump(node);
    }

    /// One request. Binds of one machine from one version are one transaction, each on top of the ones before; what cannot
    /// be bound is left out. A gang is one transaction, all or none.
    pub fn bind(&mut self, binds: &[Bind], is_gang: bool) -> Vec<BindOutcome> {
        let why = |store: &Self, bind: &Bind| {
            let Some(pod) = store.pods.get(&*bind.pod.name) else { return Some(BindOutcome::Gone) };
            let bound = (!pod.spec.node_name.is_empty()).then(|| BindOutcome::Conflict("bound".into()));
            let moved = store.allocations[&bind.node].0 != bind.allocation_version;
            bound.or(moved.then(|| BindOutcome::Conflict("moved".into())))
        };
        let refused: Vec<Option<BindOutcome>> = binds.iter().map(|bind| why(self, bind)).collect();
        if is_gang && refused.iter().any(Option::is_some) {
            return binds.iter().map(|_| BindOutcome::Conflict("one of the gang".into())).collect();
        }
        let bound: Vec<&Bind> = binds.iter().zip(&refused).filter(|(_, r)| r.is_none()).map(|(b, _)| b).collect();
        if !bound.is_empty() {
            self.revision += 1;
            let machines: std::collections::BTreeSet<&String> = bound.iter().map(|bind| &bind.node).collect();
            for bind in &bound {
                let mut pod = (*self.pods[&*bind.pod.name]).clone();
                pod.spec.node_name = bind.node.clone();
                self.pods.insert(pod.metadata.name.clone(), Arc::new(pod.clone()));
                self.log.push((self.revision, Told::Pod(Arc::new(pod))));
            }
            machines.into_iter().for_each(|machine| self.bump(machine));
        }
        refused.into_iter().map(|refused| refused.unwrap_or(BindOutcome::Bound(self.revision))).collect()
    }

    pub fn read_allocation(&self, name: &str) -> Arc<NodeAllocation> {
        let (revision, writes) = self.allocations[name];
        allocation(name, revision, writes)
    }

    /// By how much a machine is overcommitted, in thousandths of a CPU.
    pub fn excess_m(&self, name: &str) -> i64 {
        let on = self.pods.values().filter(|pod| pod.spec.node_name == name);
        let taken: i64 = on.map(|pod| Resources::of_pod(pod).cpu_m).sum();
        taken - Resources::read(&self.nodes[name].status.allocatable).cpu_m
    }

    pub fn unbound(&self) -> Vec<Arc<Pod>> {
        self.pods.values().filter(|pod| pod.spec.node_name.is_empty()).cloned().collect()
    }
}
