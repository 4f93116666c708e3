//! Writes the legacy Endpoints object of every service.

mod core;
#[cfg(test)]
mod tests;
mod types;

use std::sync::Arc;
use std::time::Duration;

use gantry_apimachinery::time::Timestamp;
use gantry_client::ApiError;

use types::Observed;
pub use types::{Address, Endpoints};

use crate::edge::{Controller, Env, Feeds, Key, Memory, rest};
use crate::endpointslice::{matters, selecting};
use crate::objects::{Pod, Service};
use crate::plan::Plan;

/// The loop's edge. Keys are services.
pub struct EndpointsController;

impl Controller for EndpointsController {
    type Observed = Observed;
    const NAME: &'static str = "endpoints";
    const COMPONENT: &'static str = "endpoint-controller";

    fn new(_env: &Arc<Env>) -> Self {
        EndpointsController
    }

    fn feed(&self, env: &Arc<Env>, feeds: &mut Feeds) {
        feeds.on(&env.informers.services, |service: &Service| vec![Key::of(service)]);
        feeds.on(&env.informers.endpoints, |endpoints: &Endpoints| vec![Key::of(endpoints)]);
        let env = env.clone();
        feeds.on_change(&env.informers.pods.clone(), move |old: Option<&Pod>, new: Option<&Pod>| match (old, new) {
            (Some(old), Some(new)) if !matters(old, new) => Vec::new(),
            _ => selecting(&env, old.into_iter().chain(new)),
        });
    }

    fn keys(env: &Env) -> Vec<Key> {
        env.informers.services.list().iter().map(|service| Key::of(&**service)).collect()
    }

    async fn observe(&self, env: &Env, key: &Key, _: &Memory) -> Result<Option<Observed>, ApiError> {
        let Some(service) = env.informers.services.get(&key.namespace, &key.name) else { return Ok(None) };
        let mut pods = env.informers.pods.list_namespace(&key.namespace);
        pods.retain(|pod| service.selects(&pod.metadata.labels));
        let endpoints = env.informers.endpoints.get(&key.namespace, &key.name);
        Ok(Some(Observed { service, pods, endpoints }))
    }

    fn reconcile(observed: &Observed, now: Timestamp) -> Plan {
        core::reconcile(observed, now)
    }

    fn rest(observed: &Observed) -> Duration {
        rest(observed.pods.len())
    }
}
