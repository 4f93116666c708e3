//! What a Node means to the API: taints and addresses that are well formed, a pod network that stays, and how a machine reads
//! in one line. It never decides whether the machine is alive.

mod printing;

use super::value::{at, child, items, object_mut, str_at};
use super::{Column, Ctx, Selectable, Strategy};
use gantry_apimachinery::names;
use gantry_apimachinery::quantity::Quantity;
use gantry_apimachinery::status::FieldErrors;
use gantry_apimachinery::time::Timestamp;
use serde_json::{Value, json};
use std::collections::BTreeSet;

const EFFECTS: &[&str] = &["NoExecute", "NoSchedule", "PreferNoSchedule"];

pub struct Node;

impl Strategy for Node {
    fn defaults(&self, object: &mut Value) {
        let spec = child(object, "spec");
        // The old field and the first of the list are one thing.
        match (str_at(spec, "podCIDR").to_owned(), at(spec, "podCIDRs").cloned()) {
            (one, None) if !one.is_empty() => spec["podCIDRs"] = json!([one]),
            (one, Some(list)) if one.is_empty() && list.get(0).is_some() => spec["podCIDR"] = list[0].clone(),
            _ => {}
        }
        if let Some(capacity) = at(object, "status.capacity").cloned()
            && at(object, "status.allocatable").is_none()
        {
            object_mut(&mut object["status"]).insert("allocatable".to_owned(), capacity);
        }
    }

    fn validate(&self, new: &Value, old: Option<&Value>, ctx: &Ctx, errors: &mut FieldErrors) {
        check_resources(new, errors);
        if ctx.is_status() {
            return;
        }
        check_taints(new, errors);
        check_pod_networks(new, errors);
        let Some(old) = old else { return };
        if !items(old, "spec.podCIDRs").is_empty() && items(new, "spec.podCIDRs") != items(old, "spec.podCIDRs") {
            errors.forbidden("spec.podCIDRs", "node updates may not change podCIDR except from \"\" to valid");
        }
        let provider = str_at(old, "spec.providerID");
        if !provider.is_empty() && str_at(new, "spec.providerID") != provider {
            errors.forbidden("spec.providerID", "node updates may not change providerID except from \"\" to valid");
        }
    }

    fn columns(&self) -> &'static [Column] {
        printing::COLUMNS
    }

    fn row(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        printing::row(object, now)
    }

    fn selectable(&self) -> &'static [Selectable] {
        const FIELDS: &[Selectable] = &[Selectable::or("spec.unschedulable", "false")];
        FIELDS
    }
}

fn check_resources(node: &Value, errors: &mut FieldErrors) {
    for list in ["capacity", "allocatable"] {
        for (name, amount) in node["status"][list].as_object().into_iter().flatten() {
            let path = || format!("status.{list}.{name}");
            match amount.as_str().map(Quantity::parse) {
                Some(Ok(q)) if q.is_negative() => {
                    errors.invalid(path(), amount.clone(), "must be greater than or equal to 0");
                }
                Some(Err(why)) => errors.invalid(path(), amount.clone(), why.to_string()),
                _ => {}
            }
        }
    }
}

fn check_taints(node: &Value, errors: &mut FieldErrors) {
    let mut seen = BTreeSet::new();
    for (i, taint) in items(node, "spec.taints").iter().enumerate() {
        let path = format!("spec.taints[{i}]");
        let (key, value, effect) = (str_at(taint, "key"), str_at(taint, "value"), str_at(taint, "effect"));
        if let Err(why) = names::qualified_name(key) {
            errors.invalid(format!("{path}.key"), key, why);
        }
        if let Err(why) = names::label_value(value) {
            errors.invalid(format!("{path}.value"), value, why);
        }
        match effect {
            "" => errors.required(format!("{path}.effect")),
            e if !EFFECTS.contains(&e) => errors.not_supported(format!("{path}.effect"), e, EFFECTS),
            _ => {}
        }
        if !seen.insert((key, effect)) {
            errors.duplicate(path, taint.clone());
        }
    }
}

