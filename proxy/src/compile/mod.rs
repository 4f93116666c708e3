//! Services and EndpointSlices → what the kernel should hold on one node. Pure: the same input gives the same ruleset.
//!
//! Rules are Kubernetes': <https://kubernetes.io/docs/reference/networking/virtual-ips/>.

use crate::model::{Endpoint, EndpointSlice, Service, ServicePort, ServiceType};
use crate::ruleset::{Backend, Frontend, Key, Protocol, Ruleset, Spread, Sticky, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};

/// Kubernetes' default for `sessionAffinityConfig.clientIP.timeoutSeconds`.
const DEFAULT_AFFINITY_S: u32 = 10_800;
/// Slots are drawn by a number below this.
pub const MAX_ENDPOINTS: usize = 1 << 14;

/// Which endpoints a frontend may use.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reach {
    Cluster,
    /// Only endpoints on this node; without one, packets are dropped.
    Local,
}

/// An endpoint's backend for one port, and whether it is on this node.
struct Candidate {
    backend: Backend,
    local: bool,
    ready: bool,
    draining: bool,
}

/// The ruleset of `node`. Where two Services claim one frontend, the first by namespace and name has it.
pub fn compile<'a>(
    services: impl IntoIterator<Item = &'a Service>,
    slices: impl IntoIterator<Item = &'a EndpointSlice>,
    node: &str,
) -> Ruleset {
    let mut by_service: BTreeMap<(&str, &str), Vec<&EndpointSlice>> = BTreeMap::new();
    for slice in slices.into_iter().filter(|slice| slice.address_type != "IPv6" && slice.address_type != "FQDN") {
        by_service.entry((&slice.metadata.namespace, slice.service_name())).or_default().push(slice);
    }
    let mut services: Vec<&Service> = services.into_iter().collect();
    services.sort_by_key(|service| (&service.metadata.namespace, &service.metadata.name));
    let mut ruleset = Ruleset::default();
    for service in services.into_iter().filter(|service| service.spec.r#type != ServiceType::ExternalName) {
        let slices = by_service.get(&(service.metadata.namespace.as_str(), service.metadata.name.as_str()));
        let slices = slices.map(Vec::as_slice).unwrap_or_default();
        for port in &service.spec.ports {
            if let Some(protocol) = Protocol::parse(&port.protocol) {
                add_port(&mut ruleset, service, port, protocol, &candidates(slices, port, protocol, node));
            }
        }
    }
    ruleset
}

