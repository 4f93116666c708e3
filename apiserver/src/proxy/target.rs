//! Whom a proxied request is for: a pod, one of those behind a service, or a machine. Pure reads of what is stored.
//!
//! Decides which addresses may be reached: of pods, what their agents published and is an address of one machine in a network; never
//! an address of this machine alone, or one that a client wrote into an endpoint.

use super::location::Named;
use crate::core::Core;
use crate::http::Outcome;
use crate::kinds::value::{items, str_at};
use gantry_apimachinery::kinds::{ENDPOINT_SLICE, ENDPOINTS, POD, SERVICE};
use gantry_apimachinery::status::Status;
use serde_json::Value;
use std::net::IpAddr;
use std::sync::Arc;

/// An address to dial, and the pod that it belongs to.
#[derive(Clone, Debug, PartialEq)]
pub struct Target {
    pub https: bool,
    pub ip: IpAddr,
    pub port: u16,
    pub pod: Arc<Value>,
}

/// As Kubernetes: an address that means one machine, on whatever network.
pub fn reachable(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => {
            !(ip.is_unspecified() || ip.is_loopback() || ip.is_link_local() || ip.is_multicast() || ip.is_broadcast())
        }
        IpAddr::V6(v6) => match v6.to_ipv4_mapped() {
            Some(v4) => reachable(IpAddr::V4(v4)),
            None => !(v6.is_unspecified() || v6.is_loopback() || v6.is_unicast_link_local() || v6.is_multicast()),
        },
    }
}

pub fn refused() -> Status {
    Status::bad_request("address not allowed")
}

/// The pod that a request names.
pub async fn of_pod(core: &Core, namespace: &str, id: &str) -> Outcome<Target> {
    let named = Named::read(id).ok_or_else(|| Status::bad_request(format!("invalid pod request {id:?}")))?;
    let stored = core.latest(&POD, namespace, &named.name, false).await?;
    let pod = stored.ok_or_else(|| Status::not_found("pods", &named.name))?.value;
    let port = pod_port(&pod, &named).map_err(Status::bad_request)?;
    let ip = str_at(&pod, "status.podIP").parse::<IpAddr>().ok().filter(|ip| reachable(*ip)).ok_or_else(refused)?;
    Ok(Target { https: named.https, ip, port, pod: Arc::new(pod.clone()) })
}

/// The named port, else the first that a container declares, else the scheme's.
fn pod_port(pod: &Value, named: &Named) -> Result<u16, String> {
    if !named.port.is_empty() {
        let number = named.port.parse::<u16>().ok().filter(|port| *port > 0);
        return number.ok_or_else(|| format!("{:?} is not a port of pod {:?}", named.port, named.name));
    }
    let declared = items(pod, "spec.containers").iter().find_map(|container| items(container, "ports").first());
    let declared = declared.and_then(|port| port["containerPort"].as_u64()).and_then(|port| u16::try_from(port).ok());
    Ok(declared.unwrap_or(if named.https { 443 } else { 80 }))
}

/// One of the ready pods behind a service, each as likely as the others by `entropy`.
pub async fn of_service(core: &Core, namespace: &str, id: &str, entropy: u64) -> Outcome<Target> {
    let named = Named::read(id).ok_or_else(|| Status::bad_request(format!("invalid service request {id:?}")))?;
    let stored = core.latest(&SERVICE, namespace, &named.name, false).await?;
    let service = stored.ok_or_else(|| Status::not_found("services", &named.name))?.value;
    let port = service_port(&service, &named).map_err(Status::service_unavailable)?;
    let found = endpoints(core, namespace, &named.name, &port);
    let start = usize::try_from(entropy % found.len().max(1) as u64).unwrap_or(0);
    for (ip, port, pod_name) in found.iter().cycle().skip(start).take(found.len()) {
        // An address that somebody wrote for a pod leads nowhere unless it is that pod's.
        let Some(pod) = core.latest(&POD, namespace, pod_name, false).await? else { continue };
        let own = items(&pod.value, "status.podIPs").iter().any(|one| one["ip"].as_str() == Some(ip.as_str()));
        let ip = ip.parse::<IpAddr>().ok().filter(|ip| own && reachable(*ip));
        if let Some(ip) = ip {
            return Ok(Target { https: named.https, ip, port: *port, pod: Arc::new(pod.value.clone()) });
        }
    }
    Err(Status::service_unavailable(format!("no endpoints available for service {id:?}")).into())
}

/// The name of the service's port that is meant. A port that is no number is a name.
fn service_port(service: &Value, named: &Named) -> Result<String, String> {
    let Ok(number) = named.port.parse::<u64>() else { return Ok(named.port.clone()) };
    let port = items(service, "spec.ports").iter().find(|port| port["port"].as_u64() == Some(number));
    let none = || format!("no service port {number} found for service {:?}", named.name);
    port.map(|port| str_at(port, "name").to_owned()).ok_or_else(none)
}

