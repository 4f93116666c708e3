//! What a pod takes and whether a machine has it: cpu, memory, ephemeral storage, extended resources, pod count and host ports.
//!
//! Decides arithmetic only, as Kubernetes counts requests (init containers run one after another, sidecars stay).

use crate::kinds::value::{bool_at, items, str_at};
use gantry_apimachinery::quantity::Quantity;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

pub type Amounts = BTreeMap<String, Quantity>;

/// A pod's claim on a machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodUse {
    /// False once the pod has ended: its room is free.
    pub counts: bool,
    pub requests: Amounts,
    /// Protocol, host address, port.
    pub host_ports: BTreeSet<(String, String, u64)>,
}

pub fn amounts(value: &Value) -> Amounts {
    let parse = |v: &Value| match v {
        Value::String(text) => Quantity::parse(text).ok(),
        Value::Number(number) => Quantity::parse(&number.to_string()).ok(),
        _ => None,
    };
    value.as_object().into_iter().flatten().filter_map(|(k, v)| Some((k.clone(), parse(v)?))).collect()
}

pub fn add(total: &mut Amounts, more: &Amounts) {
    for (name, amount) in more {
        match total.get_mut(name) {
            Some(sum) => *sum += *amount,
            None => {
                total.insert(name.clone(), *amount);
            }
        }
    }
}

fn raise(total: &mut Amounts, floor: &Amounts) {
    for (name, amount) in floor {
        match total.get_mut(name) {
            Some(sum) => *sum = (*sum).max(*amount),
            None => {
                total.insert(name.clone(), *amount);
            }
        }
    }
}

impl PodUse {
    pub fn of(pod: &Value) -> Self {
        let spec = &pod["spec"];
        let mut requests = of_containers(spec, "requests");
        add(&mut requests, &amounts(&spec["overhead"]));
        let phase = str_at(pod, "status.phase");
        Self { counts: phase != "Succeeded" && phase != "Failed", requests, host_ports: host_ports(spec) }
    }
}

/// The `requests` or the `limits` of all containers together.
pub fn of_containers(spec: &Value, which: &str) -> Amounts {
    let mut total = Amounts::new();
    for container in items(spec, "containers") {
        add(&mut total, &amounts(&container["resources"][which]));
    }
    let (mut sidecars, mut peak) = (Amounts::new(), Amounts::new());
    for container in items(spec, "initContainers") {
        let own = amounts(&container["resources"][which]);
        let mut while_starting = own.clone();
        add(&mut while_starting, &sidecars);
        raise(&mut peak, &while_starting);
        if container["restartPolicy"] == json!("Always") {
            add(&mut sidecars, &own);
        }
    }
    add(&mut total, &sidecars);
    raise(&mut total, &peak);
    total
}

fn host_ports(spec: &Value) -> BTreeSet<(String, String, u64)> {
    let on_host = bool_at(spec, "hostNetwork");
    let containers = items(spec, "containers").iter().chain(items(spec, "initContainers"));
    let ports = containers.flat_map(|container| items(container, "ports"));
    ports
        .filter_map(|port| {
            let number =
                port["hostPort"].as_u64().or_else(|| on_host.then(|| port["containerPort"].as_u64()).flatten())?;
            let or = |field: &str, other: &str| match str_at(port, field) {
                "" => other.to_owned(),
                text => text.to_owned(),
            };
            (number > 0).then(|| (or("protocol", "TCP"), or("hostIP", "0.0.0.0"), number))
        })
        .collect()
}

fn ports_collide(a: &(String, String, u64), b: &(String, String, u64)) -> bool {
    let any = |ip: &str| ip == "0.0.0.0" || ip == "::";
    a.0 == b.0 && a.2 == b.2 && (a.1 == b.1 || any(&a.1) || any(&b.1))
}

