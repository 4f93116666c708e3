//! Why a machine does not take a pod, and what could change that.

use std::sync::Arc;

use crate::api::Taint;
use crate::snapshot::{ResourceId, Snapshot};

/// What a machine can be short of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Resource {
    /// In thousandths.
    Cpu,
    Memory,
    Ephemeral,
    Pods,
    Other(ResourceId),
}

impl Resource {
    pub fn name(self, snapshot: &Snapshot) -> &str {
        match self {
            Resource::Cpu => "cpu",
            Resource::Memory => "memory",
            Resource::Ephemeral => "ephemeral-storage",
            Resource::Pods => "pods",
            Resource::Other(id) => snapshot.resource_name(id),
        }
    }
}

/// Why a claim can be mounted nowhere yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Trouble {
    Missing,
    /// Of an ephemeral volume: there is a claim of that name, but it is not the pod's.
    Foreign,
    Deleting,
    Lost,
    /// Whoever binds claims at once has not done it yet.
    Unbound,
    /// The volume that it is bound to is not known.
    NoVolume,
}

/// Why one machine does not take one pod.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    Short {
        resource: Resource,
        wants: i64,
        free: i64,
    },
    /// What is free there is kept for a pod that waits for it.
    Held,
    /// The zone's last free part is kept from batch.
    Kept(Resource),
    Unschedulable,
    /// A taint that the pod does not tolerate.
    Taint(Arc<Taint>),
    NodeAffinity,
    /// `80/TCP`.
    Port(Arc<str>),
    Affinity,
    AntiAffinity,
    /// A pod there wants to be apart from this one.
    ExistingAntiAffinity,
    /// The topology key whose skew would grow too large.
    Skew(Arc<str>),
    /// The machine has no such label.
    NoDomain(Arc<str>),
    /// The PersistentVolumeClaim that no machine can mount yet, and why.
    Claim(Arc<str>, Trouble),
    /// The claim whose volume's node affinity leaves the machine out.
    VolumeAffinity(Arc<str>),
    /// The claim whose volume is in another zone or region.
    VolumeZone(Arc<str>),
    /// The claim for which there is no volume there, nor can one be made.
    NoVolume(Arc<str>),
    /// The claim whose volume is being made on another machine, and that machine.
    Elsewhere(Arc<str>, Arc<str>),
    /// All is decided but for the volume that is being made on this machine.
    Provisioning(Arc<str>),
    /// The ReadWriteOncePod claim that another pod uses.
    ClaimInUse(Arc<str>),
    /// The driver of which the machine takes no more volumes.
    VolumeLimit(Arc<str>),
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
    /// A pod ended, or room that was counted on is free.
    pub const POD_GONE: Wake = Wake(2);
    /// A pod was placed, or has other labels.
    pub const POD_PLACED: Wake = Wake(4);
    /// A watch moved on.
    pub const PROGRESS: Wake = Wake(8);
    /// A claim, a volume or a storage class is another one.
    pub const VOLUME: Wake = Wake(16);

    pub const ALL: [Wake; 5] = [Wake::MACHINE, Wake::POD_GONE, Wake::POD_PLACED, Wake::PROGRESS, Wake::VOLUME];

    pub fn or(self, other: Wake) -> Wake {
        Wake(self.0 | other.0)
    }

    pub fn meets(self, other: Wake) -> bool {
        self.0 & other.0 != 0
    }

    pub fn is_nothing(self) -> bool {
        self.0 == 0
    }
}

impl Reason {
    pub fn wake_on(&self) -> Wake {
        match self {
            Reason::Short { .. }
            | Reason::Held
            | Reason::Kept(_)
            | Reason::Port(_)
            | Reason::AntiAffinity
            | Reason::ExistingAntiAffinity
            | Reason::ClaimInUse(_)
            | Reason::VolumeLimit(_) => Wake::MACHINE.or(Wake::POD_GONE),
            Reason::Unschedulable | Reason::Taint(_) | Reason::NodeAffinity | Reason::NoDomain(_) => Wake::MACHINE,
            Reason::Claim(..) | Reason::Provisioning(_) => Wake::VOLUME,
            Reason::VolumeAffinity(_) | Reason::VolumeZone(_) | Reason::NoVolume(_) | Reason::Elsewhere(..) => {
                Wake::MACHINE.or(Wake::VOLUME)
            }
            Reason::Affinity => Wake::MACHINE.or(Wake::POD_PLACED),
            Reason::Skew(_) => Wake::MACHINE.or(Wake::POD_PLACED).or(Wake::POD_GONE),
            Reason::Unregistered | Reason::CatchingUp => Wake::MACHINE.or(Wake::PROGRESS),
        }
    }

    /// Whether ending pods on the machine could help.
    pub fn is_preemptible(&self) -> bool {
        self.wake_on().meets(Wake::POD_GONE)
    }

    /// Whether what happens on another machine could change it.
    pub fn spans_machines(&self) -> bool {
        matches!(
            self,
            Reason::Kept(_)
                | Reason::Affinity
                | Reason::AntiAffinity
                | Reason::ExistingAntiAffinity
                | Reason::Skew(_)
                | Reason::CatchingUp
                | Reason::ClaimInUse(_)
                | Reason::Unregistered
        )
    }

    /// The reason without its amounts: what is counted together.
    pub fn headline(self) -> Reason {
        match self {
            Reason::Short { resource, .. } => Reason::Short { resource, wants: 0, free: 0 },
            other => other,
        }
    }
}
