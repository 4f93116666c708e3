//! Requests and limits as the kernel takes them: shares, quota, bytes. Pure.

use gantry_apimachinery::quantity::Quantity;

use super::qos;
use crate::api::{Container, PodSpec};
use crate::runtime::v1;

const PERIOD_US: i64 = 100_000;
const MIN_SHARES: i64 = 2;
const MIN_QUOTA_US: i64 = 1_000;

/// What a whole pod is given. `None` is unlimited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    pub cpu_shares: Option<i64>,
    pub cpu_quota_us: Option<i64>,
    pub memory_bytes: Option<i64>,
}

impl Limits {
    pub const PERIOD_US: i64 = PERIOD_US;
    /// cgroup v2's weight, 1 … 10000, for v1's shares, 2 … 262144.
    pub fn cpu_weight(shares: i64) -> i64 {
        1 + (shares.clamp(2, 262_144) - 2) * 9_999 / 262_142
    }
}

fn shares(milli: i64) -> i64 {
    (milli * 1024 / 1000).clamp(MIN_SHARES, 262_144)
}

fn quota(milli: i64) -> i64 {
    (milli * PERIOD_US / 1000).max(MIN_QUOTA_US)
}

/// A request that was not given is its limit.
fn request(c: &Container, name: &str) -> Option<Quantity> {
    c.resources.requests.get(name).or_else(|| c.resources.limits.get(name)).copied()
}

/// What the pod needs at once: the sum of its lasting containers, or the largest init container on top of the sidecars
/// started before it, whichever is more. `None` when some container has no such value and all are needed.
fn pod_total(spec: &PodSpec, of: impl Fn(&Container) -> Option<i64>, all: bool) -> Option<i64> {
    let (mut lasting, mut peak) = (0, 0);
    for c in &spec.init_containers {
        let value = of(c);
        if value.is_none() && all {
            return None;
        }
        let value = value.unwrap_or(0);
        if c.is_sidecar() {
            lasting += value;
            peak = peak.max(lasting);
        } else {
            peak = peak.max(lasting + value);
        }
    }
    for c in &spec.containers {
        let value = of(c);
        if value.is_none() && all {
            return None;
        }
        lasting += value.unwrap_or(0);
    }
    Some(lasting.max(peak))
}

fn overhead<'a>(spec: &'a PodSpec, name: &str) -> Option<&'a Quantity> {
    spec.overhead.get(name)
}

fn cpu_request_milli(spec: &PodSpec) -> i64 {
    let containers = pod_total(spec, |c| request(c, "cpu").map(|q| q.milli()), false).unwrap_or(0);
    containers + overhead(spec, "cpu").map_or(0, Quantity::milli)
}

/// What a class weighs with these pods on the machine: the burstable one what its pods request together, best effort as
/// little as can be (Kubernetes' `QOSContainerManager`). The kernel's default would make the two equal.
pub fn class_shares<'a>(class: qos::Class, pods: impl Iterator<Item = &'a PodSpec>) -> i64 {
    match class {
        qos::Class::BestEffort => MIN_SHARES,
        _ => shares(pods.filter(|spec| qos::class(spec) == class).map(cpu_request_milli).sum()),
    }
}

/// Limits of the pod's own cgroup: the containers' limits only when each has one.
pub fn pod_limits(spec: &PodSpec) -> Limits {
    let limit = |c: &Container, name: &str| c.resources.limits.get(name).copied().filter(|q| !q.is_zero());
    let cpu_limit = pod_total(spec, |c| limit(c, "cpu").map(|q| q.milli()), true);
    let memory = pod_total(spec, |c| limit(c, "memory").map(|q| q.value()), true);
    let best_effort = qos::class(spec) == qos::Class::BestEffort;
    Limits {
        cpu_shares: Some(if best_effort { MIN_SHARES } else { shares(cpu_request_milli(spec)) }),
        cpu_quota_us: cpu_limit.map(|milli| quota(milli + overhead(spec, "cpu").map_or(0, Quantity::milli))),
        memory_bytes: memory.map(|bytes| bytes + overhead(spec, "memory").map_or(0, Quantity::value)),
    }
}

/// One container's resources in the runtime's words.
pub fn container_resources(spec: &PodSpec, c: &Container, memory_capacity: i64) -> v1::LinuxContainerResources {
    let limit = |name: &str| c.resources.limits.get(name).filter(|q| !q.is_zero());
    v1::LinuxContainerResources {
        cpu_period: PERIOD_US,
        cpu_quota: limit("cpu").map_or(0, |q| quota(q.milli())),
        cpu_shares: request(c, "cpu").map_or(MIN_SHARES, |q| shares(q.milli())),
        memory_limit_in_bytes: limit("memory").map_or(0, Quantity::value),
        oom_score_adj: qos::oom_score_adj(spec, c, memory_capacity),
        ..Default::default()
    }
}
