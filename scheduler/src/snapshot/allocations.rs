//! From which version of a machine's `NodeAllocation` a bind may be decided: only once everything behind it is counted.
//!
//! A version says what it came with: so many pods of the machine, or the Node that has less, or the BatchCapacity of which less
//! may be lent. The watches of these tell at their own speeds, so each is asked how far it has come.

use std::collections::BTreeSet;

use super::Machine;
use crate::api::NodeAllocation;
use crate::bits::Bits;

/// What a version came with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Cause {
    /// So many pods, all at this revision.
    Pods(u64),
    #[default]
    Node,
    Capacity,
}

/// A version of a machine's `NodeAllocation` as it was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Version {
    pub revision: u64,
    pub writes: u64,
    pub cause: Cause,
    /// The last version before this one that came with the Node, or with the BatchCapacity.
    pub node_at: u64,
    pub capacity_at: u64,
}

impl Version {
    pub fn read(object: &NodeAllocation) -> Self {
        let cause = match object.by.as_str() {
            "Node" => Cause::Node,
            "BatchCapacity" => Cause::Capacity,
            _ => Cause::Pods(object.bound),
        };
        let (node_at, capacity_at) = (object.node_at, object.capacity_at);
        Version { revision: object.metadata.revision(), writes: object.writes, cause, node_at, capacity_at }
    }
}

/// What is known of a machine's `NodeAllocation`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Allocation {
    /// The version that a bind is made conditional on; 0 while there is none.
    pub version: u64,
    writes: u64,
    cause: Cause,
    /// Everything in the pod watch up to here must be counted, apart from `version` itself.
    pods_floor: u64,
    /// The Node and the BatchCapacity must be known as of these.
    node_floor: u64,
    capacity_floor: u64,
    /// `version` itself is a bind of ours: nothing has to be seen of it.
    is_own: bool,
    /// A bind from `version` was refused, so it is not the current one.
    pub doubted: bool,
}

/// Whose watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Watch {
    Pods,
    Nodes,
    Capacities,
}

/// How far the watches have told of a machine.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    node: u64,
    capacity: u64,
    /// The last revision of any of its pods, and how many were of it.
    pods: u64,
    at_once: u64,
}

#[derive(Debug, Default)]
pub(super) struct Allocations {
    known: Vec<Allocation>,
    seen: Vec<Seen>,
    /// Every pod change up to here was told, and every change of nodes and of what may be lent.
    passed: u64,
    nodes_passed: u64,
    capacities_passed: u64,
    current: Bits,
    /// Machines whose version waits for the pod watch, by how far it must come.
    behind: BTreeSet<(u64, Machine)>,
    /// Machines whose version waits for another watch.
    waiting: BTreeSet<Machine>,
}

impl Allocations {
    pub fn get(&self, machine: Machine) -> Allocation {
        self.known[machine]
    }

    pub fn passed(&self) -> u64 {
        self.passed
    }

    /// Machines that may be decided on: the decision rests on everything that their version stands for.
    pub fn current(&self) -> &Bits {
        &self.current
    }

    pub fn grow(&mut self) {
        self.known.push(Allocation::default());
        self.seen.push(Seen::default());
    }

    /// How far the pod watch must come; 0 when it has.
    fn pods_missing(&self, machine: Machine) -> u64 {
        let (known, seen) = (&self.known[machine], &self.seen[machine]);
        let own = match known.cause {
            Cause::Pods(pods) if !known.is_own => {
                let told = seen.pods > known.version || (seen.pods == known.version && seen.at_once >= pods);
                if told { 0 } else { known.version }
            }
            _ => 0,
        };
        let floor = own.max(known.pods_floor);
        if floor <= self.passed { 0 } else { floor }
    }

    /// Whether the Node and what may be lent of it are known as the version needs them.
    fn is_known(&self, machine: Machine) -> bool {
        let (known, seen) = (&self.known[machine], &self.seen[machine]);
        known.node_floor <= seen.node.max(self.nodes_passed)
            && known.capacity_floor <= seen.capacity.max(self.capacities_passed)
    }

    fn refresh(&mut self, machine: Machine) {
        let (known, is_known) = (&self.known[machine], self.is_known(machine));
        let is_current = known.version > 0 && !known.doubted && is_known && self.pods_missing(machine) == 0;
        self.current.set(machine, is_current);
        if is_known {
            self.waiting.remove(&machine);
        } else {
            self.waiting.insert(machine);
        }
    }

