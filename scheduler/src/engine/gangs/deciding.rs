//! How a whole gang is decided. Nothing is held for a gang that does not fit as a whole and for which nobody makes way, so two gangs
//! cannot stand in each other's way.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::super::binding::Waiting;
use super::super::{Effect, Engine, Waits};
use super::{Gang, Key, MOST, Ticket, key};
use crate::class::Class;
use crate::plugins::Wake;
use crate::plugins::claims::{VolumeWrite, writes};
use crate::pod::PodInfo;
use crate::queue::Found;
use crate::schedule::{Decision, Unschedulable, does, explain, schedule};
use crate::snapshot::{Assumed, Machine};

/// Classes of a gang that are asked for why they fit nowhere: each is asked of all machines.
pub(in crate::engine) const ASKED: usize = 8;
/// A gang that meets machines whose news is on its way says nothing of it this often.
const SILENT: u32 = 4;

/// What became of a gang's decision.
enum Outcome {
    Fits(Vec<Placing>),
    /// Why the first that found no place did not.
    Short(Short),
    /// All have a place, but volumes of some follow the decision: what is said meanwhile.
    Awaits(Found),
}

struct Placing {
    assumed: Assumed,
    info: Arc<PodInfo>,
    class: Arc<Class>,
    /// What its volumes need, if they follow the decision.
    writes: Option<Vec<VolumeWrite>>,
}

struct Short {
    class: Arc<Class>,
    none: Unschedulable,
    /// News of some machine is on its way.
    is_catching_up: bool,
    /// Pods that are not alike found a place before it.
    is_of_some: bool,
}

/// What was held for members, by their uids.
type AllHeld = BTreeMap<Arc<str>, (Machine, Waits)>;

