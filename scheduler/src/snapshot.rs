//! All machines and what runs on them, as a struct of arrays: what a decision looks at, in one place. Decides nothing about
//! placement; it only keeps the sums right and says from which allocation version a machine may be decided on.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::api::{Node, Taint};
use crate::pod::PodInfo;
use crate::resources::Resources;

/// A machine's place in the arrays. It may be given to another machine once nothing of the old one is left.
pub type Machine = usize;

/// Labels as sorted pairs of shared strings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Labels(Vec<(Arc<str>, Arc<str>)>);

impl Labels {
    pub fn get(&self, key: &str) -> Option<&str> {
        self.0.binary_search_by(|(k, _)| k.as_ref().cmp(key)).ok().map(|at| self.0[at].1.as_ref())
    }
}

/// Every distinct text and taint once.
#[derive(Debug, Default)]
struct Interner {
    texts: BTreeSet<Arc<str>>,
    taints: BTreeSet<Arc<Taint>>,
}

impl Interner {
    fn text(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.texts.get(text) {
            return known.clone();
        }
        let new: Arc<str> = text.into();
        self.texts.insert(new.clone());
        new
    }

    fn taint(&mut self, taint: &Taint) -> Arc<Taint> {
        if let Some(known) = self.taints.get(taint) {
            return known.clone();
        }
        let new = Arc::new(taint.clone());
        self.taints.insert(new.clone());
        new
    }
}

/// What is known of a machine's `NodeAllocation`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Allocation {
    /// The version that a bind is made conditional on; 0 while there is none.
    pub version: u64,
    pub writes: u64,
    /// The pod watch must have reached this before anything is decided from `version`.
    pub floor: u64,
    /// What `floor` was before `version` came.
    before: u64,
    /// A bind from `version` was refused, so it is not the current one.
    pub doubted: bool,
}

#[derive(Clone, Debug)]
pub struct Placed {
    pub machine: Machine,
    pub info: Arc<PodInfo>,
    /// Decided here and not yet known to be in the store.
    pub assumed: bool,
}

/// A placement that was counted before it is in the store.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "an assumed placement is confirmed or forgotten"]
pub struct Assumed {
    uid: String,
    machine: Machine,
}

impl Assumed {
    pub fn uid(&self) -> &str {
        &self.uid
    }

    pub fn machine(&self) -> Machine {
        self.machine
    }
}

#[derive(Debug, Default)]
pub struct Snapshot {
    interner: Interner,
    by_name: BTreeMap<Arc<str>, Machine>,
    unused: Vec<Machine>,
    // The arrays, all of one length.
    names: Vec<Arc<str>>,
    live: Vec<bool>,
    node_versions: Vec<u64>,
    allocatable: Vec<Resources>,
    requested: Vec<Resources>,
    labels: Vec<Labels>,
    taints: Vec<Vec<Arc<Taint>>>,
    unschedulable: Vec<bool>,
    images: Vec<BTreeMap<Arc<str>, i64>>,
    allocations: Vec<Allocation>,
    pods: Vec<BTreeSet<String>>,
    // What runs, by uid.
    placed: BTreeMap<String, Placed>,
    with_anti_affinity: BTreeSet<String>,
    by_owner: BTreeMap<String, BTreeSet<String>>,
    namespaces: BTreeMap<String, BTreeMap<String, String>>,
    pod_revision: u64,
}

/// Reading.
impl Snapshot {
    /// Slots, the unused ones included: what a walk goes through.
    pub fn slots(&self) -> usize {
        self.names.len()
    }

    pub fn machines(&self) -> impl Iterator<Item = Machine> {
        (0..self.slots()).filter(|m| self.live[*m])
    }

    pub fn is_live(&self, machine: Machine) -> bool {
        self.live[machine]
    }

    pub fn find(&self, name: &str) -> Option<Machine> {
        self.by_name.get(name).copied()
    }

    pub fn name(&self, machine: Machine) -> &str {
        &self.names[machine]
    }

    pub fn allocatable(&self, machine: Machine) -> &Resources {
        &self.allocatable[machine]
    }

    pub fn requested(&self, machine: Machine) -> &Resources {
        &self.requested[machine]
    }

    pub fn labels(&self, machine: Machine) -> &Labels {
        &self.labels[machine]
    }

    pub fn taints(&self, machine: Machine) -> &[Arc<Taint>] {
        &self.taints[machine]
    }

    pub fn is_unschedulable(&self, machine: Machine) -> bool {
        self.unschedulable[machine]
    }

    /// Bytes of the image on the machine; 0 when it is not there.
    pub fn image_bytes(&self, machine: Machine, image: &str) -> i64 {
        self.images[machine].get(image).copied().unwrap_or(0)
    }

    pub fn allocation(&self, machine: Machine) -> Allocation {
        self.allocations[machine]
    }

    /// Whether a decision about this machine rests on everything that its allocation's version stands for.
    pub fn is_current(&self, machine: Machine) -> bool {
        let allocation = &self.allocations[machine];
        allocation.version > 0 && !allocation.doubted && allocation.floor <= self.pod_revision
    }

