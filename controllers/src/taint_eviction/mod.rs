//! Evicts pods from machines whose taints they do not tolerate.

mod core;
#[cfg(test)]
mod tests;
mod types;

use std::sync::Arc;

use gantry_apimachinery::time::Timestamp;
use gantry_client::ApiError;

use types::Observed;

use crate::edge::{Controller, Env, Feeds, Key, Memory, NODE};
use crate::objects::{Node, Pod};
use crate::plan::Plan;

/// The loop's edge. Keys are machines.
pub struct TaintEviction;

impl Controller for TaintEviction {
    type Observed = Observed;
    const NAME: &'static str = "taint-eviction";
    const COMPONENT: &'static str = "taint-eviction-controller";

    fn new(_env: &Arc<Env>) -> Self {
        TaintEviction
    }

    fn feed(&self, env: &Arc<Env>, feeds: &mut Feeds) {
        feeds.on_change(&env.informers.nodes, |old: Option<&Node>, new: Option<&Node>| match (old, new) {
            (old, Some(new)) if old.is_none_or(|old| old.spec.taints != new.spec.taints) => vec![Key::of(new)],
            _ => Vec::new(),
        });
        // A pod that lands on a tainted machine, or whose tolerations change there.
        let nodes = env.informers.nodes.clone();
        feeds.on_change(&env.informers.pods, move |old: Option<&Pod>, new: Option<&Pod>| {
            let Some((node, new)) = new.and_then(|pod| Some((pod.node()?, pod))) else { return Vec::new() };
            if old.is_some_and(|old| old.spec == new.spec) {
                return Vec::new();
            }
            let tainted = nodes.get("", node).filter(|node| core::evicting(node).next().is_some());
            tainted.map(|node| Key::of(&*node)).into_iter().collect()
        });
    }

    fn keys(env: &Env) -> Vec<Key> {
        env.informers.nodes.list().iter().map(|node| Key::of(&**node)).collect()
    }

    async fn observe(&self, env: &Env, key: &Key, memory: &Memory) -> Result<Option<Observed>, ApiError> {
        let Some(node) = env.informers.nodes.get("", &key.name) else { return Ok(None) };
        if core::evicting(&node).next().is_none() {
            return Ok(Some(Observed { node, pods: Vec::new() }));
        }
        let pods = memory.remaining(env.informers.pods.by_index(NODE, &key.name));
        Ok(Some(Observed { node, pods }))
    }

    fn reconcile(observed: &Observed, now: Timestamp) -> Plan {
        core::reconcile(observed, now)
    }
}
