//! What machines have, what is taken and what is free, as one array an amount; and the same summed over zones.
//!
//! There are two figures of free room. **Reserved** is for production and ordinary pods: their requests together stay within
//! what is allocatable, and everybody's within that and what may be lent. **Lent** is for batch and best effort: only the second.

use super::{Machine, ResourceId};
use crate::pod::Band;
use crate::resources::Resources;

/// A pod without a request uses something nevertheless; scores assume this much, as Kubernetes does.
const UNASKED_CPU_M: i64 = 100;
const UNASKED_MEMORY: i64 = 200 << 20;
/// This part of each zone is kept from batch, so that most production pods that arrive need nobody evicted.
const KEPT_PART: i64 = 100;

/// CPU in thousandths and memory in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pair {
    pub cpu_m: i64,
    pub memory: i64,
}

impl Pair {
    pub(super) fn plus(self, other: Pair, sign: i64) -> Pair {
        Pair { cpu_m: self.cpu_m + sign * other.cpu_m, memory: self.memory + sign * other.memory }
    }
}

/// What a pod takes, with its extended resources numbered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ask {
    pub main: Pair,
    pub ephemeral: i64,
    pub pods: i64,
    pub others: Vec<(ResourceId, i64)>,
}

impl Ask {
    pub fn read(requests: &Resources, mut id: impl FnMut(&str) -> ResourceId) -> Self {
        Ask {
            main: Pair { cpu_m: requests.cpu_m, memory: requests.memory },
            ephemeral: requests.ephemeral,
            pods: requests.pods,
            others: requests.others.iter().filter(|(_, n)| **n > 0).map(|(name, n)| (id(name), *n)).collect(),
        }
    }

    /// What scores count for it.
    pub fn scored(&self) -> Pair {
        let or = |asked: i64, unasked: i64| if asked > 0 { asked } else { unasked };
        Pair { cpu_m: or(self.main.cpu_m, UNASKED_CPU_M), memory: or(self.main.memory, UNASKED_MEMORY) }
    }
}

/// An extended resource on a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Other {
    pub id: ResourceId,
    pub has: i64,
    pub used: i64,
}

/// Which figure counts for a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tier {
    Reserved,
    Lent,
}

