//! A Deployment as its controller sees it, and what one look at it holds. Decides only how percentages become numbers.

use std::collections::BTreeMap;
use std::sync::Arc;

use gantry_apimachinery::labels::LabelSelector;
use gantry_apimachinery::meta::{Object, ObjectMeta, Uid};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::edge::Failure;
use crate::objects::{Condition, ReplicaSet, Template};

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Deployment {
    pub metadata: ObjectMeta,
    pub spec: DeploymentSpec,
    pub status: DeploymentStatus,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DeploymentSpec {
    pub replicas: Option<i32>,
    pub selector: LabelSelector,
    pub template: Template,
    pub strategy: Strategy,
    pub min_ready_seconds: i32,
    pub revision_history_limit: Option<i32>,
    pub paused: bool,
    pub progress_deadline_seconds: Option<i32>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Strategy {
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
pub struct DeploymentStatus {
    pub observed_generation: i64,
    pub replicas: i32,
    pub updated_replicas: i32,
    pub ready_replicas: i32,
    pub available_replicas: i32,
    pub unavailable_replicas: i32,
    pub conditions: Vec<Condition>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub collision_count: Option<i32>,
}

/// One deployment with everything that its next step depends on.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    pub deployment: Arc<Deployment>,
    /// Sets that it owns, and sets of its namespace that nobody owns.
    pub sets: Vec<Arc<ReplicaSet>>,
    /// Pods per set that have not finished, terminating ones too. Read for the Recreate strategy only.
    pub running: BTreeMap<Uid, usize>,
    /// Somebody else's set has the name of the one to create: another hash is needed.
    pub collided: bool,
    /// Why the last attempt to create a set failed.
    pub failure: Option<Failure>,
}

impl Object for Deployment {
    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }
}

impl Deployment {
    pub fn replicas(&self) -> i32 {
        self.spec.replicas.unwrap_or(1)
    }

    pub fn is_recreate(&self) -> bool {
        self.spec.strategy.kind.as_deref() == Some("Recreate")
    }

    /// Pods above the wished number, and available ones below it, that a rollout may cause.
    pub fn bounds(&self) -> (i32, i32) {
        if self.is_recreate() {
            return (0, 0);
        }
        let rolling = &self.spec.strategy.rolling_update;
        let replicas = self.replicas();
        let surge = resolve(rolling.max_surge.as_ref(), replicas, true);
        let unavailable = resolve(rolling.max_unavailable.as_ref(), replicas, false);
        // Both zero (percentages of few replicas) would never move.
        let unavailable = if surge == 0 && unavailable == 0 { 1 } else { unavailable };
        (surge, unavailable.min(replicas))
    }

    /// The seconds without progress after which a rollout counts as failed; `None` for never.
    pub fn progress_deadline_s(&self) -> Option<i64> {
        self.spec.progress_deadline_seconds.filter(|s| *s != i32::MAX).map(i64::from)
    }
}

/// A number, or a percentage of `total` rounded up or down. Absent is Kubernetes' default of 25 %.
pub fn resolve(value: Option<&Value>, total: i32, round_up: bool) -> i32 {
    let percent_of = |percent: i64| {
        let scaled = percent * i64::from(total);
        let rounded = if round_up { (scaled + 99).div_euclid(100) } else { scaled.div_euclid(100) };
        i32::try_from(rounded).unwrap_or(i32::MAX)
    };
    match value {
        Some(Value::Number(n)) => n.as_i64().and_then(|n| i32::try_from(n).ok()).unwrap_or(0),
        Some(Value::String(text)) => match text.strip_suffix('%') {
            Some(percent) => percent.parse().map_or(0, percent_of),
            None => text.parse().unwrap_or(0),
        },
        _ => percent_of(25),
    }
    .max(0)
}
