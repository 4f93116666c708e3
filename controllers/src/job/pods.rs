//! A job's pods: which are its own, which still count as active, how new ones look, and how long a failing job waits before
//! the next. Never decides how many there are to be.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use gantry_apimachinery::kinds;
use gantry_apimachinery::time::Timestamp;
use gantry_client::DeleteOptions;
use serde_json::{Value, json};

use super::accounting::FINALIZER;
use super::types::{Job, Observed};
use crate::objects::{Pod, compile};
use crate::owner;
use crate::plan::{Plan, Step, Write};

/// Pods of one job that wait for a machine.
const UNPLACED: usize = 500;
/// The first wait after a failure, and the longest.
const BACKOFF_S: u64 = 10;
const BACKOFF_CAP_S: u64 = 600;

pub const INDEX: &str = "batch.kubernetes.io/job-completion-index";

/// The job's pods, ended ones too.
pub struct Pods {
    all: Vec<Arc<Pod>>,
    deleting: BTreeSet<String>,
}

impl Pods {
    /// Plans adoptions and releases; `None` when the selector selects nothing.
    pub fn claim(plan: &mut Plan, job: &Job, observed: &Observed) -> Option<Self> {
        let selector = compile(&job.spec.selector)?;
        let claim =
            owner::claim(&job.metadata, &kinds::JOB, &observed.pods, |pod| selector.matches(&pod.metadata.labels));
        plan.push_all(claim.writes);
        Some(Pods { all: claim.owned, deleting: observed.deleting.clone() })
    }

    pub fn all(&self) -> impl Iterator<Item = &Arc<Pod>> {
        self.all.iter()
    }

    fn is_going(&self, pod: &Pod) -> bool {
        pod.is_terminating() || self.deleting.contains(pod.metadata.uid.as_str())
    }

    /// Neither ended nor told to end.
    pub fn active(&self) -> impl Iterator<Item = &Arc<Pod>> {
        self.all.iter().filter(|pod| !pod.is_finished() && !self.is_going(pod))
    }

    /// Told to end and not ended yet.
    pub fn terminating(&self) -> impl Iterator<Item = &Arc<Pod>> {
        self.all.iter().filter(|pod| !pod.is_finished() && self.is_going(pod))
    }

    /// How many more may wait for a machine.
    pub fn room(&self) -> usize {
        UNPLACED.saturating_sub(self.active().filter(|pod| pod.node().is_none()).count())
    }

    /// Failures show as restarts, not as failed pods.
    pub fn restarts_in_place(&self) -> bool {
        self.all.iter().any(|pod| pod.spec.restart_policy.as_deref() == Some("OnFailure"))
    }

    pub fn restarts(&self) -> i32 {
        let running = self.active().filter(|pod| matches!(pod.phase(), "Running" | "Pending"));
        running
            .map(|pod| {
                let init: i32 = pod.status.init_container_statuses.iter().map(|c| c.restart_count).sum();
                init + pod.restarts()
            })
            .sum()
    }

    pub fn busy_indexes(&self, job: &Job) -> BTreeSet<usize> {
        let keeps_place = job.spec.pod_replacement_policy.as_deref() == Some("Failed");
        let going = self.terminating().filter(|_| keeps_place);
        self.active().chain(going).filter_map(|pod| index(pod)).collect()
    }

    /// How long to wait before the next pod: ten seconds after the last failure, doubled for every one since the last
    /// success, at most ten minutes.
    pub fn backoff(&self, now: Timestamp) -> Option<Duration> {
        let ends = |phase: &str| {
            let pods = self.all.iter().filter(|pod| pod.phase() == phase);
            pods.filter_map(|pod| pod.finished_at()).collect::<Vec<_>>()
        };
        let last_success = ends("Succeeded").into_iter().max();
        let failures = ends("Failed");
        let recent = failures.iter().filter(|at| last_success.is_none_or(|success| **at > success)).count();
        let last = failures.into_iter().max().filter(|_| recent > 0)?;
        let exponent = u32::try_from(recent - 1).unwrap_or(u32::MAX).min(10);
        let wait_s = (BACKOFF_S << exponent).min(BACKOFF_CAP_S);
        let due = last + Duration::from_secs(wait_s);
        Some(due.since(now)).filter(|wait| !wait.is_zero())
    }
}

