//! The flow schemas and priority levels that every cluster has: Kubernetes' mandatory and suggested ones, and Gantry's own. Decides
//! their content; `keep` makes and keeps them.

use gantry_apimachinery::kinds::{FLOW_SCHEMA, Kind, PRIORITY_LEVEL_CONFIGURATION};
use serde_json::{Value, json};
use std::sync::LazyLock;

/// `true`: the server keeps the object's spec as it suggests it.
pub const AUTOUPDATE: &str = "apf.kubernetes.io/autoupdate-spec";
pub const EXEMPT: &str = "exempt";
pub const CATCH_ALL: &str = "catch-all";

#[derive(Clone, Debug)]
pub struct DefaultObject {
    pub kind: &'static Kind,
    pub name: &'static str,
    pub spec: Value,
}

impl DefaultObject {
    /// Mandatory objects cannot be changed, and classification uses them even when they are not there.
    pub fn mandatory(&self) -> bool {
        is_mandatory(self.name)
    }

    /// Without apiVersion and kind.
    pub fn object(&self) -> Value {
        json!({"metadata": {"name": self.name, "annotations": {AUTOUPDATE: "true"}}, "spec": self.spec})
    }
}

pub fn is_mandatory(name: &str) -> bool {
    [EXEMPT, CATCH_ALL].contains(&name)
}

/// The spec that a mandatory object must have.
pub fn mandatory(kind: &Kind, name: &str) -> Option<&'static Value> {
    all().iter().find(|one| one.mandatory() && one.kind == kind && one.name == name).map(|one| &one.spec)
}

/// Whether two specs say the same: to say null or `false` is to say nothing.
pub fn same(a: &Value, b: &Value) -> bool {
    let nothing = |value: &Value| value.is_null() || *value == false;
    match (a, b) {
        (Value::Object(a), Value::Object(b)) => {
            let same_at = |key: &String| same(a.get(key).unwrap_or(&Value::Null), b.get(key).unwrap_or(&Value::Null));
            a.keys().chain(b.keys()).all(same_at)
        }
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        _ => a == b || (nothing(a) && nothing(b)),
    }
}

/// All of them, levels before the schemas that name them.
pub fn all() -> &'static [DefaultObject] {
    static ALL: LazyLock<Vec<DefaultObject>> = LazyLock::new(|| {
        let levels = levels().into_iter().map(|(name, spec)| (&PRIORITY_LEVEL_CONFIGURATION, name, spec));
        let schemas = schemas().into_iter().map(|(name, spec)| (&FLOW_SCHEMA, name, spec));
        levels.chain(schemas).map(|(kind, name, spec)| DefaultObject { kind, name, spec }).collect()
    });
    &ALL
}

fn levels() -> Vec<(&'static str, Value)> {
    let limited = |shares: u32, lendable: u32, response: Value| {
        let limited =
            json!({"nominalConcurrencyShares": shares, "lendablePercent": lendable, "limitResponse": response});
        json!({"type": "Limited", "limited": limited})
    };
    let queued = |shares: u32, lendable: u32, queues: u32, hand: u32| {
        let queuing = json!({"queues": queues, "handSize": hand, "queueLengthLimit": 50});
        limited(shares, lendable, json!({"type": "Queue", "queuing": queuing}))
    };
    vec![
        (EXEMPT, json!({"type": "Exempt", "exempt": {"nominalConcurrencyShares": 0, "lendablePercent": 0}})),
        (CATCH_ALL, limited(5, 0, json!({"type": "Reject"}))),
        ("system", queued(30, 33, 64, 6)),
        ("node-high", queued(40, 25, 64, 6)),
        ("leader-election", queued(10, 0, 16, 4)),
        ("workload-high", queued(40, 50, 128, 6)),
        ("workload-low", queued(100, 90, 128, 6)),
        ("global-default", queued(20, 50, 128, 6)),
    ]
}

fn user(name: &str) -> Value {
    json!({"kind": "User", "user": {"name": name}})
}

fn group(name: &str) -> Value {
    json!({"kind": "Group", "group": {"name": name}})
}

fn system_account(name: &str) -> Value {
    json!({"kind": "ServiceAccount", "serviceAccount": {"namespace": "kube-system", "name": name}})
}

fn everybody() -> Vec<Value> {
    vec![group("system:unauthenticated"), group("system:authenticated")]
}

