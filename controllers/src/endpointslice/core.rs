//! Decides which slices a service has and what is in each: every endpoint once, at most 100 in a slice, as few writes as
//! possible. Endpoints stay where they are; changes fill the holes; a slice that empties is deleted unless it is the last.
//! Never touches slices that somebody else manages.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use gantry_apimachinery::kinds;
use gantry_apimachinery::meta::Object;
use gantry_apimachinery::time::Timestamp;
use gantry_client::DeleteOptions;
use serde_json::{Value, json};

use super::endpoint;
use super::types::{CHANGED, MANAGED_BY, MANAGER, Observed, SERVICE_NAME};
use crate::objects::{Endpoint, EndpointPort, EndpointSlice, Pod, Service};
use crate::owner;
use crate::plan::{Plan, Write};

/// Endpoints in a slice.
const SLICE: usize = 100;
/// Between two writes of one service's slices, once it has some.
pub const PACE_MS: u64 = 1_000;

/// One endpoint to be, with when it changed.
struct Wanted {
    endpoint: Endpoint,
    changed_at: Option<Timestamp>,
}

/// Keyed by what identifies an endpoint: its pod's uid.
type Group = BTreeMap<String, Wanted>;

pub fn reconcile(observed: &Observed, now: Timestamp) -> Plan {
    let service = &*observed.service;
    let mut plan = Plan::default();
    if service.metadata.deletion_timestamp.is_some() || service.selector().is_none() {
        return plan;
    }
    let mut groups = groups(observed);
    let mut writes = Vec::new();
    let mut by_ports: BTreeMap<Vec<EndpointPort>, Vec<&Arc<EndpointSlice>>> = BTreeMap::new();
    for slice in &observed.slices {
        if slice.address_type == "IPv4" {
            by_ports.entry(slice.ports.clone()).or_default().push(slice);
        } else {
            writes.push(delete(slice));
        }
    }
    // A service without endpoints keeps one empty slice: it says "nobody", which is not the same as saying nothing.
    if groups.is_empty() {
        let ports = by_ports.keys().next().cloned().unwrap_or_default();
        groups.insert(ports, Group::new());
    }
    for (ports, slices) in by_ports.iter().filter(|(ports, _)| !groups.contains_key(*ports)) {
        debug_assert!(slices.iter().all(|s| s.ports == *ports));
        writes.extend(slices.iter().map(|slice| delete(slice)));
    }
    for (ports, group) in groups {
        let slices = by_ports.remove(&ports).unwrap_or_default();
        writes.extend(fill(service, &ports, group, &slices, now));
    }
    match observed.wrote_ago_ms {
        Some(ago) if !writes.is_empty() && ago < PACE_MS => plan.requeue_in(Duration::from_millis(PACE_MS - ago)),
        _ => plan.push_all(writes),
    }
    plan
}

/// The endpoints to be, by the ports that they have in common.
fn groups(observed: &Observed) -> BTreeMap<Vec<EndpointPort>, Group> {
    let service = &*observed.service;
    let mut groups: BTreeMap<Vec<EndpointPort>, Group> = BTreeMap::new();
    let chosen = |pod: &&Arc<Pod>| service.selects(&pod.metadata.labels) && endpoint::is_endpoint(pod);
    for pod in observed.pods.iter().filter(chosen) {
        let mut ports = endpoint::ports(service, pod);
        // A headless service may have no ports at all; one whose every port is a name that the pod lacks has no endpoint here.
        if ports.is_empty() && !(service.is_headless() && service.spec.ports.is_empty()) {
            continue;
        }
        ports.sort();
        let machine = pod.node().and_then(|node| observed.machines.get(node));
        let wanted =
            Wanted { endpoint: endpoint::endpoint(service, pod, machine), changed_at: endpoint::changed_at(pod) };
        groups.entry(ports).or_default().insert(pod.uid().to_string(), wanted);
    }
    groups
}

/// A slice's next content.
struct Next<'a> {
    slice: Option<&'a EndpointSlice>,
    endpoints: Vec<Endpoint>,
    /// The earliest of the changes that are new in it.
    changed_at: Option<Timestamp>,
    changed: bool,
}

impl Next<'_> {
    fn note(&mut self, changed_at: Option<Timestamp>) {
        self.changed = true;
        self.changed_at = match (self.changed_at, changed_at) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
    }
}

