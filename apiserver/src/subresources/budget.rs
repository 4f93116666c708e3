//! Disruption budgets as an eviction meets them. Decides whether a pod may go now, and counts it; how many may go at all is the
//! disruption controller's.

use crate::bootstrap::{OwnWrites, identity};
use crate::cache::{Object, in_namespace};
use crate::http::Outcome;
use crate::kinds::value::{at, i64_at, items_mut, object_mut, str_at};
use crate::rest::call::Call;
use crate::rest::stored::Stored;
use crate::rest::update::update;
use gantry_apimachinery::kinds::POD_DISRUPTION_BUDGET;
use gantry_apimachinery::labels::Selector;
use gantry_apimachinery::status::{Cause, Details, Reason, Status};
use gantry_apimachinery::time::Timestamp;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Evictions that the controller has not seen through; more are not begun.
const MOST_UNCONFIRMED: usize = 2_000;
/// When to ask again of a budget that nobody has counted yet.
const UNCOUNTED_RETRY_S: u32 = 10;
/// When to ask again about a pod that changed meanwhile.
const MOVED_RETRY_S: u32 = 10;

/// What a pod's eviction was found to be. Of a pod that goes uncounted, only the version that was looked at may go.
#[derive(Debug, PartialEq, Eq)]
pub enum Spent {
    /// A budget counted it, or none is about it.
    Counted,
    /// It has not begun.
    Pending,
    /// It is not ready, which this budget minds not.
    Unready(String),
    /// It has ended, or is ending.
    Over,
}

/// Asks the budget of the pod for its eviction.
pub async fn spend(call: &Call<'_>, pod: &Stored) -> Outcome<Spent> {
    if let Some(uncounted) = not_running(&pod.value) {
        return Ok(uncounted);
    }
    let all = budgets(call, &pod.value);
    let budget = match all.as_slice() {
        [] => return Ok(Spent::Counted),
        [one] => one,
        _ => {
            let text =
                "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
            return Err(Status::failure(Reason::InternalError, text, None).into());
        }
    };
    let budget = call.core.live(&POD_DISRUPTION_BUDGET, call.namespace, &budget.name).await?;
    let Some(budget) = budget else { return Ok(Spent::Counted) };
    let name = str_at(&budget.value, "metadata.name");
    if !is_ready(&pod.value) && spares(&budget.value) {
        return Ok(Spent::Unready(name.to_owned()));
    }
    // Whoever may evict may have it counted.
    let user = identity();
    let own = OwnWrites { core: call.core, user: &user };
    let mut on_budget = own.call(&POD_DISRUPTION_BUDGET, call.namespace, name);
    on_budget.subresource = Some("status");
    on_budget.options.dry_run = call.options.dry_run;
    update(&on_budget, &|budget| counted(budget, call.name, call.now)).await?;
    Ok(Spent::Counted)
}

/// What has ended, is ending or has not begun is not disrupted by its end.
fn not_running(pod: &Value) -> Option<Spent> {
    if at(pod, "metadata.deletionTimestamp").is_some() {
        return Some(Spent::Over);
    }
    match str_at(pod, "status.phase") {
        "" | "Pending" => Some(Spent::Pending),
        "Succeeded" | "Failed" => Some(Spent::Over),
        _ => None,
    }
}

/// The pod changed while it was found to go uncounted.
pub fn moved(budget: &str) -> Box<Status> {
    refused(format!("The pod changed while the disruption budget {budget} was asked about it."), MOVED_RETRY_S).into()
}

fn is_ready(pod: &Value) -> bool {
    let conditions = at(pod, "status.conditions").and_then(Value::as_array);
    conditions.is_some_and(|all| all.iter().any(|one| one["type"] == "Ready" && one["status"] == "True"))
}

/// The budgets that are about the pod, as the cache has them.
fn budgets(call: &Call<'_>, pod: &Value) -> Vec<Arc<Object>> {
    let labels: BTreeMap<String, String> = at(pod, "metadata.labels")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
        .filter_map(|(label, value)| Some((label.clone(), value.as_str()?.to_owned())))
        .collect();
    let snapshot = call.core.stored_kind(&POD_DISRUPTION_BUDGET).resource.snapshot();
    let here = snapshot.tree.range(in_namespace(call.namespace)).map(|(_, budget)| budget);
    let is_about = |budget: &&Arc<Object>| {
        let selector = budget.value().ok().and_then(|budget| Selector::from_json(at(&budget, "spec.selector")).ok());
        selector.is_some_and(|selector| selector.matches(&labels))
    };
    here.filter(is_about).cloned().collect()
}

/// Whether a pod that is not ready may go without being counted.
fn spares(budget: &Value) -> bool {
    let count = |field: &str| i64_at(&budget["status"], field).unwrap_or(0);
    let desired = count("desiredHealthy");
    str_at(budget, "spec.unhealthyPodEvictionPolicy") == "AlwaysAllow"
        || (desired > 0 && count("currentHealthy") >= desired)
}

