//! Decides what a job does next: which ended pods are counted, which pods are created or deleted, and whether it is finished.
//! Follows Kubernetes' job controller with finalizer accounting: an ended pod is written down in the status *before* its
//! finalizer goes, so that no end is lost and none is counted twice. A job that is gone holds no pod back. Never deletes a
//! finished job's pods.

use std::sync::Arc;
use std::time::Duration;

use gantry_apimachinery::kinds;
use gantry_apimachinery::time::Timestamp;
use gantry_client::{DeleteOptions, EventType, Propagation};

use super::accounting::{self, FINALIZER};
use super::pods::{self, BURST, Pods};
use super::roster::Roster;
use super::types::{Job, JobStatus, Observed};
use crate::objects::{Condition, Pod, set_condition};
use crate::owner;
use crate::plan::{Plan, Step, Write};
use crate::status;

pub fn reconcile(observed: &Observed, roster: &Roster, now: Timestamp) -> Plan {
    let mut plan = Plan::default();
    release(&mut plan, observed.left.iter());
    let Some(job) = observed.job.as_deref() else { return plan };
    if job.spec.managed_by.as_deref().is_some_and(|by| by != "kubernetes.io/job-controller") {
        return plan;
    }
    if job.finished().is_some() {
        release(&mut plan, roster.held());
        expire(&mut plan, job, now);
        return plan;
    }
    let Some(pods) = Pods::claim(&mut plan, job, observed, roster) else { return plan };
    if job.metadata.deletion_timestamp.is_some() {
        release(&mut plan, roster.held());
        return plan;
    }
    let mut look = Look { job, pods, status: job.status.clone(), plan, now };
    look.run();
    look.plan
}

struct Look<'a> {
    job: &'a Job,
    pods: Pods<'a>,
    status: JobStatus,
    plan: Plan,
    now: Timestamp,
}

