//! Host ports: one address, protocol and port of a machine has one owner.

use super::World;
use super::manifest::{list, text};
use serde_json::Value;

/// A port that a pod takes on its machine.
struct HostPort<'a> {
    address: &'a str,
    protocol: &'a str,
    port: u64,
}

/// None of the pod's host ports is taken by a pod of the machine.
pub fn are_free(world: &World, pod: &Value, node: &Value) -> bool {
    let wanted = host_ports(pod);
    let bound = world.bound_to(node);
    let taken: Vec<HostPort> = bound.iter().flat_map(|other| host_ports(other)).collect();
    !wanted.iter().any(|port| taken.iter().any(|other| clash(port, other)))
}

/// Same port and protocol, and the same address or one of the two stands for all addresses.
fn clash(a: &HostPort, b: &HostPort) -> bool {
    let everywhere = |address: &str| ["", "0.0.0.0", "::"].contains(&address);
    let same_address = a.address == b.address || everywhere(a.address) || everywhere(b.address);
    a.port == b.port && a.protocol == b.protocol && same_address
}

/// The ports of the containers and sidecars. On the host's network every container port is a port of the machine.
fn host_ports(pod: &Value) -> Vec<HostPort<'_>> {
    let on_host_network = pod["spec"]["hostNetwork"] == true;
    let sidecars = list(&pod["spec"]["initContainers"]).iter().filter(|init| init["restartPolicy"] == "Always");
    let containers = list(&pod["spec"]["containers"]).iter().chain(sidecars);
    let host_port = |port: &Value| match port["hostPort"].as_u64().unwrap_or(0) {
        0 if on_host_network => port["containerPort"].as_u64().unwrap_or(0),
        number => number,
    };
    containers
        .flat_map(|container| list(&container["ports"]))
        .filter(|port| host_port(port) > 0)
        .map(|port| HostPort {
            address: text(&port["hostIP"]),
            protocol: port["protocol"].as_str().unwrap_or("TCP"),
            port: host_port(port),
        })
        .collect()
}
