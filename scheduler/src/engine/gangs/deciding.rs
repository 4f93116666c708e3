//! How a whole gang is decided. Nothing is held for a gang that does not fit as a whole, so two gangs cannot stand in each other's
//! way.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::super::binding::Waiting;
use super::super::{Effect, Engine};
use super::{Key, Ticket, key};
use crate::plugins::claims::writes;
use crate::pod::PodInfo;
use crate::queue::Found;
use crate::schedule::{Decision, explain, schedule};
use crate::snapshot::{Assumed, Machine};

/// Pods in one transaction.
const MOST: usize = 512;

/// What became of a gang's decision.
enum Outcome {
    Fits(Vec<Assumed>),
    /// Why the first that found no place did not.
    Short(Found),
    /// All have a place, but volumes of some follow the decision: what is said meanwhile.
    Awaits(Found),
}

impl Engine {
    /// Decides the pod's whole gang; false when the pod goes by itself.
    pub(in crate::engine) fn decide_gang(
        &mut self,
        info: &Arc<PodInfo>,
        now_ms: u64,
        effects: &mut Vec<Effect>,
    ) -> bool {
        let Some(key) = key(info) else { return false };
        let Some(gang) = self.gangs.known.get(&key) else { return false };
        let needs = gang.needs();
        if needs == Some(0) {
            return false;
        }
        let pending = gang.pending.iter().map(|(_, uid)| uid.clone());
        let members: Vec<Arc<str>> = pending.filter(|uid| !self.deciding.contains_key(uid)).take(MOST).collect();
        let Some(needs) = needs.filter(|needs| members.len() >= *needs) else {
            let message = match needs {
                None => format!("waits for PodGroup {} to say how many pods belong together", key.1),
                Some(needs) => format!(
                    "waits for its pod group {}: {} of the {needs} pods that must start together exist",
                    key.1,
                    members.len()
                ),
            };
            self.explain(&info.uid, &message.into(), effects);
            self.queue.park(&info.uid);
            return true;
        };
        let outcome = self.fit_together(info, &members, needs, now_ms, effects);
        if let Some(gang) = self.gangs.known.get_mut(&key) {
            gang.is_short = matches!(outcome, Outcome::Short(_));
            self.gangs.changed.insert(key.clone());
        }
        match outcome {
            Outcome::Fits(assumed) => self.issue(key, assumed, effects),
            Outcome::Short(found) => self.short(&key, found, &members, needs, now_ms, effects),
            Outcome::Awaits(found) => self.gang_sleeps(&members, found, now_ms, effects),
        }
        true
    }

    fn gang_sleeps(&mut self, members: &[Arc<str>], found: Found, now_ms: u64, effects: &mut Vec<Effect>) {
        let (class, message) = (found.class.id, found.message.clone());
        self.queue.found(found, now_ms);
        for uid in members {
            self.explain(uid, &message, effects);
            self.queue.sleep(uid, class, None, now_ms);
        }
    }

    /// The gang does not fit: its pods say why and sleep.
    fn short(
        &mut self,
        key: &Key,
        found: Found,
        members: &[Arc<str>],
        needs: usize,
        now_ms: u64,
        effects: &mut Vec<Effect>,
    ) {
        let missing = self.missing(needs, members);
        let class = found.class.id;
        self.gangs.count_from(key, now_ms);
        let is_over = self.gangs.is_over(key, now_ms);
        let Some(gang) = self.gangs.known.get_mut(key) else { return };
        gang.patience.missing = Some(missing);
        let message: Arc<str> = gang.message(&key.1).into();
        self.queue.found(Found { message: message.clone(), ..found }, now_ms);
        for uid in members {
            if !is_over {
                self.explain(uid, &message, effects);
            }
            self.queue.sleep(uid, class, None, now_ms);
        }
        if is_over {
            self.let_go(key, now_ms, effects);
        }
    }

