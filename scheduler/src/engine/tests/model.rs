//! Objects for tests, and the bind transaction of the store as a pure model: allocation versions and nothing else.

use std::collections::BTreeMap;
use std::sync::Arc;

use gantry_apimachinery::quantity::Quantity;
use serde_json::{Value, json};

use super::super::{Bind, BindOutcome};
use crate::api::{BatchCapacity, Node, NodeAllocation, Pod};
use crate::resources::Resources;
use crate::snapshot::{Cause, Snapshot, Version};

pub(in crate::engine) fn node(name: &str, revision: u64, cpu: &str) -> Arc<Node> {
    let node = json!({"metadata": {"name": name, "resourceVersion": revision.to_string()},
        "status": {"allocatable": {"cpu": cpu, "pods": "110"}}});
    Arc::new(serde_json::from_value(node).unwrap())
}

/// A version that came with so many pods, or with the Node (`None`).
pub(in crate::engine) fn allocation(name: &str, revision: u64, writes: u64, pods: Option<u64>) -> Arc<NodeAllocation> {
    let cause = match pods {
        Some(pods) => Cause::Pods(pods),
        None => Cause::Node,
    };
    written(name, Version { revision, writes, cause, ..Version::default() })
}

fn written(name: &str, version: Version) -> Arc<NodeAllocation> {
    let Version { revision, writes, cause, node_at, capacity_at } = version;
    let metadata = json!({"name": name, "resourceVersion": revision.to_string()});
    let (bound, by) = match cause {
        Cause::Pods(pods) => (pods, ""),
        Cause::Node => (0, "Node"),
        Cause::Capacity => (0, "BatchCapacity"),
    };
    let object = json!({"metadata": metadata, "writes": writes, "bound": bound, "by": by, "nodeAt": node_at,
        "capacityAt": capacity_at});
    Arc::new(serde_json::from_value(object).unwrap())
}

pub(super) fn lendable(name: &str, revision: u64, cpu: u8) -> Arc<BatchCapacity> {
    let metadata = json!({"name": name, "resourceVersion": revision.to_string()});
    let object = json!({"metadata": metadata, "spec": {"lendable": {"cpu": cpu.to_string()}}});
    Arc::new(serde_json::from_value(object).unwrap())
}

pub(in crate::engine) fn pod(name: &str, cpu: &str, node: &str, extra: Value) -> Arc<Pod> {
    let mut spec = json!({"schedulerName": "default-scheduler", "nodeName": node,
        "containers": [{"resources": {"requests": {"cpu": cpu}}}]});
    spec.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    let pod = json!({"metadata": {"namespace": "ns", "name": name, "uid": name}, "spec": spec});
    Arc::new(serde_json::from_value(pod).unwrap())
}

pub(super) fn with_status(pod: &Pod, status: Value) -> Arc<Pod> {
    Arc::new(Pod { status: serde_json::from_value(status).unwrap(), ..pod.clone() })
}

pub(in crate::engine) fn deleting(pod: &Pod) -> Arc<Pod> {
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
    NodeGone(String),
    Allocation(Arc<NodeAllocation>),
    AllocationGone(String),
    Lendable(Arc<BatchCapacity>),
}

/// One revision line; a log from which every watch reads at its own speed.
#[derive(Default)]
pub(super) struct Store {
    pub revision: u64,
    pub log: Vec<(u64, Told)>,
    pub pods: BTreeMap<String, Arc<Pod>>,
    allocations: BTreeMap<String, Version>,
    nodes: BTreeMap<String, Arc<Node>>,
    lendable: BTreeMap<String, Arc<BatchCapacity>>,
}

fn is_batch(pod: &Pod) -> bool {
    pod.spec.priority_class_name == "batch"
}

pub(super) fn cpu_m(pod: &Pod) -> i64 {
    Resources::of_pod(pod).cpu_m
}