impl Gang {
    /// What its pods wait for before it can be decided, if so many of them have neither a machine nor are on their way to one.
    fn lacks(&self, name: &str, free: usize) -> Option<String> {
        match self.needs() {
            None => Some(format!("waits for PodGroup {name} to say how many pods belong together")),
            Some(needs) if needs > MOST => Some(format!(
                "pod group {name} wants {needs} pods at once, more than the {MOST} that can start together"
            )),
            Some(needs) if free < needs => Some(format!(
                "waits for its pod group {name}: {free} of the {needs} pods that must start together exist"
            )),
            Some(_) => None,
        }
    }
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
        let pending = gang.pending.iter().map(|(_, uid)| uid);
        let free: Vec<Arc<str>> = pending.filter(|uid| !self.deciding.contains_key(*uid)).cloned().collect();
        let under_way = gang.pending.len() - free.len();
        if needs.is_some_and(|needs| under_way >= needs) {
            // It goes by itself once they have arrived, and with them if they do not.
            self.queue.park(&info.uid);
            return true;
        }
        let lacks = gang.lacks(&key.1, free.len());
        let Some(needs) = needs.filter(|_| lacks.is_none()) else {
            if let Some(message) = lacks {
                self.explain(&info.uid, &message.into(), effects);
            }
            self.queue.park(&info.uid);
            return true;
        };
        let members = self.gather(info, free, now_ms);
        if members.len() < needs {
            // Of some it is being decided right now; whoever of them comes back decides for all.
            members.iter().for_each(|member| self.queue.park(&member.uid));
            return true;
        }
        self.decide_members(key, info, &members, needs, now_ms, effects);
        true
    }

    /// Takes the gang's pods out of the queue: the oldest, and this one. The others wait for what becomes of these.
    fn gather(&mut self, first: &Arc<PodInfo>, free: Vec<Arc<str>>, now_ms: u64) -> Vec<Arc<PodInfo>> {
        let mut others = MOST - 1;
        let mut members = Vec::new();
        for uid in free {
            if uid == first.uid {
                members.push(first.clone());
                continue;
            }
            if self.stalled.remove(&uid) {
                self.queue.again(&uid);
            }
            let Some(info) = self.queue.take_one(&uid, now_ms) else { continue };
            if others > 0 {
                others -= 1;
                members.push(info);
            } else {
                self.queue.park(&uid);
            }
        }
        members
    }

    fn decide_members(
        &mut self,
        key: Key,
        first: &Arc<PodInfo>,
        members: &[Arc<PodInfo>],
        needs: usize,
        now_ms: u64,
        effects: &mut Vec<Effect>,
    ) {
        // What is held for them is not in their way.
        let release = |member: &Arc<PodInfo>| Some((member.uid.clone(), self.release_nomination(&member.uid)?));
        let held: AllHeld = members.iter().filter_map(release).collect();
        let outcome = self.fit_together(members, needs, &held, effects);
        let attempts = self.queue.place(&first.uid).map_or(0, |(_, _, attempts)| attempts);
        if matches!(&outcome, Outcome::Short(short) if short.is_catching_up) && attempts < SILENT {
            self.hold_on(members, held);
            members.iter().for_each(|member| self.queue.park(&member.uid));
            self.queue.retry(&first.uid, now_ms);
            return;
        }
        let is_short = matches!(outcome, Outcome::Short(_));
        if is_short {
            // Before anything is held for them again.
            let missing = self.missing(needs, members);
            if let Some(gang) = self.gangs.known.get_mut(&key) {
                gang.patience.missing = Some(missing);
            }
        }
        let is_awaited = |member: &Arc<PodInfo>| {
            let class = self.class_of(member);
            held.get(&member.uid).is_some_and(|held| self.is_awaited(&class, held, now_ms))
        };
        if is_short && members.iter().any(is_awaited) {
            self.hold_on(members, held);
        } else {
            for (machine, _) in held.values() {
                self.news.on(Wake::POD_GONE, *machine);
            }
            if is_short && !self.gangs.is_over(&key, now_ms) {
                self.make_room_for_all(members, needs, now_ms, effects);
            }
        }
        if let Some(gang) = self.gangs.known.get_mut(&key) {
            gang.is_short = matches!(outcome, Outcome::Short(_));
            self.gangs.changed.insert(key.clone());
        }
        match outcome {
            Outcome::Fits(placing) => self.issue(key, placing, now_ms, effects),
            Outcome::Short(short) => {
                let is_catching_up = short.is_catching_up;
                self.short(&key, short, members, now_ms, effects);
                if is_catching_up {
                    self.queue.retry(&first.uid, now_ms);
                }
            }
            Outcome::Awaits(found) => {
                let (class, message) = (found.class.id, found.message.clone());
                self.queue.found(found, now_ms);
                for member in members {
                    self.explain(&member.uid, &message, effects);
                    self.queue.sleep(&member.uid, class, None, now_ms);
                }
            }
        }
    }

    /// What was held for members is held for them again.
    fn hold_on(&mut self, members: &[Arc<PodInfo>], mut held: AllHeld) {
        for member in members {
            let held = held.remove(&member.uid);
            self.keep(member, held);
        }
    }

    /// The gang does not fit: its pods say why and sleep.
    fn short(&mut self, key: &Key, short: Short, members: &[Arc<PodInfo>], now_ms: u64, effects: &mut Vec<Effect>) {
        self.gangs.count_from(key, now_ms);
        let is_over = self.gangs.is_over(key, now_ms);
        let Some(gang) = self.gangs.known.get(key) else { return };
        let message: Arc<str> = gang.message(&key.1).into();
        let Short { class, none, .. } = short;
        let id = class.id;
        self.queue.found(Found { class, none: Arc::new(none), message: message.clone() }, now_ms);
        for member in members {
            if !is_over {
                self.explain(&member.uid, &message, effects);
            }
            let until_ms = self.nominated.get(&member.uid).and_then(|nomination| nomination.waits.until_ms);
            self.queue.sleep(&member.uid, id, until_ms.filter(|until| *until > now_ms), now_ms);
        }
        if is_over {
            self.let_go(key, now_ms, effects);
        }
    }

    /// Why a gang does not fit: because of a pod that fits nowhere by itself, or because they do not fit together. It says nothing
    /// that depends on where the others would have gone, so that it stays the same as long as nothing changes.
    fn missing(&mut self, needs: usize, members: &[Arc<PodInfo>]) -> String {
        let mut asked = BTreeSet::new();
        for info in members {
            let class = self.class_of(info);
            if asked.len() == ASKED || !asked.insert(class.id) {
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

    /// All members onto machines; nothing stays assumed when too few fit. Others may have taken the only places of some: these
    /// go first then.
    fn fit_together(
        &mut self,
        members: &[Arc<PodInfo>],
        needs: usize,
        held: &AllHeld,
        effects: &mut Vec<Effect>,
    ) -> Outcome {
        match self.fit_in_order(members, needs, held, effects) {
            Outcome::Short(short) if !short.is_catching_up && short.is_of_some => {
                let mut members = members.to_vec();
                members.sort_by_key(|member| self.class_of(member).id != short.class.id);
                match self.fit_in_order(&members, needs, held, effects) {
                    Outcome::Short(_) => Outcome::Short(short),
                    outcome => outcome,
                }
            }
            outcome => outcome,
        }
    }

    /// Each on top of the ones before. Those that found no place beside enough others wait.
    fn fit_in_order(
        &mut self,
        members: &[Arc<PodInfo>],
        needs: usize,
        held: &AllHeld,
        effects: &mut Vec<Effect>,
    ) -> Outcome {
        let seed = seed(members);
        let mut placing: Vec<Placing> = Vec::new();
        let mut without = Vec::new();
        let mut refused = BTreeSet::new();
        let mut short: Option<Short> = None;
        let mut wake_on = Wake::MACHINE.or(Wake::POD_GONE);
        for (turn, info) in members.iter().enumerate() {
            let class = self.class_of(info);
            if class.checks.iter().any(|(_, check)| check.spans_machines()) {
                wake_on = wake_on.or(Wake::POD_PLACED);
            }
            if refused.contains(&class.id) || refused.len() == ASKED {
                without.push(info);
                continue;
            }
            // Room that was made for it is its own.
            let own = held.get(&info.uid).map(|(machine, _)| *machine).filter(|own| does(&self.snapshot, &class, *own));
            if let Some(own) = own {
                placing.push(self.place_member(info, class, own));
                continue;
            }
            match schedule(&self.snapshot, &class, seed.wrapping_add(turn as u64), &mut self.scratch) {
                Decision::Placement(placement) => {
                    placing.push(self.place_member(info, class, placement.machine()));
                }
                Decision::Unschedulable(none) => {
                    refused.insert(class.id);
                    without.push(info);
                    wake_on = wake_on.or(none.wake_on);
                    let is_catching_up = none.is_catching_up();
                    let is_of_some = placing.iter().any(|placing| placing.class.id != class.id);
                    let first = short.get_or_insert(Short { class, none, is_catching_up, is_of_some });
                    first.is_catching_up |= is_catching_up;
                }
            }
        }
        match short {
            Some(mut short) if placing.len() < needs => {
                self.forget_members(placing);
                short.none.wake_on = wake_on;
                Outcome::Short(short)
            }
            _ => {
                without.iter().for_each(|info| self.queue.park(&info.uid));
                self.fits(placing, effects)
            }
        }
    }

    fn place_member(&mut self, info: &Arc<PodInfo>, class: Arc<Class>, machine: Machine) -> Placing {
        let writes = if info.claims.is_empty() { None } else { writes(&self.snapshot, &info.claims, machine) };
        let assumed = self.snapshot.assume(info.clone(), machine);
        Placing { assumed, info: info.clone(), class, writes }
    }

    /// Enough have a place; unless volumes have to follow, it is theirs.
    fn fits(&mut self, placing: Vec<Placing>, effects: &mut Vec<Effect>) -> Outcome {
        let Some(first) = placing.iter().find(|placing| placing.writes.is_some()) else {
            return Outcome::Fits(placing);
        };
        let found = self.volumes_awaited(&first.class, first.assumed.machine());
        for Placing { assumed, info: pod, writes, .. } in placing {
            self.snapshot.forget(assumed);
            if let Some(writes) = writes.filter(|writes| !writes.is_empty()) {
                effects.push(Effect::PrepareVolumes { pod, writes });
            }
        }
        Outcome::Awaits(found)
    }

    fn forget_members(&mut self, placing: Vec<Placing>) {
        for placing in placing {
            self.snapshot.forget(placing.assumed);
        }
    }

    fn issue(&mut self, key: Key, placing: Vec<Placing>, now_ms: u64, effects: &mut Vec<Effect>) {
        self.gangs.issued += 1;
        let ticket = self.gangs.issued;
        let mut members = Vec::new();
        let mut machines = BTreeSet::new();
        for Placing { assumed, info, class, .. } in placing {
            let machine = assumed.machine();
            self.count_placed(&info, class.id, machine, now_ms);
            self.deciding.insert(info.uid.clone(), machine);
            machines.insert(machine);
            members.push(assumed);
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

/// The same gang begins at the same place each time, so that it finds the same as long as nothing changes.
fn seed(members: &[Arc<PodInfo>]) -> u64 {
    let Some(first) = members.first() else { return 0 };
    let name = first.gang.as_ref().map_or("", |gang| &gang.name);
    name.bytes().fold(first.priority as u64, |seed, byte| seed.wrapping_mul(31).wrapping_add(byte.into()))
}
