//! Whether a machine runs a daemon set's pod: its name, labels and taints against the template. The pod is bound by the
//! scheduler as any other; this only decides whether it exists. Never looks at resources.

use gantry_apimachinery::meta::Object;
use serde_json::{Value, json};

use crate::objects::{Node, Taint, Toleration, tolerates};

/// Taints that a daemon's pod always tolerates: it serves the machine, ready or not.
const TOLERATED: [(&str, &str); 6] = [
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
];

/// What a machine is to a daemon set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// A pod is created there.
    pub runs: bool,
    /// A pod that is there stays.
    pub keeps: bool,
}

/// The tolerations that the pods have: the template's and a daemon's own.
pub fn tolerations(spec: &Value) -> Vec<Value> {
    let mut all = spec["tolerations"].as_array().cloned().unwrap_or_default();
    let mut own: Vec<(&str, &str)> = TOLERATED.to_vec();
    if spec["hostNetwork"] == json!(true) {
        own.push(("node.kubernetes.io/network-unavailable", "NoSchedule"));
    }
    for (key, effect) in own {
        let toleration = json!({"key": key, "operator": "Exists", "effect": effect});
        if !all.contains(&toleration) {
            all.push(toleration);
        }
    }
    all
}

/// Judges one machine. `spec` is the template's.
pub fn place(spec: &Value, tolerations: &[Toleration], node: &Node) -> Place {
    let named = spec["nodeName"].as_str().filter(|n| !n.is_empty()).is_none_or(|name| name == node.name());
    if !named || !selected(spec, node) {
        return Place { runs: false, keeps: false };
    }
    let repels = |effect: &str| {
        let mut taints = node.spec.taints.iter().filter(|t| t.effect == effect);
        taints.any(|taint: &Taint| !tolerations.iter().any(|t| tolerates(t, taint)))
    };
    let keeps = !repels("NoExecute");
    Place { runs: keeps && !repels("NoSchedule"), keeps }
}

fn selected(spec: &Value, node: &Node) -> bool {
    let labels = &node.metadata.labels;
    let selector = spec["nodeSelector"].as_object();
    let plain = selector.is_none_or(|s| s.iter().all(|(k, v)| labels.get(k).map(String::as_str) == v.as_str()));
    let terms = spec
        .pointer("/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms")
        .and_then(Value::as_array);
    plain && terms.is_none_or(|terms| terms.iter().any(|term| term_holds(term, node)))
}

/// All expressions of a term hold; a term without any selects nothing.
fn term_holds(term: &Value, node: &Node) -> bool {
    let list = |field: &str| term[field].as_array().cloned().unwrap_or_default();
    let (expressions, fields) = (list("matchExpressions"), list("matchFields"));
    let label = |e: &Value| node.metadata.labels.get(e["key"].as_str().unwrap_or("")).map(String::as_str);
    let field = |e: &Value| (e["key"] == "metadata.name").then_some(node.name());
    !(expressions.is_empty() && fields.is_empty())
        && expressions.iter().all(|e| holds(e, label(e)))
        && fields.iter().all(|e| holds(e, field(e)))
}

fn holds(expression: &Value, have: Option<&str>) -> bool {
    let values: Vec<&str> = expression["values"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let number = |compare: fn(&i64, &i64) -> bool| {
        let pair = have.and_then(|h| h.parse::<i64>().ok()).zip(values.first().and_then(|v| v.parse::<i64>().ok()));
        pair.is_some_and(|(have, limit)| compare(&have, &limit))
    };
    match expression["operator"].as_str().unwrap_or("") {
        "In" => have.is_some_and(|h| values.contains(&h)),
        "NotIn" => have.is_none_or(|h| !values.contains(&h)),
        "Exists" => have.is_some(),
        "DoesNotExist" => have.is_none(),
        "Gt" => number(i64::gt),
        "Lt" => number(i64::lt),
        _ => false,
    }
}

/// The template's spec, pinned to one machine.
pub fn pinned(spec: &Value, node: &str) -> Value {
    let mut spec = spec.clone();
    spec["tolerations"] = json!(tolerations(&spec));
    let term = json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]});
    // The template's own terms were judged above; the machine's name is what is left of them.
    spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] =
        json!({"nodeSelectorTerms": [term]});
    spec
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machines_are_judged_by_name_labels_and_taints() {
        let check = |spec: Value, expect: (bool, bool)| {
            let node: Node =
                serde_json::from_value(json!({"metadata": {"name": "n1", "labels": {"a": "1", "disk": "ssd"}},
                "spec": {"taints": [{"key": "k", "value": "v", "effect": "NoSchedule"},
                    {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}]}}))
                .unwrap();
            let all: Vec<Toleration> = serde_json::from_value(json!(tolerations(&spec))).unwrap();
            let place = place(&spec, &all, &node);
            assert_eq!((place.runs, place.keeps), expect, "{spec}");
        };
        let tolerant = |extra: Value| {
            let mut spec = json!({"tolerations": [{"key": "k", "operator": "Exists"}]});
            extra.as_object().unwrap().iter().for_each(|(k, v)| spec[k] = v.clone());
            spec
        };
        let terms = |e: Value| {
            tolerant(json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
                {"nodeSelectorTerms": [{"matchExpressions": [e]}]}}}}))
        };
        check(json!({}), (false, true));
        check(tolerant(json!({})), (true, true));
        check(tolerant(json!({"nodeName": "n2"})), (false, false));
        check(tolerant(json!({"nodeSelector": {"disk": "ssd"}})), (true, true));
        check(tolerant(json!({"nodeSelector": {"disk": "hdd"}})), (false, false));
        check(terms(json!({"key": "a", "operator": "Gt", "values": ["0"]})), (true, true));
        check(terms(json!({"key": "a", "operator": "NotIn", "values": ["1"]})), (false, false));
        check(terms(json!({"key": "b", "operator": "DoesNotExist"})), (true, true));
    }
}
