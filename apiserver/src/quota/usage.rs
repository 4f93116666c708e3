//! What an object takes of a quota, which quotas it belongs to, and what a namespace takes. Pure arithmetic, by Kubernetes' rules.

use crate::gantry::room::{Amounts, add, amounts, of_containers};
use crate::kinds::pod::quality;
use crate::kinds::value::{at, items, str_at};
use gantry_apimachinery::kinds::{Kind, PERSISTENT_VOLUME_CLAIM, POD, SERVICE};
use gantry_apimachinery::quantity::Quantity;
use serde_json::Value;

/// Kinds that are also counted by their plain name.
const PLAIN: [&str; 7] = [
    "configmaps",
    "persistentvolumeclaims",
    "replicationcontrollers",
    "resourceclaims",
    "resourcequotas",
    "secrets",
    "services",
];
/// What every container must say once a quota measures it.
const MUST_SAY: [&str; 6] = ["cpu", "limits.cpu", "limits.memory", "memory", "requests.cpu", "requests.memory"];

fn one(total: &mut Amounts, name: impl Into<String>, amount: Quantity) {
    add(total, &[(name.into(), amount)].into_iter().collect());
}

/// What one object takes, under every name that a quota may use.
pub fn of(kind: &Kind, object: &Value) -> Amounts {
    let mut used = Amounts::new();
    one(&mut used, format!("count/{}", kind.resource()), Quantity::from_value(1));
    if kind == &POD {
        if !matches!(str_at(object, "status.phase"), "Succeeded" | "Failed") {
            of_pod(&object["spec"], &mut used);
        }
        return used;
    }
    if PLAIN.contains(&kind.plural) && (kind.group.is_empty() || kind.plural == "resourceclaims") {
        one(&mut used, kind.plural, Quantity::from_value(1));
    }
    if kind == &SERVICE {
        let kind = str_at(object, "spec.type");
        let ports = items(object, "spec.ports").len();
        let ports = Quantity::from_value(i64::try_from(ports).unwrap_or(i64::MAX));
        let allocates = object["spec"]["allocateLoadBalancerNodePorts"] != false;
        if kind == "LoadBalancer" {
            one(&mut used, "services.loadbalancers", Quantity::from_value(1));
        }
        if kind == "NodePort" || (kind == "LoadBalancer" && allocates) {
            one(&mut used, "services.nodeports", ports);
        }
    }
    if kind == &PERSISTENT_VOLUME_CLAIM {
        let class = str_at(object, "spec.storageClassName");
        if !class.is_empty() {
            one(
                &mut used,
                format!("{class}.storageclass.storage.k8s.io/persistentvolumeclaims"),
                Quantity::from_value(1),
            );
        }
        if let Some(storage) = amounts(&object["spec"]["resources"]["requests"]).get("storage") {
            one(&mut used, "requests.storage", *storage);
            if !class.is_empty() {
                one(&mut used, format!("{class}.storageclass.storage.k8s.io/requests.storage"), *storage);
            }
        }
    }
    used
}

fn of_pod(spec: &Value, used: &mut Amounts) {
    one(used, "pods", Quantity::from_value(1));
    let mut requests = of_containers(spec, "requests");
    add(&mut requests, &amounts(&spec["overhead"]));
    for (name, amount) in requests {
        if ["cpu", "memory", "ephemeral-storage"].contains(&name.as_str()) || name.starts_with("hugepages-") {
            one(used, name.clone(), amount);
        }
        one(used, format!("requests.{name}"), amount);
    }
    for (name, amount) in of_containers(spec, "limits") {
        one(used, format!("limits.{name}"), amount);
    }
}

/// Which containers do not say what the quota measures: `limits.cpu for: a,b; memory for: a`.
pub fn unsaid(kind: &Kind, object: &Value, hard: &Amounts) -> Option<String> {
    if kind != &POD {
        return None;
    }
    let spec = &object["spec"];
    let containers = || items(spec, "initContainers").iter().chain(items(spec, "containers"));
    let parts: Vec<String> = MUST_SAY
        .iter()
        .filter(|name| hard.contains_key(**name))
        .filter_map(|name| {
            let (which, resource) = name.split_once('.').unwrap_or(("requests", name));
            let lacks = |container: &&Value| container["resources"][which].get(resource).is_none();
            let mut missing: Vec<&str> =
                containers().filter(lacks).map(|container| str_at(container, "name")).collect();
            missing.sort_unstable();
            (!missing.is_empty()).then(|| format!("{name} for: {}", missing.join(",")))
        })
        .collect();
    (!parts.is_empty()).then(|| parts.join("; "))
}

/// Whether a quota's scopes include the object.
pub fn in_scope(quota: &Value, kind: &Kind, object: &Value) -> bool {
    let plain = items(quota, "spec.scopes").iter().filter_map(Value::as_str).map(|scope| (scope, "Exists", &[][..]));
    let chosen = items(quota, "spec.scopeSelector.matchExpressions").iter();
    let chosen = chosen.map(|one| (str_at(one, "scopeName"), str_at(one, "operator"), items(one, "values")));
    let mut all = plain.chain(chosen).peekable();
    all.peek().is_none()
        || (kind == &POD && all.all(|(scope, operator, values)| matches(object, scope, operator, values)))
}