/// The budget with this eviction counted, or why it is not allowed.
fn counted(budget: &Value, pod: &str, now: Timestamp) -> Outcome<Value> {
    let name = str_at(budget, "metadata.name");
    let count = |path: &str| i64_at(budget, path).unwrap_or(0);
    if count("status.observedGeneration") < count("metadata.generation") {
        let why = format!("The disruption budget {name} is still being processed by the server.");
        return Err(refused(why, UNCOUNTED_RETRY_S).into());
    }
    let allowed = count("status.disruptionsAllowed");
    if allowed <= 0 {
        let (desired, healthy) = (count("status.desiredHealthy"), count("status.currentHealthy"));
        let why = format!("The disruption budget {name} needs {desired} healthy pods and has {healthy} currently");
        return Err(refused(why, 0).into());
    }
    let mut new = budget.clone();
    let status = &mut new["status"];
    let unconfirmed = object_mut(&mut status["disruptedPods"]);
    if unconfirmed.len() >= MOST_UNCONFIRMED {
        let why = "DisruptedPods map too big - too many evictions not confirmed by PDB controller";
        return Err(Status::forbidden("poddisruptionbudgets.policy", name, why).into());
    }
    unconfirmed.insert(pod.to_owned(), now.to_string().into());
    status["disruptionsAllowed"] = (allowed - 1).into();
    if allowed == 1 {
        for condition in items_mut(status, "conditions").iter_mut().filter(|one| one["type"] == "DisruptionAllowed") {
            condition["status"] = "False".into();
            condition["reason"] = "InsufficientPods".into();
            condition["lastTransitionTime"] = now.to_string().into();
        }
    }
    Ok(new)
}

fn refused(why: String, retry_after_seconds: u32) -> Status {
    let cause = Cause { reason: "DisruptionBudget".to_owned(), message: why, field: String::new() };
    let details = Details { causes: vec![cause], retry_after_seconds, ..Details::default() };
    let text = "Cannot evict pod as it would violate the pod's disruption budget.";
    Status::failure(Reason::TooManyRequests, text, Some(details))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn budget(status: Value) -> Value {
        json!({"metadata": {"name": "b", "generation": 2}, "status": status})
    }

    #[test]
    fn an_eviction_is_counted_or_refused_with_its_cause() {
        let now = Timestamp::parse("2026-01-01T00:00:00Z").unwrap();
        let check = |status: Value, expect: &str| {
            let refused = counted(&budget(status), "p", now).unwrap_err();
            assert_eq!((refused.code(), refused.causes()[0].reason.as_str()), (429, "DisruptionBudget"));
            assert_eq!(refused.causes()[0].message, expect);
        };
        check(
            json!({"observedGeneration": 1, "disruptionsAllowed": 1}),
            "The disruption budget b is still being processed by the server.",
        );
        check(
            json!({"observedGeneration": 2, "disruptionsAllowed": 0, "desiredHealthy": 3, "currentHealthy": 2}),
            "The disruption budget b needs 3 healthy pods and has 2 currently",
        );
        let one = json!({"observedGeneration": 2, "disruptionsAllowed": 1, "disruptedPods": {"o": "2025-12-31T00:00:00Z"},
            "conditions": [{"type": "DisruptionAllowed", "status": "True", "reason": "SufficientPods"}]});
        let spent = json!({"observedGeneration": 2, "disruptionsAllowed": 0,
            "disruptedPods": {"o": "2025-12-31T00:00:00Z", "p": "2026-01-01T00:00:00Z"},
            "conditions": [{"type": "DisruptionAllowed", "status": "False", "reason": "InsufficientPods",
                "lastTransitionTime": "2026-01-01T00:00:00Z"}]});
        assert_eq!(counted(&budget(one), "p", now).unwrap()["status"], spent);
    }

    #[test]
    fn a_pod_that_is_not_ready_goes_uncounted_when_enough_are_healthy() {
        let check = |policy: &str, healthy: i64, desired: i64, expect: bool| {
            let mut budget = budget(json!({"currentHealthy": healthy, "desiredHealthy": desired}));
            budget["spec"] = json!({"unhealthyPodEvictionPolicy": policy});
            assert_eq!(spares(&budget), expect, "{budget}");
        };
        check("", 2, 2, true);
        check("IfHealthyBudget", 1, 2, false);
        check("", 0, 0, false);
        check("AlwaysAllow", 0, 2, true);
    }

    #[test]
    fn only_what_runs_is_disrupted() {
        let check = |pod: Value, expect: Option<Spent>| assert_eq!(not_running(&pod), expect, "{pod}");
        check(json!({"status": {"phase": "Running"}}), None);
        check(json!({"status": {"phase": "Unknown"}}), None);
        check(json!({"status": {"phase": "Pending"}}), Some(Spent::Pending));
        check(json!({"spec": {}}), Some(Spent::Pending));
        check(json!({"status": {"phase": "Failed"}}), Some(Spent::Over));
        check(json!({"metadata": {"deletionTimestamp": "x"}, "status": {"phase": "Running"}}), Some(Spent::Over));
    }
}
