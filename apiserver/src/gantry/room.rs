//! What a pod takes and whether a machine has it: cpu, memory, ephemeral storage, extended resources, pod count and host ports.
//!
//! Decides arithmetic only, as Kubernetes counts requests (init containers run one after another, sidecars stay, a resize counts
//! with the larger side until it is done). Batch may also take what the machine lends; all others are reserved within allocatable.

use crate::kinds::batchcapacity::LENT;
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
    /// The name of its priority class, which says its band.
    pub class: Box<str>,
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
        let mut requests = sum(spec, |list, container| requests_now(pod, list, container));
        let own = amounts(&spec["resources"]["requests"]);
        requests.extend(own.into_iter().filter(|(name, _)| is_pods_own(name)));
        add(&mut requests, &amounts(&spec["overhead"]));
        let phase = str_at(pod, "status.phase");
        Self {
            counts: phase != "Succeeded" && phase != "Failed",
            requests,
            class: str_at(spec, "priorityClassName").into(),
            host_ports: host_ports(spec),
        }
    }
}

/// What a pod may say for all of its containers together, instead of their sum.
fn is_pods_own(resource: &str) -> bool {
    resource == "cpu" || resource == "memory" || resource.starts_with("hugepages-")
}

/// What a container requests, or holds while a resize of it is under way. One that cannot be done does not count.
fn requests_now(pod: &Value, list: &str, container: &Value) -> Amounts {
    let wanted = amounts(&container["resources"]["requests"]);
    let statuses = match list {
        "initContainers" if container["restartPolicy"] != json!("Always") => return wanted,
        "initContainers" => "status.initContainerStatuses",
        _ => "status.containerStatuses",
    };
    let status = items(pod, statuses).iter().find(|status| status["name"] == container["name"]);
    let Some(status) = status.filter(|status| status["resources"].is_object()) else { return wanted };
    let mut held = amounts(&status["resources"]["requests"]);
    raise(&mut held, &amounts(&status["allocatedResources"]));
    let infeasible = |condition: &Value| {
        (str_at(condition, "type"), str_at(condition, "reason")) == ("PodResizePending", "Infeasible")
    };
    if !items(pod, "status.conditions").iter().any(infeasible) {
        raise(&mut held, &wanted);
    }
    held
}

/// The `requests` or the `limits` of all containers together.
pub fn of_containers(spec: &Value, which: &str) -> Amounts {
    sum(spec, |_, container| amounts(&container["resources"][which]))
}

