//! Decides which slices say what an Endpoints object says that somebody wrote by hand for a service without a selector: one
//! slice for every address family and set of ports. Never touches slices that somebody else manages, nor the Endpoints.

use std::collections::BTreeMap;
use std::net::IpAddr;

use gantry_apimachinery::kinds;
use gantry_apimachinery::meta::Object;
use gantry_client::DeleteOptions;
use serde_json::{Value, json};

use super::types::{LEADER, MANAGER, Observed, SKIP};
use crate::endpoints::{Address, Endpoints};
use crate::endpointslice::{MANAGED_BY, SERVICE_NAME};
use crate::objects::{Endpoint, EndpointConditions, EndpointPort, EndpointSlice};
use crate::owner;
use crate::plan::{Plan, Write};

/// Addresses of a subset that are mirrored, and endpoints in a slice (the API takes no more).
const CAPACITY: usize = 1000;
/// Annotations that speak of the Endpoints object itself.
const NOT_MIRRORED: [&str; 2] =
    ["endpoints.kubernetes.io/last-change-trigger-time", "kubectl.kubernetes.io/last-applied-configuration"];

/// What tells slices apart: the address type and the ports.
type Content = BTreeMap<(&'static str, Vec<EndpointPort>), Vec<Endpoint>>;
type Texts = BTreeMap<String, String>;

pub fn reconcile(observed: &Observed) -> Plan {
    let mut plan = Plan::default();
    let source = source(observed);
    let mut wanted = source.map(content).unwrap_or_default();
    let (mut updates, mut deletes) = (Vec::new(), Vec::new());
    for slice in &observed.slices {
        let mine = source.filter(|from| slice.metadata.controller().is_some_and(|o| o.uid == from.metadata.uid));
        let key = family(&slice.address_type).map(|family| (family, slice.ports.clone()));
        match mine.zip(key.and_then(|key| wanted.remove(&key))) {
            Some((from, endpoints)) => updates.extend(update(from, slice, &endpoints)),
            None => deletes.push(delete(slice)),
        }
    }
    plan.push_all(updates);
    let create = |from| wanted.iter().map(move |((family, ports), endpoints)| create(from, family, ports, endpoints));
    plan.push_slow_start(source.into_iter().flat_map(create).collect());
    // Last, so that no address is missing in between.
    plan.push_all(deletes);
    plan
}

/// The object to be mirrored, if it is one.
fn source(observed: &Observed) -> Option<&Endpoints> {
    let from = observed.endpoints.as_deref()?;
    let meta = &from.metadata;
    let skipped = meta.labels.get(SKIP).is_some_and(|v| v == "true") || meta.annotations.contains_key(LEADER);
    let selected = observed.service.as_ref()?.spec.selector.as_ref().is_some_and(|selector| !selector.is_empty());
    (!skipped && !selected && !meta.is_deleting()).then_some(from)
}

fn family(address_type: &str) -> Option<&'static str> {
    ["IPv4", "IPv6"].into_iter().find(|family| *family == address_type)
}

fn content(from: &Endpoints) -> Content {
    let mut content = Content::new();
    for subset in &from.subsets {
        let mut ports = subset.ports.clone();
        ports.sort();
        let ready = subset.addresses.iter().map(|address| (address, true));
        // Ready ones are the last to be left out.
        let all = ready.chain(subset.not_ready_addresses.iter().map(|address| (address, false)));
        for (address, ready) in all.take(CAPACITY) {
            let Ok(ip) = address.ip.parse::<IpAddr>() else { continue };
            let family = if ip.is_ipv4() { "IPv4" } else { "IPv6" };
            let endpoints = content.entry((family, ports.clone())).or_default();
            let new = endpoint(address, ready);
            if endpoints.len() < CAPACITY && !endpoints.iter().any(|have| have.addresses == new.addresses) {
                endpoints.push(new);
            }
        }
    }
    content
}

fn endpoint(address: &Address, ready: bool) -> Endpoint {
    Endpoint {
        addresses: vec![address.ip.clone()],
        conditions: EndpointConditions { ready, serving: ready, terminating: false },
        hostname: address.hostname.clone().filter(|name| !name.is_empty()),
        node_name: address.node_name.clone(),
        target_ref: address.target_ref.clone(),
        zone: None,
    }
}

fn labels(from: &Endpoints) -> Texts {
    let mut labels = from.metadata.labels.clone();
    labels.remove(SKIP);
    labels.insert(SERVICE_NAME.to_owned(), from.name().to_owned());
    labels.insert(MANAGED_BY.to_owned(), MANAGER.to_owned());
    labels
}

fn annotations(from: &Endpoints) -> Texts {
    let mut annotations = from.metadata.annotations.clone();
    annotations.retain(|name, _| !NOT_MIRRORED.contains(&name.as_str()));
    annotations
}

fn create(from: &Endpoints, family: &str, ports: &[EndpointPort], endpoints: &[Endpoint]) -> Write {
    let mut metadata = json!({"generateName": owner::generate_name(from.name()), "namespace": from.namespace(),
        "labels": labels(from), "ownerReferences": [owner::owner_reference(&kinds::ENDPOINTS, &from.metadata)]});
    let annotations = annotations(from);
    if !annotations.is_empty() {
        metadata["annotations"] = json!(annotations);
    }
    let body = json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "metadata": metadata,
        "addressType": family, "endpoints": endpoints, "ports": ports});
    Write::create(&kinds::ENDPOINT_SLICE, from.namespace(), body)
}

/// The write that brings a slice up to date, if any is needed.
fn update(from: &Endpoints, slice: &EndpointSlice, endpoints: &[Endpoint]) -> Option<Write> {
    let meta = &slice.metadata;
    let mut body = json!({});
    if slice.endpoints != endpoints {
        body["endpoints"] = json!(endpoints);
    }
    for (field, have, want) in
        [("labels", &meta.labels, labels(from)), ("annotations", &meta.annotations, annotations(from))]
    {
        if *have != want {
            body["metadata"][field] = replacement(have, &want);
        }
    }
    if body.as_object().is_some_and(serde_json::Map::is_empty) {
        return None;
    }
    body["metadata"]["resourceVersion"] = json!(meta.resource_version);
    Some(Write::merge(&kinds::ENDPOINT_SLICE, &meta.namespace, &meta.name, body))
}

/// The merge patch from one set of texts to another.
fn replacement(have: &Texts, want: &Texts) -> Value {
    let mut patch = json!(want);
    have.keys().filter(|key| !want.contains_key(*key)).for_each(|key| patch[key] = Value::Null);
    patch
}

fn delete(slice: &EndpointSlice) -> Write {
    let meta = &slice.metadata;
    let options = DeleteOptions::uid(meta.uid.to_string());
    Write::delete(&kinds::ENDPOINT_SLICE, &meta.namespace, &meta.name, options)
}
