//! Room: requests against what is free of the pod's figure (see [`Room`](crate::snapshot::Room)); and how full a machine should
//! be, by band.

use super::{Check, Checked, Preparing, Reason, Resource, Scale, Score, Scored};
use crate::snapshot::{Ask, Machine, Pair, Placed, Snapshot, Tier};

#[derive(Debug)]
struct Fits {
    ask: Ask,
    tier: Tier,
}

pub fn check(preparing: &mut Preparing) -> Checked {
    Some(Box::new(Fits { ask: preparing.ask.clone(), tier: preparing.tier }))
}

/// What these pods would set free.
#[derive(Default)]
struct Freed {
    all: Ask,
    reserved: Pair,
}

impl Freed {
    fn of(snapshot: &Snapshot, pods: &[&Placed]) -> Self {
        let mut freed = Freed::default();
        for placed in pods {
            let Some(ask) = snapshot.ask_of(placed) else { continue };
            freed.all.main.cpu_m += ask.main.cpu_m;
            freed.all.main.memory += ask.main.memory;
            freed.all.ephemeral += ask.ephemeral;
            freed.all.pods += ask.pods;
            if placed.band.is_reserved() {
                freed.reserved.cpu_m += ask.main.cpu_m;
                freed.reserved.memory += ask.main.memory;
            }
            freed.all.others.extend_from_slice(&ask.others);
        }
        freed
    }
}

impl Fits {
    /// What is free once `freed` is.
    fn free(&self, snapshot: &Snapshot, machine: Machine, freed: &Freed) -> Pair {
        let room = snapshot.room();
        let lent = room.free(Tier::Lent, machine);
        let lent = Pair { cpu_m: lent.cpu_m + freed.all.main.cpu_m, memory: lent.memory + freed.all.main.memory };
        if self.tier == Tier::Lent {
            return lent;
        }
        let within = room.unreserved(machine);
        Pair {
            cpu_m: lent.cpu_m.min(within.cpu_m + freed.reserved.cpu_m),
            memory: lent.memory.min(within.memory + freed.reserved.memory),
        }
    }
}

impl Check for Fits {
    #[inline]
    fn admits(&self, snapshot: &Snapshot, machine: Machine) -> bool {
        let room = snapshot.room();
        room.admits(self.tier, &self.ask, machine)
            && self.ask.others.iter().all(|(id, wants)| {
                let other = room.other(machine, *id);
                *wants <= other.has - other.used
            })
    }

    fn admit_word(&self, snapshot: &Snapshot, word: usize, mask: u64) -> u64 {
        // Scarce resources first: most words have no machine with a GPU.
        let having = |mask, (id, _): &(_, i64)| mask & snapshot.having(*id).map_or(0, |bits| bits.word(word));
        let mask = self.ask.others.iter().fold(mask, having);
        crate::bits::filtered(word, mask, |machine| self.admits(snapshot, machine))
    }

    fn refuse(&self, snapshot: &Snapshot, machine: Machine, without: &[&Placed], reasons: &mut Vec<Reason>) {
        let (room, freed) = (snapshot.room(), Freed::of(snapshot, without));
        let free = self.free(snapshot, machine, &freed);
        let mut short = |resource, wants: i64, free: i64| {
            if wants > 0 && wants > free {
                reasons.push(Reason::Short { resource, wants, free: free.max(0) });
            }
        };
        let ask = &self.ask;
        short(Resource::Cpu, ask.main.cpu_m, free.cpu_m);
        short(Resource::Memory, ask.main.memory, free.memory);
        short(Resource::Ephemeral, ask.ephemeral, room.free_ephemeral(machine) + freed.all.ephemeral);
        short(Resource::Pods, ask.pods, room.free_pods(machine) + freed.all.pods);
        for (id, wants) in &ask.others {
            let other = room.other(machine, *id);
            let freed: i64 = freed.all.others.iter().filter(|(freed, _)| freed == id).map(|(_, n)| n).sum();
            short(Resource::Other(*id), *wants, other.has - other.used + freed);
        }
    }
}