/// All containers together, of which each takes so much.
fn sum(spec: &Value, of: impl Fn(&str, &Value) -> Amounts) -> Amounts {
    let mut total = Amounts::new();
    for container in items(spec, "containers") {
        add(&mut total, &of("containers", container));
    }
    let (mut sidecars, mut peak) = (Amounts::new(), Amounts::new());
    for container in items(spec, "initContainers") {
        let own = of("initContainers", container);
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

/// What a machine has.
pub struct Machine<'a> {
    pub allocatable: &'a Value,
    /// What it lends to batch beyond that; null: nothing.
    pub lendable: &'a Value,
    /// Whether pods of a priority class take what is lent: those of the bands `batch` and `best-effort`.
    pub borrows: &'a dyn Fn(&str) -> bool,
}

/// Why the pod does not fit on a machine that runs `others`; `None` when it fits.
pub fn shortfall<'a>(pod: &PodUse, machine: &Machine<'_>, others: impl Iterator<Item = &'a PodUse>) -> Option<String> {
    let (allocatable, lendable) = (amounts(machine.allocatable), amounts(machine.lendable));
    let (mut used, mut reserved) = (Amounts::new(), Amounts::new());
    let mut count: i64 = 0;
    for other in others.filter(|other| other.counts) {
        if let Some(port) = pod.host_ports.iter().find(|port| other.host_ports.iter().any(|o| ports_collide(port, o))) {
            return Some(format!("host port {}/{} is taken", port.2, port.0));
        }
        count += 1;
        add(&mut used, &other.requests);
        if !lendable.is_empty() && !(machine.borrows)(&other.class) {
            add(&mut reserved, &other.requests);
        }
    }
    if allocatable.get("pods").is_some_and(|most| count + 1 > most.value()) {
        return Some(format!("the machine already runs {count} pods"));
    }
    let bounded = !lendable.is_empty() && !(machine.borrows)(&pod.class);
    for (name, wanted) in pod.requests.iter().filter(|(_, wanted)| !wanted.is_zero()) {
        let of = |amounts: &Amounts| amounts.get(name).copied().unwrap_or_default();
        let lent = if LENT.contains(&name.as_str()) { of(&lendable) } else { Quantity::default() };
        let mut free = of(&allocatable) + lent - of(&used);
        if bounded {
            free = free.min(of(&allocatable) - of(&reserved));
        }
        if *wanted > free {
            return Some(format!("{name}: wants {wanted}, {free} free"));
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
    fn what_a_pod_says_for_all_of_it_replaces_the_sum() {
        let spec = json!({"overhead": {"cpu": "100m"}, "resources": {"requests": {"cpu": "3", "example.com/x": "9"}},
            "containers": [{"resources": {"requests": {"cpu": "1", "memory": "1Gi", "example.com/x": "1"}}}]});
        let used = PodUse::of(&json!({"spec": spec})).requests;
        let amount = |text: &str| Quantity::parse(text).unwrap();
        assert_eq!((used["cpu"], used["memory"]), (amount("3100m"), amount("1Gi")));
        assert_eq!(used["example.com/x"], amount("1"), "only cpu, memory and huge pages are said for the pod");
    }

    #[test]
    fn a_resize_counts_with_the_larger_side_until_it_is_done() {
        let check = |list: &str, more: Value, status: Value, conditions: Value, expect: &str| {
            let mut container = json!({"name": "c", "resources": {"requests": {"cpu": "2"}}});
            container.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            let statuses = if list == "containers" { "containerStatuses" } else { "initContainerStatuses" };
            let pod = json!({"spec": {list: [container]}, "status": {statuses: [status], "conditions": conditions}});
            assert_eq!(PodUse::of(&pod).requests["cpu"], Quantity::parse(expect).unwrap(), "{pod}");
        };
        let held = |now: &str, allocated: &str| json!({"name": "c", "resources": {"requests": {"cpu": now}}, "allocatedResources": {"cpu": allocated}});
        let none = || json!([]);
        check("containers", json!({}), held("1", "1"), none(), "2");
        check("containers", json!({}), held("3", "2"), none(), "3");
        check("containers", json!({}), held("1", "4"), none(), "4");
        check("containers", json!({}), json!({"name": "other", "resources": {"requests": {"cpu": "9"}}}), none(), "2");
        check("containers", json!({}), json!({"name": "c", "allocatedResources": {"cpu": "9"}}), none(), "2");
        let infeasible = json!([{"type": "PodResizePending", "reason": "Infeasible"}]);
        check("containers", json!({}), held("1", "1"), infeasible, "1");
        let deferred = json!([{"type": "PodResizePending", "reason": "Deferred"}]);
        check("containers", json!({}), held("1", "1"), deferred, "2");
        check("initContainers", json!({"restartPolicy": "Always"}), held("3", "1"), none(), "3");
        check("initContainers", json!({}), held("3", "1"), none(), "2");
    }

    fn plain<T>(allocatable: &Value, lendable: &Value, with: impl FnOnce(&Machine) -> T) -> T {
        with(&Machine { allocatable, lendable, borrows: &|class| class == "batch" })
    }

    #[test]
    fn batch_takes_what_is_lent_and_the_others_stay_within_allocatable() {
        let of = |(class, cpu): (&str, &str)| {
            PodUse::of(&json!({"spec": {"priorityClassName": class, "containers": [
                {"resources": {"requests": {"cpu": cpu, "example.com/x": "1"}}}]}}))
        };
        let check = |new: (&str, &str), others: &[(&str, &str)], expect: Option<&str>| {
            let others: Vec<PodUse> = others.iter().map(|other| of(*other)).collect();
            let have = json!({"cpu": "4", "example.com/x": "3"});
            let lendable = json!({"cpu": "2", "example.com/x": "9"});
            let why = plain(&have, &lendable, |machine| shortfall(&of(new), machine, others.iter()));
            assert_eq!(why.as_deref(), expect, "{new:?}");
        };
        check(("batch", "6"), &[], None);
        check(("batch", "6001m"), &[], Some("cpu: wants 6001m, 6 free"));
        check(("", "4"), &[], None);
        check(("", "4001m"), &[], Some("cpu: wants 4001m, 4 free"));
        check(("production", "1"), &[("", "3"), ("batch", "2")], None);
        check(("production", "1500m"), &[("", "3"), ("batch", "1")], Some("cpu: wants 1500m, 1 free"));
        check(("production", "1"), &[("", "1"), ("batch", "5")], Some("cpu: wants 1, 0 free"));
        check(("batch", "1"), &[("", "4"), ("batch", "1")], None);
        check(("batch", "0"), &[("", "0"), ("batch", "0"), ("batch", "0")], Some("example.com/x: wants 1, 0 free"));
    }

    #[test]
    fn a_pod_fits_exactly_and_not_more() {
        let check = |cpu: &str, others: &[&str], expect: Option<&str>| {
            let others: Vec<PodUse> = others.iter().map(|cpu| PodUse::of(&pod(cpu))).collect();
            let machine = plain(&json!({"cpu": "2", "pods": "3"}), &Value::Null, |machine| {
                shortfall(&PodUse::of(&pod(cpu)), machine, others.iter())
            });
            assert_eq!(machine.as_deref(), expect, "{cpu}");
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
            let why = plain(&json!({}), &Value::Null, |machine| shortfall(&a, machine, std::iter::once(&b)));
            assert_eq!(why.is_some(), collide);
        };
        check(with("", "TCP"), with("10.0.0.1", "TCP"), true);
        check(with("10.0.0.1", "TCP"), with("10.0.0.1", "TCP"), true);
        check(with("10.0.0.1", "TCP"), with("10.0.0.2", "TCP"), false);
        check(with("", "UDP"), with("", "TCP"), false);
    }
}
