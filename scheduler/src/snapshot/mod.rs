//! All machines and what runs on them, as a struct of arrays: what a decision looks at, in one place. An update costs what
//! changed, not what exists. Decides nothing about placement; it only keeps the sums right and says from which allocation
//! version a machine may be decided on.

mod allocations;
mod images;
mod interner;
mod matching;
mod node_sets;
mod owners;
mod placing;
mod pods;
mod ports;
mod room;
mod rules;
mod teams;
mod topology;
#[cfg(test)]
mod validate;
pub(crate) mod volumes;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use crate::api::{Amounts, Node, Taint};
use crate::bits::Bits;
use crate::pod::{Band, HostPort, Importance, PodInfo};
use crate::resources::Resources;
use allocations::Allocations;
pub use allocations::{Allocation, Cause, Version, Watch};
pub use images::Image;
use images::Images;
use interner::Interner;
pub use interner::{Labels, ResourceId};
pub use matching::{Carried, HolderId, MatchRule, View, ViewId};
use matching::{Map, Matching};
use node_sets::{Face, NodeSets};
pub use node_sets::{NodeRule, NodeSetId, tolerates, tolerates_cordon, untolerated};
pub use owners::Owner;
use owners::Owners;
pub use placing::Assumed;
use pods::Pods;
pub use pods::{Placed, PodId, Standing};
use ports::Ports;
pub use room::{Ask, Other, Pair, Room, Tier};
pub use teams::{TeamId, Teams};
use topology::Topology;
pub use topology::{Domain, KeyId};
use volumes::Volumes;

/// A machine's place in the arrays. It may be given to another machine once nothing of the old one is left.
pub type Machine = usize;

pub const ZONE: &str = "topology.kubernetes.io/zone";
/// Acquired first, and for ever.
const ZONE_KEY: KeyId = 0;
/// Names of machines that went, at most.
const MOST_LEFT: usize = 4096;

#[derive(Debug)]
pub struct Snapshot {
    interner: Interner,
    by_name: HashMap<Arc<str>, Machine>,
    unused: Vec<Machine>,
    // By machine.
    names: Vec<Arc<str>>,
    labels: Vec<Labels>,
    taints: Vec<Vec<Arc<Taint>>>,
    live: Bits,
    cordoned: Bits,
    softly_tainted: Bits,
    /// Machines that have a BatchCapacity.
    lending: Bits,
    room: Room,
    images: Images,
    allocations: Allocations,
    /// By resource: the machines that have any of it.
    having: Vec<Bits>,
    topology: Topology,
    sets: NodeSets,
    matching: Matching,
    pods: Pods,
    owners: Owners,
    ports: Ports,
    teams: Teams,
    volumes: Volumes,
    /// Machines on which room is held for somebody.
    held: Bits,
    bands: HashMap<String, Band>,
    /// Machines that went; one that comes back under its name may have pods that were not told of yet.
    left: VecDeque<String>,
    /// How many placed pods are how important.
    priorities: BTreeMap<Importance, u32>,
}

impl Default for Snapshot {
    fn default() -> Self {
        let mut topology = Topology::default();
        let zone = topology.acquire(ZONE, std::iter::empty());
        debug_assert_eq!(zone, ZONE_KEY);
        Snapshot {
            interner: Interner::default(),
            by_name: HashMap::new(),
            unused: Vec::new(),
            left: VecDeque::new(),
            names: Vec::new(),
            labels: Vec::new(),
            taints: Vec::new(),
            live: Bits::default(),
            cordoned: Bits::default(),
            softly_tainted: Bits::default(),
            lending: Bits::default(),
            room: Room::default(),
            images: Images::default(),
            allocations: Allocations::default(),
            having: Vec::new(),
            topology,
            sets: NodeSets::default(),
            matching: Matching::default(),
            pods: Pods::default(),
            owners: Owners::default(),
            ports: Ports::default(),
            teams: Teams::default(),
            volumes: Volumes::default(),
            priorities: BTreeMap::new(),
            held: Bits::default(),
            bands: HashMap::new(),
        }
    }
}

/// Reading.
impl Snapshot {
    /// Slots, the unused ones included: what a walk goes through.
    pub fn slots(&self) -> usize {
        self.names.len()
    }

