//! How the engine follows the store: nodes, allocations and pods come and go. Decides only which waiting pods that could
//! help.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{Effect, Engine, Pending};
use crate::api::{Node, NodeAllocation, Pod};
use crate::plugins::Wake;
use crate::pod::PodInfo;

impl Engine {
    pub(super) fn node(&mut self, node: &Node, now_ms: u64) {
        if self.snapshot.node_applied(node) {
            self.queue.wake(Wake::MACHINE, now_ms);
        }
        self.unstall();
    }

    pub(super) fn all_nodes(&mut self, nodes: &[Arc<Node>], now_ms: u64) {
        let names: BTreeSet<&str> = nodes.iter().map(|n| n.metadata.name.as_str()).collect();
        let gone: Vec<String> = self
            .snapshot
            .machines()
            .map(|m| self.snapshot.name(m).to_owned())
            .filter(|name| !names.contains(name.as_str()))
            .collect();
        for name in gone {
            self.snapshot.node_deleted(&name);
        }
        for node in nodes {
            self.node(node, now_ms);
        }
    }

    pub(super) fn allocation(&mut self, read: &NodeAllocation, now_ms: u64, effects: &mut Vec<Effect>) {
        let name = &read.metadata.name;
        let is_first = self.snapshot.find(name).is_none_or(|m| self.snapshot.allocation(m).version == 0);
        if !self.snapshot.allocation_applied(name, read.metadata.revision(), read.writes) {
            return;
        }
        if is_first {
            self.queue.wake(Wake::MACHINE, now_ms);
        }
        if let Some(machine) = self.snapshot.find(name) {
            // With a bind under way this may be its own version; its answer will tell.
            if self.lanes.get(&machine).is_some_and(|lane| lane.in_flight.is_none()) {
                self.abandon(machine, now_ms);
            }
        }
        self.moved_on(now_ms, effects);
    }

    pub(super) fn all_allocations(&mut self, all: &[Arc<NodeAllocation>], now_ms: u64, effects: &mut Vec<Effect>) {
        let names: BTreeSet<&str> = all.iter().map(|a| a.metadata.name.as_str()).collect();
        let known = (0..self.snapshot.slots()).filter(|m| self.snapshot.allocation(*m).version > 0);
        let known: Vec<String> = known.map(|m| self.snapshot.name(m).to_owned()).collect();
        for name in known.iter().filter(|name| !names.contains(name.as_str())) {
            self.snapshot.allocation_deleted(name);
        }
        for allocation in all {
            self.allocation(allocation, now_ms, effects);
        }
    }

    pub(super) fn pod(&mut self, pod: &Arc<Pod>, now_ms: u64) {
        let uid = pod.metadata.uid.as_str();
        if pod.is_ended() {
            return self.pod_gone(uid, now_ms);
        }
        if !pod.spec.node_name.is_empty() {
            return self.bound(pod, now_ms);
        }
        let ours = pod.spec.scheduler_name == self.scheduler_name
            && pod.spec.scheduling_gates.is_empty()
            && !pod.metadata.is_deleting();
        if !ours {
            self.withdraw(uid, now_ms);
            return;
        }
        if self.snapshot.placement(uid).is_some_and(|placed| !placed.assumed) {
            // The answer to its bind was faster than the watch: a pod never loses its machine.
            return;
        }
        let told = self.pending.remove(uid).and_then(|pending| pending.told);
        self.pending.insert(uid.to_owned(), Pending { pod: pod.clone(), told });
        if !self.deciding.contains_key(uid) {
            self.queue.put(Arc::new(PodInfo::read(pod)));
        }
    }

    fn bound(&mut self, pod: &Arc<Pod>, now_ms: u64) {
        let uid = pod.metadata.uid.as_str();
        self.withdraw(uid, now_ms);
        let info = PodInfo::read(pod);
        let known = self.snapshot.placement(uid);
        let same = known.is_some_and(|placed| {
            self.snapshot.name(placed.machine) == pod.spec.node_name && !placed.assumed && *placed.info == info
        });
        // Somebody else placed it: what we had in mind for it is free.
        let moved = known.is_some_and(|placed| self.snapshot.name(placed.machine) != pod.spec.node_name);
        if !same {
            self.snapshot.pod_bound(Arc::new(info), &pod.spec.node_name);
            self.queue.wake(if moved { Wake::POD_PLACED.or(Wake::POD_GONE) } else { Wake::POD_PLACED }, now_ms);
        }
    }

    pub(super) fn pod_gone(&mut self, uid: &str, now_ms: u64) {
        self.withdraw(uid, now_ms);
        if !self.snapshot.pod_gone(uid) {
            return;
        }
        // Whom it made way for goes first.
        let mut waited = Vec::new();
        for (preemptor, nomination) in &mut self.nominated {
            if nomination.victims.remove(uid) {
                waited.push(preemptor.clone());
            }
        }
        for preemptor in waited {
            self.queue.again(&preemptor);
        }
        self.queue.wake(Wake::POD_GONE, now_ms);
    }

    pub(super) fn all_pods(&mut self, pods: &[Arc<Pod>], now_ms: u64) {
        let present: BTreeSet<&str> = pods.iter().map(|p| p.metadata.uid.as_str()).collect();
        let placed = self.snapshot.placed().filter(|p| !p.assumed).map(|p| p.info.uid.clone());
        let known: BTreeSet<String> = placed.chain(self.pending.keys().cloned()).collect();
        for uid in known.iter().filter(|uid| !present.contains(uid.as_str())) {
            self.pod_gone(uid, now_ms);
        }
        for pod in pods {
            self.pod(pod, now_ms);
        }
    }

    /// The pod does not want a machine from us any more.
    fn withdraw(&mut self, uid: &str, now_ms: u64) {
        self.pending.remove(uid);
        self.queue.remove(uid);
        self.stalled.remove(uid);
        if let Some(nomination) = self.nominated.remove(uid) {
            self.snapshot.forget(nomination.hold);
            self.queue.wake(Wake::POD_GONE, now_ms);
        }
    }

    /// A watch moved on: machines may be current again.
    pub(super) fn moved_on(&mut self, now_ms: u64, effects: &mut Vec<Effect>) {
        let waiting = self.lanes.iter().filter(|(_, lane)| lane.in_flight.is_none()).map(|(machine, _)| *machine);
        for machine in waiting.collect::<Vec<_>>() {
            self.launch(machine, now_ms, effects);
        }
        self.unstall();
    }

    pub(super) fn unstall(&mut self) {
        for uid in std::mem::take(&mut self.stalled) {
            self.queue.again(&uid);
        }
    }
}
