//! What a NetworkPolicy means to the API: its defaults, its rules, and what `kubectl get` shows. Who lets packets through is not
//! decided here.

use super::columns::{self, Column};
use super::network::{self, Cidr};
use super::pod::workload::selector_text;
use super::selectors;
use super::value::{at, child, default, i64_at, items, items_mut, str_at};
use super::{Ctx, Strategy};
use gantry_apimachinery::status::FieldErrors;
use gantry_apimachinery::time::Timestamp;
use serde_json::{Value, json};

pub struct NetworkPolicy;

const DIRECTIONS: [(&str, &str); 2] = [("ingress", "from"), ("egress", "to")];
const TYPES: &[&str] = &["Egress", "Ingress"];

impl Strategy for NetworkPolicy {
    fn defaults(&self, object: &mut Value) {
        let spec = child(object, "spec");
        if items(spec, "policyTypes").is_empty() {
            let leaves = !items(spec, "egress").is_empty();
            spec["policyTypes"] = if leaves { json!(["Ingress", "Egress"]) } else { json!(["Ingress"]) };
        }
        for (direction, _) in DIRECTIONS {
            for rule in items_mut(spec, direction) {
                items_mut(rule, "ports").iter_mut().for_each(|port| default(port, "protocol", "TCP"));
            }
        }
    }

    fn validate(&self, new: &Value, _old: Option<&Value>, _ctx: &Ctx, errors: &mut FieldErrors) {
        let spec = &new["spec"];
        selectors::label_selector(&spec["podSelector"], "spec.podSelector", errors);
        for (direction, peers) in DIRECTIONS {
            for (position, rule) in items(spec, direction).iter().enumerate() {
                let path = format!("spec.{direction}[{position}]");
                for (index, port) in items(rule, "ports").iter().enumerate() {
                    self::port(port, &format!("{path}.ports[{index}]"), errors);
                }
                for (index, peer) in items(rule, peers).iter().enumerate() {
                    self::peer(peer, &format!("{path}.{peers}[{index}]"), errors);
                }
            }
        }
        let types = items(spec, "policyTypes");
        if types.len() > TYPES.len() {
            let why = "may not specify more than two policyTypes";
            return errors.invalid("spec.policyTypes", spec["policyTypes"].clone(), why);
        }
        for (position, kind) in types.iter().enumerate().filter(|(_, kind)| !TYPES.iter().any(|known| kind == known)) {
            errors.not_supported(format!("spec.policyTypes[{position}]"), kind.clone(), TYPES);
        }
    }

    fn columns(&self) -> &'static [Column] {
        const COLUMNS: &[Column] = &[Column::NAME, Column::text("Pod-Selector", "The pods that it is for."), Column::AGE];
        COLUMNS
    }

    fn row(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        vec![columns::name(object), selector_text(&object["spec"]["podSelector"]), columns::age(object, now)]
    }
}

fn port(port: &Value, path: &str, errors: &mut FieldErrors) {
    network::protocol(port, path, errors);
    let first = at(port, "port");
    if let Some(first) = first {
        network::port_or_name(first, &format!("{path}.port"), errors);
    }
    let (Some(last), end) = (i64_at(port, "endPort"), format!("{path}.endPort")) else { return };
    match first {
        None => errors.required_because(format!("{path}.port"), "must be specified when endPort is defined"),
        Some(Value::String(_)) => errors.invalid(end, last, "may not be specified when `port` is non-numeric"),
        Some(first) => {
            if first.as_i64().is_some_and(|first| last < first) {
                errors.invalid(end.as_str(), last, "must be greater than or equal to `port`");
            }
            if !(1..=65535).contains(&last) {
                errors.invalid(end, last, "must be between 1 and 65535, inclusive");
            }
        }
    }
}

fn peer(peer: &Value, path: &str, errors: &mut FieldErrors) {
    let mut kinds = 0;
    for field in ["podSelector", "namespaceSelector"] {
        if let Some(selector) = at(peer, field) {
            kinds += 1;
            selectors::label_selector(selector, &format!("{path}.{field}"), errors);
        }
    }
    let block = at(peer, "ipBlock");
    if let Some(block) = block {
        kinds += 1;
        ip_block(block, &format!("{path}.ipBlock"), errors);
    }
    if kinds == 0 {
        errors.required_because(path, "must specify a peer");
    } else if kinds > 1 && block.is_some() {
        errors.forbidden(path, "may not specify both ipBlock and another peer");
    }
}

