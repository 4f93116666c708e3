//! Publishes the cluster's root certificate to every namespace.

mod core;
#[cfg(test)]
mod tests;
mod types;

use std::sync::Arc;

use gantry_apimachinery::meta::Object;
use gantry_apimachinery::time::Timestamp;
use gantry_client::ApiError;

use crate::edge::{Controller, Env, Feeds, Key, Memory};
use crate::objects::{ConfigMap, Namespace};
use crate::plan::Plan;

/// The loop's edge. Keys are namespaces.
pub struct RootCa;

impl Controller for RootCa {
    type Observed = types::Observed;
    const NAME: &'static str = "root-ca-publisher";
    const COMPONENT: &'static str = "root-ca-cert-publisher";

    fn new(_env: &Arc<Env>) -> Self {
        RootCa
    }

    fn feed(&self, env: &Arc<Env>, feeds: &mut Feeds) {
        feeds.on_change(&env.informers.namespaces, |_, new: Option<&Namespace>| {
            new.map(|ns| Key::new("", ns.name())).into_iter().collect()
        });
        feeds.on(&env.informers.config_maps, |map: &ConfigMap| match map.name() {
            types::NAME => vec![Key::new("", map.namespace())],
            _ => Vec::new(),
        });
    }

    fn keys(env: &Env) -> Vec<Key> {
        env.informers.namespaces.list().iter().map(|ns| Key::new("", ns.name())).collect()
    }

    async fn observe(&self, env: &Env, key: &Key, _: &Memory) -> Result<Option<Self::Observed>, ApiError> {
        let Some(namespace) = env.informers.namespaces.get("", &key.name) else { return Ok(None) };
        let published = env.informers.config_maps.get(&key.name, types::NAME);
        Ok(Some(types::Observed { namespace, published, root_ca: env.config.root_ca_pem.as_str().into() }))
    }

    fn reconcile(observed: &Self::Observed, now: Timestamp) -> Plan {
        core::reconcile(observed, now)
    }
}
