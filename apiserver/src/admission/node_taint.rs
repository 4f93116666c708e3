//! A new machine takes no pods before it was seen to be ready (Kubernetes' TaintNodesByCondition). Decides the taint that a Node gets
//! when it is made; the node lifecycle takes it away, and decides all later ones.

use super::{Admission, Attributes, Operation};
use crate::http::Outcome;
use crate::kinds::value::{items, object_mut};
use gantry_apimachinery::kinds::NODE;
use serde_json::{Value, json};

const NOT_READY: &str = "node.kubernetes.io/not-ready";

pub struct NodeTaint;

impl Admission for NodeTaint {
    fn mutate(&self, attributes: &Attributes<'_>, node: &mut Value) -> Outcome<()> {
        let call = attributes.call;
        if attributes.operation == Operation::Create && call.subresource.is_none() && call.kind() == &NODE {
            taint(node);
        }
        Ok(())
    }
}

fn taint(node: &mut Value) {
    let there = |taint: &Value| taint["key"] == NOT_READY && taint["effect"] == "NoSchedule";
    let mut taints = items(node, "spec.taints").to_vec();
    if !taints.iter().any(there) {
        taints.push(json!({"key": NOT_READY, "effect": "NoSchedule"}));
        object_mut(&mut node["spec"]).insert("taints".to_owned(), taints.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_is_tainted_once() {
        let check = |spec: Value, expect: Value| {
            let mut node = json!({"spec": spec});
            taint(&mut node);
            taint(&mut node);
            assert_eq!(node["spec"]["taints"], expect);
        };
        let not_ready = json!({"key": NOT_READY, "effect": "NoSchedule"});
        check(Value::Null, json!([not_ready]));
        let own = json!({"key": "gpu", "value": "1", "effect": "NoExecute"});
        check(json!({"taints": [own]}), json!([own, not_ready]));
        check(json!({"taints": [not_ready, own]}), json!([not_ready, own]));
    }
}
