//! What a deployment says of itself: counts, and the conditions Available, Progressing and ReplicaFailure with Kubernetes'
//! reasons and messages, on which `kubectl rollout status` and `kubectl wait` rely. Never changes a set.

use std::time::Duration;

use gantry_apimachinery::kinds;
use gantry_apimachinery::time::Timestamp;

use super::rollout::Rollout;
use super::types::{Deployment, DeploymentStatus};
use crate::edge::Failure;
use crate::objects::{Condition, ReplicaSet, set_condition};
use crate::status;

const PROGRESSING: &str = "Progressing";
const REPLICA_FAILURE: &str = "ReplicaFailure";
const AVAILABLE_REASON: &str = "NewReplicaSetAvailable";
const TIMED_OUT: &str = "ProgressDeadlineExceeded";
const PAUSED: &str = "DeploymentPaused";

fn condition(kind: &str, status: &str, reason: &str, message: impl Into<String>, now: Timestamp) -> Condition {
    Condition { last_update_time: Some(now.truncated_to_secs()), ..Condition::new(kind, status, reason, message, now) }
}

fn find<'a>(conditions: &'a [Condition], kind: &str) -> Option<&'a Condition> {
    conditions.iter().find(|c| c.kind == kind)
}

/// Pausing stops the clock of the progress deadline, resuming starts it anew.
pub fn note_pause(rollout: &mut Rollout<'_>) {
    if rollout.deployment.progress_deadline_s().is_none() {
        return;
    }
    let reason = find(&rollout.conditions, PROGRESSING).map(|c| c.reason.clone());
    let paused = reason.as_deref() == Some(PAUSED);
    let new = match rollout.deployment.spec.paused {
        _ if reason.as_deref() == Some(TIMED_OUT) => return,
        true if !paused => condition(PROGRESSING, "Unknown", PAUSED, "Deployment is paused", rollout.now),
        false if paused => condition(PROGRESSING, "Unknown", "DeploymentResumed", "Deployment is resumed", rollout.now),
        _ => return,
    };
    set_condition(&mut rollout.conditions, new);
}

/// The new set exists already (a rollback, or a controller that restarted between two writes).
pub fn note_found(rollout: &mut Rollout<'_>, name: &str) {
    if rollout.deployment.progress_deadline_s().is_some() && find(&rollout.conditions, PROGRESSING).is_none() {
        let message = format!("Found new replica set \"{name}\"");
        set_condition(
            &mut rollout.conditions,
            condition(PROGRESSING, "True", "FoundNewReplicaSet", message, rollout.now),
        );
    }
}

/// The new set is about to be created, or could not be.
pub fn note_created(rollout: &mut Rollout<'_>, name: &str, failure: Option<&Failure>) {
    if rollout.deployment.progress_deadline_s().is_none() {
        return;
    }
    let failure = failure.filter(|f| f.kind == kinds::REPLICA_SET.plural && !f.already_exists);
    let new = match failure {
        Some(failure) => condition(PROGRESSING, "False", "ReplicaSetCreateError", failure.message.clone(), rollout.now),
        None => {
            let message = format!("Created new replica set \"{name}\"");
            condition(PROGRESSING, "True", "NewReplicaSetCreated", message, rollout.now)
        }
    };
    set_condition(&mut rollout.conditions, new);
}

/// The counts, and whether enough pods are available.
pub fn status_of(rollout: &Rollout<'_>) -> DeploymentStatus {
    let deployment = rollout.deployment;
    let sets: Vec<&ReplicaSet> = rollout.old.iter().chain(&rollout.new).map(|s| &*s.set).collect();
    let sum = |count: fn(&ReplicaSet) -> i32| sets.iter().map(|s| count(s)).sum::<i32>();
    let available = sum(|s| s.status.available_replicas);
    let mut status = DeploymentStatus {
        observed_generation: deployment.metadata.generation,
        replicas: sum(|s| s.status.replicas),
        updated_replicas: rollout.new.as_ref().map_or(0, |s| s.set.status.replicas),
        ready_replicas: sum(|s| s.status.ready_replicas),
        available_replicas: available,
        unavailable_replicas: (sum(ReplicaSet::replicas) - available).max(0),
        conditions: rollout.conditions.clone(),
        collision_count: rollout.collision_count,
    };
    let (_, max_unavailable) = deployment.bounds();
    let now = rollout.now;
    let new = if available >= deployment.replicas() - max_unavailable {
        let message = "Deployment has minimum availability.";
        condition("Available", "True", "MinimumReplicasAvailable", message, now)
    } else {
        let message = "Deployment does not have minimum availability.";
        condition("Available", "False", "MinimumReplicasUnavailable", message, now)
    };
    set_condition(&mut status.conditions, new);
    status
}