    pub fn machines(&self) -> impl Iterator<Item = Machine> + '_ {
        self.live.iter()
    }

    pub fn live(&self) -> &Bits {
        &self.live
    }

    /// Machines whose state is known well enough to bind from.
    pub fn current(&self) -> &Bits {
        self.allocations.current()
    }

    pub fn softly_tainted(&self) -> &Bits {
        &self.softly_tainted
    }

    pub fn held(&self) -> &Bits {
        &self.held
    }

    /// Machines that have any of the resource.
    pub fn having(&self, id: ResourceId) -> Option<&Bits> {
        self.having.get(usize::from(id.0))
    }

    pub fn is_live(&self, machine: Machine) -> bool {
        self.live.get(machine)
    }

    pub fn is_cordoned(&self, machine: Machine) -> bool {
        self.cordoned.get(machine)
    }

    pub fn find(&self, name: &str) -> Option<Machine> {
        self.by_name.get(name).copied()
    }

    pub fn name(&self, machine: Machine) -> &str {
        &self.names[machine]
    }

    pub fn labels(&self, machine: Machine) -> &Labels {
        &self.labels[machine]
    }

    pub fn taints(&self, machine: Machine) -> &[Arc<Taint>] {
        &self.taints[machine]
    }

    pub fn room(&self) -> &Room {
        &self.room
    }

    pub fn image(&self, name: &str) -> Option<&Image> {
        self.images.get(name)
    }

    pub fn members(&self, set: NodeSetId) -> &Bits {
        self.sets.members(set)
    }

    pub fn resource_name(&self, id: ResourceId) -> &str {
        self.interner.resource_name(id)
    }

    pub fn key_name(&self, key: KeyId) -> &str {
        self.topology.name(key)
    }

    pub fn domain(&self, key: KeyId, machine: Machine) -> Option<Domain> {
        self.topology.domain(key, machine)
    }

    pub fn zone(&self, machine: Machine) -> Option<Domain> {
        self.topology.domain(ZONE_KEY, machine)
    }

    pub fn owner(&self, owner: &str) -> Option<&Owner> {
        self.owners.get(owner)
    }

    /// Machines on which any host port is taken.
    pub fn ports_taken(&self) -> &Bits {
        self.ports.taken()
    }

    pub fn ports_on(&self, machine: Machine) -> impl Iterator<Item = &HostPort> {
        self.ports.on(machine)
    }

    pub fn teams(&self) -> &Teams {
        &self.teams
    }

    /// The team of a pod in this namespace.
    pub fn team(&mut self, namespace: &str) -> TeamId {
        self.teams.of(namespace)
    }

    /// Time passes for what teams used.
    pub fn sample_teams(&mut self, now_ms: u64) {
        self.teams.sample(now_ms);
    }

    pub fn share(&self, team: TeamId) -> f64 {
        self.teams.share(team, self.room.total())
    }

    /// Of any placed pod.
    pub fn least_importance(&self) -> Option<Importance> {
        self.priorities.first_key_value().map(|(lowest, _)| *lowest)
    }

    pub fn allocation(&self, machine: Machine) -> Allocation {
        self.allocations.get(machine)
    }

    /// Every pod change up to here was told.
    pub fn passed(&self) -> u64 {
        self.allocations.passed()
    }

    /// Priority classes that are known.
    pub fn classes(&self) -> impl Iterator<Item = &str> {
        self.bands.keys().map(String::as_str)
    }

    /// Namespaces that are known.
    pub fn namespaces(&self) -> impl Iterator<Item = &str> {
        self.matching.namespaces()
    }

    /// Machines that have a BatchCapacity.
    pub fn lending(&self) -> impl Iterator<Item = &str> {
        self.lending.iter().map(|m| self.name(m))
    }

    pub fn band(&self, class: &str) -> Band {
        self.bands.get(class).copied().unwrap_or_default()
    }
}

/// Following what the store says of machines.
impl Snapshot {
    pub(super) fn slot(&mut self, name: &str) -> Machine {
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
        self.labels.push(Labels::default());
        self.taints.push(Vec::new());
        self.room.grow();
        self.images.grow();
        self.allocations.grow();
        self.pods.grow();
        self.names.len() - 1
    }

    /// Gives the slot back once nothing is left that speaks of the machine.
    fn release(&mut self, machine: Machine) {
        let known = self.live.get(machine)
            || self.allocations.get(machine).version > 0
            || self.lending.get(machine)
            || !self.pods.is_vacant(machine);
        if !known && self.by_name.remove(&self.names[machine]).is_some() {
            self.names[machine] = "".into();
            self.room.reset(machine);
            self.allocations.reset(machine);
            self.unused.push(machine);
        }
    }

