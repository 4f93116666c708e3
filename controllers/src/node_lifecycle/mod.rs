//! Notices machines that fall silent, says so in their conditions, and turns conditions into taints.

mod core;
mod heartbeat;
#[cfg(test)]
mod tests;
mod types;

use std::sync::Arc;
use std::time::Duration;

use gantry_apimachinery::clock::Clock;
use gantry_apimachinery::kinds;
use gantry_apimachinery::meta::Object;
use gantry_apimachinery::time::Timestamp;
use gantry_client::ApiError;
use parking_lot::Mutex;

use heartbeat::Heartbeats;
use types::Observed;

use crate::edge::{Controller, Env, Feeds, Key, Memory, NODE};
use crate::objects::{Lease, Node};
use crate::plan::Plan;

/// Where the agents renew their Leases.
const LEASES: &str = "kube-node-lease";
const TICK: Duration = Duration::from_secs(1);

/// The loop's edge. Keys are machines.
pub struct NodeLifecycle {
    beats: Arc<Mutex<Heartbeats>>,
}

impl Controller for NodeLifecycle {
    type Observed = Observed;
    const NAME: &'static str = "node-lifecycle";
    const COMPONENT: &'static str = "node-controller";

    fn new(env: &Arc<Env>) -> Self {
        let beats = Heartbeats::new(env.config.node_silence_s, env.clock.boottime_ms());
        NodeLifecycle { beats: Arc::new(Mutex::new(beats)) }
    }

    fn feed(&self, env: &Arc<Env>, feeds: &mut Feeds) {
        let (beats, clock) = (self.beats.clone(), env.clock.clone());
        feeds.on_change(&env.informers.nodes, move |old: Option<&Node>, new: Option<&Node>| match (old, new) {
            (_, Some(node)) => {
                beats.lock().note(node.name(), None, clock.boottime_ms());
                vec![Key::of(node)]
            }
            (Some(node), None) => {
                beats.lock().forget(node.name());
                Vec::new()
            }
            (None, None) => Vec::new(),
        });
        let (beats, watched) = (self.beats.clone(), env.clone());
        feeds.on_change(&env.informers.leases, move |_, new: Option<&Lease>| {
            let Some(lease) = new.filter(|lease| lease.namespace() == LEASES) else { return Vec::new() };
            let spoke = note(&beats, &watched, lease);
            // One that was given up speaks again: say so at once.
            if spoke { vec![Key::new("", lease.name())] } else { Vec::new() }
        });
        let (beats, clock, queue) = (self.beats.clone(), env.clock.clone(), feeds.queue());
        feeds.spawn(async move {
            loop {
                tokio::time::sleep(TICK).await;
                let now = clock.boottime_ms();
                let mut beats = beats.lock();
                beats.tick(now);
                beats.silent(now).into_iter().for_each(|node| queue.add(Key::new("", node)));
            }
        });
    }

    fn keys(env: &Env) -> Vec<Key> {
        env.informers.nodes.list().iter().map(|node| Key::of(&**node)).collect()
    }

    async fn observe(&self, env: &Env, key: &Key, _: &Memory) -> Result<Option<Observed>, ApiError> {
        let Some(node) = env.informers.nodes.get("", &key.name) else { return Ok(None) };
        let silent = self.is_silent(&*env.clock, &key.name) && self.stays_silent(env, &key.name).await?;
        let may_lose = silent && self.beats.lock().may_lose(&key.name, env.clock.boottime_ms());
        let mut ready_pods = Vec::new();
        if may_lose {
            ready_pods = env.informers.pods.by_index(NODE, &key.name);
            ready_pods.retain(|pod| pod.is_ready());
        }
        Ok(Some(Observed { node, silent, may_lose, ready_pods }))
    }

    fn reconcile(observed: &Observed, now: Timestamp) -> Plan {
        core::reconcile(observed, now)
    }
}

impl NodeLifecycle {
    fn is_silent(&self, clock: &dyn Clock, node: &str) -> bool {
        self.beats.lock().is_silent(node, clock.boottime_ms())
    }

    /// Reads the Lease itself: a copy that stands still makes every machine look silent. A server that does not answer
    /// proves nothing, so the error ends this look.
    async fn stays_silent(&self, env: &Env, node: &str) -> Result<bool, ApiError> {
        match env.client.get::<Lease>(&kinds::LEASE, LEASES, node).await {
            Ok(lease) => drop(note(&self.beats, env, &lease)),
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(error),
        }
        Ok(self.is_silent(&*env.clock, node))
    }
}

/// Takes a renewal in; true when the machine was silent until now.
fn note(beats: &Mutex<Heartbeats>, env: &Env, lease: &Lease) -> bool {
    let (now, renewed) = (env.clock.boottime_ms(), lease.spec.renew_time.map(|t| t.0));
    // A Lease may outlive its machine.
    if env.informers.nodes.get("", lease.name()).is_none() {
        return false;
    }
    let mut beats = beats.lock();
    let was = beats.is_silent(lease.name(), now);
    beats.note(lease.name(), renewed, now);
    was && !beats.is_silent(lease.name(), now)
}
