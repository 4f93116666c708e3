//! What the proxy and node DNS read of Services and EndpointSlices. Everything else is left out of memory.
//!
//! It decides only how conditions that are not given are read.

use gantry_apimachinery::meta::{Object, ObjectMeta, OwnerReference};
use serde::{Deserialize, Deserializer, Serialize};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

/// The label by which an EndpointSlice names its Service.
pub const SERVICE_NAME_LABEL: &str = "kubernetes.io/service-name";

/// Lists that the API leaves out or gives as null are empty.
pub fn null_as_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(d: D) -> Result<T, D::Error> {
    Option::<T>::deserialize(d).map(Option::unwrap_or_default)
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Service {
    #[serde(deserialize_with = "slim_meta")]
    pub metadata: ObjectMeta,
    pub spec: ServiceSpec,
    pub status: ServiceStatus,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ServiceSpec {
    pub r#type: ServiceType,
    #[serde(rename = "clusterIP", deserialize_with = "null_as_default")]
    pub cluster_ip: String,
    #[serde(rename = "clusterIPs", deserialize_with = "null_as_default")]
    pub cluster_ips: Vec<String>,
    #[serde(rename = "externalIPs", deserialize_with = "null_as_default")]
    pub external_ips: Vec<String>,
    #[serde(deserialize_with = "null_as_default")]
    pub external_name: String,
    #[serde(deserialize_with = "null_as_default")]
    pub ports: Vec<ServicePort>,
    #[serde(deserialize_with = "null_as_default")]
    pub session_affinity: String,
    pub session_affinity_config: Option<AffinityConfig>,
    pub internal_traffic_policy: Option<String>,
    pub external_traffic_policy: Option<String>,
    pub publish_not_ready_addresses: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ServiceType {
    #[default]
    #[serde(rename = "ClusterIP")]
    ClusterIp,
    NodePort,
    LoadBalancer,
    ExternalName,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ServicePort {
    #[serde(deserialize_with = "null_as_default")]
    pub name: String,
    #[serde(deserialize_with = "null_as_default")]
    pub protocol: String,
    pub port: u16,
    pub node_port: Option<u16>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AffinityConfig {
    #[serde(rename = "clientIP")]
    pub client_ip: Option<ClientIpConfig>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClientIpConfig {
    pub timeout_seconds: Option<u32>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ServiceStatus {
    pub load_balancer: LoadBalancer,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LoadBalancer {
    #[serde(deserialize_with = "null_as_default")]
    pub ingress: Vec<Ingress>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Ingress {
    #[serde(deserialize_with = "null_as_default")]
    pub ip: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EndpointSlice {
    #[serde(deserialize_with = "slim_meta")]
    pub metadata: ObjectMeta,
    /// `IPv4`, `IPv6` or `FQDN`.
    #[serde(deserialize_with = "null_as_default")]
    pub address_type: String,
    #[serde(deserialize_with = "null_as_default")]
    pub endpoints: Vec<Endpoint>,
    #[serde(deserialize_with = "null_as_default")]
    pub ports: Vec<EndpointPort>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Endpoint {
    #[serde(deserialize_with = "null_as_default")]
    pub addresses: Vec<String>,
    pub conditions: Conditions,
    pub hostname: Option<String>,
    pub node_name: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Conditions {
    pub ready: Option<bool>,
    pub serving: Option<bool>,
    pub terminating: Option<bool>,
}

impl Conditions {
    /// Consumers read an unknown `ready` as true (EndpointSlice API).
    pub fn is_ready(&self) -> bool {
        self.ready.unwrap_or(true)
    }
    /// Still answers while it is being stopped.
    pub fn is_draining(&self) -> bool {
        self.terminating.unwrap_or(false) && self.serving.unwrap_or_else(|| self.is_ready())
    }
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct EndpointPort {
    #[serde(deserialize_with = "null_as_default")]
    pub name: String,
    #[serde(deserialize_with = "null_as_default")]
    pub protocol: String,
    pub port: Option<u16>,
}

impl Object for Service {
    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }
}

impl Object for EndpointSlice {
    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }
}

impl Service {
    /// IPv4 virtual addresses; empty for headless and ExternalName Services.
    pub fn cluster_addresses(&self) -> Vec<Ipv4Addr> {
        let one = std::slice::from_ref(&self.spec.cluster_ip);
        let all = if self.spec.cluster_ips.is_empty() { one } else { &self.spec.cluster_ips };
        all.iter().filter_map(|ip| ip.parse().ok()).collect()
    }

    /// Addresses outside the cluster's own range that also lead here.
    pub fn external_addresses(&self) -> Vec<Ipv4Addr> {
        let balancers = self.status.load_balancer.ingress.iter().map(|ingress| &ingress.ip);
        self.spec.external_ips.iter().chain(balancers).filter_map(|ip| ip.parse().ok()).collect()
    }

    pub fn is_headless(&self) -> bool {
        self.spec.cluster_ip == "None"
    }
}

impl EndpointSlice {
    pub fn service_name(&self) -> &str {
        self.metadata.labels.get(SERVICE_NAME_LABEL).map(String::as_str).unwrap_or_default()
    }
}

impl Endpoint {
    /// All addresses of an endpoint are the same thing; the first stands for it.
    pub fn address(&self) -> Option<IpAddr> {
        self.addresses.first()?.parse().ok()
    }
}

/// Keeps what is used: annotations and owners would double the size of a copy of every Service.
pub fn slim_meta<'de, D: Deserializer<'de>>(d: D) -> Result<ObjectMeta, D::Error> {
    let mut meta = ObjectMeta::deserialize(d)?;
    meta.annotations = BTreeMap::new();
    meta.owner_references = Vec::<OwnerReference>::new();
    meta.finalizers = vec![];
    meta.labels.retain(|name, _| name == SERVICE_NAME_LABEL);
    Ok(meta)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_and_null_fields_are_read() {
        let text = r#"{"metadata":{"name":"a","namespace":"b","annotations":{"x":"y"}},
            "spec":{"clusterIP":"10.0.0.1","ports":null,"sessionAffinity":"None"}}"#;
        let service: Service = serde_json::from_str(text).unwrap();
        assert_eq!(service.cluster_addresses(), [Ipv4Addr::new(10, 0, 0, 1)]);
        assert!(service.metadata.annotations.is_empty());
        let slice: EndpointSlice = serde_json::from_str(r#"{"endpoints":[{"addresses":["::1"]}]}"#).unwrap();
        assert!(slice.endpoints[0].conditions.is_ready());
    }

    #[test]
    fn what_is_written_is_read() {
        let text =
            r#"{"metadata":{"name":"a"},"spec":{"type":"NodePort","clusterIP":"None","externalIPs":["1.1.1.1"]}}"#;
        let service: Service = serde_json::from_str(text).unwrap();
        let again: Service = serde_json::from_slice(&serde_json::to_vec(&service).unwrap()).unwrap();
        assert_eq!(again, service);
        assert!(service.is_headless());
    }
}