/// (address, port, pod) of every ready endpoint: from slices, else from what was written as Endpoints.
fn endpoints(core: &Core, namespace: &str, service: &str, port: &str) -> Vec<(String, u16, String)> {
    let mut found = Vec::new();
    if let Some(slices) = core.groups.iter().find_map(|group| group.built_in(&ENDPOINT_SLICE)) {
        let slices = slices.snapshot();
        for (_, slice) in slices.tree.range(crate::cache::in_namespace(namespace)) {
            if slice.labels.get("kubernetes.io/service-name").map(String::as_str) == Some(service)
                && let Ok(slice) = slice.value()
            {
                let ready = |one: &&Value| one["conditions"]["ready"] != false;
                let endpoints = items(&slice, "endpoints").iter().filter(ready);
                let of = |one: &Value| Some((items(one, "addresses").first()?.as_str()?.to_owned(), pod_of(one)?));
                add(&mut found, items(&slice, "ports"), port, endpoints.filter_map(of));
            }
        }
    }
    if found.is_empty()
        && let Some(object) = core.cached(&ENDPOINTS, namespace, service)
        && let Ok(object) = object.value()
    {
        for subset in items(&object, "subsets") {
            let of = |one: &Value| Some((str_at(one, "ip").to_owned(), pod_of(one)?));
            add(&mut found, items(subset, "ports"), port, items(subset, "addresses").iter().filter_map(of));
        }
    }
    found
}

fn pod_of(endpoint: &Value) -> Option<String> {
    let pod = &endpoint["targetRef"];
    (pod["kind"] == "Pod").then(|| str_at(pod, "name").to_owned())
}

fn add(
    found: &mut Vec<(String, u16, String)>,
    ports: &[Value],
    wanted: &str,
    addresses: impl Iterator<Item = (String, String)>,
) {
    let port = ports.iter().find(|port| str_at(port, "name") == wanted);
    let Some(port) = port.and_then(|port| u16::try_from(port["port"].as_u64()?).ok()) else { return };
    found.extend(addresses.map(|(ip, pod)| (ip, port, pod)));
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn addresses_of_this_machine_alone_are_not_reached() {
        let check = |ip: &str, expect: bool| assert_eq!(reachable(ip.parse().unwrap()), expect, "{ip}");
        check("10.0.0.1", true);
        check("192.168.1.1", true);
        check("8.8.8.8", true);
        check("fd00::1", true);
        check("127.0.0.1", false);
        check("127.9.9.9", false);
        check("169.254.169.254", false);
        check("0.0.0.0", false);
        check("224.0.0.1", false);
        check("255.255.255.255", false);
        check("::1", false);
        check("::", false);
        check("fe80::1", false);
        check("ff02::1", false);
        check("::ffff:127.0.0.1", false);
        check("::ffff:169.254.169.254", false);
        check("::ffff:10.0.0.1", true);
    }

    #[test]
    fn a_pods_port_is_the_named_or_the_first() {
        let pod = json!({"spec": {"containers": [{}, {"ports": [{"containerPort": 8080}, {"containerPort": 9090}]}]}});
        let check = |id: &str, expect: Result<u16, &str>| {
            assert_eq!(pod_port(&pod, &Named::read(id).unwrap()), expect.map_err(str::to_owned), "{id}");
        };
        check("p", Ok(8080));
        check("p:9090", Ok(9090));
        check("https:p:", Ok(8080));
        check("p:0", Err("\"0\" is not a port of pod \"p\""));
        check("p:web", Err("\"web\" is not a port of pod \"p\""));
        check("p:70000", Err("\"70000\" is not a port of pod \"p\""));
        assert_eq!(pod_port(&json!({}), &Named::read("https:p:").unwrap()), Ok(443));
        assert_eq!(pod_port(&json!({}), &Named::read("p").unwrap()), Ok(80));
    }

    #[test]
    fn a_services_port_is_found_by_number_or_name() {
        let service = json!({"spec": {"ports": [{"name": "web", "port": 80}, {"name": "tls", "port": 443}]}});
        let check = |id: &str, expect: Result<&str, &str>| {
            let port = service_port(&service, &Named::read(id).unwrap());
            assert_eq!(port, expect.map(str::to_owned).map_err(str::to_owned), "{id}");
        };
        check("s:443", Ok("tls"));
        check("s:web", Ok("web"));
        check("s", Ok(""));
        check("s:81", Err("no service port 81 found for service \"s\""));
    }
}
