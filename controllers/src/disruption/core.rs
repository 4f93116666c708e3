//! Decides how many pods of a budget may be evicted now: the healthy ones beyond those that it keeps. One whose eviction was
//! allowed counts as gone until it is, for two minutes at most.

use std::collections::BTreeMap;
use std::time::Duration;

use gantry_apimachinery::kinds;
use gantry_apimachinery::time::Timestamp;
use gantry_client::{EventType, ObjectRef};

use super::types::{BudgetCondition, BudgetStatus, Observed, Wanted};
use crate::deployment::resolve;
use crate::owner::reference;
use crate::plan::Plan;
use crate::status;

/// An eviction that was allowed and did not come within this time does not count any more.
const DELETED_WITHIN_S: i64 = 120;
const CONDITION: &str = "DisruptionAllowed";

pub fn reconcile(observed: &Observed, now: Timestamp) -> Plan {
    let mut plan = Plan::default();
    let budget = &observed.budget;
    let meta = &budget.metadata;
    if meta.deletion_timestamp.is_some() {
        return plan;
    }
    let on = reference(&kinds::POD_DISRUPTION_BUDGET, meta);
    let new = match counts(observed) {
        Ok((expected, desired)) => {
            let disrupted = disrupted(observed, now, &on, &mut plan);
            let healthy = healthy(observed, &disrupted);
            // One that is about no pod yet allows nothing, so that its first pods are safe.
            let allowed = if expected > 0 { (healthy - desired).max(0) } else { 0 };
            let enough = allowed > 0;
            BudgetStatus {
                observed_generation: meta.generation,
                disrupted_pods: disrupted,
                disruptions_allowed: allowed,
                current_healthy: healthy,
                desired_healthy: desired,
                expected_pods: expected,
                conditions: conditions(
                    observed,
                    enough,
                    if enough { "SufficientPods" } else { "InsufficientPods" },
                    "",
                    now,
                ),
            }
        }
        // Nothing may go while it is not known what must stay.
        Err(why) => {
            let conditions = conditions(observed, false, "SyncFailed", why, now);
            BudgetStatus { disruptions_allowed: 0, conditions, ..budget.status.clone() }
        }
    };
    if new != budget.status {
        tell(observed, &on, &mut plan);
        plan.status = Some(status::write_locked(&kinds::POD_DISRUPTION_BUDGET, meta, &budget.status, &new));
    }
    plan
}

/// How many pods there should be, and how many of them the budget keeps.
fn counts(observed: &Observed) -> Result<(i32, i32), &String> {
    let spec = &observed.budget.spec;
    let here = i32::try_from(observed.pods.len()).unwrap_or(i32::MAX);
    let wanted = || observed.wanted.as_ref().map(|wanted| wanted.pods);
    if let Some(most) = &spec.max_unavailable {
        let wanted = wanted()?;
        return Ok((wanted, (wanted - resolve(Some(most), wanted, true)).max(0)));
    }
    match &spec.min_available {
        None => Ok((0, 0)),
        Some(least) if observed.budget.is_relative() => {
            let wanted = wanted()?;
            Ok((wanted, resolve(Some(least), wanted, true)))
        }
        Some(least) => Ok((here, resolve(Some(least), here, true))),
    }
}

/// The evictions that are on their way. Asks for another look when the first of them is too late.
fn disrupted(observed: &Observed, now: Timestamp, on: &ObjectRef, plan: &mut Plan) -> BTreeMap<String, Timestamp> {
    let mut all = BTreeMap::new();
    for pod in observed.pods.iter().filter(|pod| !pod.is_terminating()) {
        let name = &pod.metadata.name;
        let Some(since) = observed.budget.status.disrupted_pods.get(name) else { continue };
        let ends = since.add_secs(DELETED_WITHIN_S);
        if ends <= now {
            let text = format!("Pod was expected by PDB {}/{} to be deleted but it wasn't", on.namespace, on.name);
            let pod = reference(&kinds::POD, &pod.metadata);
            plan.note(&pod, EventType::Warning, "NotDeleted", text);
            continue;
        }
        plan.requeue_in(ends.since(now) + Duration::from_secs(1));
        all.insert(name.clone(), *since);
    }
    all
}

fn healthy(observed: &Observed, disrupted: &BTreeMap<String, Timestamp>) -> i32 {
    let counts = |pod: &&std::sync::Arc<crate::objects::Pod>| {
        !pod.is_terminating() && pod.is_ready() && !disrupted.contains_key(&pod.metadata.name)
    };
    i32::try_from(observed.pods.iter().filter(counts).count()).unwrap_or(i32::MAX)
}

fn conditions(observed: &Observed, allowed: bool, reason: &str, message: &str, now: Timestamp) -> Vec<BudgetCondition> {
    let budget = &observed.budget;
    let mut all = budget.status.conditions.clone();
    let mut new = BudgetCondition {
        kind: CONDITION.to_owned(),
        status: if allowed { "True" } else { "False" }.to_owned(),
        observed_generation: budget.metadata.generation,
        last_transition_time: now.truncated_to_secs(),
        reason: reason.to_owned(),
        message: message.to_owned(),
    };
    match all.iter_mut().find(|condition| condition.kind == CONDITION) {
        Some(old) => {
            if old.status == new.status {
                new.last_transition_time = old.last_transition_time;
            }
            *old = new;
        }
        None => all.push(new),
    }
    all
}

/// What users know from Kubernetes, once for each change of the status.
fn tell(observed: &Observed, on: &ObjectRef, plan: &mut Plan) {
    if observed.pods.is_empty() {
        plan.note(on, EventType::Normal, "NoPods", "No matching pods found");
    }
    match &observed.wanted {
        Ok(Wanted { unowned: 0, .. }) => {}
        Ok(_) => {
            let text = "Pods selected by this PodDisruptionBudget were found to be unmanaged. As a result, the status of the PDB \
                cannot be calculated correctly, which may result in undefined behavior. To account for these pods please set \
                \".spec.minAvailable\" field of the PDB to an integer value.";
            plan.note(on, EventType::Warning, "UnmanagedPods", text);
        }
        Err(why) => {
            let text = format!("Failed to calculate the number of expected pods: {why}");
            plan.note(on, EventType::Warning, "CalculateExpectedPodCountFailed", text);
        }
    }
}
