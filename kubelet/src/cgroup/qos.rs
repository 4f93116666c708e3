//! A pod's quality-of-service class and what follows from it. Pure; the rules are Kubernetes'.

use std::collections::BTreeMap;

use gantry_apimachinery::quantity::Quantity;

use crate::api::{Container, PodSpec};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    Guaranteed,
    Burstable,
    BestEffort,
}

fn positive<'a>(list: &'a BTreeMap<String, Quantity>, name: &str) -> Option<&'a Quantity> {
    list.get(name).filter(|q| !q.is_zero())
}

/// `Guaranteed` when every container's cpu and memory limits are set and equal its requests; `BestEffort` when no
/// container asks for either; else `Burstable`.
pub fn class(spec: &PodSpec) -> Class {
    let mut any = false;
    let mut guaranteed = true;
    for c in spec.init_containers.iter().chain(&spec.containers) {
        for name in ["cpu", "memory"] {
            let (request, limit) = (positive(&c.resources.requests, name), positive(&c.resources.limits, name));
            any |= request.is_some() || limit.is_some();
            guaranteed &= limit.is_some() && (request.is_none() || request == limit);
        }
    }
    match (any, guaranteed) {
        (false, _) => Class::BestEffort,
        (true, true) => Class::Guaranteed,
        (true, false) => Class::Burstable,
    }
}

/// How readily the kernel kills a container's processes when the machine runs out of memory: −997 … 1000.
pub fn oom_score_adj(spec: &PodSpec, container: &Container, memory_capacity: i64) -> i64 {
    if spec.priority.is_some_and(|p| p >= 2_000_000_000) {
        return -997;
    }
    match class(spec) {
        Class::Guaranteed => -997,
        Class::BestEffort => 1000,
        Class::Burstable => {
            let request = container.resources.requests.get("memory").map_or(0, Quantity::value);
            let share = i128::from(request) * 1000 / i128::from(memory_capacity.max(1));
            i64::try_from(1000 - share).unwrap_or(3).clamp(3, 999)
        }
    }
}
