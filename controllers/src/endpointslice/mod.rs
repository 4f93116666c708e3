//! Publishes which pods stand behind a service, in slices of at most 100.

mod core;
mod endpoint;
#[cfg(test)]
mod tests;
mod types;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use gantry_apimachinery::meta::Object;
use gantry_apimachinery::time::Timestamp;
use gantry_client::ApiError;

pub use endpoint::{changed_at, hostname, is_endpoint, ports, target};
pub use types::{MANAGED_BY, SERVICE_NAME};
use types::{MANAGER, Machine, Observed};

use crate::edge::{Controller, Env, Feeds, Key, Memory, NODE, SERVICE, rest};
use crate::objects::{EndpointSlice, Node, Pod, Service};
use crate::plan::Plan;

/// The loop's edge. Keys are services.
pub struct EndpointSlices;

impl Controller for EndpointSlices {
    type Observed = Observed;
    const NAME: &'static str = "endpointslice";
    const COMPONENT: &'static str = "endpoint-slice-controller";
    const WORKERS: usize = 8;

    fn new(_env: &Arc<Env>) -> Self {
        EndpointSlices
    }

    fn feed(&self, env: &Arc<Env>, feeds: &mut Feeds) {
        feeds.on(&env.informers.services, |service: &Service| vec![Key::of(service)]);
        feeds.on(&env.informers.endpoint_slices, |slice: &EndpointSlice| {
            match slice.metadata.labels.get(SERVICE_NAME) {
                Some(service) => vec![Key::new(slice.namespace(), service)],
                None => Vec::new(),
            }
        });
        let by_pod = env.clone();
        feeds.on_change(&env.informers.pods, move |old: Option<&Pod>, new: Option<&Pod>| {
            if let (Some(old), Some(new)) = (old, new)
                && !matters(old, new)
            {
                return Vec::new();
            }
            selecting(&by_pod, old.into_iter().chain(new))
        });
        // A machine that falls silent or comes back takes its pods out of, or into, the endpoints.
        let by_node = env.clone();
        feeds.on_change(&env.informers.nodes, move |old: Option<&Node>, new: Option<&Node>| {
            if old.map(machine) == new.map(machine) {
                return Vec::new();
            }
            let name = new.or(old).map_or("", |node| node.name());
            let pods = by_node.informers.pods.by_index(NODE, name);
            selecting(&by_node, pods.iter().map(|pod| &**pod))
        });
    }

    fn keys(env: &Env) -> Vec<Key> {
        env.informers.services.list().iter().map(|service| Key::of(&**service)).collect()
    }

    async fn observe(&self, env: &Env, key: &Key, memory: &Memory) -> Result<Option<Observed>, ApiError> {
        let Some(service) = env.informers.services.get(&key.namespace, &key.name) else { return Ok(None) };
        let mut pods = env.informers.pods.list_namespace(&key.namespace);
        pods.retain(|pod| service.selects(&pod.metadata.labels));
        let mut machines = BTreeMap::new();
        for node in pods.iter().filter_map(|pod| pod.node()) {
            if !machines.contains_key(node) {
                let found = env.informers.nodes.get("", node);
                machines.insert(node.to_owned(), found.as_deref().map(machine).unwrap_or_default());
            }
        }
        let mut slices = env.informers.endpoint_slices.by_index(SERVICE, &format!("{}/{}", key.namespace, key.name));
        slices.retain(|slice| {
            slice.metadata.labels.get(MANAGED_BY).is_some_and(|by| by == MANAGER)
                && slice.metadata.deletion_timestamp.is_none()
        });
        let now = env.clock.boottime_ms();
        let wrote_ago_ms = memory.wrote_at_ms.map(|at| now.saturating_sub(at)).filter(|ago| *ago < core::PACE_MS);
        Ok(Some(Observed { service, pods, machines, slices, wrote_ago_ms }))
    }

    fn reconcile(observed: &Observed, now: Timestamp) -> Plan {
        core::reconcile(observed, now)
    }

    fn rest(observed: &Observed) -> Duration {
        rest(observed.pods.len())
    }
}

fn machine(node: &Node) -> Machine {
    // A machine that has never reported has no pods that could be ready.
    let silent = node.condition("Ready").is_some_and(|c| c.status == "Unknown");
    Machine { zone: node.zone().map(str::to_owned), unreachable: silent }
}

/// The services that select any of these pods.
pub fn selecting<'a>(env: &Env, pods: impl Iterator<Item = &'a Pod>) -> Vec<Key> {
    let mut keys = Vec::new();
    for pod in pods {
        for service in env.informers.services.list_namespace(pod.namespace()) {
            if service.selects(&pod.metadata.labels) {
                keys.push(Key::of(&*service));
            }
        }
    }
    keys.sort();
    keys.dedup();
    keys
}

/// Whether a change of a pod can change an endpoint.
pub fn matters(old: &Pod, new: &Pod) -> bool {
    old.status.pod_ip != new.status.pod_ip
        || old.is_ready() != new.is_ready()
        || old.is_finished() != new.is_finished()
        || old.is_terminating() != new.is_terminating()
        || old.metadata.labels != new.metadata.labels
        || old.spec != new.spec
}
