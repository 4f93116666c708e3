//! What the engine hears and what it wants done.

use std::sync::Arc;

use gantry_apimachinery::time::Timestamp;

use crate::api::{
    BatchCapacity, CsiNode, Namespace, Node, NodeAllocation, PersistentVolume, PersistentVolumeClaim, PlacementReview,
    Pod, PodDisruptionBudget, PodGroup, PriorityClass, StorageClass,
};
use crate::explain::report::Report;
use crate::plugins::claims::VolumeWrite;
use crate::pod::{Importance, PodInfo};
use crate::snapshot::Watch;

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
    Budget(Arc<PodDisruptionBudget>),
    /// Namespace and name.
    BudgetGone((String, String)),
    Group(Arc<PodGroup>),
    GroupGone((String, String)),
    Lendable(Arc<BatchCapacity>),
    /// Its last state, as of when it went.
    LendableGone(Arc<BatchCapacity>),
    Review(Arc<PlacementReview>),
    ReviewGone((String, String)),
    /// Changes were lost; this is everything.
    AllNodes(Vec<Arc<Node>>),
    AllAllocations(Vec<Arc<NodeAllocation>>),
    AllPods(Vec<Arc<Pod>>),
    AllClasses(Vec<Arc<PriorityClass>>),
    AllNamespaces(Vec<Arc<Namespace>>),
    AllBudgets(Vec<Arc<PodDisruptionBudget>>),
    AllGroups(Vec<Arc<PodGroup>>),
    AllLendable(Vec<Arc<BatchCapacity>>),
    AllReviews(Vec<Arc<PlacementReview>>),
    /// Of what volumes are made of.
    Storage(Stored),
    /// An allocation that was asked for could not be read.
    AllocationUnread(String),
    /// All changes of a kind up to here were told; of a revision that several objects share, all.
    Reached(Watch, u64),
    /// What became of a bind.
    Bind {
        uid: Arc<str>,
        outcome: BindOutcome,
    },
    /// The explanation was not written.
    ExplainFailed(Arc<str>),
    /// What the pod's volumes need was not written.
    VolumesUnwritten(Arc<str>),
    /// This pod was to end and does not.
    EvictFailed(Arc<str>),
    /// Decide about pods that are ready, at most this many.
    Decide {
        seed: u64,
        most: usize,
    },
}

/// What the engine hears of claims, volumes, storage classes, and of what machines take (CSINode). `All…`: changes were lost.
#[derive(Clone, Debug)]
pub enum Stored {
    Claim(Arc<PersistentVolumeClaim>),
    /// `namespace/name`.
    ClaimGone(String),
    AllClaims(Vec<Arc<PersistentVolumeClaim>>),
    Volume(Arc<PersistentVolume>),
    VolumeGone(String),
    AllVolumes(Vec<Arc<PersistentVolume>>),
    Class(Arc<StorageClass>),
    ClassGone(String),
    AllClasses(Vec<Arc<StorageClass>>),
    Machine(Arc<CsiNode>),
    MachineGone(String),
    AllMachines(Vec<Arc<CsiNode>>),
}

/// How a bind ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BindOutcome {
    /// The transaction's revision: the allocation's new version.
    Bound(u64),
    /// 409: the allocation or the pod is not what it was.
    Conflict(String),
    /// 409: its at-most-one claim is another pod's. Nothing that was decided from is in doubt.
    ClaimHeld(String),
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
    /// In one request, in this order. Without `gang` all are for one machine, each on top of the ones before; with it they are
    /// for many and bind all or not at all.
    Bind { binds: Vec<Bind>, gang: Option<String> },
    /// Write the condition and an Event. `since`: the condition is there already, since then.
    Explain { pod: Arc<PodInfo>, message: Arc<str>, since: Option<Timestamp> },
    /// Tell that the pod has its machine, and after how long.
    Scheduled { pod: Arc<PodInfo>, node: String, waited_ms: u64 },
    /// Read the machine's allocation again and tell it.
    ReadAllocation(String),
    /// End this pod to make room for the other.
    Evict { victim: Victim, preemptor: Arc<PodInfo>, node: String },
    /// Write `status.nominatedNodeName`.
    Nominate { pod: Arc<PodInfo>, node: String },
    /// Write what the pod's volumes need so that they come to be on the machine decided.
    PrepareVolumes { pod: Arc<PodInfo>, writes: Vec<VolumeWrite> },
    /// Write a PodGroup's status; of a gang that was tried for so long in vain, that too.
    Group { namespace: String, name: String, phase: &'static str, scheduled: u32, timed_out_s: Option<u32> },
    /// Write the review's status: what was found, or why there is no answer.
    Answer { review: Arc<PlacementReview>, answer: Result<Box<Report>, String> },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bind {
    pub pod: Arc<PodInfo>,
    pub node: String,
    pub allocation_version: u64,
    /// Who goes first.
    pub importance: Importance,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Victim {
    pub namespace: String,
    pub name: String,
    pub uid: String,
    pub grace_s: i64,
}
