//! Publishes hand-written Endpoints of services without a selector as endpoint slices, which is what proxies read.

mod core;
#[cfg(test)]
mod tests;
mod types;

use std::collections::BTreeSet;
use std::sync::Arc;

use gantry_apimachinery::meta::Object;
use gantry_apimachinery::time::Timestamp;
use gantry_client::ApiError;

use types::{MANAGER, Observed};

use crate::edge::{Controller, Env, Feeds, Key, Memory, SERVICE};
use crate::endpoints::Endpoints;
use crate::endpointslice::{MANAGED_BY, SERVICE_NAME};
use crate::objects::{EndpointSlice, Service};
use crate::plan::Plan;

/// The loop's edge. Keys are Endpoints objects, and services of the same name.
pub struct EndpointSliceMirroring;

impl Controller for EndpointSliceMirroring {
    type Observed = Observed;
    const NAME: &'static str = "endpointslice-mirroring";
    const COMPONENT: &'static str = "endpoint-slice-mirroring-controller";

    fn new(_env: &Arc<Env>) -> Self {
        EndpointSliceMirroring
    }

    fn feed(&self, env: &Arc<Env>, feeds: &mut Feeds) {
        feeds.on(&env.informers.endpoints, |endpoints: &Endpoints| vec![Key::of(endpoints)]);
        feeds.on(&env.informers.services, |service: &Service| vec![Key::of(service)]);
        feeds.on(&env.informers.endpoint_slices, |slice: &EndpointSlice| mirrored(slice).into_iter().collect());
    }

    fn keys(env: &Env) -> Vec<Key> {
        let mut keys: BTreeSet<Key> = env.informers.endpoints.list().iter().map(|e| Key::of(&**e)).collect();
        keys.extend(env.informers.endpoint_slices.list().iter().filter_map(|slice| mirrored(slice)));
        keys.into_iter().collect()
    }

    async fn observe(&self, env: &Env, key: &Key, _: &Memory) -> Result<Option<Observed>, ApiError> {
        let endpoints = env.informers.endpoints.get(&key.namespace, &key.name);
        let mut slices = env.informers.endpoint_slices.by_index(SERVICE, &format!("{}/{}", key.namespace, key.name));
        slices.retain(|slice| mirrored(slice).is_some() && slice.metadata.deletion_timestamp.is_none());
        if endpoints.is_none() && slices.is_empty() {
            return Ok(None);
        }
        let service = env.informers.services.get(&key.namespace, &key.name);
        Ok(Some(Observed { endpoints, service, slices }))
    }

    fn reconcile(observed: &Observed, _now: Timestamp) -> Plan {
        core::reconcile(observed)
    }
}

/// The key of a slice that is this controller's.
fn mirrored(slice: &EndpointSlice) -> Option<Key> {
    let labels = &slice.metadata.labels;
    let service = labels.get(MANAGED_BY).filter(|by| *by == MANAGER).and_then(|_| labels.get(SERVICE_NAME))?;
    Some(Key::new(slice.namespace(), service))
}
