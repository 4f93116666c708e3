//! Kinds of which the controllers read a field or two. Decides nothing.

use gantry_apimachinery::labels::{LabelSelector, Selector};
use gantry_apimachinery::meta::{Object, ObjectMeta};
use gantry_apimachinery::time::MicroTime;
use serde::Deserialize;

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Namespace {
    pub metadata: ObjectMeta,
    pub spec: NamespaceSpec,
    pub status: NamespaceStatus,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct NamespaceSpec {
    pub finalizers: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct NamespaceStatus {
    pub phase: Option<String>,
    pub conditions: Vec<super::Condition>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct ServiceAccount {
    pub metadata: ObjectMeta,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct ConfigMap {
    pub metadata: ObjectMeta,
    pub data: ConfigData,
}

/// The one entry that some controller reads.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct ConfigData {
    #[serde(rename = "ca.crt")]
    pub ca_crt: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Lease {
    pub metadata: ObjectMeta,
    pub spec: LeaseSpec,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LeaseSpec {
    pub renew_time: Option<MicroTime>,
}

/// The selector to match with; `None` when it is malformed or selects everything, which no workload means.
pub fn compile(selector: &LabelSelector) -> Option<Selector> {
    Selector::from_label_selector(selector).ok().filter(|s| !s.is_everything())
}

macro_rules! objects {
    ($($kind:ty),*) => {$(
        impl Object for $kind {
            fn meta(&self) -> &ObjectMeta {
                &self.metadata
            }
        }
    )*};
}
objects!(Namespace, ServiceAccount, ConfigMap, Lease);

impl Namespace {
    pub fn is_terminating(&self) -> bool {
        self.metadata.deletion_timestamp.is_some() || self.status.phase.as_deref() == Some("Terminating")
    }
}
