//! A DaemonSet as its controller sees it, and what one look at it holds. Decides nothing.

use std::collections::BTreeSet;
use std::sync::Arc;

use gantry_apimachinery::labels::LabelSelector;
use gantry_apimachinery::meta::{Object, ObjectMeta};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::objects::{Condition, Node, Pod, Template};
use crate::revision::ControllerRevision;

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DaemonSet {
    pub metadata: ObjectMeta,
    pub spec: DaemonSetSpec,
    pub status: DaemonSetStatus,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DaemonSetSpec {
    pub selector: LabelSelector,
    pub template: Template,
    pub update_strategy: UpdateStrategy,
    pub min_ready_seconds: i32,
    pub revision_history_limit: Option<i32>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct UpdateStrategy {
    #[serde(rename = "type")]
    pub kind: Option<String>,
    pub rolling_update: RollingUpdate,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RollingUpdate {
    pub max_surge: Option<Value>,
    pub max_unavailable: Option<Value>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DaemonSetStatus {
    pub current_number_scheduled: i32,
    pub number_misscheduled: i32,
    pub desired_number_scheduled: i32,
    pub number_ready: i32,
    pub observed_generation: i64,
    pub updated_number_scheduled: i32,
    pub number_available: i32,
    pub number_unavailable: i32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub collision_count: Option<i32>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

/// One daemon set with everything that its next step depends on.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    pub set: Arc<DaemonSet>,
    /// Every machine, in order of names.
    pub nodes: Vec<Arc<Node>>,
    /// Pods that the set owns, and pods of its namespace that nobody owns.
    pub pods: Vec<Arc<Pod>>,
    /// The uids of those whose deletion was accepted but is not seen yet.
    pub deleting: BTreeSet<String>,
    pub revisions: Vec<Arc<ControllerRevision>>,
    /// Somebody else's revision has the name of the one to create.
    pub collided: bool,
}

impl Object for DaemonSet {
    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }
}
