//! `autoscaling/v1 HorizontalPodAutoscaler` from and to `v2`, which is what is stored. Decides where the fields that v1 does not
//! have are kept: in Kubernetes' own annotations, so that nothing is lost on the way through an old client.

use super::Pair;
use crate::kinds::value::{object_mut, remove};
use serde_json::{Map, Value, json};

pub const PAIR: Pair =
    Pair { group: "autoscaling", version: "v1", plural: "horizontalpodautoscalers", to_wire, from_wire, label: None };

const METRICS: &str = "autoscaling.alpha.kubernetes.io/metrics";
const CURRENT: &str = "autoscaling.alpha.kubernetes.io/current-metrics";
const CONDITIONS: &str = "autoscaling.alpha.kubernetes.io/conditions";
const BEHAVIOR: &str = "autoscaling.alpha.kubernetes.io/behavior";

fn to_wire(mut object: Value) -> Value {
    object["apiVersion"] = "autoscaling/v1".into();
    let mut kept = Map::new();
    let mut metrics = take_list(&mut object["spec"], "metrics");
    if let Some(at) = metrics.iter().position(is_cpu_share) {
        let cpu = metrics.remove(at);
        object["spec"]["targetCPUUtilizationPercentage"] = cpu["resource"]["target"]["averageUtilization"].clone();
    }
    keep(&mut kept, METRICS, metrics.iter().map(flat).collect());
    if let Some(behavior) = remove(&mut object["spec"], "behavior") {
        kept.insert(BEHAVIOR.to_owned(), behavior.to_string().into());
    }
    if object["status"].is_object() {
        let mut current = take_list(&mut object["status"], "currentMetrics");
        let cpu = |metric: &Value| metric["type"] == "Resource" && metric["resource"]["name"] == "cpu";
        if let Some(at) = current.iter().position(cpu) {
            let used = &current.remove(at)["resource"]["current"]["averageUtilization"];
            if used.is_number() {
                object["status"]["currentCPUUtilizationPercentage"] = used.clone();
            }
        }
        keep(&mut kept, CURRENT, current);
        let conditions = take_list(&mut object["status"], "conditions");
        keep(&mut kept, CONDITIONS, conditions);
    }
    if !kept.is_empty() {
        object_mut(&mut object["metadata"]["annotations"]).extend(kept);
    }
    object
}

fn from_wire(mut object: Value) -> Value {
    object["apiVersion"] = "autoscaling/v2".into();
    let mut kept = |name: &str| {
        let annotations = object["metadata"]["annotations"].as_object_mut()?;
        let text = annotations.remove(name)?;
        serde_json::from_str::<Value>(text.as_str()?).ok()
    };
    let list = |value: Option<Value>| match value {
        Some(Value::Array(list)) => list,
        _ => Vec::new(),
    };
    let (behavior, metrics) = (kept(BEHAVIOR), list(kept(METRICS)));
    let (current, conditions) = (list(kept(CURRENT)), list(kept(CONDITIONS)));
    let mut metrics: Vec<Value> = metrics.iter().map(deep).collect();
    if let Some(percent) = remove(&mut object["spec"], "targetCPUUtilizationPercentage").filter(|p| !p.is_null()) {
        metrics.insert(
            0,
            json!({"type": "Resource", "resource": {"name": "cpu",
            "target": {"type": "Utilization", "averageUtilization": percent}}}),
        );
    }
    if !metrics.is_empty() {
        object["spec"]["metrics"] = metrics.into();
    }
    if let Some(behavior) = behavior {
        object["spec"]["behavior"] = behavior;
    }
    if object["status"].is_object() {
        let mut current = current;
        if let Some(percent) = remove(&mut object["status"], "currentCPUUtilizationPercentage") {
            current.insert(
                0,
                json!({"type": "Resource", "resource": {"name": "cpu",
                "current": {"averageUtilization": percent}}}),
            );
        }
        if !current.is_empty() {
            object["status"]["currentMetrics"] = current.into();
        }
        if !conditions.is_empty() {
            object["status"]["conditions"] = conditions.into();
        }
    }
    object
}

fn take_list(object: &mut Value, field: &str) -> Vec<Value> {
    match remove(object, field) {
        Some(Value::Array(list)) => list,
        _ => Vec::new(),
    }
}

fn keep(kept: &mut Map<String, Value>, name: &str, list: Vec<Value>) {
    if !list.is_empty() {
        kept.insert(name.to_owned(), Value::from(list).to_string().into());
    }
}

