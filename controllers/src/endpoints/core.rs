//! Decides the legacy Endpoints object of a service: its pods' addresses grouped by the ports that they serve, ready and not
//! ready apart, at most 1,000. Never touches an object of a service without a selector: somebody else writes that.

use std::collections::BTreeMap;

use gantry_apimachinery::kinds;
use gantry_apimachinery::meta::Object;
use gantry_apimachinery::time::Timestamp;
use serde_json::{Value, json};

use super::types::{Address, Endpoints, Observed, Subset};
use crate::endpointslice::{changed_at, hostname, is_endpoint, ports, target};
use crate::objects::{EndpointPort, Pod, Service};
use crate::owner;
use crate::plan::{Plan, Write};

/// Addresses in the object; the rest is said only in the slices.
const CAPACITY: usize = 1000;
const TRUNCATED: &str = "endpoints.kubernetes.io/over-capacity";
const CHANGED: &str = "endpoints.kubernetes.io/last-change-trigger-time";
const HEADLESS: &str = "service.kubernetes.io/headless";
const MANAGED_BY: &str = "endpoints.kubernetes.io/managed-by";
const MANAGER: &str = "endpoint-controller";

pub fn reconcile(observed: &Observed, now: Timestamp) -> Plan {
    let service = &*observed.service;
    let mut plan = Plan::default();
    if service.metadata.deletion_timestamp.is_some() || service.selector().is_none() {
        return plan;
    }
    let (subsets, truncated) = subsets(observed);
    let labels = labels(service);
    let (namespace, name) = (service.namespace(), service.name());
    let changed = observed.pods.iter().filter_map(|pod| changed_at(pod)).max().unwrap_or(now);
    let mut annotations = json!({CHANGED: changed.to_string()});
    annotations[TRUNCATED] = if truncated { json!("truncated") } else { Value::Null };
    match &observed.endpoints {
        None => {
            annotations.as_object_mut().into_iter().for_each(|map| map.retain(|_, v| !v.is_null()));
            // Owned, so that it goes with the service.
            let owners = [owner::owner_reference(&kinds::SERVICE, &service.metadata)];
            let metadata = json!({"name": name, "namespace": namespace, "labels": labels, "annotations": annotations,
                "ownerReferences": owners});
            let body = json!({"apiVersion": "v1", "kind": "Endpoints", "metadata": metadata, "subsets": subsets});
            plan.push(Write::create(&kinds::ENDPOINTS, namespace, body));
        }
        Some(have) => {
            if have.subsets != subsets || have.metadata.labels != labels || is_truncated(have) != truncated {
                let mut patch = json!(labels);
                let gone = have.metadata.labels.keys().filter(|key| !labels.contains_key(*key));
                gone.for_each(|key| patch[key] = Value::Null);
                let body = json!({"metadata": {"resourceVersion": have.metadata.resource_version, "labels": patch,
                    "annotations": annotations}, "subsets": subsets});
                plan.push(Write::merge(&kinds::ENDPOINTS, namespace, name, body));
            }
        }
    }
    plan
}

fn is_truncated(endpoints: &Endpoints) -> bool {
    endpoints.metadata.annotations.contains_key(TRUNCATED)
}

fn labels(service: &Service) -> BTreeMap<String, String> {
    let mut labels = service.metadata.labels.clone();
    labels.insert(MANAGED_BY.to_owned(), MANAGER.to_owned());
    if service.is_headless() {
        labels.insert(HEADLESS.to_owned(), String::new());
    } else {
        labels.remove(HEADLESS);
    }
    labels
}

/// The subsets in a fixed order, and whether addresses were left out.
fn subsets(observed: &Observed) -> (Vec<Subset>, bool) {
    let service = &*observed.service;
    let mut by_ports: BTreeMap<Vec<EndpointPort>, Subset> = BTreeMap::new();
    let chosen = |pod: &&std::sync::Arc<Pod>| {
        // Unlike slices, this object never shows pods that are going.
        let shown = !pod.is_terminating() || service.spec.publish_not_ready_addresses;
        service.selects(&pod.metadata.labels) && is_endpoint(pod) && shown
    };
    let mut pods: Vec<&Pod> = observed.pods.iter().filter(chosen).map(|pod| &**pod).collect();
    // Ready ones are the last to be left out.
    let ready = |pod: &Pod| service.spec.publish_not_ready_addresses || pod.is_ready();
    pods.sort_by(|a, b| ready(b).cmp(&ready(a)).then_with(|| a.status.pod_ip.cmp(&b.status.pod_ip)));
    let truncated = pods.len() > CAPACITY;
    for pod in pods.into_iter().take(CAPACITY) {
        let mut ports = ports(service, pod);
        if ports.is_empty() && !(service.is_headless() && service.spec.ports.is_empty()) {
            continue;
        }
        ports.sort();
        let subset = by_ports.entry(ports.clone()).or_insert_with(|| Subset { ports, ..Subset::default() });
        let list = if ready(pod) { &mut subset.addresses } else { &mut subset.not_ready_addresses };
        list.push(Address {
            ip: pod.status.pod_ip.clone().unwrap_or_default(),
            hostname: hostname(service, pod),
            node_name: pod.node().map(str::to_owned),
            target_ref: Some(target(pod)),
        });
    }
    (by_ports.into_values().collect(), truncated)
}
