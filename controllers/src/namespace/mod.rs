//! Empties namespaces that are being deleted, and lets them go.

mod core;
mod remote;
#[cfg(test)]
mod tests;
mod types;

use std::sync::Arc;

use futures::StreamExt;
use futures::future::BoxFuture;
use gantry_apimachinery::kinds::{self, Kind};
use gantry_apimachinery::meta::{Header, Object};
use gantry_apimachinery::time::Timestamp;
use gantry_client::{ApiError, Client, List, ListOptions};

use types::{Observed, Remaining};

use crate::edge::{Controller, Env, Feeds, Key, Memory};
use crate::objects::{ApiService, Namespace, Pod};
use crate::plan::Plan;

/// Objects of one kind that are deleted in one pass.
const PAGE: u32 = 500;
/// Kinds that are listed at the same time.
const CONCURRENCY: usize = 8;

/// The loop's edge. Keys are namespaces.
pub struct Namespaces;

impl Controller for Namespaces {
    type Observed = Observed;
    const NAME: &'static str = "namespace";
    const COMPONENT: &'static str = "namespace-controller";

    fn new(_env: &Arc<Env>) -> Self {
        Namespaces
    }

    fn feed(&self, env: &Arc<Env>, feeds: &mut Feeds) {
        feeds.on_change(&env.informers.namespaces, |_, new: Option<&Namespace>| {
            new.filter(|ns| ns.is_terminating()).map(|ns| Key::new("", ns.name())).into_iter().collect()
        });
        let terminating = env.clone();
        feeds.on_change(&env.informers.api_services, move |_: Option<&ApiService>, _: Option<&ApiService>| {
            Self::keys(&terminating)
        });
        // The rest of a namespace waits for its last pod.
        let env = env.clone();
        feeds.on_change(&env.informers.pods.clone(), move |old: Option<&Pod>, new: Option<&Pod>| match (old, new) {
            (Some(pod), None) => {
                let namespace = env.informers.namespaces.get("", pod.namespace());
                namespace.filter(|ns| ns.is_terminating()).map(|ns| Key::new("", ns.name())).into_iter().collect()
            }
            _ => Vec::new(),
        });
    }

    fn keys(env: &Env) -> Vec<Key> {
        let all = env.informers.namespaces.list();
        all.iter().filter(|ns| ns.is_terminating()).map(|ns| Key::new("", ns.name())).collect()
    }

    async fn observe(&self, env: &Env, key: &Key, memory: &Memory) -> Result<Option<Observed>, ApiError> {
        if env.informers.namespaces.get("", &key.name).is_none_or(|ns| !ns.is_terminating()) {
            return Ok(None);
        }
        let namespace: Namespace = match env.client.get(&kinds::NAMESPACE, "", &key.name).await {
            Ok(namespace) => namespace,
            Err(error) if error.is_not_found() => return Ok(None),
            Err(error) => return Err(error),
        };
        if namespace.metadata.deletion_timestamp.is_none() {
            return Ok(None);
        }
        let delete_failure = memory.failure.as_ref().map(|failure| failure.message.clone());
        let mut observed = Observed { namespace, delete_failure, ..Observed::default() };
        let kinds = kinds::KINDS.iter().copied().filter(|kind| kind.stored_as() == *kind);
        let kinds = kinds.chain(env.informers.custom_kinds());
        let kinds = kinds.filter(|k| k.namespaced && k.has_verb("list") && k.has_verb("delete"));
        let (theirs, failures) = remote::kinds(env).await;
        observed.failures = failures;
        let kinds = kinds.chain(theirs);
        let lists: Vec<BoxFuture<'_, _>> = kinds.map(|kind| list(&env.client, kind, &key.name)).collect();
        let mut results = futures::stream::iter(lists).buffered(CONCURRENCY);
        while let Some((kind, result)) = results.next().await {
            match result {
                Ok(list) => {
                    let more = !list.continue_token.is_empty();
                    observed.remaining.push(Remaining { kind, objects: list.items, more });
                }
                Err(error) => observed.failures.push(format!("{}: {}", kind.resource(), error.chain())),
            }
        }
        Ok(Some(observed))
    }

    fn reconcile(observed: &Observed, now: Timestamp) -> Plan {
        core::reconcile(observed, now)
    }
}

type Listed = (&'static Kind, Result<List<Header>, ApiError>);

fn list<'a>(client: &'a Client, kind: &'static Kind, namespace: &'a str) -> BoxFuture<'a, Listed> {
    Box::pin(async move {
        let options = ListOptions { limit: PAGE, ..ListOptions::default() };
        (kind, client.list::<Header>(kind, namespace, &options).await)
    })
}
