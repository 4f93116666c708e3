//! Decides what of a pod may change after its creation, and where.

use super::validate;
use crate::kinds::value::{at, i64_at, items, remove, str_at};
use gantry_apimachinery::status::FieldErrors;
use serde_json::Value;

const MUTABLE: &str = "pod updates may not change fields other than `spec.containers[*].image`,\
    `spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing \
    tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

/// A write to the pod itself.
pub fn spec(new: &Value, old: &Value, errors: &mut FieldErrors) {
    validate::spec(&new["spec"], "spec", errors);
    for list in ["containers", "initContainers"] {
        if items(&new["spec"], list).len() != items(&old["spec"], list).len() {
            errors.forbidden(format!("spec.{list}"), "pod updates may not add or remove containers");
            return;
        }
    }
    deadline(&new["spec"], &old["spec"], errors);
    tolerations(&new["spec"], &old["spec"], errors);
    gates(&new["spec"], &old["spec"], errors);
    let (mut left, mut right) = (new["spec"].clone(), old["spec"].clone());
    forgive(&mut left, &right);
    for field in changed(&mut left, &mut right) {
        errors.forbidden("spec", format!("{MUTABLE}\nchanged: spec.{field}"));
    }
}

/// Takes out of both what may differ.
fn forgive(new: &mut Value, old: &Value) {
    for list in ["containers", "initContainers"] {
        for (position, container) in crate::kinds::value::items_mut(new, list).iter_mut().enumerate() {
            container["image"] = old[list][position]["image"].clone();
        }
    }
    let gated = at(old, "schedulingGates").is_some();
    let mut free = vec!["activeDeadlineSeconds", "tolerations", "schedulingGates"];
    if gated {
        // A pod that the scheduler has not seen may still narrow where it goes.
        free.extend(["nodeSelector", "affinity"]);
    }
    if i64_at(old, "terminationGracePeriodSeconds").is_some_and(|grace| grace < 0)
        && i64_at(new, "terminationGracePeriodSeconds") == Some(1)
    {
        free.push("terminationGracePeriodSeconds");
    }
    for field in free {
        match old.get(field).cloned() {
            Some(value) => new[field] = value,
            None => drop(remove(new, field)),
        }
    }
}

fn changed(new: &mut Value, old: &mut Value) -> Vec<String> {
    let (Some(new), Some(old)) = (new.as_object(), old.as_object()) else { return vec![] };
    let mut fields: Vec<&String> = new.keys().chain(old.keys()).collect();
    fields.sort();
    fields.dedup();
    let absent = Value::Null;
    let value = |map: &serde_json::Map<String, Value>, field: &str| map.get(field).unwrap_or(&absent).clone();
    fields.into_iter().filter(|field| value(new, field) != value(old, field)).cloned().collect()
}

fn deadline(new: &Value, old: &Value, errors: &mut FieldErrors) {
    const FIELD: &str = "activeDeadlineSeconds";
    match (i64_at(new, FIELD), i64_at(old, FIELD)) {
        (Some(new), Some(old)) if new > old => {
            errors.invalid(
                format!("spec.{FIELD}"),
                new,
                format!("must be less than or equal to previous value: {old}"),
            );
        }
        (None, Some(_)) => {
            errors.invalid(
                format!("spec.{FIELD}"),
                Value::Null,
                "must not update from a positive integer to nil value",
            );
        }
        _ => {}
    }
}

fn tolerations(new: &Value, old: &Value, errors: &mut FieldErrors) {
    // The seconds of a toleration may change, the rest of it stays.
    let same = |a: &Value, b: &Value| ["key", "operator", "value", "effect"].iter().all(|field| a[*field] == b[*field]);
    let kept = |old: &Value| items(new, "tolerations").iter().any(|new| same(new, old));
    if !items(old, "tolerations").iter().all(kept) {
        errors.forbidden("spec.tolerations", "existing toleration can not be modified except its tolerationSeconds");
    }
}

fn gates(new: &Value, old: &Value, errors: &mut FieldErrors) {
    let before: Vec<&str> = items(old, "schedulingGates").iter().map(|gate| str_at(gate, "name")).collect();
    for (position, gate) in items(new, "schedulingGates").iter().enumerate() {
        if !before.contains(&str_at(gate, "name")) {
            let why = format!("only deletion is allowed, but found new scheduling gate '{}'", str_at(gate, "name"));
            errors.forbidden(format!("spec.schedulingGates[{position}]"), why);
        }
    }
}

/// A write to the status: the node of a bound pod is final, and a container that must not restart does not run again.
pub fn status(new: &Value, old: &Value, errors: &mut FieldErrors) {
    let quality = (str_at(new, "status.qosClass"), str_at(old, "status.qosClass"));
    if !quality.1.is_empty() && quality.0 != quality.1 {
        errors.immutable("status.qosClass", quality.0);
    }
    if str_at(new, "spec.restartPolicy") == "Always" {
        return;
    }
    for before in items(old, "status.containerStatuses") {
        let code = i64_at(before, "state.terminated.exitCode");
        let may_restart = str_at(new, "spec.restartPolicy") == "OnFailure" && code != Some(0);
        if code.is_none() || may_restart {
            continue;
        }
        let now =
            items(new, "status.containerStatuses").iter().enumerate().find(|(_, now)| now["name"] == before["name"]);
        if let Some((position, _)) = now.filter(|(_, now)| at(now, "state.terminated").is_none()) {
            let path = format!("status.containerStatuses[{position}].state");
            errors.forbidden(path, "may not be transitioned to non-terminated state");
        }
    }
}
