//! What pods' volumes are made of comes and goes; and a pod that is decided waits for a volume that follows the decision. Decides
//! only which waiting pods a change could help.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use gantry_apimachinery::meta::Object;

use super::{Effect, Engine, Nomination, Stored, Waits};
use crate::api::{CsiNode, PersistentVolume, PersistentVolumeClaim, StorageClass};
use crate::class::Class;
use crate::plugins::claims::writes;
use crate::plugins::{Reason, Wake};
use crate::pod::PodInfo;
use crate::queue::{Found, Place};
use crate::schedule::{Refused, Unschedulable};
use crate::snapshot::Machine;

/// So long its room is kept for a pod whose volume is being made. (Kubernetes: VolumeBinding's `bindTimeoutSeconds`.)
const VOLUME_MS: u64 = 600_000;

fn missing<T: Object>(known: Vec<String>, all: &[Arc<T>]) -> Vec<String> {
    let present: BTreeSet<String> = all.iter().map(|object| object.meta().key()).collect();
    known.into_iter().filter(|name| !present.contains(name)).collect()
}

/// Following.
impl Engine {
    pub(super) fn stored(&mut self, stored: &Stored) {
        match stored {
            Stored::Claim(claim) => self.claim(claim),
            Stored::ClaimGone(key) => self.claim_gone(key),
            Stored::AllClaims(all) => {
                missing(self.snapshot.claim_keys(), all).iter().for_each(|key| self.claim_gone(key));
                all.iter().for_each(|claim| self.claim(claim));
            }
            Stored::Volume(volume) => self.volume(volume),
            Stored::VolumeGone(name) => self.volume_gone(name),
            Stored::AllVolumes(all) => {
                missing(self.snapshot.volume_names(), all).iter().for_each(|name| self.volume_gone(name));
                all.iter().for_each(|volume| self.volume(volume));
            }
            Stored::Class(class) => self.storage_class(class),
            Stored::ClassGone(name) => self.snapshot.storage_class_deleted(name),
            Stored::AllClasses(all) => {
                let gone = missing(self.snapshot.storage_class_names(), all);
                gone.iter().for_each(|name| self.snapshot.storage_class_deleted(name));
                all.iter().for_each(|class| self.storage_class(class));
            }
            Stored::Machine(node) => self.volume_limits(node),
            Stored::MachineGone(name) => self.volume_limits_gone(name),
            Stored::AllMachines(all) => {
                let gone = missing(self.snapshot.limited_machines(), all);
                gone.iter().for_each(|name| self.volume_limits_gone(name));
                all.iter().for_each(|node| self.volume_limits(node));
            }
        }
    }

    fn claim(&mut self, claim: &PersistentVolumeClaim) {
        if self.snapshot.claim_applied(claim) {
            self.news.of_claim(&claim.metadata.key());
        }
    }

    /// That helps nobody, but another reason is told.
    fn claim_gone(&mut self, key: &str) {
        if self.snapshot.claim_deleted(key) {
            self.news.of_claim(key);
        }
    }

    /// One that is for a claim helps that claim's pods only; of another one, it matters that it can be had.
    fn volume(&mut self, volume: &PersistentVolume) {
        if !self.snapshot.volume_applied(volume) {
            return;
        }
        match self.snapshot.volume(&volume.metadata.name).map(|known| (known.claim.clone(), known.is_available)) {
            Some((Some((claim, _)), _)) => self.news.of_claim(&claim),
            Some((None, true)) => self.news.of_any_claim(),
            _ => {}
        }
    }

    fn volume_gone(&mut self, name: &str) {
        let claim = self.snapshot.volume(name).and_then(|known| known.claim.clone());
        self.snapshot.volume_deleted(name);
        if let Some((claim, _)) = claim {
            self.news.of_claim(&claim);
        }
    }

    fn storage_class(&mut self, class: &StorageClass) {
        if self.snapshot.storage_class_applied(class) {
            self.news.of_any_claim();
        }
    }

    fn volume_limits(&mut self, node: &CsiNode) {
        let name = &node.metadata.name;
        if self.snapshot.volume_limits_applied(node)
            && let Some(machine) = self.snapshot.find(name)
        {
            self.news.on(Wake::MACHINE, machine);
        }
    }

    fn volume_limits_gone(&mut self, name: &str) {
        if self.snapshot.volume_limits_deleted(name)
            && let Some(machine) = self.snapshot.find(name)
        {
            self.news.on(Wake::MACHINE, machine);
        }
    }
}

/// Waiting.
impl Engine {
    /// The pod is to go to the machine, but some of its volumes follow the decision: what they need is written, its room is
    /// kept, and it is decided again when they are there. False when nothing is to be waited for.
    pub(super) fn await_volumes(
        &mut self,
        info: &Arc<PodInfo>,
        class: &Arc<Class>,
        machine: Machine,
        now_ms: u64,
        effects: &mut Vec<Effect>,
    ) -> bool {
        if info.claims.is_empty() {
            return false;
        }
        let Some(writes) = writes(&self.snapshot, &info.claims, machine) else { return false };
        let found = self.volumes_awaited(class, machine);
        self.queue.found(found.clone(), now_ms);
        let hold = self.snapshot.hold(info.clone(), machine);
        let until_ms = Some(now_ms + VOLUME_MS);
        let waits = Waits { until_ms, for_volumes: true, ..Waits::default() };
        self.nominated.insert(info.uid.clone(), Nomination { hold, waits });
        if !writes.is_empty() {
            effects.push(Effect::PrepareVolumes { pod: info.clone(), writes });
        }
        self.explain(&info.uid, &found.message, effects);
        self.queue.sleep(&info.uid, class.id, until_ms, now_ms);
        true
    }

    /// Somebody wrote in between, or nothing got through: decided again after a back-off, unless it got further meanwhile.
    pub(super) fn volumes_unwritten(&mut self, uid: &str, now_ms: u64) {
        if self.queue.place(uid).is_some_and(|(place, ..)| matches!(place, Place::Sleeping(_))) {
            self.queue.retry(uid, now_ms);
        }
    }

    /// What is said of a class whose pods wait for a volume on the machine.
    pub(super) fn volumes_awaited(&self, class: &Arc<Class>, machine: Machine) -> Found {
        let name = self.snapshot.name(machine);
        let machines = self.snapshot.machines().count();
        let reason = Reason::Provisioning(name.into());
        let wake_on = reason.wake_on();
        let reasons = BTreeMap::from([(reason, Refused { machines, nearest: None })]);
        let none = Unschedulable { machines, refused: machines, reasons, curable: Vec::new(), wake_on };
        let message = format!("waits for its volume to be provisioned on {name}").into();
        Found { class: class.clone(), none: Arc::new(none), message }
    }
}
