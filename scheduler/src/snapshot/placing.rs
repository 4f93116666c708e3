//! Pods come to machines and go: what the store says, and what is decided ahead of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::matching::{Carried, Matching};
use super::pods::Standing;
use super::{Ask, HolderId, Labels, Machine, Map, Placed, PodId, Snapshot, Topology, ZONE_KEY};
use crate::bits::Bits;
use crate::pod::{Band, PodInfo, Spec};

/// A placement that was counted before it is in the store.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "an assumed placement is confirmed or forgotten"]
pub struct Assumed {
    uid: Arc<str>,
    machine: Machine,
}

impl Assumed {
    pub fn uid(&self) -> &Arc<str> {
        &self.uid
    }

    pub fn machine(&self) -> Machine {
        self.machine
    }
}

/// Reading.
impl Snapshot {
    pub fn pods_on(&self, machine: Machine) -> impl Iterator<Item = &Placed> {
        self.pods.ids_on(machine).filter_map(|id| self.pods.get(id))
    }

    pub fn placed(&self) -> impl Iterator<Item = &Placed> {
        self.pods.all()
    }

    pub fn placed_count(&self) -> usize {
        self.pods.len()
    }

    pub fn placement(&self, uid: &str) -> Option<&Placed> {
        self.pods.get(self.pods.find(uid)?)
    }

    /// What a placed pod takes.
    pub fn ask_of(&self, placed: &Placed) -> Option<&Ask> {
        self.pods.spec(&placed.info.spec).map(|data| &data.ask)
    }
}

/// Following what the store says of pods.
impl Snapshot {
    /// The store says that this pod is on this machine.
    pub fn pod_bound(&mut self, info: Arc<PodInfo>, node: &str) {
        let machine = self.slot(node);
        self.place(info, machine, Standing::Stored);
    }

    /// The pod is gone or has ended. Returns where it took room.
    pub fn pod_gone(&mut self, uid: &str) -> Option<Machine> {
        let id = self.pods.find(uid)?;
        let machine = self.unplace(id)?;
        self.release(machine);
        Some(machine)
    }

    /// Nothing that is counted is different: only when it started.
    pub fn pod_started(&mut self, info: Arc<PodInfo>) {
        if let Some(placed) = self.pods.find(&info.uid).and_then(|id| self.pods.get_mut(id)) {
            placed.info = info;
        }
    }

    fn place(&mut self, info: Arc<PodInfo>, machine: Machine, standing: Standing) {
        let band = self.band(&info.class);
        self.comes(&info.spec);
        let placed = Placed { machine, info, band, standing };
        self.count(&placed, 1);
        // The old placement goes after the new one came, so that nothing that both use is let go between.
        if let Some(old) = self.pods.find(&placed.info.uid) {
            let old_machine = self.unplace(old);
            self.pods.insert(placed);
            if let Some(old_machine) = old_machine.filter(|old| *old != machine) {
                self.release(old_machine);
            }
        } else {
            self.pods.insert(placed);
        }
        if standing == Standing::Held {
            self.held.set(machine, true);
        }
    }

    fn unplace(&mut self, id: PodId) -> Option<Machine> {
        let placed = self.pods.remove(id)?;
        self.count(&placed, -1);
        self.goes(&placed.info.spec);
        if placed.standing == Standing::Held {
            let still = self.pods_on(placed.machine).any(|p| p.standing == Standing::Held);
            self.held.set(placed.machine, still);
        }
        Some(placed.machine)
    }

    fn count(&mut self, placed: &Placed, by: i32) {
        let Snapshot { pods, room, matching, topology, sets, owners, ports, teams, priorities, volumes, .. } = self;
        let same = priorities.entry(placed.importance()).or_insert(0);
        *same = same.saturating_add_signed(by);
        if *same == 0 {
            priorities.remove(&placed.importance());
        }
        ports.count(placed.machine, &placed.info.spec, by > 0);
        volumes.count(placed, by > 0);
        let member = pods.member(placed);
        if let Some(data) = pods.spec(&placed.info.spec) {
            room.count(placed.machine, &data.ask, placed.band, i64::from(by));
            teams.count(&placed.info.namespace, data.ask.main, i64::from(by));
        }
        matching.count(Map { topology, sets }, member, placed.machine, by);
        if spreads_by_itself(placed) {
            owners.count(&placed.info.owner, placed.machine, topology.domain(ZONE_KEY, placed.machine), by);
        }
    }

    /// The machine's zone is another one: its pods' owners count it there.
    pub(super) fn recount_owners(&mut self, machine: Machine, by: i32) {
        let Snapshot { pods, topology, owners, .. } = self;
        let zone = topology.domain(ZONE_KEY, machine);
        for placed in pods.ids_on(machine).filter_map(|id| pods.get(id)).filter(|p| spreads_by_itself(p)) {
            owners.count(&placed.info.owner, machine, zone, by);
        }
    }

