//! How the engine decides: takes pods in order, asks the core, assumes what it answers, makes room where it may, and
//! explains where nothing helps. Workers propose for several pods at once, all from the same snapshot; what they propose is
//! committed in order, one after another, and only where it still holds.

use std::sync::Arc;

use super::{Effect, Engine, Nomination, Waits};
use crate::class::Class;
use crate::explain;
use crate::plugins::Wake;
use crate::pod::PodInfo;
use crate::queue::Found;
use crate::schedule::{Decision, Scratch, does, schedule};
use crate::snapshot::{Machine, Snapshot};

/// Teams' shares are asked again this often.
const SAMPLE_MS: u64 = 1_000;
/// So many decided pods may be on their way to the store. More of them would only wait there, in the order in which they were
/// decided, and a pod that comes later and goes first would wait behind them.
const UNDER_WAY: usize = 512;
/// What was found for a class is good for its other pods this long.
const FOUND_FOR_MS: u64 = 10_000;

/// One pod to decide about.
#[derive(Debug)]
pub struct Work {
    pub info: Arc<PodInfo>,
    pub class: Arc<Class>,
    pub seed: u64,
}

/// Who makes proposals: several at once from one snapshot, in any order of work.
pub trait Workers {
    /// How many pods are worth taking at once.
    fn width(&self) -> usize;

    /// One proposal a piece of work, in its order.
    fn propose(&self, snapshot: &Snapshot, work: &[Work], scratch: &mut Scratch) -> Vec<Decision>;
}

/// Decides right here, one pod after another.
#[derive(Debug)]
pub struct Inline;

impl Workers for Inline {
    fn width(&self) -> usize {
        1
    }

    fn propose(&self, snapshot: &Snapshot, work: &[Work], scratch: &mut Scratch) -> Vec<Decision> {
        work.iter().map(|work| schedule(snapshot, &work.class, work.seed, scratch)).collect()
    }
}

/// What was held for a pod that is decided now.
pub(super) type Held = Option<(Machine, Waits)>;

impl Engine {
    /// Whether enough is decided until some of it has arrived.
    pub(super) fn is_full(&self) -> bool {
        self.deciding.len() >= UNDER_WAY
    }

    /// Decides about pods that are ready, at most `most`.
    pub fn decide(&mut self, now_ms: u64, seed: u64, most: usize, workers: &dyn Workers) -> Vec<Effect> {
        let mut effects = Vec::new();
        self.answer_reviews(now_ms, &mut effects);
        self.give_up(now_ms, &mut effects);
        self.sweep(now_ms);
        if now_ms >= self.sampled_ms + SAMPLE_MS || self.sampled_ms == 0 {
            self.sampled_ms = now_ms;
            self.snapshot.sample_teams(now_ms);
            let Engine { snapshot, queue, .. } = self;
            queue.refresh(snapshot.teams().len(), |team| snapshot.share(team));
        }
        let mut turn = 0;
        while turn < most && !self.is_full() {
            let mut work = Vec::new();
            while work.len() < workers.width() && turn < most {
                let Some(info) = self.queue.take(now_ms) else { break };
                let seed = seed.wrapping_add((turn as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15));
                turn += 1;
                work.extend(self.begin(info, seed, now_ms, &mut effects));
            }
            if work.is_empty() && !self.queue.has_ready() {
                break;
            }
            let mut scratch = std::mem::take(&mut self.scratch);
            let decisions = workers.propose(&self.snapshot, &work, &mut scratch);
            self.scratch = scratch;
            let alone = work.len() == 1;
            for (work, decision) in work.into_iter().zip(decisions) {
                self.commit(work, decision, alone, now_ms, &mut effects);
            }
        }
        self.tell_groups(&mut effects);
        effects
    }

    pub(super) fn class_of(&mut self, info: &PodInfo) -> Arc<Class> {
        let scheduler = self.pending.get(&info.uid).map_or("", |pending| &pending.scheduler);
        self.classes.of(&mut self.snapshot, info, scheduler)
    }

    /// What is to be proposed for the pod; nothing when it is settled without.
    fn begin(&mut self, info: Arc<PodInfo>, seed: u64, now_ms: u64, effects: &mut Vec<Effect>) -> Option<Work> {
        self.stalled.remove(&info.uid);
        if info.gang.is_some() && self.decide_gang(&info, now_ms, effects) {
            return None;
        }
        let class = self.class_of(&info);
        // Nothing happened since another pod of the class was found to fit nowhere.
        let known = self.queue.sleeping().get(class.id).filter(|sleepers| {
            let fresh = now_ms < sleepers.found_ms + FOUND_FOR_MS && !sleepers.stale;
            fresh && !self.news.meets(sleepers.wake_on())
        });
        if let Some(known) = known
            && !self.nominated.contains_key(&info.uid)
        {
            let found = Found { class, none: known.none.clone(), message: known.message.clone() };
            self.unschedulable(&info, found, None, seed, now_ms, effects);
            return None;
        }
        Some(Work { info, class, seed })
    }