fn fill(
    service: &Service,
    ports: &[EndpointPort],
    mut group: Group,
    slices: &[&Arc<EndpointSlice>],
    now: Timestamp,
) -> Vec<Write> {
    let mut next: Vec<Next<'_>> = slices.iter().map(|slice| keep(slice, &mut group, now)).collect();
    // New endpoints go first into slices that are written anyway, then into others with room, then into new ones.
    let mut fresh: Vec<Wanted> = group.into_values().collect();
    fresh.reverse();
    let mut order: Vec<usize> = (0..next.len()).collect();
    order.sort_by_key(|index| (!next[*index].changed, std::cmp::Reverse(next[*index].endpoints.len())));
    for index in order {
        let slice = &mut next[index];
        while slice.endpoints.len() < SLICE {
            let Some(wanted) = fresh.pop() else { break };
            slice.note(wanted.changed_at);
            slice.endpoints.push(wanted.endpoint);
        }
    }
    while !fresh.is_empty() {
        let mut slice = Next { slice: None, endpoints: Vec::new(), changed_at: None, changed: true };
        for wanted in fresh.drain(fresh.len().saturating_sub(SLICE)..).rev() {
            slice.note(wanted.changed_at);
            slice.endpoints.push(wanted.endpoint);
        }
        next.push(slice);
    }
    if next.is_empty() {
        next.push(Next { slice: None, endpoints: Vec::new(), changed_at: None, changed: true });
    }
    let filled = next.iter().filter(|n| !n.endpoints.is_empty()).count();
    let mut kept_empty = filled > 0;
    let mut writes = Vec::new();
    for slice in next {
        if slice.endpoints.is_empty() && kept_empty {
            writes.extend(slice.slice.map(delete));
            continue;
        }
        kept_empty |= slice.endpoints.is_empty();
        writes.extend(write(service, ports, &slice));
    }
    writes
}

/// What stays in a slice: its endpoints that are still wanted, in their newest condition.
fn keep<'a>(slice: &'a Arc<EndpointSlice>, group: &mut Group, now: Timestamp) -> Next<'a> {
    let mut next = Next { slice: Some(slice), endpoints: Vec::new(), changed_at: None, changed: false };
    for have in &slice.endpoints {
        let id = have.target_ref.as_ref().map_or("", |t| t.uid.as_str());
        match group.remove(id) {
            Some(wanted) => {
                if wanted.endpoint != *have {
                    next.note(wanted.changed_at);
                }
                next.endpoints.push(wanted.endpoint);
            }
            None => next.note(Some(now)),
        }
    }
    next
}

fn delete(slice: &EndpointSlice) -> Write {
    let meta = &slice.metadata;
    let options = DeleteOptions::uid(meta.uid.to_string());
    Write::delete(&kinds::ENDPOINT_SLICE, &meta.namespace, &meta.name, options)
}

/// The labels that every slice of the service has: the service's own, and whose slice it is.
fn labels(service: &Service) -> BTreeMap<String, String> {
    let mut labels = service.metadata.labels.clone();
    labels.insert(SERVICE_NAME.to_owned(), service.name().to_owned());
    labels.insert(MANAGED_BY.to_owned(), MANAGER.to_owned());
    if service.is_headless() {
        labels.insert("service.kubernetes.io/headless".to_owned(), String::new());
    } else {
        labels.remove("service.kubernetes.io/headless");
    }
    labels
}

/// The write that brings a slice to its next content, if any is needed.
fn write(service: &Service, ports: &[EndpointPort], next: &Next<'_>) -> Option<Write> {
    let (wanted, namespace) = (labels(service), service.namespace());
    let stamp = next.changed_at.map(|at| at.to_micro_string());
    let Some(slice) = next.slice else {
        let mut metadata = json!({"generateName": owner::generate_name(service.name()), "namespace": namespace,
            "labels": wanted, "ownerReferences": [owner::owner_reference(&kinds::SERVICE, &service.metadata)]});
        if let Some(stamp) = stamp {
            metadata["annotations"] = json!({CHANGED: stamp});
        }
        let body = json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "metadata": metadata,
            "addressType": "IPv4", "endpoints": next.endpoints, "ports": ports});
        return Some(Write::create(&kinds::ENDPOINT_SLICE, namespace, body));
    };
    let relabelled = slice.metadata.labels != wanted;
    if !next.changed && !relabelled {
        return None;
    }
    let meta = &slice.metadata;
    let mut body = json!({"metadata": {"resourceVersion": meta.resource_version}});
    if relabelled {
        let gone = meta.labels.keys().filter(|key| !wanted.contains_key(*key)).collect::<BTreeSet<_>>();
        let mut patch = json!(wanted);
        gone.into_iter().for_each(|key| patch[key] = Value::Null);
        body["metadata"]["labels"] = patch;
    }
    if next.changed {
        body["endpoints"] = json!(next.endpoints);
        body["metadata"]["annotations"] = json!({CHANGED: stamp});
    }
    Some(Write::merge(&kinds::ENDPOINT_SLICE, namespace, &meta.name, body))
}
