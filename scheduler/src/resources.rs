//! Amounts of what pods ask for and machines have, in whole numbers: CPU in thousandths, everything else in units.
//! Decides arithmetic only.

use std::collections::BTreeMap;

use crate::api::{Amounts, Container, PodSpec};

/// A vector of amounts. `pods` is a resource like the others: each pod takes one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resources {
    pub cpu_m: i64,
    pub memory: i64,
    pub ephemeral: i64,
    pub pods: i64,
    /// Extended resources and huge pages, by name.
    pub others: BTreeMap<String, i64>,
}

impl Resources {
    pub fn read(amounts: &Amounts) -> Self {
        let mut read = Resources::default();
        for (name, amount) in amounts {
            match name.as_str() {
                "cpu" => read.cpu_m = amount.milli(),
                "memory" => read.memory = amount.value(),
                "ephemeral-storage" => read.ephemeral = amount.value(),
                "pods" => read.pods = amount.value(),
                _ => drop(read.others.insert(name.clone(), amount.value())),
            }
        }
        read
    }

    /// What a pod takes: containers together, sidecars with them, init containers one after another, and the overhead.
    pub fn of_pod(spec: &PodSpec) -> Self {
        let requests = |c: &Container| Resources::read(&c.resources.requests);
        let mut total = Resources::default();
        for container in &spec.containers {
            total.add(&requests(container));
        }
        let (mut sidecars, mut peak) = (Resources::default(), Resources::default());
        for container in &spec.init_containers {
            let own = requests(container);
            let mut while_starting = own.clone();
            while_starting.add(&sidecars);
            peak.raise(&while_starting);
            if container.restart_policy == "Always" {
                sidecars.add(&own);
            }
        }
        total.add(&sidecars);
        total.raise(&peak);
        total.add(&Resources::read(&spec.overhead));
        total.pods = 1;
        total
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

    fn other(&self, name: &str) -> i64 {
        self.others.get(name).copied().unwrap_or(0)
    }

    /// What is asked for here and not free on a machine with `allocatable` of which `used` is taken.
    pub fn short_of(&self, allocatable: &Resources, used: &Resources) -> Vec<Shortfall> {
        let basic = [
            ("cpu", self.cpu_m, allocatable.cpu_m - used.cpu_m),
            ("memory", self.memory, allocatable.memory - used.memory),
            ("ephemeral-storage", self.ephemeral, allocatable.ephemeral - used.ephemeral),
            ("pods", self.pods, allocatable.pods - used.pods),
        ];
        let others =
            self.others.iter().map(|(name, wants)| (name.as_str(), *wants, allocatable.other(name) - used.other(name)));
        let short = basic.into_iter().chain(others).filter(|(_, wants, free)| *wants > 0 && wants > free);
        short
            .map(|(resource, wants, free)| Shortfall { resource: resource.to_owned(), wants, free: free.max(0) })
            .collect()
    }
}

/// One resource that a machine has too little of. CPU in thousandths.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Shortfall {
    pub resource: String,
    pub wants: i64,
    pub free: i64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn requests(containers: Value, init: Value) -> Resources {
        let spec = json!({"containers": containers, "initContainers": init, "overhead": {"cpu": "10m"}});
        Resources::of_pod(&serde_json::from_value(spec).unwrap())
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
    fn only_what_is_asked_for_can_be_short() {
        let has = Resources { cpu_m: 2000, pods: 2, ..Resources::default() };
        let used = Resources { cpu_m: 600, pods: 1, memory: 5, ..Resources::default() };
        let check = |ask: Resources, expect: &[(&str, i64, i64)]| {
            let short: Vec<_> = ask.short_of(&has, &used).into_iter().map(|s| (s.resource, s.wants, s.free)).collect();
            let expect: Vec<_> = expect.iter().map(|(r, w, f)| ((*r).to_owned(), *w, *f)).collect();
            assert_eq!(short, expect);
        };
        let one = Resources { pods: 1, ..Resources::default() };
        check(Resources { cpu_m: 1400, ..one.clone() }, &[]);
        check(Resources { cpu_m: 1401, ..one.clone() }, &[("cpu", 1401, 1400)]);
        check(Resources { memory: 1, ..one.clone() }, &[("memory", 1, 0)]);
        check(Resources { pods: 2, ..one.clone() }, &[("pods", 2, 1)]);
        check(Resources { others: BTreeMap::from([("x/gpu".into(), 1)]), ..one }, &[("x/gpu", 1, 0)]);
    }
}