fn check_pod_networks(node: &Value, errors: &mut FieldErrors) {
    let networks = items(node, "spec.podCIDRs");
    if let Some(first) = networks.first()
        && *first != node["spec"]["podCIDR"]
    {
        errors.invalid("spec.podCIDRs[0]", first.clone(), "must match spec.podCIDR");
    }
    for (i, network) in networks.iter().enumerate() {
        if !network.as_str().is_some_and(is_cidr) {
            errors.invalid(format!("spec.podCIDRs[{i}]"), network.clone(), "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)");
        }
    }
}

fn is_cidr(text: &str) -> bool {
    let Some((ip, bits)) = text.split_once('/') else { return false };
    let max = match ip.parse::<std::net::IpAddr>() {
        Ok(ip) if ip.is_ipv4() => 32,
        Ok(_) => 128,
        Err(_) => return false,
    };
    bits.parse::<u8>().is_ok_and(|bits| bits <= max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::testing::{defaulted, errors, errors_of, row};

    #[test]
    fn the_pod_network_has_two_names_and_allocatable_follows_capacity() {
        let given = json!({"spec": {"podCIDR": "10.244.1.0/24"}, "status": {"capacity": {"cpu": "2"}}});
        let expect = json!({
            "spec": {"podCIDR": "10.244.1.0/24", "podCIDRs": ["10.244.1.0/24"]},
            "status": {"capacity": {"cpu": "2"}, "allocatable": {"cpu": "2"}},
        });
        assert_eq!(defaulted(&Node, &given), expect);
    }

    #[test]
    fn wrong_fields_are_named() {
        let check = |new: Value, expect: &str| assert_eq!(errors(&Node, &new, None), expect);
        check(json!({"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}, {"key": "a", "effect": "NoExecute"}]}}), "[]");
        check(
            json!({"spec": {"taints": [{"key": "a", "effect": "Never"}]}}),
            "spec.taints[0].effect: Unsupported value: \"Never\": supported values: \"NoExecute\", \"NoSchedule\", \"PreferNoSchedule\"",
        );
        check(
            json!({"spec": {"taints": [{"key": "a", "effect": "NoExecute"}, {"key": "a", "effect": "NoExecute"}]}}),
            "spec.taints[1]: Duplicate value: {\"effect\":\"NoExecute\",\"key\":\"a\"}",
        );
        check(
            json!({"spec": {"podCIDR": "x", "podCIDRs": ["x"]}}),
            "spec.podCIDRs[0]: Invalid value: \"x\": must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)",
        );
        check(
            json!({"status": {"capacity": {"cpu": "-1"}}}),
            "status.capacity.cpu: Invalid value: \"-1\": must be greater than or equal to 0",
        );
    }

    #[test]
    fn the_pod_network_stays() {
        let old = json!({"spec": {"podCIDR": "10.0.0.0/24", "podCIDRs": ["10.0.0.0/24"]}});
        let new = json!({"spec": {"podCIDR": "10.0.1.0/24", "podCIDRs": ["10.0.1.0/24"]}});
        let expect = "spec.podCIDRs: Forbidden: node updates may not change podCIDR except from \"\" to valid";
        assert_eq!(errors(&Node, &new, Some(&old)), expect);
        assert_eq!(errors(&Node, &new, Some(&json!({}))), "[]");
        assert_eq!(errors_of(&Node, &new, Some(&new), Some("status")), "[]");
    }

    #[test]
    fn rows_read_as_kubectls() {
        let node = json!({
            "metadata": {"labels": {"node-role.kubernetes.io/worker": "", "node-role.kubernetes.io/control-plane": ""}},
            "spec": {"unschedulable": true},
            "status": {
                "conditions": [{"type": "Ready", "status": "True"}],
                "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
                "nodeInfo": {"kubeletVersion": "v1", "osImage": "Debian", "kernelVersion": "6.1", "containerRuntimeVersion": "containerd://2"},
            },
        });
        assert_eq!(
            row(&Node, &node),
            json!(["x", "Ready,SchedulingDisabled", "control-plane,worker", "5s", "v1", "10.0.0.1", "<none>", "Debian", "6.1", "containerd://2"])
        );
        assert_eq!(
            row(&Node, &json!({})),
            json!(["x", "Unknown", "<none>", "5s", "", "<none>", "<none>", "<unknown>", "<unknown>", "<unknown>"])
        );
    }
}