    pub fn pods_on(&self, machine: Machine) -> impl Iterator<Item = &Placed> {
        self.pods[machine].iter().filter_map(|uid| self.placed.get(uid))
    }

    pub fn placed(&self) -> impl Iterator<Item = &Placed> {
        self.placed.values()
    }

    pub fn placement(&self, uid: &str) -> Option<&Placed> {
        self.placed.get(uid)
    }

    pub fn with_anti_affinity(&self) -> impl Iterator<Item = &Placed> {
        self.with_anti_affinity.iter().filter_map(|uid| self.placed.get(uid))
    }

    pub fn of_owner(&self, owner: &str) -> impl Iterator<Item = &Placed> {
        self.by_owner.get(owner).into_iter().flatten().filter_map(|uid| self.placed.get(uid))
    }

    pub fn namespace_labels(&self, namespace: &str) -> Option<&BTreeMap<String, String>> {
        self.namespaces.get(namespace)
    }

    pub fn pod_revision(&self) -> u64 {
        self.pod_revision
    }
}

/// Following what the store says.
impl Snapshot {
    pub fn intern_labels(&mut self, labels: &BTreeMap<String, String>) -> Labels {
        Labels(labels.iter().map(|(k, v)| (self.interner.text(k), self.interner.text(v))).collect())
    }

    fn slot(&mut self, name: &str) -> Machine {
        if let Some(machine) = self.find(name) {
            return machine;
        }
        let name: Arc<str> = name.into();
        let machine = self.unused.pop().unwrap_or_else(|| self.grow());
        self.names[machine] = name.clone();
        self.by_name.insert(name, machine);
        machine
    }

    fn grow(&mut self) -> Machine {
        self.names.push("".into());
        self.live.push(false);
        self.node_versions.push(0);
        self.allocatable.push(Resources::default());
        self.requested.push(Resources::default());
        self.labels.push(Labels::default());
        self.taints.push(Vec::new());
        self.unschedulable.push(false);
        self.images.push(BTreeMap::new());
        self.allocations.push(Allocation::default());
        self.pods.push(BTreeSet::new());
        self.names.len() - 1
    }

    /// Gives the slot back once nothing is left that speaks of the machine.
    fn release(&mut self, machine: Machine) {
        let known = self.live[machine] || self.allocations[machine].version > 0 || !self.pods[machine].is_empty();
        if !known && self.by_name.remove(&self.names[machine]).is_some() {
            self.names[machine] = "".into();
            self.requested[machine] = Resources::default();
            self.unused.push(machine);
        }
    }

    /// Returns whether anything changed that could let a pod in.
    pub fn node_applied(&mut self, node: &Node) -> bool {
        let machine = self.slot(&node.metadata.name);
        let was = self.live[machine];
        let labels = self.intern_labels(&node.metadata.labels);
        let taints: Vec<_> = node.spec.taints.iter().map(|t| self.interner.taint(t)).collect();
        let allocatable = Resources::read(&node.status.allocatable);
        let changed = !was
            || self.labels[machine] != labels
            || self.taints[machine] != taints
            || self.allocatable[machine] != allocatable
            || self.unschedulable[machine] != node.spec.unschedulable;
        self.live[machine] = true;
        self.labels[machine] = labels;
        self.taints[machine] = taints;
        self.allocatable[machine] = allocatable;
        self.unschedulable[machine] = node.spec.unschedulable;
        self.images[machine] = node
            .status
            .images
            .iter()
            .flat_map(|image| image.names.iter().map(move |name| (name, image.size_bytes)))
            .map(|(name, bytes)| (self.interner.text(name), bytes))
            .collect();
        self.node_versions[machine] = node.metadata.revision();
        self.explain_floor(machine);
        changed
    }

    pub fn node_deleted(&mut self, name: &str) {
        if let Some(machine) = self.find(name) {
            self.live[machine] = false;
            self.node_versions[machine] = 0;
            self.release(machine);
        }
    }

    /// A version of a machine's allocation was read. Returns whether it is news.
    pub fn allocation_applied(&mut self, name: &str, version: u64, writes: u64) -> bool {
        let machine = self.slot(name);
        let known = self.allocations[machine];
        if version < known.version || (version == known.version && !known.doubted) {
            return false;
        }
        if version == known.version {
            self.allocations[machine].doubted = false;
            return true;
        }
        // Without a gap, the floor of the version before is enough if this one was written with the Node itself.
        let follows = writes == known.writes + 1 || writes == 0;
        let before = if follows { known.floor } else { version };
        self.allocations[machine] = Allocation { version, writes, floor: version, before, doubted: false };
        self.explain_floor(machine);
        true
    }

    /// A version that came with a write of the Node has no pod behind it, so there is no pod to wait for.
    fn explain_floor(&mut self, machine: Machine) {
        let allocation = &mut self.allocations[machine];
        if allocation.version > 0 && allocation.version == self.node_versions[machine] {
            allocation.floor = allocation.before;
        }
    }

