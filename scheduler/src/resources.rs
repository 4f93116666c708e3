//! Amounts of what pods ask for and machines have, in whole numbers: CPU in thousandths, everything else in units.
//! Decides arithmetic only.

use std::collections::BTreeMap;

use crate::api::{Amounts, Condition, Container, ContainerStatus, Pod};

/// No pod asks for more than this of anything, and no machine has as much: sums of 65,535 pods cannot overflow.
const MOST: i64 = 1 << 47;

/// A vector of amounts. `pods` is a resource like the others: each pod takes one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Resources {
    pub cpu_m: i64,
    pub memory: i64,
    pub ephemeral: i64,
    pub pods: i64,
    /// Extended resources and huge pages, by name.
    pub others: BTreeMap<String, i64>,
}

impl Resources {
    /// Negative amounts count as nothing, impossible ones as 2^47.
    pub fn read(amounts: &Amounts) -> Self {
        let mut read = Resources::default();
        for (name, amount) in amounts {
            let bounded = |amount: i64| amount.clamp(0, MOST);
            match name.as_str() {
                "cpu" => read.cpu_m = bounded(amount.milli()),
                "memory" => read.memory = bounded(amount.value()),
                "ephemeral-storage" => read.ephemeral = bounded(amount.value()),
                "pods" => read.pods = bounded(amount.value()),
                _ => drop(read.others.insert(name.clone(), bounded(amount.value()))),
            }
        }
        read
    }

    /// What a machine has: always less than what a pod that asks for the impossible wants.
    pub fn of_machine(allocatable: &Amounts) -> Self {
        let mut has = Resources::read(allocatable);
        let amounts = [&mut has.cpu_m, &mut has.memory, &mut has.ephemeral, &mut has.pods];
        for amount in amounts.into_iter().chain(has.others.values_mut()) {
            *amount = (*amount).min(MOST - 1);
        }
        has
    }

    /// What a pod takes: containers together, sidecars with them, init containers one after another; what the pod asks for as a
    /// whole stands in for that; and the overhead. While a container is resized, the larger of what it has and what it asks
    /// for. (Kubernetes: "Resource Management for Pods and Containers", "Sidecar Containers", "Resize CPU and Memory Resources".)
    pub fn of_pod(pod: &Pod) -> Self {
        let (spec, status) = (&pod.spec, &pod.status);
        let refused = |c: &Condition| c.r#type == "PodResizePending" && c.reason == "Infeasible";
        let infeasible = status.conditions.iter().any(refused);
        let requests = |c: &Container, statuses: &[ContainerStatus]| {
            let asked = Resources::read(&c.resources.requests);
            match statuses.iter().find(|s| s.name == c.name) {
                Some(s) if !s.allocated_resources.is_empty() || !s.resources.requests.is_empty() => {
                    let mut held = Resources::read(&s.allocated_resources);
                    held.raise(&Resources::read(&s.resources.requests));
                    if !infeasible {
                        held.raise(&asked);
                    }
                    held
                }
                _ => asked,
            }
        };
        let mut total = Resources::default();
        for container in &spec.containers {
            total.add(&requests(container, &status.container_statuses));
        }
        let (mut sidecars, mut peak) = (Resources::default(), Resources::default());
        for container in &spec.init_containers {
            let is_sidecar = container.restart_policy == "Always";
            // Only what goes on running can be resized.
            let statuses: &[ContainerStatus] = if is_sidecar { &status.init_container_statuses } else { &[] };
            let own = requests(container, statuses);
            let mut while_starting = own.clone();
            while_starting.add(&sidecars);
            peak.raise(&while_starting);
            if is_sidecar {
                sidecars.add(&own);
            }
        }
        total.add(&sidecars);
        total.raise(&peak);
        total.replace(&spec.resources.requests);
        total.add(&Resources::read(&spec.overhead));
        total.pods = 1;
        total
    }

    /// What a pod asks for as a whole counts instead of its containers' sum.
    fn replace(&mut self, whole: &Amounts) {
        let read = Resources::read(whole);
        for name in whole.keys() {
            match name.as_str() {
                "cpu" => self.cpu_m = read.cpu_m,
                "memory" => self.memory = read.memory,
                name if name.starts_with("hugepages-") => {
                    self.others.insert(name.to_owned(), read.others.get(name).copied().unwrap_or(0));
                }
                _ => {}
            }
        }
    }