    /// Why a gang does not fit: because of a pod that fits nowhere by itself, or because they do not fit together. It says nothing
    /// that depends on where the others would have gone, so that it stays the same as long as nothing changes.
    fn missing(&mut self, needs: usize, members: &[Arc<str>]) -> String {
        let infos: Vec<Arc<PodInfo>> =
            members.iter().filter_map(|uid| self.pending.get(uid)).map(|pending| pending.info.clone()).collect();
        let mut asked = BTreeSet::new();
        for info in infos {
            let class = self.class_of(&info);
            if !asked.insert(class.id) {
                continue;
            }
            let none = explain(&self.snapshot, &class);
            if none.refused == none.machines {
                let why = crate::explain::message(&self.snapshot, &none);
                return format!("needs {needs} pods at once, and {} fits nowhere: {why}", info.name);
            }
        }
        format!("needs {needs} pods at once: there is room for each of them, but not for all")
    }

    /// All members onto machines, each on top of the ones before; nothing stays assumed when too few fit.
    fn fit_together(
        &mut self,
        first: &Arc<PodInfo>,
        members: &[Arc<str>],
        needs: usize,
        now_ms: u64,
        effects: &mut Vec<Effect>,
    ) -> Outcome {
        // The same gang begins at the same place each time, so that it finds the same as long as nothing changes.
        let name = first.gang.as_ref().map_or("", |gang| &gang.name);
        let seed =
            name.bytes().fold(first.priority as u64, |seed, byte| seed.wrapping_mul(31).wrapping_add(byte.into()));
        let mut assumed: Vec<Assumed> = Vec::new();
        let mut failed: Option<Found> = None;
        let mut awaits = None;
        for (turn, uid) in members.iter().enumerate() {
            let taken = if *uid == first.uid { Some(first.clone()) } else { self.queue.take_one(uid, now_ms) };
            let Some(info) = taken else { continue };
            if failed.is_some() {
                self.queue.park(uid);
                continue;
            }
            let class = self.class_of(&info);
            match schedule(&self.snapshot, &class, seed.wrapping_add(turn as u64), &mut self.scratch) {
                Decision::Placement(placement) => {
                    let machine = placement.machine();
                    let writes =
                        if info.claims.is_empty() { None } else { writes(&self.snapshot, &info.claims, machine) };
                    if let Some(writes) = writes {
                        awaits.get_or_insert_with(|| (self.volumes_awaited(&class, machine), Vec::new()));
                        awaits.iter_mut().for_each(|(_, all)| all.push((info.clone(), writes.clone())));
                    }
                    assumed.push(self.snapshot.assume(info.clone(), machine));
                }
                Decision::Unschedulable(none) => {
                    failed = Some(Found { class, none: Arc::new(none), message: "".into() });
                    self.queue.park(uid);
                }
            }
        }
        match failed {
            Some(found) if assumed.len() < needs => {
                for assumed in assumed {
                    self.snapshot.forget(assumed);
                }
                Outcome::Short(found)
            }
            _ => {
                assert!(assumed.len() >= needs, "every pending member of a gang can be taken from the queue");
                let Some((found, writes)) = awaits else { return Outcome::Fits(assumed) };
                for assumed in assumed {
                    self.snapshot.forget(assumed);
                }
                let needed = writes.into_iter().filter(|(_, writes)| !writes.is_empty());
                effects.extend(needed.map(|(pod, writes)| Effect::PrepareVolumes { pod, writes }));
                Outcome::Awaits(found)
            }
        }
    }

    fn issue(&mut self, key: Key, members: Vec<Assumed>, effects: &mut Vec<Effect>) {
        let machines: BTreeSet<Machine> = members.iter().map(Assumed::machine).collect();
        self.gangs.issued += 1;
        let ticket = self.gangs.issued;
        for assumed in &members {
            self.deciding.insert(assumed.uid().clone(), assumed.machine());
        }
        for machine in &machines {
            self.lanes.entry(*machine).or_default().waiting.push_back(Waiting::Gang(ticket));
        }
        self.gangs.tickets.insert(ticket, Ticket { key, members, machines: machines.clone() });
        for machine in machines {
            self.launch(machine, effects);
        }
    }
}
