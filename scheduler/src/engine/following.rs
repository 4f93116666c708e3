//! How the engine follows the store: nodes, allocations and pods come and go. Decides only which waiting pods that could
//! help.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{Effect, Engine, Nomination, Pending};
use crate::api::{Node, NodeAllocation, Pod};
use crate::plugins::Wake;
use crate::pod::PodInfo;
use crate::snapshot::{Machine, Standing, Version, Watch};

impl Engine {
    pub(super) fn node(&mut self, node: &Node, effects: &mut Vec<Effect>) {
        let is_news = self.snapshot.node_applied(node);
        if let Some(machine) = self.snapshot.find(&node.metadata.name) {
            if is_news {
                self.news.on(Wake::MACHINE, machine);
                self.ask_nominated_again(machine);
            }
            // Its version may have waited for this.
            self.launch(machine, effects);
        }
        self.unstall();
    }

    /// Whoever waits for room on this machine may have to look elsewhere now.
    fn ask_nominated_again(&mut self, machine: Machine) {
        for (uid, _) in self.nominated.iter().filter(|(_, nomination)| nomination.hold.machine() == machine) {
            self.queue.again(uid);
        }
    }

    pub(super) fn node_gone(&mut self, name: &str) {
        let machine = self.snapshot.find(name);
        machine.into_iter().for_each(|machine| self.ask_nominated_again(machine));
        self.snapshot.node_deleted(name);
        machine.into_iter().for_each(|machine| self.abandon_waiting(machine));
        // Its zone, and with it what spreads, is another one.
        self.news.everywhere(Wake::POD_GONE);
    }

    pub(super) fn all_nodes(&mut self, nodes: &[Arc<Node>], effects: &mut Vec<Effect>) {
        let names: BTreeSet<&str> = nodes.iter().map(|n| n.metadata.name.as_str()).collect();
        let known = self.snapshot.machines().map(|m| self.snapshot.name(m).to_owned());
        let gone: Vec<String> = known.filter(|name| !names.contains(name.as_str())).collect();
        gone.iter().for_each(|name| self.node_gone(name));
        nodes.iter().for_each(|node| self.node(node, effects));
    }

    /// There is no version to decide from any more.
    pub(super) fn allocation_gone(&mut self, name: &str) {
        let machine = self.snapshot.find(name);
        self.snapshot.allocation_deleted(name);
        machine.into_iter().for_each(|machine| self.abandon_waiting(machine));
    }

    /// With a bind under way, its answer will tell what becomes of those that wait for it.
    fn abandon_waiting(&mut self, machine: Machine) {
        if self.lanes.get(&machine).is_some_and(|lane| lane.in_flight.is_none()) {
            self.abandon(machine);
        }
    }

    pub(super) fn allocation(&mut self, read: &NodeAllocation, effects: &mut Vec<Effect>) {
        let name = &read.metadata.name;
        let is_first = self.snapshot.find(name).is_none_or(|m| self.snapshot.allocation(m).version == 0);
        if !self.snapshot.allocation_applied(name, Version::read(read)) {
            return;
        }
        if let Some(machine) = self.snapshot.find(name) {
            if is_first {
                self.news.on(Wake::MACHINE, machine);
            }
            // With a bind under way this may be its own version.
            self.abandon_waiting(machine);
            self.launch(machine, effects);
        }
        self.unstall();
    }

    pub(super) fn all_allocations(&mut self, all: &[Arc<NodeAllocation>], effects: &mut Vec<Effect>) {
        let names: BTreeSet<&str> = all.iter().map(|a| a.metadata.name.as_str()).collect();
        let known = (0..self.snapshot.slots()).filter(|m| self.snapshot.allocation(*m).version > 0);
        let known: Vec<String> = known.map(|m| self.snapshot.name(m).to_owned()).collect();
        for name in known.iter().filter(|name| !names.contains(name.as_str())) {
            self.allocation_gone(name);
        }
        for allocation in all {
            self.allocation(allocation, effects);
        }
    }

    pub(super) fn pod(&mut self, pod: &Arc<Pod>, now_ms: u64, effects: &mut Vec<Effect>) {
        let uid = pod.metadata.uid.as_str();
        if pod.is_ended() {
            return self.ended(pod);
        }
        if !pod.spec.node_name.is_empty() {
            return self.bound(pod, effects);
        }
        let scheduler = self.schedulers.get(pod.spec.scheduler_name.as_str()).cloned();
        let ours = scheduler.filter(|_| pod.spec.scheduling_gates.is_empty() && !pod.metadata.is_deleting());
        let Some(scheduler) = ours else {
            self.withdraw(uid);
            return;
        };
        if self.snapshot.placement(uid).is_some_and(|placed| placed.standing == Standing::Stored) {
            // The answer to its bind was faster than the watch: a pod never loses its machine.
            return;
        }
        let info = self.snapshot.adopt(PodInfo::read(pod));
        let known = self.pending.remove(uid);
        let (told, since_ms, keep_after_ms) =
            known.map_or((None, now_ms, 0), |known| (known.told, known.since_ms, known.keep_after_ms));
        let condition = pod.condition("PodScheduled").cloned();
        let nominated = pod.status.nominated_node_name.clone();
        let renominated = !nominated.is_empty() && !self.nominated.contains_key(uid);
        let pending = Pending {
            info: info.clone(),
            scheduler,
            condition,
            nominated: nominated.clone(),
            told,
            since_ms,
            keep_after_ms,
        };
        self.pending.insert(info.uid.clone(), pending);
        // Also while it is on its way to a machine: should that fail, it is decided as it is now.
        let (band, team) = (self.snapshot.band(&info.class), self.snapshot.team(&info.namespace));
        self.queue.put(info.clone(), band, team);
        self.gang_pending(&info);
        if self.deciding.contains_key(uid) {
            return;
        }
        if renominated && let Some(machine) = self.snapshot.find(&nominated) {
            self.renominate(&info, machine);
        }
    }

