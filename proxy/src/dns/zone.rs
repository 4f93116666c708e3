//! All names that the cluster answers for, built from one copy of Services and EndpointSlices. Pure.

use crate::discovery::Discovery;
use crate::model::{Endpoint, EndpointSlice, Service, ServiceType};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The version of the DNS specification that `dns-version` names.
const SPECIFICATION: &str = "1.1.0";

/// What a name has. Names are lower case, without the last dot.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Data {
    A(Ipv4Addr),
    Aaaa(Ipv6Addr),
    Srv { port: u16, target: String },
    Cname(String),
    Ptr(String),
    Txt(String),
}

/// An immutable set of names.
#[derive(Clone, Debug, Default)]
pub struct Zone {
    domain: String,
    serial: u32,
    records: BTreeMap<String, BTreeSet<Data>>,
    /// Names that exist because something below them does.
    parents: BTreeSet<String>,
    /// (network, mask) pairs whose reverse names are ours.
    reverse: Vec<(u32, u32)>,
}

impl Zone {
    pub fn empty(domain: &str) -> Self {
        Self::build(domain, &Discovery::default(), &[], 0)
    }

    pub fn build(domain: &str, copy: &Discovery, reverse: &[&str], serial: u32) -> Self {
        let domain = domain.trim_matches('.').to_lowercase();
        let mut zone = Self { domain: domain.clone(), serial, ..Self::default() };
        zone.reverse = reverse.iter().filter_map(|cidr| network(cidr)).collect();
        zone.add(format!("dns-version.{domain}"), Data::Txt(SPECIFICATION.to_owned()));
        for parent in ["svc", "pod"] {
            zone.parents.insert(format!("{parent}.{domain}"));
        }
        zone.parents.insert(domain);
        let mut slices: BTreeMap<(&str, &str), Vec<&EndpointSlice>> = BTreeMap::new();
        for slice in &copy.slices {
            slices.entry((&slice.metadata.namespace, slice.service_name())).or_default().push(slice);
        }
        for service in &copy.services {
            let of_service = slices.get(&(service.metadata.namespace.as_str(), service.metadata.name.as_str()));
            zone.add_service(service, of_service.map(Vec::as_slice).unwrap_or_default());
        }
        zone
    }

    pub fn domain(&self) -> &str {
        &self.domain
    }
    pub fn serial(&self) -> u32 {
        self.serial
    }

    /// The records of a name; `None` when there is no such name.
    pub fn find(&self, name: &str) -> Option<Vec<Data>> {
        if let Some(records) = self.records.get(name) {
            return Some(records.iter().cloned().collect());
        }
        if let Some(ip) = self.pod_address(name) {
            return Some(vec![Data::A(ip)]);
        }
        self.parents.contains(name).then(Vec::new)
    }

    /// Whether nobody else can answer for this name.
    pub fn is_ours(&self, name: &str) -> bool {
        let below = name.strip_suffix(&self.domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'));
        below || self.records.contains_key(name) || reverse_address(name).is_some_and(|ip| self.is_own_address(ip))
    }

    fn is_own_address(&self, ip: Ipv4Addr) -> bool {
        self.reverse.iter().any(|(network, mask)| u32::from(ip) & mask == *network)
    }

    /// `1-2-3-4.NAMESPACE.pod.DOMAIN`. The specification lets it be answered without knowing the pod.
    fn pod_address(&self, name: &str) -> Option<Ipv4Addr> {
        let (pod, namespace) = name.strip_suffix(&self.domain)?.strip_suffix(".pod.")?.split_once('.')?;
        (!namespace.contains('.')).then(|| pod.replace('-', ".").parse().ok()).flatten()
    }

    fn add_service(&mut self, service: &Service, slices: &[&EndpointSlice]) {
        let (name, namespace) = (&service.metadata.name, &service.metadata.namespace);
        let full = format!("{name}.{namespace}.svc.{}", self.domain);
        if service.spec.r#type == ServiceType::ExternalName {
            let target = service.spec.external_name.trim_end_matches('.').to_lowercase();
            self.add(full, Data::Cname(target));
        } else if service.is_headless() {
            self.add_parents(&full);
            self.parents.insert(full.clone());
            for slice in slices {
                self.add_headless(&full, service, slice);
            }
        } else {
            let one = std::slice::from_ref(&service.spec.cluster_ip);
            let all = if service.spec.cluster_ips.is_empty() { one } else { &service.spec.cluster_ips };
            for ip in all.iter().filter_map(|ip| ip.parse::<IpAddr>().ok()) {
                self.add(full.clone(), address(ip));
                self.add(reverse_name(ip), Data::Ptr(full.clone()));
            }
            for port in service.spec.ports.iter().filter(|port| !port.name.is_empty()) {
                let target = full.clone();
                self.add(port_name(&port.name, &port.protocol, &full), Data::Srv { port: port.port, target });
            }
        }
    }

