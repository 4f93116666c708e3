//! Keeps the service account `default` in every namespace.

mod core;
#[cfg(test)]
mod tests;
mod types;

use std::sync::Arc;

use gantry_apimachinery::meta::Object;
use gantry_apimachinery::time::Timestamp;
use gantry_client::ApiError;

use crate::edge::{Controller, Env, Feeds, Key, Memory};
use crate::objects::Namespace;
use crate::plan::Plan;

/// The loop's edge. Keys are namespaces.
pub struct ServiceAccounts;

impl Controller for ServiceAccounts {
    type Observed = types::Observed;
    const NAME: &'static str = "service-account";
    const COMPONENT: &'static str = "serviceaccount-controller";

    fn new(_env: &Arc<Env>) -> Self {
        ServiceAccounts
    }

    fn feed(&self, env: &Arc<Env>, feeds: &mut Feeds) {
        feeds.on_change(&env.informers.namespaces, |_, new: Option<&Namespace>| {
            new.map(|ns| Key::new("", ns.name())).into_iter().collect()
        });
        feeds.on_change(&env.informers.service_accounts, |old, new| match (old, new) {
            (Some(account), None) if account.name() == types::DEFAULT => vec![Key::new("", account.namespace())],
            _ => Vec::new(),
        });
    }

    fn keys(env: &Env) -> Vec<Key> {
        env.informers.namespaces.list().iter().map(|ns| Key::new("", ns.name())).collect()
    }

    async fn observe(&self, env: &Env, key: &Key, _: &Memory) -> Result<Option<Self::Observed>, ApiError> {
        let account = env.informers.service_accounts.get(&key.name, types::DEFAULT);
        Ok(env.informers.namespaces.get("", &key.name).map(|namespace| types::Observed { namespace, account }))
    }

    fn reconcile(observed: &Self::Observed, now: Timestamp) -> Plan {
        core::reconcile(observed, now)
    }
}
