//! Services and endpoint slices as the endpoint controllers see them. Decides nothing.

use std::collections::BTreeMap;

use gantry_apimachinery::meta::{Object, ObjectMeta};
use serde::{Deserialize, Serialize};
use serde_json::Value;

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Service {
    pub metadata: ObjectMeta,
    pub spec: ServiceSpec,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ServiceSpec {
    #[serde(rename = "type")]
    pub service_type: Option<String>,
    #[serde(rename = "clusterIP")]
    pub cluster_ip: Option<String>,
    pub selector: Option<BTreeMap<String, String>>,
    pub ports: Vec<ServicePort>,
    pub publish_not_ready_addresses: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ServicePort {
    pub name: Option<String>,
    pub protocol: Option<String>,
    pub port: i32,
    /// A number, or the name of a container's port.
    pub target_port: Option<Value>,
    pub app_protocol: Option<String>,
}

impl Object for Service {
    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }
}

impl Service {
    pub fn is_headless(&self) -> bool {
        self.spec.cluster_ip.as_deref() == Some("None")
    }

    /// The labels of the pods behind it. `None` leaves the endpoints to somebody else.
    pub fn selector(&self) -> Option<&BTreeMap<String, String>> {
        if self.spec.service_type.as_deref() == Some("ExternalName") {
            return None;
        }
        self.spec.selector.as_ref().filter(|s| !s.is_empty())
    }

    pub fn selects(&self, labels: &BTreeMap<String, String>) -> bool {
        self.selector().is_some_and(|s| s.iter().all(|(k, v)| labels.get(k) == Some(v)))
    }
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EndpointSlice {
    pub metadata: ObjectMeta,
    pub address_type: String,
    #[serde(deserialize_with = "null_as_default")]
    pub endpoints: Vec<Endpoint>,
    #[serde(deserialize_with = "null_as_default")]
    pub ports: Vec<EndpointPort>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Endpoint {
    pub addresses: Vec<String>,
    pub conditions: EndpointConditions,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hostname: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_ref: Option<TargetRef>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EndpointConditions {
    pub ready: bool,
    pub serving: bool,
    pub terminating: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TargetRef {
    pub kind: String,
    pub namespace: String,
    pub name: String,
    pub uid: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EndpointPort {
    pub name: String,
    pub protocol: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub app_protocol: Option<String>,
}

impl Object for EndpointSlice {
    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }
}

fn null_as_default<'de, D: serde::Deserializer<'de>, T: Default + Deserialize<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    Ok(Option::<T>::deserialize(deserializer)?.unwrap_or_default())
}