/// Every wished-for pod is new and available, and no old one is left.
pub fn is_complete(deployment: &Deployment, status: &DeploymentStatus) -> bool {
    let wanted = deployment.replicas();
    status.updated_replicas == wanted
        && status.replicas == wanted
        && status.available_replicas == wanted
        && status.observed_generation >= deployment.metadata.generation
}

/// Something moved forward between the two.
fn is_progress(old: &DeploymentStatus, new: &DeploymentStatus) -> bool {
    new.updated_replicas > old.updated_replicas
        || new.replicas - new.updated_replicas < old.replicas - old.updated_replicas
        || new.ready_replicas > old.ready_replicas
        || new.available_replicas > old.available_replicas
}

/// Plans the status write if anything differs. `followed`: this look moved the rollout on, so its progress is judged too.
pub fn write_status(rollout: &mut Rollout<'_>, followed: bool) {
    let deployment = rollout.deployment;
    let mut status = status_of(rollout);
    if followed {
        judge(rollout, &mut status);
    }
    if followed && let Some(after) = deadline(rollout, &status) {
        rollout.plan.requeue_in(after);
    }
    if status != deployment.status {
        rollout.plan.status =
            Some(status::write(&kinds::DEPLOYMENT, &deployment.metadata, &deployment.status, &status));
    }
}

fn judge(rollout: &Rollout<'_>, status: &mut DeploymentStatus) {
    let (deployment, now) = (rollout.deployment, rollout.now);
    let current = find(&status.conditions, PROGRESSING).cloned();
    if deployment.progress_deadline_s().is_none() {
        status.conditions.retain(|c| c.kind != PROGRESSING);
    } else if !(status.replicas == status.updated_replicas
        && current.as_ref().is_some_and(|c| c.reason == AVAILABLE_REASON))
    {
        let subject = match &rollout.new {
            Some(new) => format!("ReplicaSet \"{}\"", new.set.metadata.name),
            None => format!("Deployment \"{}\"", deployment.metadata.name),
        };
        if is_complete(deployment, status) {
            let message = format!("{subject} has successfully progressed.");
            set_condition(&mut status.conditions, condition(PROGRESSING, "True", AVAILABLE_REASON, message, now));
        } else if is_progress(&deployment.status, status) {
            let mut new =
                condition(PROGRESSING, "True", "ReplicaSetUpdated", format!("{subject} is progressing."), now);
            if let Some(current) = current.filter(Condition::is_true) {
                new.last_transition_time = current.last_transition_time;
            }
            // Said anew each time: its update time is what the deadline counts from.
            status.conditions.retain(|c| c.kind != PROGRESSING);
            status.conditions.push(new);
        } else if is_overdue(deployment, current.as_ref(), now) {
            let message = format!("{subject} has timed out progressing.");
            set_condition(&mut status.conditions, condition(PROGRESSING, "False", TIMED_OUT, message, now));
        }
    }
    match replica_failure(rollout) {
        Some(failure) => set_condition(&mut status.conditions, failure),
        None => status.conditions.retain(|c| c.kind != REPLICA_FAILURE),
    }
}

/// Why a set cannot make its pods; the new set's reason before an old one's.
fn replica_failure(rollout: &Rollout<'_>) -> Option<Condition> {
    let sets = rollout.new.iter().chain(rollout.old.iter().filter(|_| rollout.new.is_none()));
    let mut failures = sets.filter_map(|s| find(&s.set.status.conditions, REPLICA_FAILURE));
    let found = failures.next()?.clone();
    Some(Condition { last_update_time: found.last_transition_time, ..found })
}

fn is_overdue(deployment: &Deployment, current: Option<&Condition>, now: Timestamp) -> bool {
    let (Some(deadline_s), Some(current)) = (deployment.progress_deadline_s(), current) else { return false };
    match current.reason.as_str() {
        AVAILABLE_REASON => false,
        TIMED_OUT => true,
        _ => current.last_update_time.is_some_and(|at| at.add_secs(deadline_s) < now),
    }
}

/// When to look whether the rollout is stuck.
fn deadline(rollout: &Rollout<'_>, status: &DeploymentStatus) -> Option<Duration> {
    let deadline_s = rollout.deployment.progress_deadline_s()?;
    let current = find(&status.conditions, PROGRESSING)?;
    if is_complete(rollout.deployment, status)
        || matches!(current.reason.as_str(), AVAILABLE_REASON | TIMED_OUT | PAUSED)
    {
        return None;
    }
    let due = current.last_update_time?.add_secs(deadline_s);
    Some(due.since(rollout.now) + Duration::from_secs(1))
}
