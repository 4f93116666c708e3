//! A disruption budget as its controller sees it, and what one look at it holds. Decides nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use gantry_apimachinery::labels::{LabelSelector, Selector};
use gantry_apimachinery::meta::{Object, ObjectMeta};
use gantry_apimachinery::time::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::objects::Pod;

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct PodDisruptionBudget {
    pub metadata: ObjectMeta,
    pub spec: BudgetSpec,
    pub status: BudgetStatus,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BudgetSpec {
    pub selector: Option<LabelSelector>,
    pub min_available: Option<Value>,
    pub max_unavailable: Option<Value>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BudgetStatus {
    pub observed_generation: i64,
    /// Pods whose eviction was allowed, by name, and when.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub disrupted_pods: BTreeMap<String, Timestamp>,
    pub disruptions_allowed: i32,
    pub current_healthy: i32,
    pub desired_healthy: i32,
    pub expected_pods: i32,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<BudgetCondition>,
}

/// `metav1.Condition`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BudgetCondition {
    #[serde(rename = "type")]
    pub kind: String,
    pub status: String,
    pub observed_generation: i64,
    pub last_transition_time: Timestamp,
    pub reason: String,
    pub message: String,
}

/// One budget, the pods that it is about, and how many of them their owners want.
#[derive(Clone, Debug)]
pub struct Observed {
    pub budget: Arc<PodDisruptionBudget>,
    pub pods: Vec<Arc<Pod>>,
    /// Read only when the budget is relative to it; or why it is not known.
    pub wanted: Result<Wanted, String>,
}

/// What the pods' owners want in all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    pub pods: i32,
    /// Pods that nobody owns.
    pub unowned: usize,
}

impl Object for PodDisruptionBudget {
    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }
}

impl PodDisruptionBudget {
    /// Which pods it is about: without a selector none, with an empty one all of its namespace.
    pub fn selector(&self) -> Option<Selector> {
        self.spec.selector.as_ref().and_then(|selector| Selector::from_label_selector(selector).ok())
    }

    /// Whether it counts from how many pods their owners want.
    pub fn is_relative(&self) -> bool {
        self.spec.max_unavailable.is_some() || matches!(self.spec.min_available, Some(Value::String(_)))
    }
}
