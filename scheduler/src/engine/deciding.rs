//! How the engine decides: takes pods in order, asks the core, assumes what it answers, makes room where it may, and
//! explains where nothing helps.

use std::sync::Arc;

use super::{Effect, Engine, Nomination, Victim};
use crate::explain;
use crate::plugins::Wake;
use crate::pod::PodInfo;
use crate::preempt::preempt;
use crate::schedule::{Decision, Profile, Unschedulable, schedule};

impl Engine {
    pub(super) fn decide(&mut self, seed: u64, most: usize, now_ms: u64, effects: &mut Vec<Effect>) {
        for turn in 0..most as u64 {
            let Some(info) = self.queue.take(now_ms) else { return };
            self.decide_one(&info, seed.wrapping_add(turn.wrapping_mul(0x9e37_79b9_7f4a_7c15)), now_ms, effects);
        }
    }

    fn decide_one(&mut self, info: &Arc<PodInfo>, seed: u64, now_ms: u64, effects: &mut Vec<Effect>) {
        // What is held for this pod is not in its own way.
        let nomination = self.nominated.remove(&info.uid);
        let (held, victims) = match nomination {
            Some(nomination) => {
                let machine = nomination.hold.machine();
                self.snapshot.forget(nomination.hold);
                (Some(machine), nomination.victims)
            }
            None => (None, std::collections::BTreeSet::new()),
        };
        let profile = Profile { band: self.classes.band(&info.class) };
        match schedule(&self.snapshot, info, &profile, seed) {
            Decision::Placement(placement) => {
                if held.is_some_and(|held| held != placement.machine) {
                    // What was held for it is free.
                    self.queue.wake(Wake::POD_GONE, now_ms);
                }
                let assumed = self.snapshot.assume(info.clone(), placement.machine);
                self.deciding.insert(info.uid.clone(), placement.machine);
                self.lanes.entry(placement.machine).or_default().waiting.push_back(assumed);
                self.launch(placement.machine, now_ms, effects);
            }
            Decision::Unschedulable(none) if none.is_catching_up() => {
                self.stalled.insert(info.uid.clone());
            }
            Decision::Unschedulable(none) => {
                let going = |uid: &String| self.snapshot.placement(uid).is_some_and(|placed| placed.info.deleting);
                if let (Some(machine), true) = (held, victims.iter().any(going)) {
                    let hold = self.snapshot.assume(info.clone(), machine);
                    self.nominated.insert(info.uid.clone(), Nomination { hold, victims });
                } else {
                    self.make_room(info, &none, effects);
                }
                self.explain(&info.uid, &none, effects);
                self.queue.sleep(&info.uid, none.wake_on, now_ms);
            }
        }
    }

    fn make_room(&mut self, info: &Arc<PodInfo>, none: &Unschedulable, effects: &mut Vec<Effect>) {
        let Some(pending) = self.pending.get(&info.uid) else { return };
        let pod = pending.pod.clone();
        let classes = &self.classes;
        let Some(found) = preempt(&mut self.snapshot, info, none, |class| classes.band(class)) else { return };
        let node = self.snapshot.name(found.machine).to_owned();
        for victim in found.victims.iter().filter(|victim| !victim.deleting) {
            let (namespace, name, uid) = (victim.namespace.clone(), victim.name.clone(), victim.uid.clone());
            let victim = Victim { namespace, name, uid };
            effects.push(Effect::Evict { victim, preemptor: pod.clone(), node: node.clone() });
        }
        if pod.status.nominated_node_name != node {
            effects.push(Effect::Nominate { pod, node });
        }
        let victims = found.victims.iter().map(|victim| victim.uid.clone()).collect();
        let hold = self.snapshot.assume(info.clone(), found.machine);
        self.nominated.insert(info.uid.clone(), Nomination { hold, victims });
    }

    /// Says why, unless it was said.
    fn explain(&mut self, uid: &str, none: &Unschedulable, effects: &mut Vec<Effect>) {
        let Some(pending) = self.pending.get_mut(uid) else { return };
        let message = explain::message(none);
        let written = pending.pod.condition("PodScheduled");
        let is_written =
            written.is_some_and(|c| c.status == "False" && c.reason == "Unschedulable" && c.message == message);
        let is_known = match &pending.told {
            Some(told) => *told == message,
            None => is_written,
        };
        if !is_known {
            pending.told = Some(message.clone());
            effects.push(Effect::Explain { pod: pending.pod.clone(), message });
        }
    }
}
