//! The rules of placement, one folder each, and the one table that lists them. A rule reads the snapshot and the pod; it
//! never changes either.

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
pub mod workload_spread;

#[cfg(test)]
pub(crate) mod testing;

use crate::pod::{Band, PodInfo};
use crate::resources::Shortfall;
use crate::snapshot::{Machine, Snapshot};

/// Why one machine does not take one pod.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    Short(Shortfall),
    Unschedulable,
    /// `key=value:effect` of a taint that the pod does not tolerate.
    Taint(String),
    NodeAffinity,
    /// `80/TCP`.
    Port(String),
    Affinity,
    AntiAffinity,
    /// A pod there wants to be apart from this one.
    ExistingAntiAffinity,
    /// The topology key whose skew would grow too large.
    Skew(String),
    /// The machine has no such label.
    NoDomain(String),
    /// The PersistentVolumeClaim that no machine mounts.
    Claim(String),
    /// The machine has no NodeAllocation yet.
    Unregistered,
    /// Changes of this machine are still on their way here.
    CatchingUp,
}

/// What could let a pod in that fits nowhere now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wake(u8);

impl Wake {
    /// A machine is new or has other labels, taints or room.
    pub const MACHINE: Wake = Wake(1);
    /// A pod ended.
    pub const POD_GONE: Wake = Wake(2);
    /// A pod was placed, or has other labels.
    pub const POD_PLACED: Wake = Wake(4);
    /// A watch moved on.
    pub const PROGRESS: Wake = Wake(8);

    pub fn or(self, other: Wake) -> Wake {
        Wake(self.0 | other.0)
    }

    pub fn meets(self, other: Wake) -> bool {
        self.0 & other.0 != 0
    }
}

impl Reason {
    pub fn wake_on(&self) -> Wake {
        match self {
            Reason::Short(_) | Reason::Port(_) | Reason::AntiAffinity | Reason::ExistingAntiAffinity => {
                Wake::MACHINE.or(Wake::POD_GONE)
            }
            Reason::Unschedulable
            | Reason::Taint(_)
            | Reason::NodeAffinity
            | Reason::NoDomain(_)
            | Reason::Claim(_) => Wake::MACHINE,
            Reason::Affinity => Wake::MACHINE.or(Wake::POD_PLACED),
            Reason::Skew(_) => Wake::MACHINE.or(Wake::POD_PLACED).or(Wake::POD_GONE),
            Reason::Unregistered | Reason::CatchingUp => Wake::MACHINE.or(Wake::PROGRESS),
        }
    }

    /// Whether ending pods on the machine could help.
    pub fn is_preemptible(&self) -> bool {
        let gone = Wake::POD_GONE;
        self.wake_on().meets(gone)
    }
}

pub type Filter<'a> = Box<dyn Fn(Machine) -> Result<(), Vec<Reason>> + 'a>;

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

pub struct Scorer<'a> {
    pub score: Box<dyn Fn(Machine) -> i64 + 'a>,
    pub scale: Scale,
}

/// One rule. Each part looks at the pod first and answers `None` where it has nothing to say about it.
pub struct Plugin {
    pub name: &'static str,
    pub filter: Option<for<'a> fn(&'a Snapshot, &'a PodInfo) -> Option<Filter<'a>>>,
    pub score: Option<for<'a> fn(&'a Snapshot, &'a PodInfo) -> Option<Scorer<'a>>>,
    /// How much the score counts for a pod of this band.
    pub weight: fn(Band) -> i64,
}

/// In the order in which filters are tried: the cheap and the decisive first.
pub const PLUGINS: &[Plugin] = &[
    Plugin { name: "Claims", filter: Some(claims::filter), score: None, weight: |_| 0 },
    Plugin { name: "MachineState", filter: Some(machine_state::filter), score: None, weight: |_| 0 },
    Plugin { name: "Unschedulable", filter: Some(unschedulable::filter), score: None, weight: |_| 0 },
    Plugin { name: "Taints", filter: Some(taints::filter), score: Some(taints::score), weight: |_| 3 },
    Plugin {
        name: "NodeAffinity",
        filter: Some(node_affinity::filter),
        score: Some(node_affinity::score),
        weight: |_| 2,
    },
    Plugin { name: "Ports", filter: Some(ports::filter), score: None, weight: |_| 0 },
    Plugin {
        name: "ResourcesFit",
        filter: Some(resources_fit::filter),
        score: Some(resources_fit::spare),
        weight: |band| i64::from(band == Band::Ordinary),
    },
    Plugin {
        name: "Packing",
        filter: None,
        score: Some(resources_fit::packed),
        weight: |band| i64::from(band != Band::Ordinary),
    },
    Plugin { name: "Balance", filter: None, score: Some(resources_fit::balanced), weight: |_| 1 },
    Plugin { name: "Spread", filter: Some(spread::filter), score: Some(spread::score), weight: |_| 2 },
    Plugin {
        name: "WorkloadSpread",
        filter: None,
        score: Some(workload_spread::score),
        weight: |band| match band {
            Band::Production => 8,
            Band::Ordinary => 2,
            Band::Batch | Band::BestEffort => 0,
        },
    },
    Plugin { name: "PodAffinity", filter: Some(pod_affinity::filter), score: Some(pod_affinity::score), weight: |_| 2 },
    Plugin { name: "Images", filter: None, score: Some(images::score), weight: |_| 1 },
];
