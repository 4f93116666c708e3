//! The scheduler's state machine: what is known, who waits, what is on its way to the store. Events in, effects out; no
//! clock, no I/O. There is one committer: placements are assumed in the order in which they are decided.
//!
//! Binds to one machine go out one at a time, each from the allocation version that the one before made; binds to different
//! machines go together.

mod binding;
mod deciding;
mod following;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use gantry_apimachinery::meta::Object;

use crate::api::{Namespace, Node, NodeAllocation, Pod, PriorityClass};
use crate::plugins::Wake;
use crate::preempt::Classes;
use crate::queue::Queue;
use crate::snapshot::{Assumed, Machine, Snapshot};

/// What the engine hears.
#[derive(Clone, Debug)]
pub enum Event {
    Node(Arc<Node>),
    NodeGone(String),
    Allocation(Arc<NodeAllocation>),
    AllocationGone(String),
    Pod(Arc<Pod>),
    PodGone(String),
    Class(Arc<PriorityClass>),
    ClassGone(String),
    Namespace(Arc<Namespace>),
    NamespaceGone(String),
    /// Changes were lost; this is everything.
    AllNodes(Vec<Arc<Node>>),
    AllAllocations(Vec<Arc<NodeAllocation>>),
    AllPods(Vec<Arc<Pod>>),
    AllClasses(Vec<Arc<PriorityClass>>),
    AllNamespaces(Vec<Arc<Namespace>>),
    /// An allocation that was asked for could not be read.
    AllocationUnread(String),
    /// All pod changes up to here were told.
    PodsReached(u64),
    /// What became of a bind.
    Bind {
        uid: String,
        outcome: BindOutcome,
    },
    /// The explanation was not written.
    ExplainFailed(String),
    /// Decide about pods that are ready, at most this many.
    Decide {
        seed: u64,
        most: usize,
    },
}

/// How a bind ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BindOutcome {
    /// The transaction's revision: the allocation's new version.
    Bound(u64),
    /// 409: the allocation or the pod is not what it was.
    Conflict(String),
    /// 404.
    Gone,
    /// Any other refusal.
    Refused(String),
    /// No answer: it may have happened.
    Unknown,
}

/// What the engine wants done.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    Bind(Bind),
    /// Write the condition and an Event.
    Explain {
        pod: Arc<Pod>,
        message: String,
    },
    /// Tell that the pod has its machine.
    Scheduled {
        pod: Arc<Pod>,
        node: String,
    },
    /// Read the machine's allocation again and tell it.
    ReadAllocation(String),
    /// End this pod to make room for the other.
    Evict {
        victim: Victim,
        preemptor: Arc<Pod>,
        node: String,
    },
    /// Write `status.nominatedNodeName`.
    Nominate {
        pod: Arc<Pod>,
        node: String,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bind {
    pub namespace: String,
    pub name: String,
    pub uid: String,
    pub node: String,
    pub allocation_version: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Victim {
    pub namespace: String,
    pub name: String,
    pub uid: String,
}

/// A pod that wants a machine from us.
#[derive(Debug)]
struct Pending {
    pod: Arc<Pod>,
    /// The explanation last sent, which the watch may not have brought back yet.
    told: Option<String>,
}

/// Room held for a pod until the pods that make way are gone.
#[derive(Debug)]
struct Nomination {
    hold: Assumed,
    victims: BTreeSet<String>,
}

/// Binds to one machine.
#[derive(Debug, Default)]
struct Lane {
    /// The pod of the bind in flight: the watch may show it bound before the answer comes.
    pod: Option<Arc<Pod>>,
    in_flight: Option<Assumed>,
    /// The version that the bind under way was decided from.
    from: u64,
    /// Decided from the same version, and counting on the bind under way.
    waiting: VecDeque<Assumed>,
}

#[derive(Debug)]
pub struct Engine {
    scheduler_name: String,
    snapshot: Snapshot,
    queue: Queue,
    classes: Classes,
    pending: BTreeMap<String, Pending>,
    lanes: BTreeMap<Machine, Lane>,
    /// Pods whose machine was decided and that are not in the store yet.
    deciding: BTreeMap<String, Machine>,
    /// Pods that would have been refused only because news is on its way.
    stalled: BTreeSet<String>,
    nominated: BTreeMap<String, Nomination>,
}

impl Engine {
    pub fn new(scheduler_name: &str) -> Self {
        Engine {
            scheduler_name: scheduler_name.to_owned(),
            snapshot: Snapshot::default(),
            queue: Queue::default(),
            classes: Classes::default(),
            pending: BTreeMap::new(),
            lanes: BTreeMap::new(),
            deciding: BTreeMap::new(),
            stalled: BTreeSet::new(),
            nominated: BTreeMap::new(),
        }
    }

    /// Takes one event in and says what to do.
    pub fn step(&mut self, now_ms: u64, event: Event) -> Vec<Effect> {
        let mut effects = Vec::new();
        match event {
            Event::Node(node) => self.node(&node, now_ms),
            Event::NodeGone(name) => self.snapshot.node_deleted(&name),
            Event::Allocation(allocation) => self.allocation(&allocation, now_ms, &mut effects),
            Event::AllocationGone(name) => self.snapshot.allocation_deleted(&name),
            Event::Pod(pod) => self.pod(&pod, now_ms),
            Event::PodGone(uid) => self.pod_gone(&uid, now_ms),
            Event::Class(class) => self.class(&class),
            Event::ClassGone(name) => self.classes.remove(&name),
            Event::Namespace(namespace) => self.namespace(&namespace, now_ms),
            Event::NamespaceGone(name) => self.snapshot.namespace_deleted(&name),
            Event::AllNodes(nodes) => self.all_nodes(&nodes, now_ms),
            Event::AllAllocations(all) => self.all_allocations(&all, now_ms, &mut effects),
            Event::AllPods(pods) => self.all_pods(&pods, now_ms),
            Event::AllClasses(all) => all.iter().for_each(|class| self.class(class)),
            Event::AllNamespaces(all) => all.iter().for_each(|namespace| self.namespace(namespace, now_ms)),
            Event::AllocationUnread(node) => effects.push(Effect::ReadAllocation(node)),
            Event::PodsReached(revision) => {
                if self.snapshot.pods_reached(revision) {
                    self.moved_on(now_ms, &mut effects);
                }
            }
            Event::Bind { uid, outcome } => self.bind_ended(&uid, outcome, now_ms, &mut effects),
            Event::ExplainFailed(uid) => {
                if let Some(pending) = self.pending.get_mut(&uid) {
                    pending.told = None;
                }
            }
            Event::Decide { seed, most } => self.decide(seed, most, now_ms, &mut effects),
        }
        effects
    }

    fn class(&mut self, class: &PriorityClass) {
        let label = class.metadata.labels.get("gantry.dev/band");
        self.classes.set(class.name(), label.map(String::as_str));
    }

    fn namespace(&mut self, namespace: &Namespace, now_ms: u64) {
        self.snapshot.namespace_applied(namespace.name(), &namespace.metadata.labels);
        self.queue.wake(Wake::POD_PLACED, now_ms);
    }

    /// Whether `Decide` has something to do now.
    pub fn has_ready(&self) -> bool {
        self.queue.has_ready()
    }

    /// When `Decide` will have something to do without any other event.
    pub fn next_due_ms(&self) -> Option<u64> {
        self.queue.next_due_ms()
    }

    /// Pods without a machine.
    pub fn pending(&self) -> usize {
        self.pending.len()
    }
}

#[cfg(test)]
mod tests;
