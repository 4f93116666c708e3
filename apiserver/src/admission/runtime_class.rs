//! RuntimeClass: a pod that names a class gets what the class costs and where it runs. Decides what becomes of a pod that says
//! otherwise, or whose class does not exist.

use super::{Admission, Attributes};
use crate::http::Outcome;
use crate::kinds::value::{at, items, object_mut, str_at};
use gantry_apimachinery::kinds::RUNTIME_CLASS;
use gantry_apimachinery::quantity::Quantity;
use gantry_apimachinery::status::Status;
use serde_json::{Map, Value};

pub struct RuntimeClass;

impl Admission for RuntimeClass {
    fn mutate(&self, attributes: &Attributes<'_>, pod: &mut Value) -> Outcome<()> {
        if !attributes.creates_pod() {
            return Ok(());
        }
        let refused = |why: String| Status::forbidden("pods", attributes.name, &why);
        let Some(class) = named(attributes, pod).map_err(refused)? else { return Ok(()) };
        add_overhead(pod, &class).map_err(refused)?;
        Ok(add_scheduling(pod, &class).map_err(refused)?)
    }

    fn validate(&self, attributes: &Attributes<'_>, pod: &Value) -> Outcome<()> {
        if !attributes.creates_pod() {
            return Ok(());
        }
        let refused = |why: String| Status::forbidden("pods", attributes.name, &why);
        let class = named(attributes, pod).map_err(refused)?;
        Ok(check_overhead(pod, class.as_ref()).map_err(refused)?)
    }
}

/// The class that the pod asks for, if it asks for one.
fn named(attributes: &Attributes<'_>, pod: &Value) -> Result<Option<Value>, String> {
    let name = str_at(pod, "spec.runtimeClassName");
    if name.is_empty() {
        return Ok(None);
    }
    let class = attributes.call.core.cached(&RUNTIME_CLASS, "", name).and_then(|class| class.value().ok());
    class.map(Some).ok_or_else(|| format!("pod rejected: RuntimeClass {name:?} not found"))
}

fn amounts<'a>(object: &'a Value, path: &str) -> Option<&'a Map<String, Value>> {
    at(object, path).and_then(Value::as_object).filter(|amounts| !amounts.is_empty())
}

/// Whether both say the same amounts, however they are written.
fn equal(a: &Map<String, Value>, b: &Map<String, Value>) -> bool {
    let amount = |value: &Value| value.as_str().and_then(|text| text.parse::<Quantity>().ok());
    a.len() == b.len() && a.iter().all(|(name, one)| b.get(name).is_some_and(|other| amount(one) == amount(other)))
}

fn add_overhead(pod: &mut Value, class: &Value) -> Result<(), String> {
    let Some(costs) = amounts(class, "overhead.podFixed") else { return Ok(()) };
    match amounts(pod, "spec.overhead") {
        Some(given) if !equal(given, costs) => {
            return Err("pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead".to_owned());
        }
        Some(_) => {}
        None => pod["spec"]["overhead"] = costs.clone().into(),
    }
    Ok(())
}

/// Also after webhooks: nobody but the class says what it costs.
fn check_overhead(pod: &Value, class: Option<&Value>) -> Result<(), String> {
    let costs = class.and_then(|class| amounts(class, "overhead.podFixed"));
    match (amounts(pod, "spec.overhead"), costs) {
        (Some(given), Some(costs)) if !equal(given, costs) => {
            Err("pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead".to_owned())
        }
        (Some(_), None) => {
            Err("pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead".to_owned())
        }
        _ => Ok(()),
    }
}

/// The pod runs only where its class runs, and where it may run itself.
fn add_scheduling(pod: &mut Value, class: &Value) -> Result<(), String> {
    if let Some(wanted) = at(class, "scheduling.nodeSelector").and_then(Value::as_object).filter(|map| !map.is_empty())
    {
        let selector = object_mut(&mut pod["spec"]["nodeSelector"]);
        for (label, value) in wanted {
            let given = selector.entry(label.as_str()).or_insert_with(|| value.clone());
            if given != value {
                return Err(format!(
                    "conflict: runtimeClass.scheduling.nodeSelector[{label}] = {}; pod.spec.nodeSelector[{label}] = {}",
                    value.as_str().unwrap_or_default(),
                    given.as_str().unwrap_or_default()
                ));
            }
        }
    }
    let mut tolerations = items(pod, "spec.tolerations").to_vec();
    let before = tolerations.len();
    for toleration in items(class, "scheduling.tolerations") {
        if !tolerations.contains(toleration) {
            tolerations.push(toleration.clone());
        }
    }
    if tolerations.len() > before {
        pod["spec"]["tolerations"] = tolerations.into();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn class() -> Value {
        json!({"handler": "h", "overhead": {"podFixed": {"cpu": "10m"}}, "scheduling": {
            "nodeSelector": {"a": "b"}, "tolerations": [{"key": "k", "operator": "Exists"}]}})
    }

    #[test]
    fn a_pod_gets_what_its_class_costs_and_where_it_runs() {
        let check = |spec: Value, expect: Result<Value, &str>| {
            let mut pod = json!({ "spec": spec });
            let done = add_overhead(&mut pod, &class()).and_then(|()| add_scheduling(&mut pod, &class()));
            assert_eq!(done.map(|()| pod["spec"].clone()), expect.map_err(str::to_owned), "{pod}");
        };
        let toleration = json!({"key": "k", "operator": "Exists"});
        let whole = json!({"overhead": {"cpu": "10m"}, "nodeSelector": {"a": "b"}, "tolerations": [toleration]});
        check(json!({}), Ok(whole.clone()));
        check(whole.clone(), Ok(whole));
        let own = json!({"overhead": {"cpu": "0.01"}, "nodeSelector": {"c": "d"}, "tolerations": [{"key": "o"}]});
        let both = json!({"overhead": {"cpu": "0.01"}, "nodeSelector": {"a": "b", "c": "d"},
            "tolerations": [{"key": "o"}, toleration]});
        check(own, Ok(both));
        let conflict = "conflict: runtimeClass.scheduling.nodeSelector[a] = b; pod.spec.nodeSelector[a] = x";
        check(json!({"nodeSelector": {"a": "x"}}), Err(conflict));
        let other = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead";
        check(json!({"overhead": {"cpu": "20m"}}), Err(other));
    }

    #[test]
    fn an_overhead_is_the_class_s() {
        let (plain, costs) = (json!({"handler": "h"}), class());
        let check = |overhead: Value, class: Option<&Value>, expect: &str| {
            let pod = json!({"spec": {"overhead": overhead}});
            assert_eq!(check_overhead(&pod, class).err().unwrap_or_default(), expect, "{pod}");
        };
        check(json!({"cpu": "10m"}), Some(&costs), "");
        check(json!({}), None, "");
        check(json!({}), Some(&plain), "");
        let alone = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead";
        check(json!({"cpu": "10m"}), None, alone);
        check(json!({"cpu": "10m"}), Some(&plain), alone);
        let other = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead";
        check(json!({"cpu": "10m", "memory": "1"}), Some(&costs), other);
    }
}