fn add_port(
    ruleset: &mut Ruleset,
    service: &Service,
    port: &ServicePort,
    protocol: Protocol,
    candidates: &[Candidate],
) {
    let spec = &service.spec;
    let policy =
        |policy: &Option<String>| if policy.as_deref() == Some("Local") { Reach::Local } else { Reach::Cluster };
    let (internal, external) = (policy(&spec.internal_traffic_policy), policy(&spec.external_traffic_policy));
    let affinity = (spec.session_affinity == "ClientIP").then(|| {
        let config = spec.session_affinity_config.as_ref().and_then(|config| config.client_ip.as_ref());
        config.and_then(|config| config.timeout_seconds).unwrap_or(DEFAULT_AFFINITY_S)
    });
    let address = |ip: Ipv4Addr| Frontend::Address { ip, protocol, port: port.port, inside: false };
    let clusters: Vec<Frontend> = service.cluster_addresses().into_iter().map(address).collect();
    let node_port = port.node_port.filter(|port| *port > 0 && spec.r#type != ServiceType::ClusterIp);
    let node_port = node_port.map(|port| Frontend::NodePort { protocol, port, inside: false });
    let externals: Vec<Frontend> = service.external_addresses().into_iter().map(address).chain(node_port).collect();
    if clusters.is_empty() && externals.is_empty() {
        return;
    }
    for frontend in clusters {
        // Cluster traffic is masqueraded by a fixed rule where its source needs it, not per Service.
        if !ruleset.elements.contains_key(&Key::Service(frontend)) {
            add_frontend(ruleset, frontend, usable(candidates, internal), internal, false, affinity);
        }
    }
    for frontend in externals {
        if !ruleset.elements.contains_key(&Key::Service(frontend)) {
            add_external(ruleset, frontend, candidates, external, affinity);
        }
    }
    for candidate in candidates.iter().filter(|candidate| candidate.local) {
        ruleset.elements.insert(Key::Hairpin(candidate.backend.ip), Value::Present);
    }
}

/// `Local` holds for clients outside: pods and this node itself use any endpoint, as through the cluster IP.
fn add_external(
    ruleset: &mut Ruleset,
    frontend: Frontend,
    candidates: &[Candidate],
    reach: Reach,
    affinity: Option<u32>,
) {
    let all = usable(candidates, Reach::Cluster);
    if reach == Reach::Cluster || all.is_empty() {
        return add_frontend(ruleset, frontend, all, Reach::Cluster, true, affinity);
    }
    add_frontend(ruleset, frontend, usable(candidates, reach), reach, false, affinity);
    // A fixed rule masquerades what comes from this node.
    add_frontend(ruleset, frontend.for_inside(), all, Reach::Cluster, false, affinity);
}

fn add_frontend(
    ruleset: &mut Ruleset,
    frontend: Frontend,
    backends: BTreeSet<Backend>,
    reach: Reach,
    masquerade: bool,
    affinity: Option<u32>,
) {
    let target = if backends.is_empty() {
        if reach == Reach::Local { Value::Drop } else { Value::Refuse }
    } else if let Some(timeout_s) = affinity {
        ruleset.sticky.insert(frontend, Sticky { timeout_s, masquerade, backends: backends.into_iter().collect() });
        Value::Sticky
    } else {
        let mut endpoints = 0u16;
        for backend in backends.into_iter().take(MAX_ENDPOINTS) {
            ruleset.elements.insert(Key::Slot(frontend, endpoints), Value::Backend(backend));
            endpoints += 1;
        }
        let node_port = matches!(frontend, Frontend::NodePort { .. });
        let (inside, protocol) = (frontend.is_inside(), frontend.protocol());
        Value::Spread(Spread { node_port, inside, protocol, masquerade, endpoints })
    };
    ruleset.elements.insert(Key::Service(frontend), target);
}

/// Ready endpoints; when there is none, those that still serve while they are being stopped (KEP-1669).
fn usable(candidates: &[Candidate], reach: Reach) -> BTreeSet<Backend> {
    let reachable = || candidates.iter().filter(|candidate| reach == Reach::Cluster || candidate.local);
    let ready: BTreeSet<Backend> = reachable().filter(|c| c.ready).map(|c| c.backend).collect();
    if ready.is_empty() { reachable().filter(|c| c.draining).map(|c| c.backend).collect() } else { ready }
}

fn candidates(slices: &[&EndpointSlice], port: &ServicePort, protocol: Protocol, node: &str) -> Vec<Candidate> {
    let mut found = vec![];
    for slice in slices {
        let ports =
            slice.ports.iter().filter(|p| p.name == port.name && Protocol::parse(&p.protocol) == Some(protocol));
        for number in ports.filter_map(|p| p.port) {
            found.extend(slice.endpoints.iter().filter_map(|endpoint| candidate(endpoint, number, node)));
        }
    }
    found
}

fn candidate(endpoint: &Endpoint, port: u16, node: &str) -> Option<Candidate> {
    let IpAddr::V4(ip) = endpoint.address()? else { return None };
    Some(Candidate {
        backend: Backend { ip, port },
        local: endpoint.node_name.as_deref() == Some(node),
        ready: endpoint.conditions.is_ready(),
        draining: endpoint.conditions.is_draining(),
    })
}

#[cfg(test)]
mod tests;
