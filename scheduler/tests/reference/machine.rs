//! What a machine says of itself: its name, its cordon and its taints.

use super::World;
use super::manifest::{list, name, node_of, text};
use serde_json::{Value, json};

/// A pod that names its machine goes there or nowhere.
pub fn is_the_named_one(_: &World, pod: &Value, node: &Value) -> bool {
    node_of(pod).is_empty() || node_of(pod) == name(node)
}

/// A cordoned machine takes only pods that tolerate `node.kubernetes.io/unschedulable:NoSchedule`.
pub fn is_open(_: &World, pod: &Value, node: &Value) -> bool {
    !cordoned(node) || tolerated(pod, &json!({"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}))
}

pub fn cordoned(node: &Value) -> bool {
    node["spec"]["unschedulable"] == true
}

/// Every taint that keeps pods out (`NoSchedule`, `NoExecute`) must be tolerated.
pub fn taints_are_tolerated(_: &World, pod: &Value, node: &Value) -> bool {
    let keeps_out = |taint: &&Value| ["NoSchedule", "NoExecute"].contains(&text(&taint["effect"]));
    list(&node["spec"]["taints"]).iter().filter(keeps_out).all(|taint| tolerated(pod, taint))
}

/// How many `PreferNoSchedule` taints the pod does not tolerate: fewer is better.
pub fn avoided_taints(_: &World, pod: &Value, node: &Value) -> i64 {
    let taints = list(&node["spec"]["taints"]).iter();
    let avoided = |taint: &&Value| taint["effect"] == "PreferNoSchedule" && !tolerated(pod, taint);
    i64::try_from(taints.filter(avoided).count()).unwrap_or(i64::MAX)
}

fn tolerated(pod: &Value, taint: &Value) -> bool {
    list(&pod["spec"]["tolerations"]).iter().any(|toleration| tolerates(toleration, taint))
}

/// No effect tolerates every effect, no key (with `Exists`) every key; `Equal` is what no operator means. `Gt` and `Lt`
/// are alpha in 1.35 and tolerate nothing.
fn tolerates(toleration: &Value, taint: &Value) -> bool {
    let or_any = |field: &str| text(&toleration[field]).is_empty() || toleration[field] == taint[field];
    let value_fits = match text(&toleration["operator"]) {
        "Exists" => true,
        "Equal" | "" => !text(&toleration["key"]).is_empty() && text(&toleration["value"]) == text(&taint["value"]),
        _ => false,
    };
    or_any("effect") && or_any("key") && value_fits
}
