//! A replica set as its own controller and the deployment controller see it. Decides nothing.

use gantry_apimachinery::labels::LabelSelector;
use gantry_apimachinery::meta::{Object, ObjectMeta};
use gantry_apimachinery::time::Timestamp;
use serde::{Deserialize, Serialize};

use super::{Condition, Template};

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ReplicaSet {
    pub metadata: ObjectMeta,
    pub spec: ReplicaSetSpec,
    pub status: ReplicaSetStatus,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ReplicaSetSpec {
    pub replicas: Option<i32>,
    pub min_ready_seconds: i32,
    pub selector: LabelSelector,
    pub template: Template,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ReplicaSetStatus {
    pub replicas: i32,
    pub fully_labeled_replicas: i32,
    pub ready_replicas: i32,
    pub available_replicas: i32,
    pub observed_generation: i64,
    pub conditions: Vec<Condition>,
}

impl Object for ReplicaSet {
    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }
}

impl ReplicaSet {
    pub fn replicas(&self) -> i32 {
        self.spec.replicas.unwrap_or(1)
    }

    pub fn created(&self) -> Timestamp {
        self.metadata.creation_timestamp.unwrap_or_default()
    }
}