/// Why the pod does not fit on a machine that has `allocatable` and runs `others`; `None` when it fits.
pub fn shortfall<'a>(pod: &PodUse, allocatable: &Value, others: impl Iterator<Item = &'a PodUse>) -> Option<String> {
    let allocatable = amounts(allocatable);
    let mut used = Amounts::new();
    let mut count: i64 = 0;
    for other in others.filter(|other| other.counts) {
        if let Some(port) = pod.host_ports.iter().find(|port| other.host_ports.iter().any(|o| ports_collide(port, o))) {
            return Some(format!("host port {}/{} is taken", port.2, port.0));
        }
        count += 1;
        add(&mut used, &other.requests);
    }
    if allocatable.get("pods").is_some_and(|most| count + 1 > most.value()) {
        return Some(format!("the machine already runs {count} pods"));
    }
    for (name, wanted) in &pod.requests {
        let have = allocatable.get(name).copied().unwrap_or_default();
        let taken = used.get(name).copied().unwrap_or_default();
        if !wanted.is_zero() && taken + *wanted > have {
            return Some(format!("{name}: wants {wanted}, {} free", have - taken));
        }
    }
    None
}

/// Whether any amount of `new` is below that of `old`.
pub fn shrinks(old: &Value, new: &Value) -> bool {
    let new = amounts(new);
    amounts(old).iter().any(|(name, before)| new.get(name).is_none_or(|now| now < before))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(cpu: &str) -> Value {
        json!({"spec": {"containers": [{"resources": {"requests": {"cpu": cpu}}, "ports": []}]}})
    }

    #[test]
    fn init_containers_and_sidecars_count_as_kubernetes_counts_them() {
        let request = |cpu: &str| json!({"resources": {"requests": {"cpu": cpu}}});
        let sidecar = |cpu: &str| json!({"resources": {"requests": {"cpu": cpu}}, "restartPolicy": "Always"});
        let check = |containers: Value, init: Value, expect: &str| {
            let used = PodUse::of(&json!({"spec": {"containers": containers, "initContainers": init}}));
            assert_eq!(used.requests["cpu"], Quantity::parse(expect).unwrap());
        };
        check(json!([request("1"), request("500m")]), json!([]), "1500m");
        check(json!([request("1")]), json!([request("3")]), "3");
        check(json!([request("1")]), json!([sidecar("1"), request("3")]), "4");
        check(json!([request("1")]), json!([request("1"), sidecar("2")]), "3");
    }

    #[test]
    fn a_pod_fits_exactly_and_not_more() {
        let check = |cpu: &str, others: &[&str], expect: Option<&str>| {
            let others: Vec<PodUse> = others.iter().map(|cpu| PodUse::of(&pod(cpu))).collect();
            let allocatable = json!({"cpu": "2", "pods": "3"});
            assert_eq!(shortfall(&PodUse::of(&pod(cpu)), &allocatable, others.iter()).as_deref(), expect, "{cpu}");
        };
        check("2", &[], None);
        check("1", &["1"], None);
        check("1001m", &["1"], Some("cpu: wants 1001m, 1 free"));
        check("0", &["0", "0"], None);
        check("0", &["0", "0", "0"], Some("the machine already runs 3 pods"));
    }

    #[test]
    fn host_ports_collide_by_protocol_and_address() {
        let with = |ip: &str, protocol: &str| {
            let port = json!({"hostPort": 80, "containerPort": 8080, "hostIP": ip, "protocol": protocol});
            PodUse::of(&json!({"spec": {"containers": [{"ports": [port]}]}}))
        };
        let check = |a: PodUse, b: PodUse, collide: bool| {
            assert_eq!(shortfall(&a, &json!({}), std::iter::once(&b)).is_some(), collide);
        };
        check(with("", "TCP"), with("10.0.0.1", "TCP"), true);
        check(with("10.0.0.1", "TCP"), with("10.0.0.1", "TCP"), true);
        check(with("10.0.0.1", "TCP"), with("10.0.0.2", "TCP"), false);
        check(with("", "UDP"), with("", "TCP"), false);
    }
}