fn ip_block(block: &Value, path: &str, errors: &mut FieldErrors) {
    if str_at(block, "cidr").is_empty() {
        return errors.required(format!("{path}.cidr"));
    }
    let Some(all) = network::cidr(str_at(block, "cidr"), &format!("{path}.cidr"), errors) else { return };
    for (position, except) in items(block, "except").iter().enumerate() {
        let (text, path) = (except.as_str().unwrap_or_default(), format!("{path}.except[{position}]"));
        let part: Option<Cidr> = network::cidr(text, &path, errors);
        if part.is_some_and(|part| !all.strictly_holds(part)) {
            errors.invalid(path, text, "must be a strict subset of `cidr`");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::testing::{defaulted, errors, row};

    #[test]
    fn types_follow_from_the_rules() {
        let check = |spec: Value, expect: Value| {
            assert_eq!(defaulted(&NetworkPolicy, &json!({"spec": spec}))["spec"]["policyTypes"], expect);
        };
        check(json!({}), json!(["Ingress"]));
        check(json!({"egress": [{}]}), json!(["Ingress", "Egress"]));
        check(json!({"policyTypes": ["Egress"]}), json!(["Egress"]));
    }

    #[test]
    fn what_is_wrong_is_named() {
        let check = |spec: Value, expect: &str| {
            let made = defaulted(&NetworkPolicy, &json!({"spec": spec}));
            assert_eq!(errors(&NetworkPolicy, &made, None), expect);
        };
        let from = |peer: Value| json!({"ingress": [{"from": [peer]}]});
        let ports = |port: Value| json!({"egress": [{"ports": [port]}]});
        check(from(json!({"podSelector": {}, "namespaceSelector": {}})), "[]");
        check(from(json!({})), "spec.ingress[0].from[0]: Required value: must specify a peer");
        check(
            from(json!({"podSelector": {}, "ipBlock": {"cidr": "10.0.0.0/8"}})),
            "spec.ingress[0].from[0]: Forbidden: may not specify both ipBlock and another peer",
        );
        check(from(json!({"ipBlock": {}})), "spec.ingress[0].from[0].ipBlock.cidr: Required value");
        check(
            from(json!({"ipBlock": {"cidr": "10.0.0.0"}})),
            "spec.ingress[0].from[0].ipBlock.cidr: Invalid value: \"10.0.0.0\": must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)",
        );
        check(
            from(json!({"ipBlock": {"cidr": "10.0.0.0/8", "except": ["11.0.0.0/16"]}})),
            "spec.ingress[0].from[0].ipBlock.except[0]: Invalid value: \"11.0.0.0/16\": must be a strict subset of `cidr`",
        );
        check(ports(json!({"port": 80, "endPort": 90})), "[]");
        check(
            ports(json!({"endPort": 90})),
            "spec.egress[0].ports[0].port: Required value: must be specified when endPort is defined",
        );
        check(
            ports(json!({"port": "http", "endPort": 90})),
            "spec.egress[0].ports[0].endPort: Invalid value: 90: may not be specified when `port` is non-numeric",
        );
        check(
            ports(json!({"port": 80, "endPort": 79})),
            "spec.egress[0].ports[0].endPort: Invalid value: 79: must be greater than or equal to `port`",
        );
        check(
            ports(json!({"protocol": "ICMP"})),
            "spec.egress[0].ports[0].protocol: Unsupported value: \"ICMP\": supported values: \"SCTP\", \"TCP\", \"UDP\"",
        );
        check(
            json!({"policyTypes": ["Both"]}),
            "spec.policyTypes[0]: Unsupported value: \"Both\": supported values: \"Egress\", \"Ingress\"",
        );
    }

    #[test]
    fn the_row_is_kubectls() {
        assert_eq!(row(&NetworkPolicy, &json!({"spec": {"podSelector": {}}})), json!(["x", "<none>", "5s"]));
        let chosen = json!({"spec": {"podSelector": {"matchLabels": {"a": "b"}}}});
        assert_eq!(row(&NetworkPolicy, &chosen), json!(["x", "a=b", "5s"]));
    }
}