/// The index that a pod works on.
pub fn index(pod: &Pod) -> Option<usize> {
    pod.metadata.annotations.get(INDEX)?.parse().ok()
}

/// Deletes up to `count` of the active pods, the least valuable first. Those that are not to be `counted` as failed (the job
/// is suspended, shrinks, or has succeeded) lose the accounting finalizer first.
pub fn delete<'a>(
    job: &Job,
    active: impl Iterator<Item = &'a Arc<Pod>>,
    now: Timestamp,
    count: usize,
    counted: bool,
) -> Vec<Step> {
    let on = owner::reference(&kinds::JOB, &job.metadata);
    let mut ranked: Vec<&Pod> = active.map(|pod| &**pod).collect();
    ranked.sort_by(|a, b| Pod::deletion_order((a, 0), (b, 0), now));
    ranked.truncate(count);
    let mut steps = Vec::new();
    if !counted {
        let release = |pod: &&Pod| owner::remove_finalizer(&kinds::POD, &pod.metadata, FINALIZER);
        steps.push(Step::All(ranked.iter().filter_map(release).collect()));
    }
    let delete = |pod: &Pod| {
        let options = DeleteOptions::uid(pod.metadata.uid.to_string());
        Write::delete(&kinds::POD, &pod.metadata.namespace, &pod.metadata.name, options).announced(
            &on,
            Some(("SuccessfulDelete", "Deleted pod: {name}")),
            Some(("FailedDelete", "Error deleting: {error}")),
        )
    };
    steps.push(Step::All(ranked.into_iter().map(delete).collect()));
    steps.retain(|step| !matches!(step, Step::All(writes) if writes.is_empty()));
    steps
}

/// A pod of the job, held by the accounting finalizer. An indexed one knows its index by annotation, label, host name and
/// the environment of its containers.
pub fn create(job: &Job, index: Option<usize>) -> Write {
    let mut pod = owner::pod_from_template(&job.spec.template.value(), &job.metadata, &kinds::JOB);
    let finalizers = pod["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
    let finalizers: Vec<Value> = finalizers.into_iter().filter(|f| f != FINALIZER).chain([json!(FINALIZER)]).collect();
    pod["metadata"]["finalizers"] = json!(finalizers);
    if let Some(index) = index {
        let name = format!("{}-{index}", job.metadata.name);
        pod["metadata"]["generateName"] = json!(owner::generate_name(&name));
        pod["metadata"]["annotations"][INDEX] = json!(index.to_string());
        pod["metadata"]["labels"][INDEX] = json!(index.to_string());
        if pod["spec"]["hostname"].is_null() {
            pod["spec"]["hostname"] = json!(name);
        }
        for containers in ["containers", "initContainers"] {
            let each = pod["spec"].get_mut(containers).and_then(Value::as_array_mut);
            each.into_iter().flatten().for_each(name_index);
        }
    }
    let on = owner::reference(&kinds::JOB, &job.metadata);
    Write::create(&kinds::POD, &job.metadata.namespace, pod).announced(
        &on,
        Some(("SuccessfulCreate", "Created pod: {name}")),
        Some(("FailedCreate", "Error creating: {error}")),
    )
}

fn name_index(container: &mut Value) {
    const NAME: &str = "JOB_COMPLETION_INDEX";
    let mut env = container["env"].as_array().cloned().unwrap_or_default();
    if env.iter().any(|e| e["name"] == NAME) {
        return;
    }
    let path = format!("metadata.labels['{INDEX}']");
    env.push(json!({"name": NAME, "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": path}}}));
    container["env"] = json!(env);
}
