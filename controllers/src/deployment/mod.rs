//! Rolls a deployment's pods from one template to the next through replica sets.

mod core;
mod progress;
mod revision;
mod rollout;
mod scaling;
#[cfg(test)]
mod tests;
mod types;

use std::sync::Arc;

use gantry_apimachinery::kinds;
use gantry_apimachinery::meta::{Header, Object};
use gantry_apimachinery::time::Timestamp;
use gantry_client::ApiError;

pub use types::{Deployment, resolve};

use crate::edge::{Controller, Env, Feeds, Informers, Key, Memory, OWNER};
use crate::objects::{Pod, ReplicaSet, compile};
use crate::plan::Plan;

/// The loop's edge. Keys are deployments.
pub struct Deployments;

impl Controller for Deployments {
    type Observed = types::Observed;
    const NAME: &'static str = "deployment";
    const COMPONENT: &'static str = "deployment-controller";
    const WORKERS: usize = 8;

    fn new(_env: &Arc<Env>) -> Self {
        Deployments
    }

    fn feed(&self, env: &Arc<Env>, feeds: &mut Feeds) {
        feeds.on(&env.informers.deployments, |d: &Deployment| vec![Key::of(d)]);
        let deployments = env.informers.deployments.clone();
        feeds.on(&env.informers.replica_sets, move |set: &ReplicaSet| match set.metadata.controller() {
            Some(owner) if owner.kind == "Deployment" => vec![Key::new(set.namespace(), &owner.name)],
            Some(_) => Vec::new(),
            None => {
                let adopts =
                    |d: &&Arc<Deployment>| compile(&d.spec.selector).is_some_and(|s| s.matches(&set.metadata.labels));
                deployments.list_namespace(set.namespace()).iter().filter(adopts).map(|d| Key::of(&**d)).collect()
            }
        });
        // Recreate waits for the last old pod to be gone.
        let env = env.clone();
        feeds.on_change(&env.informers.pods.clone(), move |old: Option<&Pod>, new: Option<&Pod>| match (old, new) {
            (Some(pod), None) => recreated_by(&env, pod),
            (Some(old), Some(new)) if new.is_finished() && !old.is_finished() => recreated_by(&env, new),
            _ => Vec::new(),
        });
    }

    fn keys(env: &Env) -> Vec<Key> {
        env.informers.deployments.list().iter().map(|d| Key::of(&**d)).collect()
    }

    async fn observe(&self, env: &Env, key: &Key, memory: &Memory) -> Result<Option<Self::Observed>, ApiError> {
        let Some(deployment) = env.informers.deployments.get(&key.namespace, &key.name) else { return Ok(None) };
        let sets = Informers::candidates(&env.informers.replica_sets, deployment.uid(), &key.namespace);
        let mut observed = types::Observed { sets, failure: memory.failure.clone(), ..Default::default() };
        if deployment.is_recreate() {
            for set in &observed.sets {
                let pods = env.informers.pods.by_index(OWNER, set.uid().as_str());
                let running = pods.iter().filter(|pod| !pod.is_finished()).count();
                observed.running.insert(set.uid().clone(), running);
            }
        }
        if memory.failure.as_ref().is_some_and(|f| f.already_exists) {
            observed.collided = collides(env, &deployment).await?;
        }
        observed.deployment = deployment;
        Ok(Some(observed))
    }

    fn reconcile(observed: &Self::Observed, now: Timestamp) -> Plan {
        core::reconcile(observed, now)
    }

    fn stale(env: &Env) -> u64 {
        let lags = |d: &&Arc<Deployment>| d.status.observed_generation < d.metadata.generation;
        env.informers.deployments.list().iter().filter(lags).count() as u64
    }
}

/// Whether the name of the set to create is somebody else's. Asked live: the copy may not show our own set yet.
async fn collides(env: &Env, deployment: &Deployment) -> Result<bool, ApiError> {
    let (name, _) = revision::name_and_hash(deployment);
    match env.client.get::<Header>(&kinds::REPLICA_SET, deployment.namespace(), &name).await {
        Ok(set) => Ok(set.metadata.controller().is_none_or(|owner| owner.uid != *deployment.uid())),
        Err(error) if error.is_not_found() => Ok(false),
        Err(error) => Err(error),
    }
}

fn recreated_by(env: &Env, pod: &Pod) -> Vec<Key> {
    let set = pod.owner().filter(|o| o.kind == "ReplicaSet");
    let set = set.and_then(|o| env.informers.replica_sets.get(pod.namespace(), &o.name));
    let owner = set.as_ref().and_then(|s| s.metadata.controller()).filter(|o| o.kind == "Deployment");
    let deployment = owner.and_then(|o| env.informers.deployments.get(pod.namespace(), &o.name));
    deployment.filter(|d| d.is_recreate()).map(|d| Key::of(&*d)).into_iter().collect()
}
