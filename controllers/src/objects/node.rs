//! A machine as the controllers see it. Decides nothing.

use gantry_apimachinery::meta::{Object, ObjectMeta};
use gantry_apimachinery::time::Timestamp;
use serde::{Deserialize, Serialize};

use super::Condition;

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Node {
    pub metadata: ObjectMeta,
    pub spec: NodeSpec,
    pub status: NodeStatus,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeSpec {
    #[serde(rename = "podCIDR")]
    pub pod_cidr: Option<String>,
    #[serde(rename = "podCIDRs")]
    pub pod_cidrs: Vec<String>,
    pub unschedulable: bool,
    pub taints: Vec<Taint>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Taint {
    pub key: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    pub effect: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_added: Option<Timestamp>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeStatus {
    pub conditions: Vec<Condition>,
}

impl Object for Node {
    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }
}

impl Node {
    pub fn condition(&self, kind: &str) -> Option<&Condition> {
        self.status.conditions.iter().find(|c| c.kind == kind)
    }

    /// `True`, `False` or `Unknown`; a machine that never reported is `Unknown`.
    pub fn ready(&self) -> &str {
        self.condition("Ready").map_or("Unknown", |c| c.status.as_str())
    }

    pub fn zone(&self) -> Option<&str> {
        self.metadata.labels.get("topology.kubernetes.io/zone").map(String::as_str)
    }
}
