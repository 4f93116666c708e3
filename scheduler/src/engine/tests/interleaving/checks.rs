//! What must hold of gangs and of those that wait, as the store knows it.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::super::model::cpu_m;
use super::{GANG, MACHINES, World};
use crate::api::Pod;
use crate::engine::{Bind, Event};

fn gang_of(pod: &Pod) -> Option<&str> {
    pod.metadata.labels.get("gantry.dev/pod-group").map(String::as_str)
}

impl World {
    /// The store hears whom the scheduler wants ended; some do not go.
    pub(super) fn evict(&mut self, who: usize) {
        let victim = self.members[who].evictions.pop_front();
        let Some(victim) = victim.filter(|victim| self.store.pods.contains_key(victim)) else { return };
        // One that is refused for ever would be asked for ever.
        if !self.settles && self.now_ms.is_multiple_of(5) {
            self.members[who].answers.push_back(Event::EvictFailed(victim.as_str().into()));
        } else {
            self.leaves(|pod| pod.metadata.name == victim);
            self.store.delete_pod(&victim);
        }
    }

    /// These leave their gangs.
    pub(super) fn leaves(&mut self, which: impl Fn(&Pod) -> bool) {
        let at = self.store.log.len();
        let pods = self.store.pods.values().filter(|pod| !pod.spec.node_name.is_empty() && which(pod));
        self.left.extend(pods.filter_map(|pod| gang_of(pod)).map(|gang| (at, gang.to_owned())));
    }

    /// No gang is ever half-placed, as far as the scheduler could know when it decided.
    pub(super) fn check_gangs(&self, who: usize, bound: &[Bind]) {
        for gang in ["g0", "g1"] {
            let of = |bind: &&Bind| bind.pod.gang.as_ref().is_some_and(|of| of.name == gang);
            let together: BTreeSet<&str> = bound.iter().filter(of).map(|bind| &*bind.pod.uid).collect();
            if together.is_empty() {
                continue;
            }
            let others = self.store.pods.values().filter(|pod| {
                gang_of(pod) == Some(gang)
                    && !pod.spec.node_name.is_empty()
                    && !together.contains(pod.metadata.uid.as_str())
            });
            let since = together.iter().filter_map(|uid| self.members[who].decided.get(*uid)).min().copied();
            let left = self.left.iter().filter(|(at, of)| of == gang && Some(*at) >= since).count();
            let placed = together.len() + others.count();
            assert!(placed + left >= GANG, "{placed} of {gang} are placed, {left} left since");
        }
    }

    /// What should have a machine now and has none.
    pub(super) fn forgotten(&self) -> Option<String> {
        let unbound = self.store.unbound();
        for pod in &unbound {
            let (gang, needs) = (gang_of(pod), self.needs(gang_of(pod)));
            let with: Vec<&Arc<Pod>> = match needs {
                0 => vec![pod],
                _ => unbound.iter().filter(|other| gang_of(other) == gang).collect(),
            };
            if with.len() < needs {
                continue;
            }
            // Whatever order they are placed in, all of them fit where they would fit beside each other.
            for machine in MACHINES.iter().filter(|machine| self.store.would_fit(pod, machine)) {
                let asks: i64 = with.iter().map(|pod| cpu_m(pod)).sum();
                if with.len() == 1 || asks <= self.store.free_m(machine).0 {
                    return Some(format!(
                        "{} of {gang:?} would fit on {machine} with {}",
                        pod.metadata.name,
                        with.len()
                    ));
                }
            }
        }
        None
    }

    /// How many of the gang must find a place together.
    fn needs(&self, gang: Option<&str>) -> usize {
        let placed = |pod: &&Arc<Pod>| gang_of(pod) == gang && !pod.spec.node_name.is_empty();
        gang.map_or(0, |_| GANG.saturating_sub(self.store.pods.values().filter(placed).count()))
    }
}