    fn comes(&mut self, spec: &Arc<Spec>) {
        let Snapshot { pods, interner, matching, topology, live, labels, .. } = self;
        pods.spec_comes(spec, || {
            let ask = Ask::read(&spec.requests, |name| interner.resource(name));
            (ask, carries(matching, topology, live, labels, spec))
        });
    }

    fn goes(&mut self, spec: &Arc<Spec>) {
        for holder in self.pods.spec_goes(spec) {
            if let Some(key) = self.matching.release_holder(holder) {
                self.topology.release(key);
            }
        }
    }

    /// A priority class's band is this. Pods of the class are counted again where it changed.
    /// Returns whether it was another one.
    pub fn class_applied(&mut self, name: &str, label: Option<&str>) -> bool {
        let band = Band::read(label);
        let is_other = self.bands.insert(name.to_owned(), band).unwrap_or_default() != band;
        if is_other {
            self.recount(|placed| &*placed.info.class == name);
        }
        is_other
    }

    /// Returns whether its pods were of another band than pods of no class are.
    pub fn class_deleted(&mut self, name: &str) -> bool {
        let is_other = self.bands.remove(name).is_some_and(|band| band != Band::default());
        if is_other {
            self.recount(|placed| &*placed.info.class == name);
        }
        is_other
    }

    /// Returns whether its team or its labels were others.
    pub fn namespace_applied(&mut self, name: &str, labels: &BTreeMap<String, String>) -> bool {
        self.namespace(name, Some(labels))
    }

    pub fn namespace_deleted(&mut self, name: &str) {
        self.namespace(name, None);
    }

    fn namespace(&mut self, name: &str, labels: Option<&BTreeMap<String, String>>) -> bool {
        let team = self.team(name);
        self.teams.set(name, labels.unwrap_or(&BTreeMap::new()));
        let is_other_team = self.team(name) != team;
        if !self.matching.namespace(name, labels) {
            return is_other_team;
        }
        let all: Vec<Placed> = self.placed().cloned().collect();
        // Counted out by the old groups and in by the new ones.
        self.match_all(&all, -1);
        self.matching.regroup();
        self.match_all(&all, 1);
        true
    }

    fn match_all(&mut self, all: &[Placed], by: i32) {
        let Snapshot { pods, matching, topology, sets, .. } = self;
        for placed in all {
            matching.count(Map { topology, sets }, pods.member(placed), placed.machine, by);
        }
    }

    fn recount(&mut self, which: impl Fn(&Placed) -> bool) {
        let changed: Vec<Placed> = self.placed().filter(|placed| which(placed)).cloned().collect();
        for placed in changed {
            self.place(placed.info, placed.machine, placed.standing);
        }
    }
}

/// Deciding ahead of the store.
impl Snapshot {
    /// Counts the pod on the machine before it is in the store.
    pub fn assume(&mut self, info: Arc<PodInfo>, machine: Machine) -> Assumed {
        let uid = info.uid.clone();
        self.place(info, machine, Standing::Assumed);
        Assumed { uid, machine }
    }

    /// Keeps room for a pod that waits for it.
    pub fn hold(&mut self, info: Arc<PodInfo>, machine: Machine) -> Assumed {
        let uid = info.uid.clone();
        self.place(info, machine, Standing::Held);
        Assumed { uid, machine }
    }

    /// It is in the store.
    pub fn confirm(&mut self, assumed: Assumed) {
        if let Some(placed) = self.pods.find(&assumed.uid).and_then(|id| self.pods.get_mut(id)) {
            placed.standing = Standing::Stored;
        }
    }

    /// It did not get into the store. What the watch has said meanwhile stays. Returns whether room is free again.
    pub fn forget(&mut self, assumed: Assumed) -> bool {
        let ahead = self.placement(&assumed.uid).is_some_and(|p| p.standing != Standing::Stored);
        ahead && self.pod_gone(&assumed.uid).is_some()
    }
}

/// Services are spread over machines and zones without being asked; batch is not, and those that stop do not count.
fn spreads_by_itself(placed: &Placed) -> bool {
    placed.band.is_reserved() && !placed.info.deleting && !placed.info.owner.is_empty()
}

/// The rules that pods of the spec carry once they are placed.
fn carries(
    matching: &mut Matching,
    topology: &mut Topology,
    live: &Bits,
    labels: &[Labels],
    spec: &Spec,
) -> Vec<HolderId> {
    let apart = spec.anti_affinity.iter().map(|term| (term, Carried::Apart));
    let together = spec.affinity.iter().map(|term| (term, Carried::Together));
    let prefers = spec.preferences.iter().map(|term| (term, Carried::Prefers(term.weight)));
    apart
        .chain(together)
        .chain(prefers)
        .map(|(term, carried)| {
            let key = |name: &str| topology.acquire(name, live.iter().map(|m| (m, &labels[m])));
            matching.acquire_holder(term, carried, key)
        })
        .collect()
}
