//! Keeps one pod of a daemon set on every machine that it selects.

mod core;
mod placement;
#[cfg(test)]
mod tests;
mod types;
mod update;

use std::sync::Arc;
use std::time::Duration;

use gantry_apimachinery::kinds;
use gantry_apimachinery::meta::{Header, Object};
use gantry_apimachinery::time::Timestamp;
use gantry_client::ApiError;

pub use types::DaemonSet;
use types::Observed;

use crate::edge::{Controller, Env, Feeds, Informers, Key, Memory, rest};
use crate::objects::{Node, Pod, compile};
use crate::plan::Plan;
use crate::revision::ControllerRevision;

/// The loop's edge. Keys are daemon sets.
pub struct DaemonSets;

impl Controller for DaemonSets {
    type Observed = Observed;
    const NAME: &'static str = "daemonset";
    const COMPONENT: &'static str = "daemonset-controller";

    fn new(_env: &Arc<Env>) -> Self {
        DaemonSets
    }

    fn feed(&self, env: &Arc<Env>, feeds: &mut Feeds) {
        feeds.on(&env.informers.daemon_sets, |set: &DaemonSet| vec![Key::of(set)]);
        let sets = env.informers.daemon_sets.clone();
        feeds.on(&env.informers.pods, move |pod: &Pod| match pod.owner() {
            Some(owner) if owner.kind == "DaemonSet" => vec![Key::new(pod.namespace(), &owner.name)],
            Some(_) => Vec::new(),
            None => {
                let adopts = |set: &&Arc<DaemonSet>| {
                    compile(&set.spec.selector).is_some_and(|s| s.matches(&pod.metadata.labels))
                };
                sets.list_namespace(pod.namespace()).iter().filter(adopts).map(|set| Key::of(&**set)).collect()
            }
        });
        feeds.on(&env.informers.controller_revisions, |revision: &ControllerRevision| {
            let owner = revision.metadata.controller().filter(|o| o.kind == "DaemonSet");
            owner.map(|o| Key::new(revision.namespace(), &o.name)).into_iter().collect()
        });
        let sets = env.informers.daemon_sets.clone();
        feeds.on_change(&env.informers.nodes, move |old: Option<&Node>, new: Option<&Node>| {
            let seen = |node: &Node| (node.metadata.labels.clone(), node.spec.taints.clone());
            if old.map(seen) == new.map(seen) {
                return Vec::new();
            }
            sets.list().iter().map(|set| Key::of(&**set)).collect()
        });
    }

    fn keys(env: &Env) -> Vec<Key> {
        env.informers.daemon_sets.list().iter().map(|set| Key::of(&**set)).collect()
    }

    async fn observe(&self, env: &Env, key: &Key, memory: &Memory) -> Result<Option<Observed>, ApiError> {
        let Some(set) = env.informers.daemon_sets.get(&key.namespace, &key.name) else { return Ok(None) };
        let collided = match &memory.failure {
            Some(failure) if failure.already_exists && failure.kind == kinds::CONTROLLER_REVISION.plural => {
                is_foreign(env, &set, &failure.name).await?
            }
            _ => false,
        };
        Ok(Some(Observed {
            nodes: env.informers.nodes.list(),
            pods: Informers::candidates(&env.informers.pods, set.uid(), &key.namespace),
            deleting: memory.deleting(),
            revisions: Informers::candidates(&env.informers.controller_revisions, set.uid(), &key.namespace),
            collided,
            set,
        }))
    }

    fn reconcile(observed: &Observed, now: Timestamp) -> Plan {
        core::reconcile(observed, now)
    }

    fn rest(observed: &Observed) -> Duration {
        rest(observed.pods.len() + observed.nodes.len())
    }

    fn stale(env: &Env) -> u64 {
        let lags = |set: &&Arc<DaemonSet>| set.status.observed_generation < set.metadata.generation;
        env.informers.daemon_sets.list().iter().filter(lags).count() as u64
    }
}

/// Whether the revision of this name belongs to somebody else. Asked live: the copy may not show our own yet.
async fn is_foreign(env: &Env, set: &DaemonSet, name: &str) -> Result<bool, ApiError> {
    match env.client.get::<Header>(&kinds::CONTROLLER_REVISION, set.namespace(), name).await {
        Ok(found) => Ok(found.metadata.controller().is_none_or(|owner| owner.uid != *set.uid())),
        Err(error) if error.is_not_found() => Ok(false),
        Err(error) => Err(error),
    }
}