impl Tier {
    pub fn of(band: Band) -> Tier {
        if band.is_reserved() { Tier::Reserved } else { Tier::Lent }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Zone {
    has: Pair,
    free: Pair,
}

/// All arrays are of one length; by machine.
#[derive(Debug, Default)]
pub struct Room {
    has: Vec<Pair>,
    has_ephemeral: Vec<i64>,
    has_pods: Vec<i64>,
    lendable: Vec<Pair>,
    used: Vec<Pair>,
    used_ephemeral: Vec<i64>,
    used_pods: Vec<i64>,
    /// By production and ordinary pods.
    reserved: Vec<Pair>,
    scored: Vec<Pair>,
    others: Vec<Vec<Other>>,
    /// Derived from the others.
    free_reserved: Vec<Pair>,
    free_lent: Vec<Pair>,
    /// One over what the machine has, and over that with what may be lent.
    inverse: Vec<[f32; 2]>,
    inverse_lent: Vec<[f32; 2]>,
    zone: Vec<u32>,
    in_zone: Vec<bool>,
    zones: Vec<Zone>,
    /// Of all machines together.
    total: Pair,
}

/// Reading.
impl Room {
    pub fn has(&self, machine: Machine) -> Pair {
        self.has[machine]
    }

    /// Whether the machine would do if it were empty.
    pub fn is_large_enough(&self, ask: &Ask, machine: Machine) -> bool {
        let has = self.has[machine];
        ask.main.cpu_m <= has.cpu_m
            && ask.main.memory <= has.memory
            && ask.ephemeral <= self.has_ephemeral[machine]
            && ask.pods <= self.has_pods[machine]
            && ask.others.iter().all(|(id, amount)| *amount <= self.other(machine, *id).has)
    }

    pub fn total(&self) -> Pair {
        self.total
    }

    pub fn used(&self, machine: Machine) -> Pair {
        self.used[machine]
    }

    pub fn used_pods(&self, machine: Machine) -> i64 {
        self.used_pods[machine]
    }

    pub fn lendable(&self, machine: Machine) -> Pair {
        self.lendable[machine]
    }

    pub fn free(&self, tier: Tier, machine: Machine) -> Pair {
        match tier {
            Tier::Reserved => self.free_reserved[machine],
            Tier::Lent => self.free_lent[machine],
        }
    }

    /// What neither production nor ordinary pods have reserved.
    pub fn unreserved(&self, machine: Machine) -> Pair {
        self.has[machine].plus(self.reserved[machine], -1)
    }

    pub fn free_ephemeral(&self, machine: Machine) -> i64 {
        self.has_ephemeral[machine] - self.used_ephemeral[machine]
    }

    pub fn free_pods(&self, machine: Machine) -> i64 {
        self.has_pods[machine] - self.used_pods[machine]
    }

    pub fn other(&self, machine: Machine, id: ResourceId) -> Other {
        let found = self.others[machine].iter().find(|other| other.id == id);
        found.copied().unwrap_or(Other { id, has: 0, used: 0 })
    }

    /// Whether CPU, memory, disk and the number of pods suffice; what a walk asks of each machine.
    #[inline]
    pub fn admits(&self, tier: Tier, ask: &Ask, machine: Machine) -> bool {
        let free = self.free(tier, machine);
        // What is not asked for is not missing, also where the machine has less than nothing.
        (ask.main.cpu_m == 0 || ask.main.cpu_m <= free.cpu_m)
            && (ask.main.memory == 0 || ask.main.memory <= free.memory)
            && ask.pods <= self.free_pods(machine)
            && (ask.ephemeral == 0 || ask.ephemeral <= self.free_ephemeral(machine))
    }

    /// Whether the machine's zone keeps what is kept from batch.
    #[inline]
    pub fn zone_admits(&self, ask: Pair, machine: Machine) -> bool {
        let zone = &self.zones[self.zone[machine] as usize];
        (ask.cpu_m == 0 || zone.free.cpu_m - ask.cpu_m >= zone.has.cpu_m / KEPT_PART)
            && (ask.memory == 0 || zone.free.memory - ask.memory >= zone.has.memory / KEPT_PART)
    }

    /// The same once so much of the machine is free again.
    pub fn zone_admits_after(&self, ask: Pair, machine: Machine, freed: Pair) -> bool {
        let zone = &self.zones[self.zone[machine] as usize];
        let before = self.free_lent[machine];
        let more = |free: i64, freed: i64| if self.in_zone[machine] { (free + freed).max(0) - free.max(0) } else { 0 };
        let cpu_m = zone.free.cpu_m + more(before.cpu_m, freed.cpu_m);
        let memory = zone.free.memory + more(before.memory, freed.memory);
        (ask.cpu_m == 0 || cpu_m - ask.cpu_m >= zone.has.cpu_m / KEPT_PART)
            && (ask.memory == 0 || memory - ask.memory >= zone.has.memory / KEPT_PART)
    }

    /// CPU and memory in use once `more` is there, as parts of what the machine has (and may lend): 0 to 1.
    #[inline]
    pub fn fill(&self, tier: Tier, more: Pair, machine: Machine) -> [f32; 2] {
        let used = self.scored[machine];
        let inverse = if tier == Tier::Lent { self.inverse_lent[machine] } else { self.inverse[machine] };
        let part = |used: i64, inverse: f32| (used as f32 * inverse).clamp(0.0, 1.0);
        [part(used.cpu_m + more.cpu_m, inverse[0]), part(used.memory + more.memory, inverse[1])]
    }
}

/// Changing.
impl Room {
    pub fn grow(&mut self) {
        let pairs = [&mut self.has, &mut self.lendable, &mut self.used, &mut self.reserved, &mut self.scored];
        pairs.into_iter().for_each(|array| array.push(Pair::default()));
        [&mut self.free_reserved, &mut self.free_lent].into_iter().for_each(|array| array.push(Pair::default()));
        let plain = [&mut self.has_ephemeral, &mut self.has_pods, &mut self.used_ephemeral, &mut self.used_pods];
        plain.into_iter().for_each(|array| array.push(0));
        self.others.push(Vec::new());
        self.inverse.push([0.0; 2]);
        self.inverse_lent.push([0.0; 2]);
        self.zone.push(0);
        self.in_zone.push(false);
        if self.zones.is_empty() {
            self.zones.push(Zone::default());
        }
    }

    /// A machine's place is free for another one: nothing is left of it.
    pub fn reset(&mut self, machine: Machine) {
        self.changed(machine, |room| {
            room.has[machine] = Pair::default();
            room.has_ephemeral[machine] = 0;
            room.has_pods[machine] = 0;
            room.lendable[machine] = Pair::default();
            room.others[machine].clear();
        });
    }

    /// What the machine has now.
    pub fn set_capacity(&mut self, machine: Machine, has: &Resources, mut id: impl FnMut(&str) -> ResourceId) {
        self.changed(machine, |room| {
            room.has[machine] = Pair { cpu_m: has.cpu_m, memory: has.memory };
            room.has_ephemeral[machine] = has.ephemeral;
            room.has_pods[machine] = has.pods;
            let others = &mut room.others[machine];
            others.iter_mut().for_each(|other| other.has = 0);
            for (name, amount) in &has.others {
                other(others, id(name)).has = *amount;
            }
            others.retain(|other| other.has != 0 || other.used != 0);
        });
    }

    pub fn set_lendable(&mut self, machine: Machine, lendable: Pair) {
        self.changed(machine, |room| room.lendable[machine] = lendable);
    }

    /// In which zone the machine is, and whether it counts there: one that takes nobody does not.
    pub fn set_zone(&mut self, machine: Machine, zone: usize, counts: bool) {
        if self.zones.len() <= zone {
            self.zones.resize(zone + 1, Zone::default());
        }
        self.sum_zone(machine, -1);
        self.in_zone[machine] = counts;
        self.zone[machine] = u32::try_from(zone).unwrap_or(0);
        self.sum_zone(machine, 1);
    }

    /// A pod comes (1) or goes (−1).
    pub fn count(&mut self, machine: Machine, ask: &Ask, band: Band, sign: i64) {
        self.changed(machine, |room| {
            room.used[machine] = room.used[machine].plus(ask.main, sign);
            room.used_ephemeral[machine] += sign * ask.ephemeral;
            room.used_pods[machine] += sign * ask.pods;
            room.scored[machine] = room.scored[machine].plus(ask.scored(), sign);
            if band.is_reserved() {
                room.reserved[machine] = room.reserved[machine].plus(ask.main, sign);
            }
            let others = &mut room.others[machine];
            for (id, amount) in &ask.others {
                other(others, *id).used += sign * amount;
            }
            if !ask.others.is_empty() {
                others.retain(|other| other.has != 0 || other.used != 0);
            }
        });
    }

    fn changed(&mut self, machine: Machine, change: impl FnOnce(&mut Self)) {
        self.sum_zone(machine, -1);
        self.total = self.total.plus(self.has[machine], -1);
        change(self);
        self.total = self.total.plus(self.has[machine], 1);
        let (has, lendable) = (self.has[machine], self.lendable[machine]);
        let all = has.plus(lendable, 1);
        let free = all.plus(self.used[machine], -1);
        let within = has.plus(self.reserved[machine], -1);
        self.free_lent[machine] = free;
        self.free_reserved[machine] =
            Pair { cpu_m: free.cpu_m.min(within.cpu_m), memory: free.memory.min(within.memory) };
        let inverse = |has: Pair| [has.cpu_m, has.memory].map(|n| if n > 0 { 1.0 / n as f32 } else { 1.0 });
        self.inverse[machine] = inverse(has);
        self.inverse_lent[machine] = inverse(all);
        self.sum_zone(machine, 1);
    }

    fn sum_zone(&mut self, machine: Machine, sign: i64) {
        if self.in_zone[machine] {
            let zone = &mut self.zones[self.zone[machine] as usize];
            let free = self.free_lent[machine];
            let free = Pair { cpu_m: free.cpu_m.max(0), memory: free.memory.max(0) };
            zone.free = zone.free.plus(free, sign);
            zone.has = zone.has.plus(self.has[machine], sign);
        }
    }

    #[cfg(test)]
    pub fn zone_sums(&self, machine: Machine) -> (Pair, Pair) {
        let zone = &self.zones[self.zone[machine] as usize];
        (zone.has, zone.free)
    }

    #[cfg(test)]
    pub fn sums(&self, machine: Machine) -> (Pair, i64, i64, Pair) {
        (self.used[machine], self.used_ephemeral[machine], self.used_pods[machine], self.reserved[machine])
    }
}

fn other(others: &mut Vec<Other>, id: ResourceId) -> &mut Other {
    let at = others.iter().position(|other| other.id == id).unwrap_or_else(|| {
        others.push(Other { id, has: 0, used: 0 });
        others.len() - 1
    });
    &mut others[at]
}