/// One per cent of each zone is kept from batch.
#[derive(Debug)]
struct Keeps(Pair);

pub fn keeps(preparing: &mut Preparing) -> Checked {
    let ask = preparing.ask.main;
    let is_free = preparing.tier == Tier::Reserved || ask == Pair::default();
    if is_free { None } else { Some(Box::new(Keeps(ask))) }
}

impl Check for Keeps {
    fn admits(&self, snapshot: &Snapshot, machine: Machine) -> bool {
        snapshot.room().zone_admits(self.0, machine)
    }

    fn refuse(&self, snapshot: &Snapshot, machine: Machine, without: &[&Placed], reasons: &mut Vec<Reason>) {
        let freed = Freed::of(snapshot, without).all.main;
        if !snapshot.room().zone_admits_after(self.0, machine, freed) {
            reasons.push(Reason::Kept(if self.0.cpu_m > 0 { Resource::Cpu } else { Resource::Memory }));
        }
    }

    fn spans_machines(&self) -> bool {
        true
    }
}

#[derive(Debug)]
enum Wish {
    Spare,
    Packed,
    Balanced,
}

#[derive(Debug)]
struct Filling {
    wish: Wish,
    tier: Tier,
    more: Pair,
}

fn filling(preparing: &Preparing, wish: Wish) -> Scored {
    Some(Box::new(Filling { wish, tier: preparing.tier, more: preparing.ask.scored() }))
}

/// The emptier the better.
pub fn spare(preparing: &mut Preparing) -> Scored {
    filling(preparing, Wish::Spare)
}

/// The fuller the better; for batch, against what is lent too.
pub fn packed(preparing: &mut Preparing) -> Scored {
    filling(preparing, Wish::Packed)
}

/// CPU and memory should run out together.
pub fn balanced(preparing: &mut Preparing) -> Scored {
    filling(preparing, Wish::Balanced)
}

impl Score for Filling {
    fn scale(&self) -> Scale {
        Scale::AsIs
    }

    fn score(&self, snapshot: &Snapshot, machines: &[Machine], scores: &mut Vec<i64>) {
        let room = snapshot.room();
        scores.extend(machines.iter().map(|machine| {
            let [cpu, memory] = room.fill(self.tier, self.more, *machine);
            match self.wish {
                Wish::Spare => 100 - ((cpu + memory) * 50.0) as i64,
                Wish::Packed => ((cpu + memory) * 50.0) as i64,
                Wish::Balanced => 100 - ((cpu - memory).abs() * 100.0) as i64,
            }
        }));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::plugins::testing::{Cluster, cpu, owned};

    #[test]
    fn exactly_what_is_free_fits() {
        let mut cluster = Cluster::default();
        cluster.machine("m", json!({"status": {"allocatable": {"cpu": "2", "memory": "4Gi", "pods": "10"}}}));
        cluster.bound("other", "m", cpu("600m"));
        let short = |wants, free| Reason::Short { resource: Resource::Cpu, wants, free };
        let pod = cluster.pod("p", cpu("1400m"));
        assert_eq!(cluster.refused(check, &pod), []);
        let pod = cluster.pod("p", cpu("8"));
        assert_eq!(cluster.refused(check, &pod), [("m".to_owned(), short(8000, 1400))]);
    }

    #[test]
    fn bands_want_empty_or_full_machines() {
        let mut cluster = Cluster::default();
        for name in ["empty", "half"] {
            cluster.machine(name, json!({"status": {"allocatable": {"cpu": "2", "memory": "2000Mi", "pods": "10"}}}));
        }
        cluster.bound("other", "half", cpu("1"));
        let pod = cluster.pod("p", json!({}));
        assert_eq!(cluster.scores(spare, &pod), [("empty", 93), ("half", 63)].map(owned));
        assert_eq!(cluster.scores(packed, &pod), [("empty", 7), ("half", 37)].map(owned));
        assert_eq!(cluster.scores(balanced, &pod), [("empty", 95), ("half", 65)].map(owned));
    }
}
