//! How placements get into the store: one bind at a time per machine, each from the version that the one before made; what
//! was decided from older news is decided again.

use super::{Bind, BindOutcome, Effect, Engine};
use crate::plugins::Wake;
use crate::snapshot::{Assumed, Machine};

impl Engine {
    /// Sends the machine's next bind, if none is under way and its state is current.
    pub(super) fn launch(&mut self, machine: Machine, now_ms: u64, effects: &mut Vec<Effect>) {
        loop {
            let is_current = self.snapshot.is_current(machine);
            let Some(lane) = self.lanes.get_mut(&machine) else { return };
            if lane.in_flight.is_some() || !is_current {
                return;
            }
            let Some(assumed) = lane.waiting.pop_front() else {
                self.lanes.remove(&machine);
                return;
            };
            let still = self.snapshot.placement(assumed.uid()).is_some_and(|placed| placed.assumed);
            let Some(pending) = self.pending.get(assumed.uid()).filter(|_| still) else {
                self.undo(assumed, now_ms);
                continue;
            };
            effects.push(Effect::Bind(Bind {
                namespace: pending.pod.metadata.namespace.clone(),
                name: pending.pod.metadata.name.clone(),
                uid: assumed.uid().to_owned(),
                node: self.snapshot.name(machine).to_owned(),
                allocation_version: self.snapshot.allocation(machine).version,
            }));
            lane.pod = Some(pending.pod.clone());
            lane.in_flight = Some(assumed);
            lane.from = self.snapshot.allocation(machine).version;
            return;
        }
    }

    /// Placements that wait for this machine were decided from older news: they are decided again.
    pub(super) fn abandon(&mut self, machine: Machine, now_ms: u64) {
        let Some(lane) = self.lanes.get_mut(&machine) else { return };
        for assumed in std::mem::take(&mut lane.waiting) {
            let uid = assumed.uid().to_owned();
            self.undo(assumed, now_ms);
            self.queue.again(&uid);
        }
    }

    /// The room that was counted on is free again, for whoever sleeps because of it.
    fn undo(&mut self, assumed: Assumed, now_ms: u64) {
        self.deciding.remove(assumed.uid());
        self.snapshot.forget(assumed);
        self.queue.wake(Wake::POD_GONE, now_ms);
    }

    pub(super) fn bind_ended(&mut self, uid: &str, outcome: BindOutcome, now_ms: u64, effects: &mut Vec<Effect>) {
        let Some(machine) = self.deciding.get(uid).copied() else { return };
        let Some(lane) = self.lanes.get_mut(&machine) else { return };
        let Some(assumed) = lane.in_flight.take_if(|assumed| assumed.uid() == uid) else { return };
        let (from, pod, node) = (lane.from, lane.pod.take(), self.snapshot.name(machine).to_owned());
        match outcome {
            BindOutcome::Bound(version) => {
                self.deciding.remove(uid);
                if version < self.snapshot.allocation(machine).version {
                    // Somebody else's write came after ours.
                    self.abandon(machine, now_ms);
                } else {
                    self.snapshot.allocation_written(machine, version);
                }
                self.snapshot.confirm(assumed);
                self.queue.remove(uid);
                self.pending.remove(uid);
                // A pod that went meanwhile was not scheduled for anybody.
                let here = self.snapshot.placement(uid).is_some();
                effects.extend(pod.filter(|_| here).map(|pod| Effect::Scheduled { pod, node }));
                self.queue.wake(Wake::POD_PLACED, now_ms);
            }
            BindOutcome::Conflict(_) | BindOutcome::Unknown => {
                self.undo(assumed, now_ms);
                self.abandon(machine, now_ms);
                self.snapshot.doubt_allocation(machine);
                effects.push(Effect::ReadAllocation(node));
                self.queue.retry(uid, now_ms);
            }
            BindOutcome::Gone | BindOutcome::Refused(_) => {
                self.undo(assumed, now_ms);
                if self.snapshot.allocation(machine).version != from {
                    self.abandon(machine, now_ms);
                }
                self.queue.retry(uid, now_ms);
            }
        }
        self.launch(machine, now_ms, effects);
        self.unstall();
    }
}
