//! What always holds of a snapshot, counted anew the slow way. For tests.

use super::*;

impl Snapshot {
    pub fn validate(&self) {
        self.validate_room();
        self.validate_views();
        self.validate_sets();
    }

    fn validate_room(&self) {
        for machine in 0..self.slots() {
            let mut used = (Pair::default(), 0, 0, Pair::default());
            for placed in self.pods_on(machine) {
                assert_eq!(placed.machine, machine);
                assert_eq!(self.find(&self.names[machine]), Some(machine), "a machine with pods keeps its place");
                let ask = self.ask_of(placed).expect("a placed pod's spec is known");
                used.0 = used.0.plus(ask.main, 1);
                used.1 += ask.ephemeral;
                used.2 += ask.pods;
                if placed.band.is_reserved() {
                    used.3 = used.3.plus(ask.main, 1);
                }
                for (id, _) in &ask.others {
                    let asked = |p: &Placed| {
                        self.ask_of(p).and_then(|ask| ask.others.iter().find(|(o, _)| o == id)).map_or(0, |o| o.1)
                    };
                    let sum: i64 = self.pods_on(machine).map(asked).sum();
                    assert_eq!(self.room.other(machine, *id).used, sum);
                }
                assert_eq!(self.placement(&placed.info.uid).map(|p| p.machine), Some(machine));
            }
            assert_eq!(self.room.sums(machine), used, "machine {machine}");
            let (has, lendable) = (self.room.has(machine), self.room.lendable(machine));
            let lent = has.plus(lendable, 1).plus(used.0, -1);
            let within = has.plus(used.3, -1);
            let reserved = Pair { cpu_m: lent.cpu_m.min(within.cpu_m), memory: lent.memory.min(within.memory) };
            assert_eq!(self.room.free(Tier::Lent, machine), lent);
            assert_eq!(self.room.free(Tier::Reserved, machine), reserved);
            let held = self.pods_on(machine).any(|p| p.standing == Standing::Held);
            assert_eq!(self.held.get(machine), held);
        }
        assert_eq!((0..self.slots()).map(|m| self.pods_on(m).count()).sum::<usize>(), self.placed_count());
        assert_eq!(self.priorities.values().map(|n| *n as usize).sum::<usize>(), self.placed_count());
        self.validate_zones();
    }

    fn validate_zones(&self) {
        for machine in self.machines() {
            let near = |m: &Machine| !self.is_cordoned(*m) && self.zone(*m) == self.zone(machine);
            let (mut has, mut free) = (Pair::default(), Pair::default());
            for other in self.machines().filter(near) {
                let lent = self.room.free(Tier::Lent, other);
                has = has.plus(self.room.has(other), 1);
                free = free.plus(Pair { cpu_m: lent.cpu_m.max(0), memory: lent.memory.max(0) }, 1);
            }
            if !self.is_cordoned(machine) {
                assert_eq!(self.room.zone_sums(machine), (has, free), "the zone of machine {machine}");
            }
        }
    }

    fn validate_views(&self) {
        for id in self.matching.used_views() {
            let view = self.matching.view(id);
            let mut counts: BTreeMap<Domain, i32> = BTreeMap::new();
            for machine in self.machines() {
                let Some(domain) = view.domain(self.map(), machine) else { continue };
                let counted = |placed: &&Placed| self.matching.is_counted(id, self.pods.member(placed));
                *counts.entry(domain).or_insert(0) += self.pods_on(machine).filter(counted).count() as i32;
            }
            for (domain, count) in &counts {
                assert_eq!(view.of(*domain), *count, "view {id}");
            }
            assert_eq!(view.domains(), counts.len() as i64, "view {id}");
            assert_eq!(view.least(), counts.values().copied().min().unwrap_or(0), "view {id}");
            assert_eq!(view.total(), counts.values().map(|n| i64::from(*n)).sum::<i64>(), "view {id}");
        }
        for holder in self.matching.used_holders() {
            let (_, key) = self.matching.carried(holder);
            let mut counts: BTreeMap<Domain, i32> = BTreeMap::new();
            for placed in self.placed().filter(|p| self.is_live(p.machine)) {
                let carries = self.pods.member(placed).carries.iter().filter(|h| **h == holder).count();
                if let Some(domain) = self.domain(key, placed.machine) {
                    *counts.entry(domain).or_insert(0) += carries as i32;
                }
            }
            for machine in self.machines() {
                let expect = self.domain(key, machine).and_then(|d| counts.get(&d)).copied().unwrap_or(0);
                assert_eq!(self.carriers(holder, machine), expect, "holder {holder}");
            }
        }
    }

    fn validate_sets(&self) {
        for machine in self.machines() {
            assert_eq!(self.ports.taken().get(machine), self.pods_on(machine).any(|p| !p.info.ports.is_empty()));
        }
    }
}