    /// The machine's place is free for another one.
    pub fn reset(&mut self, machine: Machine) {
        self.set(machine, Allocation::default());
        self.seen[machine] = Seen::default();
    }

    fn set(&mut self, machine: Machine, allocation: Allocation) {
        self.unwatch(machine);
        self.known[machine] = allocation;
        self.watch(machine);
    }

    fn unwatch(&mut self, machine: Machine) {
        let missing = self.pods_missing(machine);
        self.behind.remove(&(missing, machine));
    }

    fn watch(&mut self, machine: Machine) {
        let missing = self.pods_missing(machine);
        if missing > 0 {
            self.behind.insert((missing, machine));
        }
        self.refresh(machine);
    }

    /// The Node as of this revision; 0 when it is gone.
    pub fn node(&mut self, machine: Machine, revision: u64) {
        self.seen[machine].node = revision;
        self.refresh(machine);
    }

    /// The BatchCapacity as of this revision.
    pub fn capacity(&mut self, machine: Machine, revision: u64) {
        self.seen[machine].capacity = self.seen[machine].capacity.max(revision);
        self.refresh(machine);
    }

    /// A pod of the machine was told of as of this revision. Returns whether the machine may be decided on only now.
    pub fn pod(&mut self, machine: Machine, revision: u64) -> bool {
        self.unwatch(machine);
        let seen = &mut self.seen[machine];
        if revision > seen.pods {
            (seen.pods, seen.at_once) = (revision, 0);
        }
        seen.at_once += u64::from(revision == seen.pods);
        let was = self.current.get(machine);
        self.watch(machine);
        !was && self.current.get(machine)
    }

    /// A version was read; `was_here`: of a machine that went and came back. Returns whether it is news.
    pub fn applied(&mut self, machine: Machine, read: Version, was_here: bool) -> bool {
        let known = self.known[machine];
        if read.revision < known.version || (read.revision == known.version && !known.doubted) {
            return false;
        }
        if read.revision == known.version {
            self.set(machine, Allocation { doubted: false, ..known });
            return true;
        }
        // Without a gap, everything before is as it was known to be; after one, all pods up to here must be told of.
        let follows = known.version > 0 && read.writes == known.writes + 1;
        let is_first = read.writes == 0 && known.version == 0 && !was_here;
        let own_floor = if matches!(known.cause, Cause::Pods(_)) && !known.is_own { known.version } else { 0 };
        let pods_floor = if is_first {
            0
        } else if follows {
            known.pods_floor.max(own_floor)
        } else {
            read.revision - 1
        };
        let at = |cause| if read.cause == cause { read.revision } else { 0 };
        self.set(
            machine,
            Allocation {
                version: read.revision,
                writes: read.writes,
                cause: read.cause,
                pods_floor,
                node_floor: read.node_at.max(at(Cause::Node)).max(known.node_floor),
                capacity_floor: read.capacity_at.max(at(Cause::Capacity)).max(known.capacity_floor),
                is_own: false,
                doubted: false,
            },
        );
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
            let (writes, cause) = (known.writes + 1, Cause::Pods(0));
            self.set(machine, Allocation { version, writes, cause, is_own: true, doubted: false, ..known });
        } else if version == known.version {
            // The watch was faster than the answer.
            self.set(machine, Allocation { is_own: true, ..known });
        }
    }

    /// Everything in a watch up to here was told. Tells the machines that may be decided on now.
    pub fn reached(&mut self, watch: Watch, revision: u64) -> Vec<Machine> {
        let passed = match watch {
            Watch::Pods => &mut self.passed,
            Watch::Nodes => &mut self.nodes_passed,
            Watch::Capacities => &mut self.capacities_passed,
        };
        *passed = revision.max(*passed);
        let mut moved: Vec<Machine> =
            if watch == Watch::Pods { Vec::new() } else { self.waiting.iter().copied().collect() };
        while let Some((floor, machine)) = self.behind.first().copied().filter(|(floor, _)| *floor <= self.passed) {
            self.behind.remove(&(floor, machine));
            moved.push(machine);
        }
        moved.retain(|machine| {
            self.watch(*machine);
            self.current.get(*machine)
        });
        moved
    }
}
