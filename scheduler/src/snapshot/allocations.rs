//! From which version of a machine's `NodeAllocation` a bind may be decided: only once every pod behind it is counted.

use std::collections::BTreeSet;

use super::Machine;
use crate::bits::Bits;

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

#[derive(Debug, Default)]
pub(super) struct Allocations {
    known: Vec<Allocation>,
    /// The revision of the Node itself.
    node_versions: Vec<u64>,
    pod_revision: u64,
    current: Bits,
    /// Machines whose floor the pod watch has not reached, by floor.
    behind: BTreeSet<(u64, Machine)>,
}

impl Allocations {
    pub fn get(&self, machine: Machine) -> Allocation {
        self.known[machine]
    }

    pub fn pod_revision(&self) -> u64 {
        self.pod_revision
    }

    /// Machines that may be decided on: the decision rests on everything that their version stands for.
    pub fn current(&self) -> &Bits {
        &self.current
    }

    pub fn grow(&mut self) {
        self.known.push(Allocation::default());
        self.node_versions.push(0);
    }

    fn set(&mut self, machine: Machine, allocation: Allocation) {
        self.behind.remove(&(self.known[machine].floor, machine));
        self.known[machine] = allocation;
        let reached = allocation.floor <= self.pod_revision;
        self.current.set(machine, allocation.version > 0 && !allocation.doubted && reached);
        if !reached {
            self.behind.insert((allocation.floor, machine));
        }
    }

    pub fn node(&mut self, machine: Machine, revision: u64) {
        self.node_versions[machine] = revision;
        self.explain_floor(machine);
    }

    /// A version that came with a write of the Node has no pod behind it, so there is no pod to wait for.
    fn explain_floor(&mut self, machine: Machine) {
        let allocation = self.known[machine];
        if allocation.version > 0 && allocation.version == self.node_versions[machine] {
            self.set(machine, Allocation { floor: allocation.before, ..allocation });
        }
    }

    /// A version was read. Returns whether it is news.
    pub fn applied(&mut self, machine: Machine, version: u64, writes: u64) -> bool {
        let known = self.known[machine];
        if version < known.version || (version == known.version && !known.doubted) {
            return false;
        }
        if version == known.version {
            self.set(machine, Allocation { doubted: false, ..known });
            return true;
        }
        // Without a gap, the floor of the version before is enough if this one was written with the Node itself.
        let follows = writes == known.writes + 1 || writes == 0;
        let before = if follows { known.floor } else { version };
        self.set(machine, Allocation { version, writes, floor: version, before, doubted: false });
        self.explain_floor(machine);
        true
    }

    pub fn deleted(&mut self, machine: Machine) {
        self.set(machine, Allocation::default());
    }

    /// A bind from this machine's version was refused: nothing is decided from it until it is read again.
    pub fn doubt(&mut self, machine: Machine) {
        self.set(machine, Allocation { doubted: true, ..self.known[machine] });
    }

    /// A bind of ours made this version: everything before it was seen, and the pods are counted.
    pub fn written(&mut self, machine: Machine, version: u64) {
        let known = self.known[machine];
        if version > known.version {
            let (writes, floor) = (known.writes + 1, known.floor);
            self.set(machine, Allocation { version, writes, floor, before: floor, doubted: false });
        } else if version == known.version {
            // The watch was faster than the answer.
            self.set(machine, Allocation { floor: known.before, ..known });
        }
    }

    /// Everything in the pod watch up to here is counted. Tells the machines that may be decided on now.
    pub fn pods_reached(&mut self, revision: u64) -> Vec<Machine> {
        self.pod_revision = self.pod_revision.max(revision);
        let mut reached = Vec::new();
        while let Some((_, machine)) = self.behind.first().copied().filter(|(floor, _)| *floor <= self.pod_revision) {
            self.set(machine, self.known[machine]);
            reached.push(machine);
        }
        reached
    }
}