    fn commit(&mut self, work: Work, decision: Decision, alone: bool, now_ms: u64, effects: &mut Vec<Effect>) {
        let Work { info, class, seed } = work;
        // What is held for this pod is not in its own way.
        let held = self.release_nomination(&info.uid);
        let decision =
            if held.is_some() { schedule(&self.snapshot, &class, seed, &mut self.scratch) } else { decision };
        match decision {
            Decision::Placement(placement) => {
                let is_sure = alone || held.is_some();
                let still = |machine: &&Machine| is_sure || does(&self.snapshot, &class, **machine);
                let Some(machine) = placement.choices.iter().find(still).copied() else {
                    // Others were faster; the next turn sees what they took.
                    self.queue.again(&info.uid);
                    return;
                };
                if let Some((held, _)) = held.filter(|(held, _)| *held != machine) {
                    self.news.on(Wake::POD_GONE, held);
                }
                if !self.await_volumes(&info, &class, machine, now_ms, effects) {
                    self.placed(&info, &class, machine, now_ms, effects);
                }
            }
            Decision::Unschedulable(none) if none.is_catching_up() => {
                self.keep(&info, held);
                self.stalled.insert(info.uid.clone());
            }
            Decision::Unschedulable(none) => {
                let message = explain::message(&self.snapshot, &none).into();
                let found = Found { class, none: Arc::new(none), message };
                self.queue.found(found.clone(), now_ms);
                self.unschedulable(&info, found, held, seed, now_ms, effects);
            }
        }
    }

    fn placed(
        &mut self,
        info: &Arc<PodInfo>,
        class: &Arc<Class>,
        machine: Machine,
        now_ms: u64,
        effects: &mut Vec<Effect>,
    ) {
        let assumed = self.snapshot.assume(info.clone(), machine);
        self.count_placed(info, class.id, machine, now_ms);
        self.enqueue(assumed);
        self.launch(machine, effects);
    }

    /// The pod was assumed: its team and its class know, and whoever waits for that.
    pub(super) fn count_placed(&mut self, info: &PodInfo, class: u64, machine: Machine, now_ms: u64) {
        self.news.on(Wake::POD_PLACED, machine);
        let team = self.snapshot.team(&info.namespace);
        self.queue.charge(team, self.snapshot.share(team));
        self.queue.wake_class(class, now_ms);
    }

    /// What was held stays held.
    pub(super) fn keep(&mut self, info: &Arc<PodInfo>, held: Held) {
        if let Some((machine, waits)) = held {
            let hold = self.snapshot.hold(info.clone(), machine);
            self.nominated.insert(info.uid.clone(), Nomination { hold, waits });
        }
    }

    /// Whether somebody still makes way, or the time is not over.
    pub(super) fn is_awaited(&self, class: &Class, (machine, held): &(Machine, Waits), now_ms: u64) -> bool {
        match held.until_ms {
            Some(until) => now_ms < until && !held.for_volumes,
            None => self.will_have_room(class, *machine, &held.victims),
        }
    }

    fn unschedulable(
        &mut self,
        info: &Arc<PodInfo>,
        found: Found,
        held: Held,
        seed: u64,
        now_ms: u64,
        effects: &mut Vec<Effect>,
    ) {
        if held.as_ref().is_some_and(|held| self.is_awaited(&found.class, held, now_ms)) {
            self.keep(info, held);
        } else {
            if let Some((machine, _)) = &held {
                self.news.on(Wake::POD_GONE, *machine);
            }
            if !self.make_room(info, &found, seed, effects) {
                self.wait_for_machine(info, &found, now_ms);
            }
        }
        self.explain(&info.uid, &found.message, effects);
        if self.queue.sleeping().get(found.class.id).is_none() {
            self.queue.found(found.clone(), now_ms);
        }
        let until_ms = self.nominated.get(&info.uid).and_then(|nomination| nomination.waits.until_ms);
        self.queue.sleep(&info.uid, found.class.id, until_ms, now_ms);
    }

    /// Says why, unless it was said.
    pub(super) fn explain(&mut self, uid: &str, message: &Arc<str>, effects: &mut Vec<Effect>) {
        let Some(pending) = self.pending.get_mut(uid) else { return };
        let written = pending.condition.as_ref().filter(|c| c.status == "False");
        let is_known = match &pending.told {
            Some(told) => told == message,
            None => written.is_some_and(|c| c.reason == "Unschedulable" && c.message == **message),
        };
        if !is_known {
            let since = written.and_then(|c| c.last_transition_time);
            pending.told = Some(message.clone());
            effects.push(Effect::Explain { pod: pending.info.clone(), message: message.clone(), since });
        }
    }
}