impl Store {
    /// The machine has so much now. Less than before bumps its version.
    pub fn set_node(&mut self, name: &str, cpu: &str) {
        let before = self.nodes.get(name).map(|_| self.has_m(name));
        self.revision += 1;
        let node = node(name, self.revision, cpu);
        self.nodes.insert(name.to_owned(), node.clone());
        self.log.push((self.revision, Told::Node(node)));
        match before {
            None => {
                let capacity_at = self.lendable.get(name).map_or(0, |lendable| lendable.metadata.revision());
                self.put_allocation(name, Version { revision: self.revision, capacity_at, ..Version::default() });
            }
            Some(before) if self.has_m(name) < before => self.bump(name, Cause::Node),
            Some(_) => {}
        }
    }

    /// So many CPUs may be lent of it. Less than before bumps its version.
    pub fn set_lendable(&mut self, name: &str, cpu: u8) {
        let before = self.lent_m(name);
        self.revision += 1;
        let lendable = lendable(name, self.revision, cpu);
        self.lendable.insert(name.to_owned(), lendable.clone());
        self.log.push((self.revision, Told::Lendable(lendable)));
        if self.lent_m(name) < before {
            self.bump(name, Cause::Capacity);
        }
    }

    /// The machine goes, with its pods and its NodeAllocation.
    pub fn delete_node(&mut self, name: &str) {
        let on: Vec<String> =
            self.pods.values().filter(|pod| pod.spec.node_name == name).map(|pod| pod.metadata.name.clone()).collect();
        on.iter().for_each(|pod| self.delete_pod(pod));
        if self.nodes.remove(name).is_some() {
            self.revision += 1;
            self.log.push((self.revision, Told::NodeGone(name.to_owned())));
            self.revision += 1;
            self.allocations.remove(name);
            self.log.push((self.revision, Told::AllocationGone(name.to_owned())));
        }
    }

    pub fn has_node(&self, name: &str) -> bool {
        self.nodes.contains_key(name)
    }

    /// The pod's labels are these from now on.
    pub fn relabel(&mut self, name: &str, labels: BTreeMap<String, String>) {
        let mut pod = (*self.pods[name]).clone();
        pod.metadata.labels = labels;
        self.put_pod(&pod);
    }

    fn has_m(&self, name: &str) -> i64 {
        Resources::of_machine(&self.nodes[name].status.allocatable).cpu_m
    }

    fn lent_m(&self, name: &str) -> i64 {
        self.lendable.get(name).map_or(0, |lendable| Resources::read(&lendable.spec.lendable).cpu_m)
    }

    fn put_allocation(&mut self, name: &str, version: Version) {
        self.allocations.insert(name.to_owned(), version);
        self.log.push((self.revision, Told::Allocation(written(name, version))));
    }

    fn bump(&mut self, name: &str, cause: Cause) {
        let Some(known) = self.allocations.get(name).copied() else { return };
        let at = |at: u64, before: Cause| if known.cause == before { known.revision } else { at };
        let next = Version {
            revision: self.revision,
            writes: known.writes + 1,
            cause,
            node_at: at(known.node_at, Cause::Node),
            capacity_at: at(known.capacity_at, Cause::Capacity),
        };
        self.put_allocation(name, next);
    }

    /// The pod as of the current revision.
    fn write(&mut self, mut pod: Pod) {
        pod.metadata.resource_version = self.revision.to_string();
        let pod = Arc::new(pod);
        self.pods.insert(pod.metadata.name.clone(), pod.clone());
        self.log.push((self.revision, Told::Pod(pod)));
    }

    pub fn put_pod(&mut self, pod: &Pod) {
        self.revision += 1;
        self.write(pod.clone());
    }

    pub fn delete_pod(&mut self, name: &str) {
        if self.pods.remove(name).is_some() {
            self.revision += 1;
            self.log.push((self.revision, Told::PodGone(name.to_owned())));
        }
    }

    /// Whoever names the machine on create does not ask anybody, but bumps the version.
    pub fn create_bound(&mut self, name: &str, cpu: &str, node: &str) {
        self.put_pod(&pod(name, cpu, node, json!({})));
        self.bump(node, Cause::Pods(1));
    }