    pub fn allocation_deleted(&mut self, name: &str) {
        if let Some(machine) = self.find(name) {
            self.allocations[machine] = Allocation::default();
            self.release(machine);
        }
    }

    /// A bind from this machine's version was refused: nothing is decided from it until it is read again.
    pub fn doubt_allocation(&mut self, machine: Machine) {
        self.allocations[machine].doubted = true;
    }

    /// A bind of ours made this version: everything before it was seen, and the pod is counted.
    pub fn allocation_written(&mut self, machine: Machine, version: u64) {
        let known = self.allocations[machine];
        if version > known.version {
            self.allocations[machine] = Allocation {
                version,
                writes: known.writes + 1,
                floor: known.floor,
                before: known.floor,
                doubted: false,
            };
        } else if version == known.version {
            // The watch was faster than the answer.
            self.allocations[machine].floor = self.allocations[machine].before;
        }
    }

    /// Everything in the pod watch up to here is counted.
    pub fn pods_reached(&mut self, revision: u64) -> bool {
        let news = revision > self.pod_revision;
        self.pod_revision = self.pod_revision.max(revision);
        news
    }

    pub fn namespace_applied(&mut self, name: &str, labels: &BTreeMap<String, String>) {
        self.namespaces.insert(name.to_owned(), labels.clone());
    }

    pub fn namespace_deleted(&mut self, name: &str) {
        self.namespaces.remove(name);
    }

    /// The store says that this pod is on this machine.
    pub fn pod_bound(&mut self, info: Arc<PodInfo>, node: &str) {
        let machine = self.slot(node);
        self.place(info, machine, false);
    }

    /// The pod is gone or has ended. Returns whether it took room.
    pub fn pod_gone(&mut self, uid: &str) -> bool {
        let Some(placed) = self.placed.remove(uid) else { return false };
        self.pods[placed.machine].remove(uid);
        self.requested[placed.machine].subtract(&placed.info.requests);
        self.with_anti_affinity.remove(uid);
        if let Some(peers) = self.by_owner.get_mut(&placed.info.owner) {
            peers.remove(uid);
            if peers.is_empty() {
                self.by_owner.remove(&placed.info.owner);
            }
        }
        self.release(placed.machine);
        true
    }

    fn place(&mut self, info: Arc<PodInfo>, machine: Machine, assumed: bool) {
        // Its machine's slot must survive the moment between.
        self.pods[machine].insert(info.uid.clone());
        if self.placed.get(&info.uid).is_some_and(|p| p.machine == machine) {
            let old = &self.placed[&info.uid].info;
            self.requested[machine].subtract(&old.requests.clone());
        } else {
            self.pod_gone(&info.uid);
            self.pods[machine].insert(info.uid.clone());
        }
        self.requested[machine].add(&info.requests);
        if info.anti_affinity.is_empty() {
            self.with_anti_affinity.remove(&info.uid);
        } else {
            self.with_anti_affinity.insert(info.uid.clone());
        }
        if !info.owner.is_empty() {
            self.by_owner.entry(info.owner.clone()).or_default().insert(info.uid.clone());
        }
        self.placed.insert(info.uid.clone(), Placed { machine, info, assumed });
    }
}

/// Deciding ahead of the store.
impl Snapshot {
    /// Counts the pod on the machine before it is in the store.
    pub fn assume(&mut self, info: Arc<PodInfo>, machine: Machine) -> Assumed {
        let uid = info.uid.clone();
        self.place(info, machine, true);
        Assumed { uid, machine }
    }

    /// It is in the store.
    pub fn confirm(&mut self, assumed: Assumed) {
        if let Some(placed) = self.placed.get_mut(&assumed.uid) {
            placed.assumed = false;
        }
    }

    /// It did not get into the store. What the watch has said meanwhile stays.
    pub fn forget(&mut self, assumed: Assumed) {
        if self.placed.get(&assumed.uid).is_some_and(|p| p.assumed) {
            self.pod_gone(&assumed.uid);
        }
    }

    /// What always holds, for tests.
    #[cfg(test)]
    pub fn validate(&self) {
        let mut sums = vec![Resources::default(); self.slots()];
        for (uid, placed) in &self.placed {
            assert!(self.pods[placed.machine].contains(uid), "{uid} is on its machine");
            assert_eq!(self.by_name.get(&self.names[placed.machine]), Some(&placed.machine));
            sums[placed.machine].add(&placed.info.requests);
        }
        for (machine, sum) in sums.iter().enumerate() {
            let zero = |r: &Resources| Resources { others: BTreeMap::new(), ..r.clone() };
            assert_eq!(zero(&self.requested[machine]), zero(sum), "machine {machine}");
            assert!(self.requested[machine].others.iter().all(|(k, v)| sum.others.get(k).copied().unwrap_or(0) == *v));
        }
        assert_eq!(self.pods.iter().map(BTreeSet::len).sum::<usize>(), self.placed.len());
    }
}