/// Of every namespace; `cluster`: and of none.
fn resources(verbs: &[&str], api_group: &str, resources: &[&str], cluster: bool) -> Value {
    let mut rule = json!({"verbs": verbs, "apiGroups": [api_group], "resources": resources, "namespaces": ["*"]});
    if cluster {
        rule["clusterScope"] = true.into();
    }
    rule
}

fn everything(subjects: &[Value]) -> Value {
    json!({
        "subjects": subjects,
        "resourceRules": [resources(&["*"], "*", &["*"], true)],
        "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
    })
}

fn some(subjects: &[Value], rules: &[Value]) -> Value {
    json!({"subjects": subjects, "resourceRules": rules})
}

fn schemas() -> Vec<(&'static str, Value)> {
    const WRITES: &[&str] = &["get", "create", "update"];
    let spec = |precedence: u32, level: &str, distinguisher: &str, rule: Value| {
        let mut spec = json!({
            "matchingPrecedence": precedence, "priorityLevelConfiguration": {"name": level}, "rules": [rule],
        });
        if !distinguisher.is_empty() {
            spec["distinguisherMethod"] = json!({"type": distinguisher});
        }
        spec
    };
    let leases = |cluster_verbs: &[&str]| resources(cluster_verbs, "coordination.k8s.io", &["leases"], false);
    let (controllers, scheduler) = (user("system:kube-controller-manager"), user("system:kube-scheduler"));
    let nodes = [group("system:nodes")];
    let probes = json!({
        "subjects": everybody(),
        "nonResourceRules": [{"verbs": ["get"], "nonResourceURLs": ["/healthz", "/readyz", "/livez"]}],
    });
    let electors = [controllers.clone(), scheduler.clone(), system_account("*")];
    let endpoints = [
        controllers.clone(),
        system_account("endpoint-controller"),
        system_account("endpointslicemirroring-controller"),
    ];
    let node_rules = [resources(&["*"], "", &["nodes", "nodes/status"], true), leases(&["*"])];
    let elected = [resources(WRITES, "", &["endpoints", "configmaps"], false), leases(WRITES)];
    // A pod's state must come through while thousands of agents list their pods anew.
    let pod_status = [resources(&["patch", "update"], "", &["pods/status"], false)];
    vec![
        (EXEMPT, spec(1, EXEMPT, "", everything(&[group("system:masters")]))),
        ("probes", spec(2, EXEMPT, "", probes)),
        ("system-leader-election", spec(100, "leader-election", "ByUser", some(&electors, &[leases(WRITES)]))),
        (
            "endpoint-controller",
            spec(150, "workload-high", "ByUser", some(&endpoints, &[resources(WRITES, "", &["endpoints"], false)])),
        ),
        ("workload-leader-election", spec(200, "leader-election", "ByUser", some(&[system_account("*")], &elected))),
        ("system-node-high", spec(400, "node-high", "ByUser", some(&nodes, &node_rules))),
        ("gantry-pod-status", spec(450, "node-high", "ByUser", some(&nodes, &pod_status))),
        ("system-nodes", spec(500, "system", "ByUser", everything(&nodes))),
        ("kube-controller-manager", spec(800, "workload-high", "ByNamespace", everything(&[controllers]))),
        ("kube-scheduler", spec(800, "workload-high", "ByNamespace", everything(&[scheduler]))),
        ("kube-system-service-accounts", spec(900, "workload-high", "ByNamespace", everything(&[system_account("*")]))),
        ("service-accounts", spec(9_000, "workload-low", "ByUser", everything(&[group("system:serviceaccounts")]))),
        ("global-default", spec(9_900, "global-default", "ByUser", everything(&everybody()))),
        (CATCH_ALL, spec(10_000, CATCH_ALL, "ByUser", everything(&everybody()))),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::strategy;
    use crate::kinds::testing::{defaulted, errors};

    #[test]
    fn every_default_is_valid_and_has_its_defaults() {
        for one in all() {
            let strategy = strategy(one.kind.group, one.kind.plural);
            assert_eq!(errors(strategy, &one.object(), None), "[]", "{}", one.name);
            assert_eq!(defaulted(strategy, &one.object())["spec"], one.spec, "{}", one.name);
            let level = one.spec["priorityLevelConfiguration"]["name"].as_str();
            assert!(level.is_none_or(|level| levels().iter().any(|(name, _)| *name == level)), "{}", one.name);
        }
    }
}