    fn map(&self) -> Map<'_> {
        Map { topology: &self.topology, sets: &self.sets }
    }

    /// Returns whether anything changed that could let a pod in.
    pub fn node_applied(&mut self, node: &Node) -> bool {
        let machine = self.slot(&node.metadata.name);
        let was = self.live.get(machine);
        let labels = self.interner.labels(&node.metadata.labels);
        let taints: Vec<_> = node.spec.taints.iter().map(|t| self.interner.taint(t)).collect();
        let cordoned = node.spec.unschedulable;
        let faced = !was
            || self.labels[machine] != labels
            || self.taints[machine] != taints
            || self.cordoned.get(machine) != cordoned;
        if faced {
            self.face(machine, Some((labels, taints, cordoned)));
        }
        let grew = self.capacity(machine, &node.status.allocatable);
        self.images.set(machine, &node.status.images);
        self.allocations.node(machine, node.metadata.revision());
        faced || grew
    }

    /// Returns whether anything is different.
    fn capacity(&mut self, machine: Machine, allocatable: &Amounts) -> bool {
        let has = Resources::of_machine(allocatable);
        let before = (self.room.has(machine), self.room.free_ephemeral(machine), self.room.free_pods(machine));
        let Snapshot { room, interner, having, .. } = self;
        let mut others = false;
        for bits in having.iter_mut() {
            others |= bits.set(machine, false);
        }
        room.set_capacity(machine, &has, |name| interner.resource(name));
        for (name, amount) in &has.others {
            let id = usize::from(interner.resource(name).0);
            having.resize_with(having.len().max(id + 1), Bits::default);
            others |= having[id].set(machine, *amount > 0);
        }
        others || before != (room.has(machine), room.free_ephemeral(machine), room.free_pods(machine))
    }

    /// The machine looks different, or is gone; what is counted by its labels moves with it.
    fn face(&mut self, machine: Machine, face: Option<(Labels, Vec<Arc<Taint>>, bool)>) {
        let Snapshot { topology, sets, matching, pods, .. } = self;
        matching.machine(Map { topology, sets }, machine, pods.members(machine), false);
        self.recount_owners(machine, -1);
        let (labels, taints, cordoned) = face.clone().unwrap_or_default();
        self.labels[machine] = labels;
        self.softly_tainted.set(machine, taints.iter().any(|t| t.effect == "PreferNoSchedule"));
        self.taints[machine] = taints;
        self.cordoned.set(machine, cordoned);
        self.live.set(machine, face.is_some());
        let Snapshot { topology, sets, matching, pods, names, labels, taints, room, .. } = self;
        let own = face.is_some().then_some(Face {
            name: &names[machine],
            labels: &labels[machine],
            taints: &taints[machine],
            cordoned,
        });
        topology.put(machine, own.as_ref().map(|face| face.labels));
        sets.put(machine, own.as_ref());
        let zone = topology.domain(ZONE_KEY, machine).map_or(0, |zone| zone + 1);
        room.set_zone(machine, zone, own.is_some() && !cordoned);
        matching.machine(Map { topology, sets }, machine, pods.members(machine), true);
        self.recount_owners(machine, 1);
    }

    pub fn node_deleted(&mut self, name: &str) {
        if let Some(machine) = self.find(name).filter(|machine| self.live.get(*machine)) {
            self.face(machine, None);
            self.capacity(machine, &Amounts::new());
            self.images.set(machine, &[]);
            self.allocations.node(machine, 0);
            self.release(machine);
        }
    }

    /// What may be lent of what is reserved on a machine, as of a revision; `None` when nothing is any more. Returns whether
    /// that could let a pod in.
    pub fn lendable_applied(&mut self, name: &str, lendable: Option<&Amounts>, revision: u64) -> bool {
        let machine = self.slot(name);
        self.lending.set(machine, lendable.is_some());
        let read = lendable.map(Resources::of_machine).unwrap_or_default();
        let (now, before) = (Pair { cpu_m: read.cpu_m, memory: read.memory }, self.room.lendable(machine));
        self.room.set_lendable(machine, now);
        self.allocations.capacity(machine, revision);
        self.release(machine);
        now.cpu_m > before.cpu_m || now.memory > before.memory
    }

    /// Returns whether the version is news.
    pub fn allocation_applied(&mut self, name: &str, version: Version) -> bool {
        let machine = self.slot(name);
        let was_here = version.writes == 0 && self.left.iter().any(|left| left == name);
        self.allocations.applied(machine, version, was_here)
    }

    /// A pod of the machine was told of as of a revision. Returns whether the machine may be decided on only now.
    pub fn pod_told(&mut self, machine: Machine, revision: u64) -> bool {
        self.allocations.pod(machine, revision)
    }

    pub fn allocation_deleted(&mut self, name: &str) {
        if let Some(machine) = self.find(name) {
            self.allocations.deleted(machine);
            self.release(machine);
            self.left.retain(|left| left != name);
            self.left.push_back(name.to_owned());
            if self.left.len() > MOST_LEFT {
                self.left.pop_front();
            }
        }
    }

    pub fn doubt_allocation(&mut self, machine: Machine) {
        self.allocations.doubt(machine);
    }

    pub fn allocation_written(&mut self, machine: Machine, version: u64) {
        self.allocations.written(machine, version);
    }

    /// Everything in a watch up to here was told. Tells the machines that may be decided on now.
    pub fn reached(&mut self, watch: Watch, revision: u64) -> Vec<Machine> {
        self.allocations.reached(watch, revision)
    }

    /// The same pod, sharing what it has in common with others.
    pub fn adopt(&mut self, info: PodInfo) -> Arc<PodInfo> {
        Arc::new(self.interner.adopt(info))
    }
}