fn matches(pod: &Value, scope: &str, operator: &str, values: &[Value]) -> bool {
    let terminating = at(pod, "spec.activeDeadlineSeconds").and_then(Value::as_i64).is_some_and(|seconds| seconds >= 0);
    let best_effort = || quality::of(&pod["spec"]) == "BestEffort";
    match scope {
        "Terminating" => terminating,
        "NotTerminating" => !terminating,
        "BestEffort" => best_effort(),
        "NotBestEffort" => !best_effort(),
        "CrossNamespacePodAffinity" => crosses_namespaces(pod),
        "PriorityClass" => {
            let class = str_at(pod, "spec.priorityClassName");
            let named = || values.iter().any(|value| value == class);
            match operator {
                "In" => !class.is_empty() && named(),
                "NotIn" => !named(),
                "DoesNotExist" => class.is_empty(),
                _ => !class.is_empty(),
            }
        }
        _ => false,
    }
}

fn crosses_namespaces(pod: &Value) -> bool {
    let crosses = |term: &Value| !items(term, "namespaces").is_empty() || term["namespaceSelector"].is_object();
    ["podAffinity", "podAntiAffinity"].iter().any(|which| {
        let affinity = &pod["spec"]["affinity"][*which];
        let wished = items(affinity, "preferredDuringSchedulingIgnoredDuringExecution").iter();
        items(affinity, "requiredDuringSchedulingIgnoredDuringExecution").iter().any(crosses)
            || wished.map(|term| &term["podAffinityTerm"]).any(crosses)
    })
}

/// The part of `used` that a quota measures.
pub fn measured(used: &Amounts, hard: &Amounts) -> Amounts {
    used.iter().filter(|(name, _)| hard.contains_key(*name)).map(|(name, amount)| (name.clone(), *amount)).collect()
}

/// `cpu=1,pods=2`, as refusals list amounts.
pub fn listed(amounts: &Amounts, names: &[&String]) -> String {
    let shown = names.iter().map(|name| format!("{name}={}", amounts.get(*name).copied().unwrap_or(Quantity::ZERO)));
    shown.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use gantry_apimachinery::kinds::CONFIG_MAP;
    use serde_json::json;

    fn shown(used: &Amounts) -> String {
        listed(used, &used.keys().collect::<Vec<_>>())
    }

    #[test]
    fn an_object_takes_what_its_kind_says() {
        let check = |kind: &Kind, object: Value, expect: &str| assert_eq!(shown(&of(kind, &object)), expect);
        check(&CONFIG_MAP, json!({}), "configmaps=1,count/configmaps=1");
        let pod = json!({"spec": {"containers": [{"resources": {"requests": {"cpu": "1", "x.com/gpu": "2"}, "limits": {"memory": "1Gi"}}}]}});
        check(&POD, pod.clone(), "count/pods=1,cpu=1,limits.memory=1Gi,pods=1,requests.cpu=1,requests.x.com/gpu=2");
        let mut done = pod;
        done["status"] = json!({"phase": "Succeeded"});
        check(&POD, done, "count/pods=1");
        check(
            &SERVICE,
            json!({"spec": {"type": "NodePort", "ports": [{}, {}]}}),
            "count/services=1,services=1,services.nodeports=2",
        );
        let claim = json!({"spec": {"storageClassName": "fast", "resources": {"requests": {"storage": "5Gi"}}}});
        check(
            &PERSISTENT_VOLUME_CLAIM,
            claim,
            "count/persistentvolumeclaims=1,fast.storageclass.storage.k8s.io/persistentvolumeclaims=1,fast.storageclass.storage.k8s.io/requests.storage=5Gi,persistentvolumeclaims=1,requests.storage=5Gi",
        );
    }

    #[test]
    fn scopes_choose_pods() {
        let quota = |scopes: Value| json!({"spec": {"scopes": scopes}});
        let plain = json!({"spec": {"containers": [{}]}});
        assert!(in_scope(&quota(json!(["BestEffort", "NotTerminating"])), &POD, &plain));
        assert!(!in_scope(&quota(json!(["Terminating"])), &POD, &plain));
        assert!(!in_scope(&quota(json!(["BestEffort"])), &CONFIG_MAP, &json!({})));
        let by_class = json!({"spec": {"scopeSelector": {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}]}}});
        assert!(in_scope(&by_class, &POD, &json!({"spec": {"priorityClassName": "high"}})));
        assert!(!in_scope(&by_class, &POD, &plain));
    }

    #[test]
    fn what_is_measured_must_be_said() {
        let hard = amounts(&json!({"limits.cpu": "1", "memory": "1Gi", "pods": "3"}));
        let pod =
            json!({"spec": {"containers": [{"name": "a", "resources": {"limits": {"cpu": "1"}}}, {"name": "b"}]}});
        assert_eq!(unsaid(&POD, &pod, &hard).unwrap(), "limits.cpu for: b; memory for: a,b");
    }
}