fn is_cpu_share(metric: &Value) -> bool {
    metric["type"] == "Resource"
        && metric["resource"]["name"] == "cpu"
        && metric["resource"]["target"]["averageUtilization"].is_number()
}

/// (source, v1's name, v2's path below the source)
const MOVES: [(&str, &str, &[&str]); 16] = [
    ("resource", "name", &["name"]),
    ("resource", "targetAverageUtilization", &["target", "averageUtilization"]),
    ("resource", "targetAverageValue", &["target", "averageValue"]),
    ("containerResource", "name", &["name"]),
    ("containerResource", "container", &["container"]),
    ("containerResource", "targetAverageUtilization", &["target", "averageUtilization"]),
    ("pods", "metricName", &["metric", "name"]),
    ("pods", "selector", &["metric", "selector"]),
    ("pods", "targetAverageValue", &["target", "averageValue"]),
    ("object", "metricName", &["metric", "name"]),
    ("object", "target", &["describedObject"]),
    ("object", "targetValue", &["target", "value"]),
    ("external", "metricName", &["metric", "name"]),
    ("external", "metricSelector", &["metric", "selector"]),
    ("external", "targetValue", &["target", "value"]),
    ("external", "targetAverageValue", &["target", "averageValue"]),
];
const SOURCES: [&str; 5] = ["containerResource", "external", "object", "pods", "resource"];

/// A metric in v1's flat form.
fn flat(metric: &Value) -> Value {
    let mut out = json!({"type": metric["type"]});
    for source in SOURCES.iter().filter(|source| metric[**source].is_object()) {
        let mut fields = Map::new();
        for (_, name, path) in MOVES.iter().filter(|(of, ..)| of == source) {
            let found = path.iter().try_fold(&metric[*source], |value, step| value.get(step));
            fields.extend(found.map(|value| ((*name).to_owned(), value.clone())));
        }
        out[*source] = fields.into();
    }
    out
}

/// A metric in v2's form.
fn deep(metric: &Value) -> Value {
    let mut out = json!({"type": metric["type"]});
    for source in SOURCES.iter().filter(|source| metric[**source].is_object()) {
        let mut fields = json!({});
        for (_, name, path) in MOVES.iter().filter(|(of, ..)| of == source) {
            let Some(value) = metric[*source].get(name) else { continue };
            let place = path.iter().fold(&mut fields, |at, step| object_mut(at).entry(*step).or_insert(Value::Null));
            *place = value.clone();
        }
        let target = &fields["target"];
        let kind = match () {
            () if target["averageUtilization"].is_number() => "Utilization",
            () if target.get("averageValue").is_some() => "AverageValue",
            () => "Value",
        };
        fields["target"]["type"] = kind.into();
        out[*source] = fields;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_v1_has_no_field_for_comes_back() {
        let object = json!({
            "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "a", "annotations": {"x": "y"}},
            "spec": {"maxReplicas": 3, "behavior": {"scaleDown": {"selectPolicy": "Min"}}, "metrics": [
                {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 70}}},
                {"type": "Pods", "pods": {"metric": {"name": "m"}, "target": {"type": "AverageValue", "averageValue": "5"}}},
                {"type": "Object", "object": {"metric": {"name": "o"}, "describedObject": {"kind": "Ingress", "name": "i"},
                    "target": {"type": "Value", "value": "9"}}},
            ]},
            "status": {"desiredReplicas": 2, "conditions": [{"type": "AbleToScale", "status": "True"}]},
        });
        let old = to_wire(object.clone());
        assert_eq!((&old["spec"]["targetCPUUtilizationPercentage"], old["spec"].get("metrics")), (&json!(70), None));
        let metrics: Value = serde_json::from_str(old["metadata"]["annotations"][METRICS].as_str().unwrap()).unwrap();
        assert_eq!(metrics[0], json!({"type": "Pods", "pods": {"metricName": "m", "targetAverageValue": "5"}}));
        assert_eq!(from_wire(old), object);
    }

    #[test]
    fn a_plain_v1_object_becomes_a_cpu_metric() {
        let old =
            json!({"apiVersion": "autoscaling/v1", "spec": {"maxReplicas": 3, "targetCPUUtilizationPercentage": 50}});
        let new = from_wire(old);
        assert_eq!(new["spec"]["metrics"][0]["resource"]["target"]["averageUtilization"], 50);
    }
}
