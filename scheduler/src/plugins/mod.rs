//! The rules of placement, one folder each, and the one table that lists them. A rule is prepared once for a class of pods; then
//! it is asked about machines. It reads the snapshot and never changes it.

pub mod claims;
pub mod images;
pub mod machine_state;
pub mod node_affinity;
pub mod pod_affinity;
pub mod ports;
pub mod resources_fit;
pub mod spread;
pub mod taints;
pub mod unschedulable;
pub mod volume_limits;
pub mod volume_use;
pub mod workload_spread;

mod reason;
#[cfg(test)]
pub(crate) mod testing;

use crate::bits::filtered;
use crate::pod::{Band, PodInfo};
use crate::snapshot::{Ask, HolderId, Machine, MatchRule, NodeRule, NodeSetId, Placed, Snapshot, Tier, ViewId};
pub use reason::{Reason, Resource, Trouble, Wake};

/// A filter, prepared for a class of pods.
pub trait Check: std::fmt::Debug + Send + Sync {
    /// Whether the machine would do. Asked for many machines: no allocation, no search.
    fn admits(&self, snapshot: &Snapshot, machine: Machine) -> bool;

    /// Of 64 machines those that would do.
    fn admit_word(&self, snapshot: &Snapshot, word: usize, mask: u64) -> u64 {
        filtered(word, mask, |machine| self.admits(snapshot, machine))
    }

    /// Why the machine would not do if `without` did not run there; nothing when it would.
    fn refuse(&self, snapshot: &Snapshot, machine: Machine, without: &[&Placed], reasons: &mut Vec<Reason>);

    /// Whether what happens on one machine changes the answer about others.
    fn spans_machines(&self) -> bool {
        false
    }

    /// Whether a refusal only says that news is on its way.
    fn is_passing(&self) -> bool {
        false
    }
}

/// How raw scores become 0 to 100.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// They are already.
    AsIs,
    /// The highest is 100, the lowest 0.
    More,
    /// The lowest is 100, the highest 0.
    Fewer,
}

/// A preference, prepared for a class of pods.
pub trait Score: std::fmt::Debug + Send + Sync {
    fn scale(&self) -> Scale;

    /// One raw score a machine, in order. What is the same for all machines is looked up once.
    fn score(&self, snapshot: &Snapshot, machines: &[Machine], scores: &mut Vec<i64>);
}

/// What a class of pods needs kept in the snapshot.
#[derive(Debug, Default)]
pub struct Uses {
    pub sets: Vec<NodeSetId>,
    pub views: Vec<ViewId>,
}

/// What a rule is prepared from.
pub struct Preparing<'a> {
    pub snapshot: &'a mut Snapshot,
    pub info: &'a PodInfo,
    pub ask: &'a Ask,
    pub tier: Tier,
    /// Rules that placed pods carry and that speak of this pod.
    pub carried: &'a [HolderId],
    pub uses: &'a mut Uses,
}

impl Preparing<'_> {
    pub fn set(&mut self, rule: NodeRule) -> NodeSetId {
        let set = self.snapshot.acquire_set(rule);
        self.uses.sets.push(set);
        set
    }

    pub fn view(&mut self, rule: &MatchRule, key: &str, eligible: Option<NodeRule>) -> ViewId {
        let view = self.snapshot.acquire_view(rule, key, eligible);
        self.uses.views.push(view);
        view
    }
}

pub type Checked = Option<Box<dyn Check>>;
pub type Scored = Option<Box<dyn Score>>;

/// One rule. Each part looks at the pod first and answers `None` where it has nothing to say about it.
pub struct Plugin {
    pub name: &'static str,
    pub check: Option<fn(&mut Preparing) -> Checked>,
    pub score: Option<fn(&mut Preparing) -> Scored>,
    /// How much the score counts for a pod of this band.
    pub weight: fn(Band) -> i64,
}

/// In the order in which filters are tried: the cheap and the decisive first.
pub const PLUGINS: &[Plugin] = &[
    Plugin { name: "Claims", check: Some(claims::check), score: None, weight: |_| 0 },
    Plugin { name: "MachineState", check: Some(machine_state::check), score: None, weight: |_| 0 },
    Plugin { name: "Unschedulable", check: Some(unschedulable::check), score: None, weight: |_| 0 },
    Plugin { name: "Taints", check: Some(taints::check), score: Some(taints::score), weight: |_| 3 },
    Plugin {
        name: "NodeAffinity",
        check: Some(node_affinity::check),
        score: Some(node_affinity::score),
        weight: |_| 2,
    },
    Plugin { name: "Ports", check: Some(ports::check), score: None, weight: |_| 0 },
    Plugin { name: "VolumeLimits", check: Some(volume_limits::check), score: None, weight: |_| 0 },
    Plugin { name: "VolumeUse", check: Some(volume_use::check), score: None, weight: |_| 0 },
    Plugin {
        name: "ResourcesFit",
        check: Some(resources_fit::check),
        score: Some(resources_fit::spare),
        weight: |band| i64::from(band == Band::Ordinary),
    },
    Plugin { name: "ZoneReserve", check: Some(resources_fit::keeps), score: None, weight: |_| 0 },
    Plugin {
        name: "Packing",
        check: None,
        score: Some(resources_fit::packed),
        weight: |band| i64::from(band != Band::Ordinary),
    },
    Plugin {
        name: "Balance",
        check: None,
        score: Some(resources_fit::balanced),
        // Packing alone fills machines with one resource and strands the other: at 4 a full cluster holds 12 % more pods than
        // at 1, and 8 adds 1 % (`tests/quality.rs`).
        weight: |band| if band == Band::Ordinary { 1 } else { 4 },
    },
    Plugin { name: "Spread", check: Some(spread::check), score: Some(spread::score), weight: |_| 2 },
    Plugin {
        name: "WorkloadSpread",
        check: None,
        score: Some(workload_spread::score),
        weight: |band| match band {
            Band::Production => 8,
            Band::Ordinary => 2,
            Band::Batch | Band::BestEffort => 0,
        },
    },
    Plugin { name: "PodAffinity", check: Some(pod_affinity::check), score: Some(pod_affinity::score), weight: |_| 2 },
    Plugin { name: "Images", check: None, score: Some(images::score), weight: |_| 1 },
];

/// A check that is a set of machines and nothing else.
#[derive(Debug)]
pub(crate) struct InSet {
    pub set: NodeSetId,
    pub reason: Reason,
}

impl Check for InSet {
    fn admits(&self, snapshot: &Snapshot, machine: Machine) -> bool {
        snapshot.members(self.set).get(machine)
    }

    fn admit_word(&self, snapshot: &Snapshot, word: usize, mask: u64) -> u64 {
        mask & snapshot.members(self.set).word(word)
    }

    fn refuse(&self, snapshot: &Snapshot, machine: Machine, _: &[&Placed], reasons: &mut Vec<Reason>) {
        if !self.admits(snapshot, machine) {
            reasons.push(self.reason.clone());
        }
    }
}