impl Look<'_> {
    fn run(&mut self) {
        self.suspend();
        accounting::count(&mut self.status, self.job, &self.pods);
        let ends = accounting::ended(self.job, &self.status, &self.pods);
        let verdict = self.verdict(&ends);
        if let Some((target, condition)) = &verdict
            && self.find(target).is_none()
        {
            set_condition(&mut self.status.conditions, condition.clone());
        }
        let mut work = Vec::new();
        let ending = self.find("FailureTarget").is_some() || self.find("SuccessCriteriaMet").is_some();
        if ending {
            let fails = self.find("FailureTarget").is_some();
            work.extend(pods::delete(self.job, self.pods.each_active(), self.now, BURST, fails));
        } else {
            work.extend(self.manage(&ends));
        }
        let counted = accounting::write_down(&mut self.status, self.job, &ends);
        self.status.active = number(self.pods.active());
        self.status.ready = number(self.pods.ready());
        self.status.terminating = number(self.pods.terminating());
        if ending && self.status.active == 0 && self.status.terminating == 0 && counted.is_empty() {
            self.finish();
        }
        self.write(counted, work);
        self.deadline();
    }

    fn find(&self, kind: &str) -> Option<&Condition> {
        self.status.conditions.iter().find(|c| c.kind == kind && c.is_true())
    }

    /// Suspending forgets the start time, resuming starts the clock anew.
    fn suspend(&mut self) {
        let job = self.job;
        let on = owner::reference(&kinds::JOB, &job.metadata);
        let suspended = self.find("Suspended").is_some();
        if job.spec.suspend {
            if !suspended {
                let condition = self.condition("Suspended", "True", "JobSuspended", "Job suspended");
                set_condition(&mut self.status.conditions, condition);
                self.plan.note(&on, EventType::Normal, "Suspended", "Job suspended");
            }
            self.status.start_time = None;
        } else if suspended {
            let condition = self.condition("Suspended", "False", "JobResumed", "Job resumed");
            set_condition(&mut self.status.conditions, condition);
            self.plan.note(&on, EventType::Normal, "Resumed", "Job resumed");
            self.status.start_time = Some(self.now.truncated_to_secs());
        } else if self.status.start_time.is_none() {
            self.status.start_time = Some(self.now.truncated_to_secs());
        }
    }

    fn condition(&self, kind: &str, status: &str, reason: &str, message: &str) -> Condition {
        let at = self.now.truncated_to_secs();
        Condition { last_probe_time: Some(at), ..Condition::new(kind, status, reason, message, self.now) }
    }

    /// Whether the job is to end, and how: the interim condition that says so.
    fn verdict(&self, ends: &accounting::Ends) -> Option<(&'static str, Condition)> {
        let (job, spec) = (self.job, &self.job.spec);
        let fail =
            |reason, message: &str| Some(("FailureTarget", self.condition("FailureTarget", "True", reason, message)));
        let limit = spec.backoff_limit.unwrap_or(6);
        if ends.failed > limit || (self.pods.restarts_in_place() && self.pods.restarts() >= limit.max(1)) {
            return fail("BackoffLimitExceeded", "Job has reached the specified backoff limit");
        }
        let overdue = spec.active_deadline_seconds.zip(self.status.start_time);
        if !spec.suspend && overdue.is_some_and(|(limit_s, start)| start.add_secs(limit_s) <= self.now) {
            return fail("DeadlineExceeded", "Job was active longer than specified deadline");
        }
        let active = self.pods.active();
        let complete = match spec.completions {
            Some(completions) => ends.succeeded >= completions,
            None => ends.succeeded > 0 && active == 0,
        };
        // A finished set of indexes counts each index once, however many pods ended well for it.
        (complete && (!job.is_indexed() || ends.indexes.len() >= spec.completions.unwrap_or(0) as usize)).then(|| {
            let reason = "CompletionsReached";
            let message = "Reached expected number of succeeded pods";
            ("SuccessCriteriaMet", self.condition("SuccessCriteriaMet", "True", reason, message))
        })
    }

    /// Brings the number of active pods to what the job wants.
    fn manage(&mut self, ends: &accounting::Ends) -> Vec<Step> {
        let job = self.job;
        let wanted = if job.spec.suspend { 0 } else { self.wanted(ends) };
        let surplus = self.pods.surplus(job, self.now);
        if !surplus.is_empty() {
            return pods::delete(job, surplus.into_iter(), self.now, BURST, false);
        }
        let active = self.pods.active();
        if active > wanted {
            let excess = (active - wanted).min(BURST);
            return pods::delete(job, self.pods.each_active(), self.now, excess, false);
        }
        let mut missing = wanted - active;
        if job.spec.pod_replacement_policy.as_deref() == Some("Failed") {
            missing = missing.saturating_sub(self.pods.terminating());
        }
        missing = missing.min(self.pods.room()).min(BURST);
        if missing == 0 {
            return Vec::new();
        }
        if let Some(wait) = self.pods.backoff(self.now) {
            self.plan.requeue_in(wait);
            return Vec::new();
        }
        let creates: Vec<Write> = if job.is_indexed() {
            let free = self.pods.free_indexes(job, &ends.indexes, missing);
            free.into_iter().map(|index| pods::create(job, Some(index))).collect()
        } else {
            (0..missing).map(|_| pods::create(job, None)).collect()
        };
        if creates.is_empty() { Vec::new() } else { vec![Step::SlowStart(creates)] }
    }

    fn wanted(&self, ends: &accounting::Ends) -> usize {
        let active = number(self.pods.active());
        let wanted = match self.job.spec.completions {
            // Once one has succeeded, the others only finish.
            None if ends.succeeded > 0 => active.min(self.job.parallelism()),
            None => self.job.parallelism(),
            Some(completions) => self.job.parallelism().min((completions - ends.succeeded).max(0)),
        };
        usize::try_from(wanted).unwrap_or(0)
    }

    /// Nothing runs any more and every end is counted: the final word.
    fn finish(&mut self) {
        let on = owner::reference(&kinds::JOB, &self.job.metadata);
        if let Some(target) = self.find("FailureTarget").cloned() {
            let condition = self.condition("Failed", "True", &target.reason, &target.message);
            set_condition(&mut self.status.conditions, condition);
            let reason = if target.reason == "DeadlineExceeded" { "DeadlineExceeded" } else { "BackoffLimitExceeded" };
            self.plan.note(&on, EventType::Warning, reason, target.message);
        } else if let Some(target) = self.find("SuccessCriteriaMet").cloned() {
            let condition = self.condition("Complete", "True", &target.reason, &target.message);
            set_condition(&mut self.status.conditions, condition);
            self.status.completion_time = Some(self.now.truncated_to_secs());
            self.plan.note(&on, EventType::Normal, "Completed", "Job completed");
        }
    }

    /// The status first: only what it holds may lose its finalizer. Then the finalizers, then pods come and go.
    fn write(&mut self, counted: Vec<accounting::Ended>, work: Vec<Step>) {
        let changed = self.status != self.job.status;
        if changed {
            let write = status::write_locked(&kinds::JOB, &self.job.metadata, &self.job.status, &self.status);
            if counted.is_empty() {
                self.plan.status = Some(write);
            } else {
                self.plan.push(write);
            }
        }
        let writes = counted.iter().filter_map(|e| owner::remove_finalizer(&kinds::POD, &e.pod.metadata, FINALIZER));
        let writes = writes.collect();
        self.plan.push_all(writes);
        self.plan.steps.extend(work);
    }

    fn deadline(&mut self) {
        if let (Some(limit_s), Some(start), false) =
            (self.job.spec.active_deadline_seconds, self.status.start_time, self.job.spec.suspend)
        {
            self.plan.requeue_in(start.add_secs(limit_s).since(self.now).max(Duration::from_millis(100)));
        }
    }
}

fn number(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

/// A job that counts no more holds no pod back.
fn release<'a>(plan: &mut Plan, pods: impl Iterator<Item = &'a Arc<Pod>>) {
    let writes = pods.filter_map(|pod| owner::remove_finalizer(&kinds::POD, &pod.metadata, FINALIZER));
    let writes: Vec<Write> = writes.take(BURST + 1).collect();
    if writes.len() > BURST {
        // The changes of these pods bring the rest; this is for when they do not change any more.
        plan.requeue_in(Duration::from_secs(1));
    }
    plan.push_all(writes.into_iter().take(BURST).collect());
}

/// Deletes a finished job once its time is over.
fn expire(plan: &mut Plan, job: &Job, now: Timestamp) {
    let Some(ttl_s) = job.spec.ttl_seconds_after_finished else { return };
    if job.metadata.deletion_timestamp.is_some() {
        return;
    }
    let Some(end) = job.finished().and_then(|c| c.last_transition_time) else { return };
    let due = end.add_secs(ttl_s);
    if due > now {
        return plan.requeue_in(due.since(now));
    }
    let meta = &job.metadata;
    let options = DeleteOptions {
        propagation: Some(Propagation::Foreground),
        resource_version: Some(meta.resource_version.clone()),
        ..DeleteOptions::uid(meta.uid.to_string())
    };
    plan.push(Write::delete(&kinds::JOB, &meta.namespace, &meta.name, options));
}
