//! Room for pods that fit nowhere: others are ended for them, or a machine is kept until enough on it has ended by itself.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::deciding::Held;
use super::{Effect, Engine, Nomination, Victim, Waits};
use crate::class::Class;
use crate::plugins::{Reason, Wake};
use crate::pod::PodInfo;
use crate::preempt::{Budget, preempt};
use crate::queue::Found;
use crate::schedule::{held_for_lesser, would_do};
use crate::snapshot::{Machine, Placed};

/// What ends for a more important pod gets at most this long.
const GRACE_S: i64 = 10;
/// So long a machine is kept for a pod, and so long after that none is.
const KEEP_MS: u64 = 30_000;
const KEEP_AGAIN_MS: u64 = 600_000;
/// A pod that waits longer than this may have a machine kept.
const PATIENCE_MS: u64 = 10_000;

impl Engine {
    /// Ends pods for this one and holds their room. False when there is nobody to end.
    pub(super) fn make_room(
        &mut self,
        info: &Arc<PodInfo>,
        found: &Found,
        seed: u64,
        effects: &mut Vec<Effect>,
    ) -> bool {
        let lower = self.snapshot.least_importance().is_some_and(|least| least < found.class.importance());
        let known = self.queue.sleeping().get(found.class.id);
        if !lower || known.is_some_and(|sleepers| sleepers.hopeless) {
            return false;
        }
        let budgets: Vec<Budget> = self.budgets.values().cloned().collect();
        let Some(room) = preempt(&self.snapshot, &found.class, &found.none.curable, &budgets, seed) else {
            if let Some(sleepers) = self.queue.sleeping_mut().get_mut(found.class.id) {
                sleepers.hopeless = true;
            }
            return false;
        };
        self.evict(&room.victims, info, room.machine, effects);
        self.nominate(info, room.machine, effects);
        let victims = room.victims.iter().map(|victim| victim.uid.clone()).collect();
        let hold = self.snapshot.hold(info.clone(), room.machine);
        self.nominated.insert(info.uid.clone(), Nomination::of_victims(hold, victims));
        true
    }

    /// Whether some of these are there still, and the machine would do without them. One that is cordoned or out of reach would
    /// not, however long its pods take to end.
    pub(super) fn will_have_room(&self, class: &Class, machine: Machine, victims: &BTreeSet<Arc<str>>) -> bool {
        let there = victims.iter().filter_map(|uid| self.snapshot.placement(uid)).filter(|p| p.machine == machine);
        let mut without: Vec<&Placed> = there.collect();
        let waits = !without.is_empty();
        without.extend(held_for_lesser(&self.snapshot, class, machine));
        waits && would_do(&self.snapshot, class, machine, &without)
    }

    /// Asks these to end, but for those that do already, or were asked for another pod that waits for it.
    pub(super) fn evict(
        &self,
        victims: &[Arc<PodInfo>],
        preemptor: &Arc<PodInfo>,
        machine: Machine,
        effects: &mut Vec<Effect>,
    ) {
        let others = || self.nominated.iter().filter(|(uid, _)| **uid != preemptor.uid);
        let was_asked =
            |victim: &PodInfo| others().any(|(_, nomination)| nomination.waits.victims.contains(&victim.uid));
        for victim in victims.iter().filter(|victim| !victim.deleting && !was_asked(victim)) {
            let grace_s = victim.grace_s.clamp(0, GRACE_S);
            let (namespace, name, uid) = (victim.namespace.clone(), victim.name.to_string(), victim.uid.to_string());
            let victim = Victim { namespace, name, uid, grace_s };
            let node = self.snapshot.name(machine).to_owned();
            effects.push(Effect::Evict { victim, preemptor: preemptor.clone(), node });
        }
    }

    /// Says where room is held for the pod, unless it was said.
    pub(super) fn nominate(&self, info: &Arc<PodInfo>, machine: Machine, effects: &mut Vec<Effect>) {
        let node = self.snapshot.name(machine).to_owned();
        if self.pending.get(&info.uid).is_some_and(|pending| pending.nominated != node) {
            effects.push(Effect::Nominate { pod: info.clone(), node });
        }
    }

    /// What is held for the pod is free: it is decided now, and holds it again or tells others.
    pub(super) fn release_nomination(&mut self, uid: &str) -> Held {
        let Nomination { hold, waits } = self.nominated.remove(uid)?;
        let machine = hold.machine();
        self.snapshot.forget(hold);
        Some((machine, waits))
    }

    /// What is held for the pod is for others from now on.
    pub(super) fn give_back(&mut self, uid: &str) {
        if let Some((machine, _)) = self.release_nomination(uid) {
            self.news.on(Wake::POD_GONE, machine);
        }
    }

    /// A pod that was to make way does not: for whom it was to go, something else is tried after a while.
    pub(super) fn stays(&mut self, victim: &Arc<str>, now_ms: u64) {
        let waits = |nomination: &Nomination| nomination.waits.victims.contains(victim);
        let waiting: Vec<_> = self.nominated.iter().filter(|(_, n)| waits(n)).map(|(uid, _)| uid.clone()).collect();
        for uid in waiting {
            self.give_back(&uid);
            // A gang has it for all of its pods or for none.
            if let Some(key) = self.gangs.key_of(&uid) {
                self.give_back_all(&key);
            }
            self.queue.retry(&uid, now_ms);
        }
    }

    /// Keeps a machine for a pod that fits nowhere, one pod a band at a time: what ends there is left to it, so that small pods
    /// do not keep a large one waiting for ever. Not for long: nobody else can use what is kept.
    pub(super) fn wait_for_machine(&mut self, info: &Arc<PodInfo>, found: &Found, now_ms: u64) {
        let band = found.class.band;
        let Some(pending) = self.pending.get(&info.uid) else { return };
        let patient = now_ms >= pending.keep_after_ms.max(pending.since_ms.saturating_add(PATIENCE_MS));
        let is_of_band = |uid: &str| self.snapshot.placement(uid).is_some_and(|placed| placed.band == band);
        let taken = self.nominated.iter().any(|(uid, nomination)| !nomination.waits.for_volumes && is_of_band(uid));
        if !patient || taken {
            return;
        }
        let Some(machine) = self.nearest(found) else { return };
        let hold = self.snapshot.hold(info.clone(), machine);
        let until_ms = Some(now_ms + KEEP_MS);
        if let Some(pending) = self.pending.get_mut(&info.uid) {
            pending.keep_after_ms = now_ms + KEEP_MS + KEEP_AGAIN_MS;
        }
        self.nominated.insert(info.uid.clone(), Nomination { hold, waits: Waits { until_ms, ..Waits::default() } });
    }

    /// Of the machines that would be large enough if they were empty, the one with the most room.
    fn nearest(&self, found: &Found) -> Option<Machine> {
        let room = self.snapshot.room();
        let (ask, all) = (&found.class.ask, room.total());
        let short = |machine: &Machine| {
            let mut reasons = Vec::new();
            crate::schedule::refuse(&self.snapshot, &found.class, *machine, &mut reasons);
            !reasons.is_empty()
                && reasons.iter().all(|reason| matches!(reason, Reason::Short { .. }))
                && room.is_large_enough(ask, *machine)
                && !self.snapshot.held().get(*machine)
        };
        let free = |machine: &Machine| {
            let free = room.free(found.class.tier, *machine);
            let part = |free: i64, all: i64| (free as i128) * 1_000_000 / i128::from(all.max(1));
            part(free.cpu_m, all.cpu_m) + part(free.memory, all.memory)
        };
        found.none.curable.iter().copied().filter(short).max_by_key(free)
    }
}
