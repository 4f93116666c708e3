//! NodeRestriction: an agent makes only its own machine, and only mirror pods that run on it. What keeps pods off its machine or
//! draws them to it (taints, reserved labels) is not its own to change.

use super::{Admission, Attributes, Operation};
use crate::http::Outcome;
use crate::kinds::value::{items, str_at};
use gantry_apimachinery::status::Status;
use serde_json::Value;

const MIRROR: &str = "kubernetes.io/config.mirror";

/// Labels by which administrators keep machines apart.
const RESERVED: &str = "node-restriction.kubernetes.io";

pub struct NodeRestriction;

impl Admission for NodeRestriction {
    fn validate(&self, attributes: &Attributes<'_>, object: &Value) -> Outcome<()> {
        let Some(node) = attributes.call.user.node_name() else { return Ok(()) };
        if !attributes.call.kind().group.is_empty() {
            return Ok(());
        }
        let plural = attributes.call.kind().plural;
        if let ("nodes", Operation::Update, Some(old)) = (plural, attributes.operation, attributes.old) {
            let refused = own_node(node, object, old);
            return refused.map_or(Ok(()), |why| Err(Status::forbidden("nodes", attributes.name, &why).into()));
        }
        if attributes.operation != Operation::Create {
            return Ok(());
        }
        let why = match plural {
            "nodes" if attributes.name != node => {
                format!("node {node:?} is not allowed to create node {:?}", attributes.name)
            }
            "pods" if object["metadata"]["annotations"].get(MIRROR).is_none() => {
                format!("pod does not have {MIRROR:?} annotation, node {node:?} can only create mirror pods")
            }
            "pods" if str_at(object, "spec.nodeName") != node => {
                format!("node {node:?} can only create pods with spec.nodeName set to itself")
            }
            _ => return Ok(()),
        };
        Err(Status::forbidden(plural, attributes.name, &why).into())
    }
}

/// Why an agent may not change its machine like this.
fn own_node(node: &str, new: &Value, old: &Value) -> Option<String> {
    if items(new, "spec.taints") != items(old, "spec.taints") {
        return Some(format!("node {node:?} is not allowed to modify taints"));
    }
    let (new, old) = (&new["metadata"]["labels"], &old["metadata"]["labels"]);
    let keys = [new, old].into_iter().filter_map(Value::as_object).flat_map(|labels| labels.keys());
    let mut changed = keys.filter(|key| is_reserved(key) && new.get(key.as_str()) != old.get(key.as_str()));
    changed.next().map(|label| format!("node {node:?} is not allowed to modify label {label:?}"))
}

/// The prefix itself or a domain below it, as in Kubernetes.
fn is_reserved(label: &str) -> bool {
    let domain = label.split_once('/').map_or("", |(domain, _)| domain);
    domain == RESERVED || domain.strip_suffix(RESERVED).is_some_and(|rest| rest.ends_with('.'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_agent_leaves_taints_and_reserved_labels_alone() {
        let taint = json!([{"key": "a", "effect": "NoSchedule"}]);
        let old = json!({
            "metadata": {"labels": {"node-restriction.kubernetes.io/team": "a", "kubernetes.io/os": "linux"}},
            "spec": {"taints": taint},
        });
        let check = |field: [&str; 2], value: Value, expect: Option<&str>| {
            let mut new = old.clone();
            new[field[0]][field[1]] = value;
            let why = own_node("n1", &new, &old);
            assert_eq!(why.is_some(), expect.is_some(), "{why:?}");
            assert!(why.unwrap_or_default().contains(expect.unwrap_or_default()));
        };
        let same = "node-restriction.kubernetes.io/team";
        check(["spec", "taints"], taint.clone(), None);
        check(["spec", "taints"], json!([]), Some("taints"));
        check(["metadata", "labels"], json!({same: "a", "kubernetes.io/os": "x", "mine": "1"}), None);
        check(["metadata", "labels"], json!({same: "b"}), Some(same));
        check(["metadata", "labels"], json!({}), Some(same));
        check(["metadata", "labels"], json!({same: "a", "x.node-restriction.kubernetes.io/y": "1"}), Some("x.node"));
    }
}