    /// Somebody before us made room for the pod: it is kept.
    fn renominate(&mut self, info: &Arc<PodInfo>, machine: Machine) {
        let going = self.snapshot.pods_on(machine).filter(|placed| placed.info.deleting);
        let victims: BTreeSet<Arc<str>> = going.map(|placed| placed.info.uid.clone()).collect();
        let class = self.class_of(info);
        if self.will_have_room(&class, machine, &victims) {
            let hold = self.snapshot.hold(info.clone(), machine);
            self.nominated.insert(info.uid.clone(), Nomination::of_victims(hold, victims));
        }
    }

    fn bound(&mut self, pod: &Arc<Pod>, effects: &mut Vec<Effect>) {
        self.placed_by_store(pod);
        if let Some(machine) = self.snapshot.find(&pod.spec.node_name)
            && self.snapshot.pod_told(machine, pod.metadata.revision())
        {
            self.launch(machine, effects);
            self.unstall();
        }
    }

    fn placed_by_store(&mut self, pod: &Pod) {
        let uid = pod.metadata.uid.as_str();
        self.withdraw_pending(uid);
        let info = self.snapshot.adopt(PodInfo::read(pod));
        let node = &pod.spec.node_name;
        let known = self.snapshot.placement(uid);
        let same = known.is_some_and(|placed| {
            let counted = PodInfo { started_us: info.started_us, ..(*placed.info).clone() };
            self.snapshot.name(placed.machine) == node && placed.standing == Standing::Stored && counted == *info
        });
        // Somebody else placed it: what we had in mind for it is free.
        let moved = known.filter(|placed| self.snapshot.name(placed.machine) != node).map(|placed| placed.machine);
        self.gang_bound_unless_going(&info);
        if same {
            self.snapshot.pod_started(info);
            return;
        }
        self.snapshot.pod_bound(info, node);
        if let Some(machine) = self.snapshot.find(node) {
            // It may have other labels, be ending, or take less after a resize.
            self.news.on(Wake::POD_PLACED.or(Wake::POD_GONE), machine);
        }
        if let Some(machine) = moved {
            self.news.on(Wake::POD_GONE, machine);
        }
    }

    /// Its containers have ended: it takes no room, and did start with its gang.
    fn ended(&mut self, pod: &Pod) {
        let uid = pod.metadata.uid.as_str();
        if pod.spec.node_name.is_empty() {
            return self.pod_gone(uid);
        }
        self.withdraw_pending(uid);
        self.leaves(uid);
        let info = self.snapshot.adopt(PodInfo::read(pod));
        self.gang_bound_unless_going(&info);
    }

    pub(super) fn pod_gone(&mut self, uid: &str) {
        self.withdraw(uid);
        self.leaves(uid);
    }

    /// The pod takes no room any more.
    fn leaves(&mut self, uid: &str) {
        let Some(machine) = self.snapshot.pod_gone(uid) else { return };
        // Whom it made way for, and who waits for the machine, goes first.
        let mut waited = Vec::new();
        for (preemptor, nomination) in &mut self.nominated {
            // The room is there once the last of them is gone.
            let made_way = nomination.waits.victims.remove(uid) && nomination.waits.victims.is_empty();
            if made_way || (nomination.hold.machine() == machine && nomination.waits_for_machine()) {
                waited.push(preemptor.clone());
            }
        }
        for preemptor in waited {
            self.queue.again(&preemptor);
        }
        self.news.on(Wake::POD_GONE, machine);
    }

    pub(super) fn all_pods(&mut self, pods: &[Arc<Pod>], now_ms: u64, effects: &mut Vec<Effect>) {
        let present: BTreeSet<&str> = pods.iter().map(|p| p.metadata.uid.as_str()).collect();
        let placed = self.snapshot.placed().filter(|p| p.standing == Standing::Stored).map(|p| p.info.uid.clone());
        // Of gangs, those that have ended as well.
        let waiting = self.pending.keys().chain(self.gangs.members()).cloned();
        let known: BTreeSet<Arc<str>> = placed.chain(waiting).collect();
        for uid in known.iter().filter(|uid| !present.contains(&***uid)) {
            self.pod_gone(uid);
        }
        // Those on machines first: who waits may have been promised the room of some that are going.
        let (waiting, placed): (Vec<_>, Vec<_>) = pods.iter().partition(|pod| pod.spec.node_name.is_empty());
        for pod in placed.into_iter().chain(waiting) {
            self.pod(pod, now_ms, effects);
        }
    }

    /// The pod does not want a machine from us any more, and is of no gang.
    fn withdraw(&mut self, uid: &str) {
        self.withdraw_pending(uid);
        self.gang_gone(uid);
    }

    fn withdraw_pending(&mut self, uid: &str) {
        self.pending.remove(uid);
        self.queue.remove(uid);
        self.stalled.remove(uid);
        self.give_back(uid);
    }

    /// A watch moved on: machines may be current again.
    pub(super) fn reached(&mut self, watch: Watch, revision: u64, effects: &mut Vec<Effect>) {
        for machine in self.snapshot.reached(watch, revision) {
            self.launch(machine, effects);
        }
        self.unstall();
    }

    pub(super) fn unstall(&mut self) {
        for uid in std::mem::take(&mut self.stalled) {
            self.queue.again(&uid);
        }
    }
}
