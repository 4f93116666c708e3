//! ConfigMap, Secret and the few other small objects that pods refer to. Pure data.

use std::collections::BTreeMap;

use gantry_apimachinery::meta::{Object, ObjectMeta};
use gantry_apimachinery::time::Timestamp;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ConfigMap {
    pub metadata: ObjectMeta,
    pub data: BTreeMap<String, String>,
    pub binary_data: BTreeMap<String, String>,
}

impl Object for ConfigMap {
    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Secret {
    pub metadata: ObjectMeta,
    #[serde(rename = "type")]
    pub kind: String,
    /// Values in base64.
    pub data: BTreeMap<String, String>,
}

impl Object for Secret {
    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RuntimeClass {
    pub metadata: ObjectMeta,
    /// What the container runtime calls it.
    pub handler: String,
}

impl Object for RuntimeClass {
    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct TokenRequest {
    pub status: TokenStatus,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct TokenStatus {
    pub token: String,
    pub expiration_timestamp: Option<Timestamp>,
}

/// Any object, when only its header matters.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct HeaderOnly {
    pub metadata: ObjectMeta,
}

impl Object for HeaderOnly {
    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }
}
