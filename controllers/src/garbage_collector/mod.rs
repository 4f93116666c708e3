//! Deletes what lost its owners, and carries out foreground and orphaning deletion.

mod core;
mod graph;
#[cfg(test)]
mod tests;
mod types;

use std::sync::Arc;
use std::time::Duration;

use gantry_apimachinery::kinds::Kind;
use gantry_apimachinery::meta::{Header, OwnerReference, Uid, split_api_version};
use gantry_apimachinery::time::Timestamp;
use gantry_client::{ApiError, Client};
use parking_lot::Mutex;

use graph::{Graph, Item};
use types::{Observed, Owner};

use crate::edge::{Controller, Env, Feeds, Key, Memory, Seen, rest};
use crate::plan::Plan;

/// The loop's edge. Keys are uids.
pub struct GarbageCollector {
    graph: Arc<Mutex<Graph>>,
}

impl Controller for GarbageCollector {
    type Observed = Observed;
    const NAME: &'static str = "garbage-collector";
    const COMPONENT: &'static str = "garbage-collector-controller";
    const WORKERS: usize = 8;

    fn new(env: &Arc<Env>) -> Self {
        // Everything is known before anything is judged: an owner that is only not read yet must not look gone.
        let mut graph = Graph::default();
        env.informers.for_each(|kind, meta| drop(graph.put(kind, meta)));
        GarbageCollector { graph: Arc::new(Mutex::new(graph)) }
    }

    fn feed(&self, env: &Arc<Env>, feeds: &mut Feeds) {
        let (graph, queue) = (self.graph.clone(), feeds.queue());
        let sink = move |kind: &'static Kind, seen: Seen<'_>| {
            let look = match seen {
                Seen::There(meta) => graph.lock().put(kind, meta),
                Seen::Gone(meta) => graph.lock().remove(&meta.uid),
                Seen::Exactly(present) => graph.lock().retain(kind, &present),
            };
            look.into_iter().for_each(|uid| queue.add(key(&uid)));
        };
        env.informers.follow_all(feeds, sink.clone());
        env.informers.follow_custom(&env.client, feeds, sink);
        let (graph, queue) = (self.graph.clone(), feeds.queue());
        feeds.spawn(async move {
            loop {
                tokio::time::sleep(gantry_client::looprt::RESYNC).await;
                let unsettled = graph.lock().unsettled();
                unsettled.iter().for_each(|uid| queue.add(key(uid)));
            }
        });
    }

    fn keys(_env: &Env) -> Vec<Key> {
        // The feed does it: the graph is not the environment's.
        Vec::new()
    }

    async fn observe(&self, env: &Env, key: &Key, _: &Memory) -> Result<Option<Observed>, ApiError> {
        let (item, dependents, known) = {
            let graph = self.graph.lock();
            let Some(item) = graph.get(&key.name).cloned() else { return Ok(None) };
            let dependents: Vec<Item> = graph.dependents(&key.name).into_iter().cloned().collect();
            let known: Vec<Option<Item>> = item.owners.iter().map(|o| graph.get(o.uid.as_str()).cloned()).collect();
            (item, dependents, known)
        };
        let mut observed = Observed { item, live: None, owners: Vec::new(), dependents };
        if observed.item.deleting {
            return Ok(Some(observed));
        }
        for (owner, known) in observed.item.owners.iter().zip(known) {
            let state = match known {
                Some(known) if !known.is_waiting() => Owner::There,
                _ => ask(env, &observed.item, owner).await?,
            };
            observed.owners.push((owner.clone(), state));
        }
        if observed.owners.iter().any(|(_, state)| *state != Owner::There) {
            observed.live = live(&env.client, &observed.item).await?;
        }
        Ok(Some(observed))
    }

    fn reconcile(observed: &Observed, now: Timestamp) -> Plan {
        core::reconcile(observed, now)
    }

    fn rest(observed: &Observed) -> Duration {
        rest(observed.dependents.len())
    }
}

fn key(uid: &Uid) -> Key {
    Key::new("", uid.as_str())
}

/// Asks the server for the owner.
async fn ask(env: &Env, item: &Item, owner: &OwnerReference) -> Result<Owner, ApiError> {
    let (group, version) = split_api_version(&owner.api_version);
    let Some(kind) = env.informers.kind_of(group, version, &owner.kind).filter(|k| k.is_stored()) else {
        // A kind that is not known cannot be asked for, so it is never taken for gone.
        return Ok(Owner::There);
    };
    if kind.namespaced && item.namespace.is_empty() {
        return Ok(Owner::There);
    }
    let namespace = if kind.namespaced { item.namespace.as_str() } else { "" };
    match env.client.get::<Header>(kind, namespace, &owner.name).await {
        Ok(found) if found.metadata.uid != owner.uid => Ok(Owner::Gone),
        Ok(found) => {
            let waits =
                found.metadata.is_deleting() && found.metadata.finalizers.iter().any(|f| f == graph::FOREGROUND);
            Ok(if waits { Owner::Waiting } else { Owner::There })
        }
        Err(error) if error.is_not_found() => Ok(Owner::Gone),
        Err(error) => Err(error),
    }
}

/// The object itself, if it is still the one that the graph knows.
async fn live(client: &Client, item: &Item) -> Result<Option<gantry_apimachinery::meta::ObjectMeta>, ApiError> {
    match client.get::<Header>(item.kind, &item.namespace, &item.name).await {
        Ok(found) => Ok(Some(found.metadata).filter(|meta| meta.uid == item.uid)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}
