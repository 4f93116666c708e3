//! Lets claims and volumes go that are being deleted and that nobody uses.

mod core;
#[cfg(test)]
mod tests;
mod types;

use std::sync::Arc;

use gantry_apimachinery::kinds;
use gantry_apimachinery::meta::ObjectMeta;
use gantry_apimachinery::time::Timestamp;
use gantry_client::{ApiError, List, ListOptions};

use types::Observed;
pub use types::{PersistentVolume, PersistentVolumeClaim};

use crate::edge::{Controller, Env, Feeds, Key, Memory};
use crate::objects::Pod;
use crate::plan::Plan;

/// Pods that are asked for at a time.
const PAGE: u32 = 500;

/// The loop's edge. Keys are claims, and volumes with no namespace.
pub struct StorageProtection;

impl Controller for StorageProtection {
    type Observed = Observed;
    const NAME: &'static str = "storage-protection";
    const COMPONENT: &'static str = "pvc-protection-controller";
    const WORKERS: usize = 1;

    fn new(_env: &Arc<Env>) -> Self {
        StorageProtection
    }

    fn feed(&self, env: &Arc<Env>, feeds: &mut Feeds) {
        feeds.on(&env.informers.claims, |claim: &PersistentVolumeClaim| vec![Key::of(claim)]);
        feeds.on(&env.informers.volumes, |volume: &PersistentVolume| vec![Key::of(volume)]);
        // Only a pod that stops to use a claim lets one go.
        feeds.on_change(&env.informers.pods, |old: Option<&Pod>, new: Option<&Pod>| match (old, new) {
            (Some(old), None) => old.claims().map(|claim| Key::new(&old.metadata.namespace, claim)).collect(),
            _ => Vec::new(),
        });
    }

    fn keys(env: &Env) -> Vec<Key> {
        let claims = env.informers.claims.list();
        let volumes = env.informers.volumes.list();
        claims.iter().map(|claim| Key::of(&**claim)).chain(volumes.iter().map(|volume| Key::of(&**volume))).collect()
    }

    async fn observe(&self, env: &Env, key: &Key, _: &Memory) -> Result<Option<Observed>, ApiError> {
        if key.namespace.is_empty() {
            return Ok(env.informers.volumes.get("", &key.name).map(Observed::Volume));
        }
        let Some(claim) = env.informers.claims.get(&key.namespace, &key.name) else { return Ok(None) };
        let used = claim.metadata.deletion_timestamp.is_some() && used(env, &claim.metadata).await?;
        Ok(Some(Observed::Claim(claim, used)))
    }

    fn reconcile(observed: &Observed, _: Timestamp) -> Plan {
        core::reconcile(observed)
    }
}

/// Whether a pod on a machine mounts the claim. That none does is asked of the server: a copy may be behind.
async fn used(env: &Env, claim: &ObjectMeta) -> Result<bool, ApiError> {
    let namespace = &claim.namespace;
    if env.informers.pods.list_namespace(namespace).iter().any(|pod| uses(pod, &claim.name)) {
        return Ok(true);
    }
    let mut options = ListOptions { limit: PAGE, ..ListOptions::default() };
    loop {
        let page: List<Pod> = env.client.list(&kinds::POD, namespace, &options).await?;
        if page.items.iter().any(|pod| uses(pod, &claim.name)) {
            return Ok(true);
        }
        if page.continue_token.is_empty() {
            return Ok(false);
        }
        options.continue_token = page.continue_token;
    }
}

/// An agent starts no pod whose claim is being deleted, so one that has no machine yet does not count.
fn uses(pod: &Pod, claim: &str) -> bool {
    pod.node().is_some() && pod.claims().any(|name| name == claim)
}