    pub fn add(&mut self, more: &Resources) {
        self.merge(more, i64::saturating_add);
    }

    pub fn subtract(&mut self, less: &Resources) {
        self.merge(less, i64::saturating_sub);
    }

    fn raise(&mut self, floor: &Resources) {
        self.merge(floor, i64::max);
    }

    fn merge(&mut self, other: &Resources, with: impl Fn(i64, i64) -> i64) {
        self.cpu_m = with(self.cpu_m, other.cpu_m);
        self.memory = with(self.memory, other.memory);
        self.ephemeral = with(self.ephemeral, other.ephemeral);
        self.pods = with(self.pods, other.pods);
        for (name, amount) in &other.others {
            let own = self.others.entry(name.clone()).or_insert(0);
            *own = with(*own, *amount);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn requests(containers: Value, init: Value) -> Resources {
        let spec = json!({"containers": containers, "initContainers": init, "overhead": {"cpu": "10m"}});
        Resources::of_pod(&serde_json::from_value(json!({"spec": spec})).unwrap())
    }

    #[test]
    fn pods_are_counted_as_kubernetes_counts_them() {
        let ask = |cpu: &str| json!({"resources": {"requests": {"cpu": cpu, "memory": "1Ki", "x/gpu": "1"}}});
        let sidecar = |cpu: &str| json!({"resources": {"requests": {"cpu": cpu}}, "restartPolicy": "Always"});
        let check = |containers: Value, init: Value, cpu_m: i64| {
            let total = requests(containers, init);
            assert_eq!((total.cpu_m, total.pods), (cpu_m, 1));
        };
        check(json!([ask("1"), ask("500m")]), json!([]), 1510);
        check(json!([ask("1")]), json!([ask("3")]), 3010);
        check(json!([ask("1")]), json!([sidecar("1"), ask("3")]), 4010);
        check(json!([ask("1")]), json!([ask("1"), sidecar("2")]), 3010);
        let total = requests(json!([ask("1"), ask("1")]), json!(null));
        assert_eq!((total.memory, total.others["x/gpu"]), (2048, 2));
    }

    #[test]
    fn what_a_pod_asks_for_as_a_whole_stands_in_for_its_containers() {
        let spec = json!({"containers": [{"resources": {"requests": {"cpu": "3", "memory": "1Ki", "x/gpu": "1"}}}],
            "resources": {"requests": {"cpu": "2", "memory": "0", "x/gpu": "5"}}, "overhead": {"cpu": "1"}});
        let total = Resources::of_pod(&serde_json::from_value(json!({"spec": spec})).unwrap());
        assert_eq!((total.cpu_m, total.memory, total.others["x/gpu"]), (3_000, 0, 1));
    }

    #[test]
    fn a_resize_takes_the_larger_until_it_is_done() {
        let check = |asked: &str, status: Value, pending: Value, cpu_m: i64| {
            let pod = json!({"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": asked}}}]},
                "status": {"containerStatuses": [status], "conditions": pending}});
            assert_eq!(Resources::of_pod(&serde_json::from_value(pod).unwrap()).cpu_m, cpu_m);
        };
        let status = |has: &str| json!({"name": "c", "allocatedResources": {"cpu": has}});
        let infeasible = json!([{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}]);
        check("2", status("1"), json!([]), 2_000);
        check("1", status("2"), json!([]), 2_000);
        check("9", status("2"), infeasible, 2_000);
        check("9", json!({"name": "other", "allocatedResources": {"cpu": "20"}}), json!([]), 9_000);
    }

    #[test]
    fn impossible_amounts_never_fit_and_never_overflow() {
        let amounts = |text: &str| serde_json::from_value(json!({"memory": text})).unwrap();
        let (asks, has) = (Resources::read(&amounts("9000Pi")), Resources::of_machine(&amounts("9000Pi")));
        assert!(asks.memory > has.memory);
        assert_eq!(Resources::read(&amounts("-5Gi")).memory, 0);
        assert!(asks.memory.checked_mul(65_535).is_some());
    }
}
