//! Keeps a replica set's number of pods.

mod core;
#[cfg(test)]
mod tests;
mod types;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use gantry_apimachinery::meta::Object;
use gantry_apimachinery::time::Timestamp;
use gantry_client::ApiError;

use crate::edge::{Controller, Env, Feeds, Informers, Key, Memory, rest};
use crate::objects::{Pod, ReplicaSet, compile};
use crate::plan::Plan;

#[cfg(test)]
pub use core::reconcile;
#[cfg(test)]
pub use types::Observed;

/// The loop's edge. Keys are replica sets.
pub struct ReplicaSets;

impl Controller for ReplicaSets {
    type Observed = types::Observed;
    const NAME: &'static str = "replicaset";
    const COMPONENT: &'static str = "replicaset-controller";
    const WORKERS: usize = 8;

    fn new(_env: &Arc<Env>) -> Self {
        ReplicaSets
    }

    fn feed(&self, env: &Arc<Env>, feeds: &mut Feeds) {
        feeds.on(&env.informers.replica_sets, |set: &ReplicaSet| vec![Key::of(set)]);
        let sets = env.informers.replica_sets.clone();
        feeds.on(&env.informers.pods, move |pod: &Pod| match pod.owner() {
            Some(owner) if owner.kind == "ReplicaSet" => vec![Key::new(pod.namespace(), &owner.name)],
            Some(_) => Vec::new(),
            None => {
                let adopts = |set: &&Arc<ReplicaSet>| {
                    compile(&set.spec.selector).is_some_and(|s| s.matches(&pod.metadata.labels))
                };
                sets.list_namespace(pod.namespace()).iter().filter(adopts).map(|set| Key::of(&**set)).collect()
            }
        });
    }

    fn keys(env: &Env) -> Vec<Key> {
        env.informers.replica_sets.list().iter().map(|set| Key::of(&**set)).collect()
    }

    async fn observe(&self, env: &Env, key: &Key, memory: &Memory) -> Result<Option<Self::Observed>, ApiError> {
        let Some(set) = env.informers.replica_sets.get(&key.namespace, &key.name) else { return Ok(None) };
        let pods = Informers::candidates(&env.informers.pods, set.uid(), &key.namespace);
        let pods = memory.remaining(pods);
        // Only a set that gives up pods asks where its siblings are.
        let owned = pods.iter().filter(|pod| pod.is_active() && pod.owner().is_some()).count();
        let shrinks = owned > usize::try_from(set.replicas()).unwrap_or(0);
        let siblings = if shrinks { siblings(env, &set) } else { BTreeMap::new() };
        Ok(Some(types::Observed { set, pods, siblings, failure: memory.failure.clone() }))
    }

    fn reconcile(observed: &Self::Observed, now: Timestamp) -> Plan {
        core::reconcile(observed, now)
    }

    fn rest(observed: &Self::Observed) -> Duration {
        rest(observed.pods.len())
    }

    fn stale(env: &Env) -> u64 {
        let lags = |set: &&Arc<ReplicaSet>| set.status.observed_generation < set.metadata.generation;
        env.informers.replica_sets.list().iter().filter(lags).count() as u64
    }
}

/// Active pods per machine of all sets with the same owner.
fn siblings(env: &Env, set: &ReplicaSet) -> BTreeMap<String, usize> {
    let sets = match set.metadata.controller() {
        Some(owner) => env.informers.replica_sets.by_index(crate::edge::OWNER, owner.uid.as_str()),
        None => env.informers.replica_sets.get(set.namespace(), set.name()).into_iter().collect(),
    };
    let mut counts = BTreeMap::new();
    for pod in sets.iter().flat_map(|s| env.informers.pods.by_index(crate::edge::OWNER, s.uid().as_str())) {
        if let (true, Some(node)) = (pod.is_active(), pod.node()) {
            *counts.entry(node.to_owned()).or_default() += 1;
        }
    }
    counts
}
