//! The legacy Endpoints object, and what one look at a service holds. Decides nothing.

use std::sync::Arc;

use gantry_apimachinery::meta::{Object, ObjectMeta};
use serde::{Deserialize, Serialize};

use crate::objects::{EndpointPort, Pod, Service, TargetRef};

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Endpoints {
    pub metadata: ObjectMeta,
    pub subsets: Vec<Subset>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Subset {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<Address>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub not_ready_addresses: Vec<Address>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<EndpointPort>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Address {
    pub ip: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hostname: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_ref: Option<TargetRef>,
}

/// One service, its pods and its object.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    pub service: Arc<Service>,
    pub pods: Vec<Arc<Pod>>,
    pub endpoints: Option<Arc<Endpoints>>,
}

impl Object for Endpoints {
    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }
}