    /// A pod asks for so much now. More than before on a machine bumps its version.
    pub fn resize(&mut self, name: &str, cpu: u8) {
        let mut pod = (*self.pods[name]).clone();
        let before = cpu_m(&pod);
        let asks = pod.spec.containers[0].resources.requests.get_mut("cpu").expect("every pod asks for CPU");
        *asks = Quantity::from_value(i64::from(cpu));
        pod.metadata.generation += 1;
        let (node, after) = (pod.spec.node_name.clone(), cpu_m(&pod));
        self.put_pod(&pod);
        if after > before && !node.is_empty() {
            self.bump(&node, Cause::Pods(1));
        }
    }

    /// One request. Binds of one machine from one version are one transaction, each on top of the ones before; what cannot
    /// be bound is left out. A gang is one transaction, all or none.
    pub fn bind(&mut self, binds: &[Bind], is_gang: bool) -> Vec<BindOutcome> {
        let why = |store: &Self, bind: &Bind| {
            let Some(pod) = store.pods.get(&*bind.pod.name) else { return Some(BindOutcome::Gone) };
            let bound = (!pod.spec.node_name.is_empty()).then(|| BindOutcome::Conflict("bound".into()));
            let changed = pod.metadata.generation != bind.pod.generation;
            let bound = bound.or(changed.then(|| BindOutcome::Conflict("changed".into())));
            let Some(allocation) = store.allocations.get(&bind.node) else { return Some(BindOutcome::Gone) };
            let moved = allocation.revision != bind.allocation_version;
            bound.or(moved.then(|| BindOutcome::Conflict("moved".into())))
        };
        let refused: Vec<Option<BindOutcome>> = binds.iter().map(|bind| why(self, bind)).collect();
        if is_gang && refused.iter().any(Option::is_some) {
            return binds.iter().map(|_| BindOutcome::Conflict("one of the gang".into())).collect();
        }
        let bound: Vec<&Bind> = binds.iter().zip(&refused).filter(|(_, r)| r.is_none()).map(|(b, _)| b).collect();
        if !bound.is_empty() {
            self.revision += 1;
            let mut machines: BTreeMap<&String, u64> = BTreeMap::new();
            for bind in &bound {
                let mut pod = (*self.pods[&*bind.pod.name]).clone();
                pod.spec.node_name.clone_from(&bind.node);
                self.write(pod);
                *machines.entry(&bind.node).or_insert(0) += 1;
            }
            machines.into_iter().for_each(|(machine, pods)| self.bump(machine, Cause::Pods(pods)));
        }
        refused.into_iter().map(|refused| refused.unwrap_or(BindOutcome::Bound(self.revision))).collect()
    }

    pub fn read_allocation(&self, name: &str) -> Option<Arc<NodeAllocation>> {
        Some(written(name, *self.allocations.get(name)?))
    }

    /// What is free for ordinary pods, and for batch, in thousandths of a CPU.
    pub fn free_m(&self, name: &str) -> (i64, i64) {
        let on = || self.pods.values().filter(|pod| pod.spec.node_name == name);
        let all: i64 = on().map(|pod| cpu_m(pod)).sum();
        let reserved: i64 = on().filter(|pod| !is_batch(pod)).map(|pod| cpu_m(pod)).sum();
        let lent = self.has_m(name) + self.lent_m(name) - all;
        (lent.min(self.has_m(name) - reserved), lent)
    }

    /// Whether a pod that waits would fit on the machine, by the rules that keep room.
    pub fn would_fit(&self, pod: &Pod, name: &str) -> bool {
        if !self.has_node(name) {
            return false;
        }
        let (asks, (reserved, lent)) = (cpu_m(pod), self.free_m(name));
        if !is_batch(pod) {
            return asks <= reserved;
        }
        let names = || self.nodes.keys();
        let kept = names().map(|name| self.has_m(name)).sum::<i64>() / 100;
        asks <= lent && names().map(|name| self.free_m(name).1.max(0)).sum::<i64>() - asks >= kept
    }

    pub fn unbound(&self) -> Vec<Arc<Pod>> {
        self.pods.values().filter(|pod| pod.spec.node_name.is_empty()).cloned().collect()
    }
}
