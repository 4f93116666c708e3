//! What the rules of waiting pods need kept: sets of machines and views of counts, acquired when a class of pods is prepared and
//! released when it is let go. And what a decision asks of them.

use std::sync::Arc;

use super::matching::Member;
use super::{Carried, Face, HolderId, KeyId, Machine, Map, MatchRule, NodeRule, NodeSetId, ResourceId, Snapshot};
use super::{Placed, View, ViewId};
use crate::pod::{PodInfo, PodRule, Tags};

impl Snapshot {
    pub fn resource_id(&mut self, name: &str) -> ResourceId {
        self.interner.resource(name)
    }

    pub fn acquire_set(&mut self, rule: NodeRule) -> NodeSetId {
        let Snapshot { sets, live, names, labels, taints, cordoned, .. } = self;
        let machines = live.iter().map(|m| {
            let (name, labels, taints) = (&*names[m], &labels[m], &taints[m][..]);
            (m, Face { name, labels, taints, cordoned: cordoned.get(m) })
        });
        sets.acquire(rule, machines)
    }

    pub fn release_set(&mut self, set: NodeSetId) {
        self.sets.release(set);
    }

    pub fn acquire_key(&mut self, name: &str) -> KeyId {
        let Snapshot { topology, live, labels, .. } = self;
        topology.acquire(name, live.iter().map(|m| (m, &labels[m])))
    }

    /// Counts the pods that `rule` speaks of by domain of `key`, on the machines of `eligible` only.
    pub fn acquire_view(&mut self, rule: &MatchRule, key: &str, eligible: Option<NodeRule>) -> ViewId {
        let key = self.acquire_key(key);
        let eligible = eligible.map(|rule| self.acquire_set(rule));
        let Snapshot { matching, topology, sets, live, .. } = self;
        let map = Map { topology, sets };
        let (view, is_new) = matching.acquire_view(map, rule, key, eligible, live.iter());
        if !is_new {
            // The view holds its key and set once.
            self.topology.release(key);
            eligible.into_iter().for_each(|set| self.sets.release(set));
        }
        view
    }

    pub fn release_view(&mut self, view: ViewId) {
        if let Some((key, eligible)) = self.matching.release_view(view) {
            self.topology.release(key);
            eligible.into_iter().for_each(|set| self.sets.release(set));
        }
    }

    pub fn view(&self, view: ViewId) -> &View {
        self.matching.view(view)
    }

    /// How many pods the view counts where the machine is; `None` when the machine is in no domain of it.
    pub fn viewed(&self, view: ViewId, machine: Machine) -> Option<i32> {
        let view = self.matching.view(view);
        self.topology.domain(view.key, machine).map(|domain| view.of(domain))
    }

    /// How many of these pods the view counts on the machine.
    pub fn viewed_of(&self, id: ViewId, machine: Machine, pods: &[&Placed]) -> i32 {
        let view = self.matching.view(id);
        if pods.is_empty() || view.domain(self.map(), machine).is_none() {
            return 0;
        }
        let counted = pods.iter().filter(|placed| self.matching.is_counted(id, self.member(placed)));
        i32::try_from(counted.count()).unwrap_or(i32::MAX)
    }

    fn member<'a>(&'a self, placed: &'a Placed) -> Member<'a> {
        self.pods.member(placed)
    }

    pub fn is_about(&self, rule: &PodRule, tags: &Tags) -> bool {
        self.matching.is_about(rule, tags)
    }

    /// The rules that placed pods carry and that speak of this one.
    pub fn carried_about(&mut self, info: &PodInfo) -> Vec<HolderId> {
        let tags: &Arc<Tags> = &info.tags;
        let about = self.matching.carried_about(tags).to_vec();
        about.into_iter().filter(|holder| self.matching.has_carriers(*holder)).collect()
    }

    pub fn carried(&self, holder: HolderId) -> (Carried, KeyId) {
        self.matching.carried(holder)
    }

    pub fn holder_serial(&self, holder: HolderId) -> u64 {
        self.matching.holder_serial(holder)
    }

    /// How many pods carry the rule where the machine is.
    pub fn carriers(&self, holder: HolderId, machine: Machine) -> i32 {
        let (_, key) = self.matching.carried(holder);
        self.topology.domain(key, machine).map_or(0, |domain| self.matching.carriers(holder, domain))
    }

    /// How many of these pods, all on one machine, carry the rule.
    pub fn carriers_of(&self, holder: HolderId, pods: &[&Placed]) -> i32 {
        let carried = pods.iter().filter(|placed| self.member(placed).carries.contains(&holder));
        i32::try_from(carried.count()).unwrap_or(i32::MAX)
    }
}