    fn add_headless(&mut self, full: &str, service: &Service, slice: &EndpointSlice) {
        let publish = |endpoint: &&Endpoint| service.spec.publish_not_ready_addresses || endpoint.conditions.is_ready();
        for endpoint in slice.endpoints.iter().filter(publish) {
            let Some(ip) = endpoint.address() else { continue };
            let host = match &endpoint.hostname {
                Some(host) if !host.is_empty() => host.to_lowercase(),
                _ => ip.to_string().replace(['.', ':'], "-"),
            };
            let host = format!("{host}.{full}");
            self.add(full.to_owned(), address(ip));
            self.add(host.clone(), address(ip));
            self.add(reverse_name(ip), Data::Ptr(host.clone()));
            for port in slice.ports.iter().filter(|port| !port.name.is_empty()) {
                if let Some(number) = port.port {
                    let srv = Data::Srv { port: number, target: host.clone() };
                    self.add(port_name(&port.name, &port.protocol, full), srv);
                }
            }
        }
    }

    fn add(&mut self, name: String, data: Data) {
        self.add_parents(&name);
        self.records.entry(name).or_default().insert(data);
    }

    fn add_parents(&mut self, name: &str) {
        let mut rest = name;
        while let Some((_, parent)) = rest.split_once('.') {
            if !self.parents.insert(parent.to_owned()) {
                return;
            }
            rest = parent;
        }
    }
}

fn address(ip: IpAddr) -> Data {
    match ip {
        IpAddr::V4(ip) => Data::A(ip),
        IpAddr::V6(ip) => Data::Aaaa(ip),
    }
}

fn port_name(port: &str, protocol: &str, full: &str) -> String {
    let protocol = if protocol.is_empty() { "tcp".to_owned() } else { protocol.to_lowercase() };
    format!("_{port}._{protocol}.{full}")
}

fn reverse_name(ip: IpAddr) -> String {
    match ip {
        IpAddr::V4(ip) => {
            let [a, b, c, d] = ip.octets();
            format!("{d}.{c}.{b}.{a}.in-addr.arpa")
        }
        IpAddr::V6(ip) => {
            let digits: Vec<String> =
                ip.octets().iter().rev().flat_map(|byte| [byte & 15, byte >> 4]).map(|n| format!("{n:x}")).collect();
            format!("{}.ip6.arpa", digits.join("."))
        }
    }
}

fn reverse_address(name: &str) -> Option<Ipv4Addr> {
    let parts: Vec<u8> =
        name.strip_suffix(".in-addr.arpa")?.split('.').map(|n| n.parse().ok()).collect::<Option<_>>()?;
    let [d, c, b, a] = parts.as_slice() else { return None };
    Some(Ipv4Addr::new(*a, *b, *c, *d))
}

fn network(cidr: &str) -> Option<(u32, u32)> {
    let (base, length) = cidr.split_once('/')?;
    let (base, length): (Ipv4Addr, u32) = (base.parse().ok()?, length.parse().ok()?);
    let mask = u32::MAX.checked_shl(32u32.checked_sub(length)?).unwrap_or(0);
    Some((u32::from(base) & mask, mask))
}
