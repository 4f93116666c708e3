//! A Job as its controller sees it, and what one look at it holds. Decides nothing.

use std::collections::BTreeSet;
use std::sync::Arc;

use gantry_apimachinery::labels::LabelSelector;
use gantry_apimachinery::meta::{Object, ObjectMeta};
use gantry_apimachinery::time::Timestamp;
use serde::{Deserialize, Serialize};

use crate::objects::{Condition, Pod, Template};

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Job {
    pub metadata: ObjectMeta,
    pub spec: JobSpec,
    pub status: JobStatus,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct JobSpec {
    pub parallelism: Option<i32>,
    pub completions: Option<i32>,
    pub backoff_limit: Option<i32>,
    pub active_deadline_seconds: Option<i64>,
    pub ttl_seconds_after_finished: Option<i64>,
    pub completion_mode: Option<String>,
    pub suspend: bool,
    pub pod_replacement_policy: Option<String>,
    /// Set: another controller runs this job.
    pub managed_by: Option<String>,
    pub selector: LabelSelector,
    pub template: Template,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct JobStatus {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_time: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completion_time: Option<Timestamp>,
    pub active: i32,
    pub ready: i32,
    pub terminating: i32,
    pub succeeded: i32,
    pub failed: i32,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub completed_indexes: String,
    pub uncounted_terminated_pods: Uncounted,
    pub conditions: Vec<Condition>,
}

/// Pods whose end is written down here, so that their finalizer may go, but which the counters do not hold yet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct Uncounted {
    pub succeeded: Vec<String>,
    pub failed: Vec<String>,
}

/// One job with everything that its next step depends on, beside the roster of its pods.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    /// `None`: only pods are left of it.
    pub job: Option<Arc<Job>>,
    /// Pods that still hold the finalizer although their job is gone.
    pub left: Vec<Arc<Pod>>,
    /// Pods of its namespace that nobody owns.
    pub orphans: Vec<Arc<Pod>>,
    /// The uids of those whose deletion was accepted but is not seen yet.
    pub deleting: BTreeSet<String>,
    /// How many of its pods got a machine within the last two seconds.
    pub recent_binds: usize,
}

impl Object for Job {
    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }
}

impl Job {
    pub fn is_indexed(&self) -> bool {
        self.spec.completion_mode.as_deref() == Some("Indexed")
    }

    pub fn parallelism(&self) -> i32 {
        self.spec.parallelism.unwrap_or(1)
    }

    pub fn condition(&self, kind: &str) -> Option<&Condition> {
        self.status.conditions.iter().find(|c| c.kind == kind && c.is_true())
    }

    /// Complete or failed: it never runs again.
    pub fn finished(&self) -> Option<&Condition> {
        self.condition("Complete").or_else(|| self.condition("Failed"))
    }
}
