//! Counting ended pods exactly once. A pod's end goes through three states: seen (its finalizer holds it), written down in
//! `uncountedTerminatedPods` (now the finalizer may go), counted (once the finalizer is seen to be gone). Every step can be
//! repeated. Never decides whether a job has failed.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::indexes::Indexes;
use super::pods::{self, Pods};
use super::types::{Job, JobStatus};
use crate::objects::Pod;

/// Holds every pod of a job until its end is written down.
pub const FINALIZER: &str = "batch.kubernetes.io/job-tracking";
/// Ends that are written down and not counted yet, at most: the status stays small.
pub const AT_ONCE: usize = 500;

/// A pod that ended and is not counted yet.
#[derive(Clone, Debug)]
pub struct Ended {
    pub pod: Arc<Pod>,
    pub succeeded: bool,
}

/// What is known of all ends.
#[derive(Clone, Debug, Default)]
pub struct Ends {
    pub new: Vec<Ended>,
    /// Totals, the new ones included.
    pub succeeded: i32,
    pub failed: i32,
    pub indexes: Indexes,
}

pub fn holds(pod: &Pod) -> bool {
    pod.metadata.finalizers.iter().any(|f| f == FINALIZER)
}

/// The name of the job that a held pod belongs to; empty when nobody owns the pod (any more).
pub fn held_for(pod: &Pod) -> Option<&str> {
    match pod.owner() {
        _ if !holds(pod) => None,
        None => Some(""),
        Some(owner) => (owner.kind == "Job" && owner.api_version.starts_with("batch/")).then_some(&*owner.name),
    }
}

/// Moves what was written down into the counters where the finalizer is gone, or the pod.
pub fn count(status: &mut JobStatus, job: &Job, pods: &Pods) {
    let gone = |uids: &mut Vec<String>| {
        let before = uids.len();
        uids.retain(|uid| pods.get(uid).is_some_and(|pod| holds(pod)));
        i32::try_from(before - uids.len()).unwrap_or(i32::MAX)
    };
    let succeeded = gone(&mut status.uncounted_terminated_pods.succeeded);
    status.failed += gone(&mut status.uncounted_terminated_pods.failed);
    if job.is_indexed() {
        // The indexes were written down with the uids; their number is the count.
        status.succeeded = i32::try_from(indexes(job, status).len()).unwrap_or(i32::MAX);
    } else {
        status.succeeded += succeeded;
    }
}

fn indexes(job: &Job, status: &JobStatus) -> Indexes {
    Indexes::parse(&status.completed_indexes, usize::try_from(job.spec.completions.unwrap_or(0)).unwrap_or(0))
}

/// The ends that are seen now, and the totals with them.
pub fn ended(job: &Job, status: &JobStatus, pods: &Pods) -> Ends {
    let noted: BTreeSet<&str> = {
        let uncounted = &status.uncounted_terminated_pods;
        uncounted.succeeded.iter().chain(&uncounted.failed).map(String::as_str).collect()
    };
    let waits_for_end = job.spec.pod_replacement_policy.as_deref() == Some("Failed");
    let mut ends = Ends { indexes: indexes(job, status), ..Ends::default() };
    for pod in pods.ends() {
        let succeeded = match pod.phase() {
            "Succeeded" => true,
            "Failed" => false,
            // A pod that is told to go has failed, whatever it still does.
            _ if pod.is_terminating() && !waits_for_end => false,
            _ => continue,
        };
        if succeeded && let Some(index) = pods::index(pod).filter(|_| job.is_indexed()) {
            let completions = usize::try_from(job.spec.completions.unwrap_or(0)).unwrap_or(0);
            if index < completions {
                ends.indexes.insert(index);
            }
        }
        ends.new.push(Ended { pod: pod.clone(), succeeded });
    }
    let fresh = |succeeded: bool| {
        let new = ends.new.iter().filter(|e| e.succeeded == succeeded && !noted.contains(e.pod.metadata.uid.as_str()));
        i32::try_from(new.count()).unwrap_or(i32::MAX)
    };
    let uncounted = &status.uncounted_terminated_pods;
    let length = |uids: &[String]| i32::try_from(uids.len()).unwrap_or(i32::MAX);
    ends.failed = status.failed + length(&uncounted.failed) + fresh(false);
    ends.succeeded = match job.is_indexed() {
        true => i32::try_from(ends.indexes.len()).unwrap_or(i32::MAX),
        false => status.succeeded + length(&uncounted.succeeded) + fresh(true),
    };
    ends
}

/// Writes ends down in the status. Returns the pods whose finalizer may go once that is stored.
pub fn write_down(status: &mut JobStatus, job: &Job, ends: &Ends) -> Vec<Ended> {
    let uncounted = &mut status.uncounted_terminated_pods;
    let noted: BTreeSet<String> = uncounted.succeeded.iter().chain(&uncounted.failed).cloned().collect();
    // First those that are written down already: room is made before more come in.
    let (mut counted, fresh): (Vec<Ended>, Vec<Ended>) =
        ends.new.iter().cloned().partition(|end| noted.contains(end.pod.metadata.uid.as_str()));
    counted.extend(fresh.into_iter().take(AT_ONCE.saturating_sub(noted.len())));
    let mut completed = Indexes::parse(&status.completed_indexes, usize::MAX - 1);
    for end in &counted {
        let uid = end.pod.metadata.uid.to_string();
        if !noted.contains(&uid) {
            let list = if end.succeeded { &mut uncounted.succeeded } else { &mut uncounted.failed };
            list.push(uid);
        }
        if end.succeeded
            && let Some(index) = pods::index(&end.pod).filter(|i| ends.indexes.contains(*i))
        {
            completed.insert(index);
        }
    }
    if job.is_indexed() {
        status.completed_indexes = completed.to_string();
    }
    counted
}
