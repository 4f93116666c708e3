//! What a Pod means to the API: its defaults, what may change after creation, how it is deleted and how `kubectl get` shows
//! it. Other kinds take their pod templates' rules from here. It never decides where or whether a pod runs.

mod containers;
pub mod defaults;
mod parts;
pub mod printing;
pub mod quality;
pub mod scheduling;
pub mod unheeded;
mod update;
pub mod validate;
mod volumes;
pub mod workload;

use super::value::{at, child, default, str_at};
use super::{Column, Ctx, Selectable, Strategy};
use gantry_apimachinery::status::FieldErrors;
use gantry_apimachinery::time::Timestamp;
use serde_json::{Value, json};

/// On a pod or a template: at most one pod of this identity may run in the whole cluster.
pub const AT_MOST_ONE: &str = "gantry.dev/at-most-one";

/// Kubernetes' default time between SIGTERM and SIGKILL.
const DEFAULT_GRACE_S: i64 = 30;

pub struct Pod;

impl Strategy for Pod {
    fn defaults(&self, pod: &mut Value) {
        defaults::pod(pod);
    }

    fn prepare_create(&self, pod: &mut Value, ctx: &Ctx) {
        let quality = quality::of(&pod["spec"]);
        let mut status = json!({ "phase": "Pending", "qosClass": quality });
        if at(pod, "spec.schedulingGates").is_some() {
            status["conditions"] = json!([{
                "type": "PodScheduled", "status": "False", "reason": "SchedulingGated",
                "message": "Scheduling is blocked due to non-empty scheduling gates",
                "lastTransitionTime": ctx.now.to_string(),
            }]);
        }
        pod["status"] = status;
    }

    fn prepare_update(&self, new: &mut Value, old: &Value, ctx: &Ctx) {
        match ctx.subresource {
            Some("ephemeralcontainers") => return parts::only_ephemeral_containers(new, old),
            Some("resize") => return parts::only_resources(new, old),
            Some("status") => {}
            _ => return,
        }
        // An agent that does not know the class must not erase it.
        if let Some(quality) = at(old, "status.qosClass") {
            default(child(new, "status"), "qosClass", quality.clone());
        }
    }

    fn validate(&self, new: &Value, old: Option<&Value>, ctx: &Ctx, errors: &mut FieldErrors) {
        // Of any subresource: a write of the status may bring labels, too.
        scheduling::labels(new, old, errors);
        match (old, ctx.subresource) {
            (None, _) => validate::pod(new, errors),
            (Some(old), None) => update::spec(new, old, errors),
            (Some(old), Some("status")) => update::status(new, old, errors),
            (Some(old), Some("ephemeralcontainers")) => parts::ephemeral_containers(new, old, errors),
            (Some(old), Some("resize")) => parts::resize(new, old, errors),
            _ => {}
        }
    }

    fn warnings(&self, new: &Value, old: Option<&Value>) -> Vec<String> {
        match old {
            None => unheeded::weaker(&new["spec"], "spec"),
            Some(old) if parts::is_resized(new, old) => {
                vec![format!("spec.containers[*].resources: {}", unheeded::NOT_ACTED_UPON)]
            }
            Some(_) => Vec::new(),
        }
    }

    fn columns(&self) -> &'static [Column] {
        printing::COLUMNS
    }

    fn row(&self, pod: &Value, now: Timestamp) -> Vec<Value> {
        printing::row(pod, now)
    }

    fn selectable(&self) -> &'static [Selectable] {
        const FIELDS: &[Selectable] = &[
            Selectable::path("spec.nodeName"),
            Selectable::path("spec.restartPolicy"),
            Selectable::path("spec.schedulerName"),
            Selectable::path("spec.serviceAccountName"),
            Selectable::or("spec.hostNetwork", "false"),
            Selectable::path("status.phase"),
            Selectable::path("status.podIP"),
            Selectable::path("status.nominatedNodeName"),
        ];
        FIELDS
    }

    /// A pod that no machine runs, or that has ended, has nothing to wait for.
    fn grace_period(&self, pod: &Value, requested: Option<i64>) -> Option<i64> {
        let ended = matches!(str_at(pod, "status.phase"), "Succeeded" | "Failed");
        if ended || str_at(pod, "spec.nodeName").is_empty() {
            return Some(0);
        }
        let own = at(pod, "spec.terminationGracePeriodSeconds").and_then(Value::as_i64);
        let seconds = requested.or(own).unwrap_or(DEFAULT_GRACE_S);
        Some(if seconds < 0 { 1 } else { seconds })
    }
}

/// Whether the object (a pod or a template) asks to run at most once.
pub fn is_at_most_one(object: &Value) -> bool {
    object["metadata"]["annotations"][AT_MOST_ONE] == "true"
}

/// The path of the opt-in below `template`, for errors.
pub fn at_most_one_path(template: &str) -> String {
    format!("{template}.metadata.annotations[{AT_MOST_ONE}]")
}

#[cfg(test)]
mod tests;
