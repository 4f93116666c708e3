//! Priority: a pod's class becomes its number. Decides which class applies to a pod that names none.

use super::{Admission, Attributes};
use crate::cache::Object;
use crate::core::Core;
use crate::http::Outcome;
use crate::kinds::value::{bool_at, default, i64_at, str_at};
use gantry_apimachinery::kinds::PRIORITY_CLASS;
use gantry_apimachinery::status::Status;
use serde_json::Value;
use std::sync::Arc;

const PREEMPTS: &str = "PreemptLowerPriority";

pub struct Priority;

impl Admission for Priority {
    fn mutate(&self, attributes: &Attributes<'_>, pod: &mut Value) -> Outcome<()> {
        if !attributes.creates_pod() {
            return Ok(());
        }
        let core = attributes.call.core;
        let refuse = |why: &str| Status::forbidden("pods", attributes.name, why);
        let named = str_at(pod, "spec.priorityClassName").to_owned();
        let class = if named.is_empty() {
            global_default(core)
        } else {
            let found = core.cached(&PRIORITY_CLASS, "", &named);
            Some(found.ok_or_else(|| refuse(&format!("no PriorityClass with name {named} was found")))?)
        };
        let class = class.as_ref().map(|class| (&*class.name, class.derived(Class::read)));
        let (name, value, policy) = match class {
            Some((name, class)) => (name, class.value, class.policy.as_str()),
            None => ("", 0, PREEMPTS),
        };
        if let Some(given) = i64_at(pod, "spec.priority")
            && given != value
        {
            return Err(refuse(&format!(
                "the integer value of priority ({given}) must not be provided in pod spec; priority admission controller computed {value} from the given PriorityClass name"
            ))
            .into());
        }
        let spec = &mut pod["spec"];
        spec["priority"] = value.into();
        if !name.is_empty() {
            spec["priorityClassName"] = name.into();
        }
        default(spec, "preemptionPolicy", policy);
        Ok(())
    }
}

/// What is read of a class, once.
struct Class {
    value: i64,
    policy: String,
    is_default: bool,
}

impl Class {
    fn read(object: &Value) -> Self {
        let policy = str_at(object, "preemptionPolicy");
        Self {
            value: i64_at(object, "value").unwrap_or(0),
            policy: if policy.is_empty() { PREEMPTS } else { policy }.to_owned(),
            is_default: bool_at(object, "globalDefault"),
        }
    }
}

/// The class marked as everyone's default; of several the lowest, as Kubernetes chooses.
fn global_default(core: &Core) -> Option<Arc<Object>> {
    let classes = core.stored_kind(&PRIORITY_CLASS).resource.snapshot();
    let marked = classes.tree.values().filter(|class| class.derived(Class::read).is_default);
    marked.min_by_key(|class| class.derived(Class::read).value).cloned()
}
