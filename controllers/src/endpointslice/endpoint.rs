//! One pod as an endpoint of a service: whether it is one, in which condition, on which ports. Shared by slices and the legacy
//! object. Never decides where an endpoint is written.

use gantry_apimachinery::meta::Object;
use gantry_apimachinery::time::Timestamp;
use serde_json::Value;

use super::types::Machine;
use crate::objects::{Endpoint, EndpointConditions, EndpointPort, Pod, Service, ServicePort, TargetRef};

/// A pod is an endpoint once it has an address and until it has finished.
pub fn is_endpoint(pod: &Pod) -> bool {
    pod.status.pod_ip.as_deref().is_some_and(|ip| !ip.is_empty()) && !pod.is_finished()
}

/// The pod as an endpoint.
pub fn endpoint(service: &Service, pod: &Pod, machine: Option<&Machine>) -> Endpoint {
    let serving = pod.is_ready() && !machine.is_some_and(|m| m.unreachable);
    let terminating = pod.is_terminating();
    let ready = service.spec.publish_not_ready_addresses || (serving && !terminating);
    Endpoint {
        addresses: pod.status.pod_ip.iter().cloned().collect(),
        conditions: EndpointConditions { ready, serving, terminating },
        hostname: hostname(service, pod),
        node_name: pod.node().map(str::to_owned),
        target_ref: Some(target(pod)),
        zone: machine.and_then(|m| m.zone.clone()),
    }
}

pub fn target(pod: &Pod) -> TargetRef {
    TargetRef {
        kind: "Pod".to_owned(),
        namespace: pod.namespace().to_owned(),
        name: pod.name().to_owned(),
        uid: pod.uid().to_string(),
    }
}

/// A pod has a name of its own below a service that its `subdomain` names.
pub fn hostname(service: &Service, pod: &Pod) -> Option<String> {
    let named = pod.spec.subdomain.as_deref() == Some(service.name());
    pod.spec.hostname.clone().filter(|h| named && !h.is_empty())
}

/// The ports of the service on this pod, in the service's order; a named port that the pod does not have is left out.
pub fn ports(service: &Service, pod: &Pod) -> Vec<EndpointPort> {
    let port = |port: &ServicePort| {
        Some(EndpointPort {
            name: port.name.clone().unwrap_or_default(),
            protocol: protocol(port).to_owned(),
            port: Some(target_port(port, pod)?),
            app_protocol: port.app_protocol.clone(),
        })
    };
    service.spec.ports.iter().filter_map(port).collect()
}

fn protocol(port: &ServicePort) -> &str {
    port.protocol.as_deref().unwrap_or("TCP")
}

fn target_port(port: &ServicePort, pod: &Pod) -> Option<i32> {
    match &port.target_port {
        None => Some(port.port),
        Some(Value::Number(n)) => match n.as_i64().and_then(|n| i32::try_from(n).ok())? {
            0 => Some(port.port),
            n => Some(n),
        },
        Some(Value::String(name)) if name.is_empty() => Some(port.port),
        Some(Value::String(name)) => {
            let ports = pod.lasting_containers().flat_map(|c| &c.ports);
            let mut named = ports.filter(|p| {
                p.name.as_deref() == Some(name) && p.protocol.as_deref().unwrap_or("TCP") == protocol(port)
            });
            named.next().map(|p| p.container_port).or_else(|| name.parse().ok())
        }
        Some(_) => None,
    }
}

/// When this pod's part as an endpoint last changed: it became ready or unready, or began to go.
pub fn changed_at(pod: &Pod) -> Option<Timestamp> {
    let meta = &pod.metadata;
    // The deletion time is when the pod must be gone; it began to go a grace period earlier.
    let going = meta.deletion_timestamp.map(|at| at.add_secs(-meta.deletion_grace_period_seconds.unwrap_or(0)));
    let ready = pod.condition("Ready").and_then(|c| c.last_transition_time);
    going.max(ready).or(meta.creation_timestamp)
}
