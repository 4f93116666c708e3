//! The pods of the fleet: each has one write in flight at most, its newest status goes first, then its deletion. While reports are
//! paused no status is written; what happens meanwhile is remembered as one status.

use std::sync::Arc;

use gantry_apimachinery::meta::Uid;

use super::{Effect, Fleet, Key, Written};
use crate::api::Pod;
use crate::hollow::process::{Effect as Asked, Process};
use crate::hollow::{identity, life};
use crate::pod::{self, Level, Now};

/// A write that failed is tried again after this.
const RETRY_MS: u64 = 1_000;

#[derive(Debug)]
pub struct Slot {
    pub machine: u32,
    pub process: Process,
    /// Its status has to be written.
    dirty: bool,
    /// It has to be deleted.
    deleting: bool,
    in_flight: bool,
}

impl Fleet {
    pub(super) fn pod(&mut self, now: Now, pod: Arc<Pod>, out: &mut Vec<Effect>) {
        let Some(machine) = pod.spec.node_name.as_deref().and_then(|name| self.position(name)) else { return };
        let uid = pod.metadata.uid.clone();
        let known = self.pods.get(&uid).map(|slot| slot.process.pod().metadata.annotations.clone());
        if known.as_ref() != Some(&pod.metadata.annotations) {
            let (life, wrong) = life::of(&pod, &self.profile.pods, self.seed);
            match self.pods.get_mut(&uid) {
                Some(slot) => slot.process.set_life(life),
                None => {
                    let process = Process::new(pod.clone(), &self.host(machine), self.address(machine), life, now);
                    let slot = Slot { machine, process, dirty: false, deleting: false, in_flight: false };
                    self.pods.insert(uid.clone(), slot);
                }
            }
            out.extend(wrong.into_iter().map(|message| Effect::Tell {
                machine,
                pod: pod.clone(),
                level: Level::Warning,
                reason: "HollowAnnotation",
                message,
                container: None,
            }));
        }
        self.advance(now, &uid, pod::Event::Desired(pod), out);
    }

    fn address(&mut self, machine: u32) -> String {
        let entry = &mut self.machines[machine as usize];
        entry.addresses += 1;
        identity::pod_ip(entry.place.number, entry.pod_cidr.as_deref(), entry.addresses - 1).to_string()
    }

    /// The API has it no more. An agent confirms that with a read first; here the watch is believed.
    pub(super) fn gone(&mut self, now: Now, uid: &Uid, out: &mut Vec<Effect>) {
        self.advance(now, uid, pod::Event::Vanished, out);
        if let Some(slot) = self.pods.get_mut(uid) {
            // It stops for a while yet, but there is nobody to tell.
            (slot.dirty, slot.deleting) = (false, false);
        }
    }

    pub(super) fn advance(&mut self, now: Now, uid: &Uid, event: pod::Event, out: &mut Vec<Effect>) {
        let Some(slot) = self.pods.get_mut(uid) else { return };
        let effects = slot.process.step(now, event);
        let mut not_before_ms = None;
        for effect in effects {
            match effect {
                Asked::Status => {
                    slot.dirty = true;
                    not_before_ms = Some(now.boot_ms + self.batch_ms);
                }
                Asked::Delete => {
                    slot.deleting = true;
                    not_before_ms = Some(now.boot_ms);
                }
                Asked::Tell { level, reason, message, container } => {
                    let pod = slot.process.pod().clone();
                    out.push(Effect::Tell { machine: slot.machine, pod, level, reason, message, container });
                }
                Asked::Forget => {
                    self.pods.remove(uid);
                    return self.timers.set(&Key::Pod(uid.clone()), None);
                }
            }
        }
        let wake_ms = slot.process.wake_ms();
        self.timers.set(&Key::Pod(uid.clone()), wake_ms);
        if let Some(at_ms) = not_before_ms {
            self.queue(uid, at_ms);
        }
    }

    /// Gives the pod a turn, if there is anything to write and nothing in flight.
    fn queue(&mut self, uid: &Uid, not_before_ms: u64) {
        let Some(slot) = self.pods.get(uid) else { return };
        if !slot.in_flight && (slot.deleting || slot.dirty && !self.paused) {
            self.pod_writes.push(uid.clone(), not_before_ms);
        }
    }

    pub(super) fn next_write(&mut self, uid: &Uid) -> Option<Effect> {
        let slot = self.pods.get_mut(uid)?;
        let pod = slot.process.pod().clone();
        if slot.dirty && !self.paused {
            (slot.dirty, slot.in_flight) = (false, true);
            return Some(Effect::WriteStatus { pod, status: Box::new(slot.process.status().clone()) });
        }
        if slot.deleting {
            (slot.deleting, slot.in_flight) = (false, true);
            return Some(Effect::Delete { pod });
        }
        None
    }

    pub(super) fn written(&mut self, now: Now, uid: Uid, outcome: Written) {
        self.pod_writes.ended();
        match outcome {
            Written::Done => self.figures.statuses += 1,
            Written::Again | Written::Refused => self.figures.failures += 1,
        }
        let Some(slot) = self.pods.get_mut(&uid) else { return };
        slot.in_flight = false;
        slot.dirty |= outcome == Written::Again;
        self.queue(&uid, now.boot_ms + if outcome == Written::Again { RETRY_MS } else { 0 });
    }

    pub(super) fn deleted(&mut self, now: Now, uid: Uid, result: Result<(), String>, out: &mut Vec<Effect>) {
        self.pod_writes.ended();
        match &result {
            Ok(()) => self.figures.deletions += 1,
            Err(_) => self.figures.failures += 1,
        }
        let Some(slot) = self.pods.get_mut(&uid) else { return };
        slot.in_flight = false;
        self.advance(now, &uid, pod::Event::Deleted(result), out);
        self.queue(&uid, now.boot_ms);
    }

    pub(super) fn pause(&mut self, now: Now, paused: bool) {
        self.paused = paused;
        if !paused {
            let dirty: Vec<Uid> = self.pods.iter().filter(|(_, slot)| slot.dirty).map(|(uid, _)| uid.clone()).collect();
            dirty.iter().for_each(|uid| self.queue(uid, now.boot_ms));
        }
    }
}
