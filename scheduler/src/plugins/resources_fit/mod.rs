//! Room: requests against what is allocatable and not yet taken; and how full a machine should be, by band.

use super::{Filter, Reason, Scale, Scorer};
use crate::pod::PodInfo;
use crate::snapshot::{Machine, Snapshot};

/// A pod that asks for nothing still uses something; scores assume this much, as Kubernetes does.
const UNASKED_CPU_M: i64 = 100;
const UNASKED_MEMORY: i64 = 200 << 20;

pub fn filter<'a>(snapshot: &'a Snapshot, pod: &'a PodInfo) -> Option<Filter<'a>> {
    Some(Box::new(move |machine| {
        let short = pod.requests.short_of(snapshot.allocatable(machine), snapshot.requested(machine));
        if short.is_empty() { Ok(()) } else { Err(short.into_iter().map(Reason::Short).collect()) }
    }))
}

/// CPU and memory in use once the pod is there, in thousandths of what is allocatable.
fn fill(snapshot: &Snapshot, pod: &PodInfo, machine: Machine) -> [i64; 2] {
    let (has, used) = (snapshot.allocatable(machine), snapshot.requested(machine));
    let part = |used: i64, asked: i64, unasked: i64, has: i64| {
        let total = used + if asked > 0 { asked } else { unasked };
        if has <= 0 { 1000 } else { (i128::from(total) * 1000 / i128::from(has)).clamp(0, 1000) as i64 }
    };
    [
        part(used.cpu_m, pod.requests.cpu_m, UNASKED_CPU_M, has.cpu_m),
        part(used.memory, pod.requests.memory, UNASKED_MEMORY, has.memory),
    ]
}

/// The emptier the better.
pub fn spare<'a>(snapshot: &'a Snapshot, pod: &'a PodInfo) -> Option<Scorer<'a>> {
    let score = move |machine| 100 - fill(snapshot, pod, machine).iter().sum::<i64>() / 20;
    Some(Scorer { score: Box::new(score), scale: Scale::AsIs })
}

/// The fuller the better.
pub fn packed<'a>(snapshot: &'a Snapshot, pod: &'a PodInfo) -> Option<Scorer<'a>> {
    let score = move |machine| fill(snapshot, pod, machine).iter().sum::<i64>() / 20;
    Some(Scorer { score: Box::new(score), scale: Scale::AsIs })
}

/// CPU and memory should run out together.
pub fn balanced<'a>(snapshot: &'a Snapshot, pod: &'a PodInfo) -> Option<Scorer<'a>> {
    let score = move |machine| {
        let [cpu, memory] = fill(snapshot, pod, machine);
        100 - (cpu - memory).abs() / 10
    };
    Some(Scorer { score: Box::new(score), scale: Scale::AsIs })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::plugins::testing::{Cluster, cpu};
    use crate::resources::Shortfall;

    #[test]
    fn exactly_what_is_free_fits() {
        let mut cluster = Cluster::default();
        cluster.machine("m", json!({"status": {"allocatable": {"cpu": "2", "memory": "4Gi", "pods": "10"}}}));
        cluster.bound("other", "m", cpu("600m"));
        let short = |wants, free| Reason::Short(Shortfall { resource: "cpu".into(), wants, free });
        let pod = cluster.pod("p", cpu("1400m"));
        assert_eq!(cluster.refused(filter, &pod), []);
        let pod = cluster.pod("p", cpu("8"));
        assert_eq!(cluster.refused(filter, &pod), [("m", short(8000, 1400))]);
    }

    #[test]
    fn bands_want_empty_or_full_machines() {
        let mut cluster = Cluster::default();
        for name in ["empty", "half"] {
            cluster.machine(name, json!({"status": {"allocatable": {"cpu": "2", "memory": "2000Mi", "pods": "10"}}}));
        }
        cluster.bound("other", "half", cpu("1"));
        let pod = cluster.pod("p", json!({}));
        assert_eq!(cluster.scores(spare, &pod), [("empty", 93), ("half", 68)]);
        assert_eq!(cluster.scores(packed, &pod), [("empty", 7), ("half", 32)]);
        assert_eq!(cluster.scores(balanced, &pod), [("empty", 95), ("half", 55)]);
    }
}
