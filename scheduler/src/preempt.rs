//! Makes room for a pod that fits nowhere: on one machine, the fewest and least important pods that have a lower priority.
//! Decides who must go; never ends anybody itself. A production pod never goes for another production pod.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::plugins::{Filter, PLUGINS};
use crate::pod::{Band, PodInfo};
use crate::schedule::Unschedulable;
use crate::snapshot::{Machine, Snapshot};

#[derive(Clone, Debug, PartialEq)]
pub struct Preemption {
    pub machine: Machine,
    pub victims: Vec<Arc<PodInfo>>,
}

/// What makes one choice better than another: the highest priority lost, the sum of them, how many, how old.
type Cost = (i64, i64, usize, Reverse<i64>);

/// The cheapest machine to make room on. `band` tells a priority class's band.
pub fn preempt(
    snapshot: &mut Snapshot,
    pod: &PodInfo,
    none: &Unschedulable,
    band: impl Fn(&str) -> Band,
) -> Option<Preemption> {
    if !pod.may_preempt {
        return None;
    }
    let own = band(&pod.class);
    let may_go = |other: &PodInfo| {
        other.priority < pod.priority && !(own == Band::Production && band(&other.class) == Band::Production)
    };
    let mut best: Option<(Cost, Preemption)> = None;
    for (machine, reasons) in &none.refusals {
        if !reasons.iter().all(|reason| reason.is_preemptible()) {
            continue;
        }
        let Some(victims) = on_machine(snapshot, pod, *machine, may_go) else { continue };
        let cost = cost(&victims);
        if best.as_ref().is_none_or(|(least, _)| cost < *least) {
            best = Some((cost, Preemption { machine: *machine, victims }));
        }
    }
    best.map(|(_, preemption)| preemption)
}

fn cost(victims: &[Arc<PodInfo>]) -> Cost {
    let highest = victims.iter().map(|v| v.priority).max().unwrap_or(i64::MIN);
    // Every victim counts, also one of negative priority.
    let sum = victims.iter().map(|v| v.priority.saturating_add(1 << 31)).fold(0, i64::saturating_add);
    let oldest = victims.iter().map(|v| v.created_us).min().unwrap_or(i64::MAX);
    (highest, sum, victims.len(), Reverse(oldest))
}

/// All that may go are taken away; then as many as still fit come back, the most important first.
fn on_machine(
    snapshot: &mut Snapshot,
    pod: &PodInfo,
    machine: Machine,
    may_go: impl Fn(&PodInfo) -> bool,
) -> Option<Vec<Arc<PodInfo>>> {
    let mut candidates: Vec<Arc<PodInfo>> =
        snapshot.pods_on(machine).filter(|p| !p.assumed && may_go(&p.info)).map(|p| p.info.clone()).collect();
    candidates.sort_by_key(|c| (Reverse(c.priority), c.created_us, c.uid.clone()));
    if candidates.is_empty() {
        return None;
    }
    let name = snapshot.name(machine).to_owned();
    for candidate in &candidates {
        snapshot.pod_gone(&candidate.uid);
    }
    let mut victims = Vec::new();
    let possible = fits(snapshot, pod, machine);
    for candidate in candidates {
        snapshot.pod_bound(candidate.clone(), &name);
        if possible && !fits(snapshot, pod, machine) {
            snapshot.pod_gone(&candidate.uid);
            victims.push(candidate);
        }
    }
    for victim in &victims {
        snapshot.pod_bound(victim.clone(), &name);
    }
    // Those that are going already need no push, but their room is waited for.
    possible.then_some(victims)
}

fn fits(snapshot: &Snapshot, pod: &PodInfo, machine: Machine) -> bool {
    let filters: Vec<Filter> = PLUGINS.iter().filter_map(|p| p.filter?(snapshot, pod)).collect();
    filters.iter().all(|filter| filter(machine).is_ok())
}

/// The bands of the priority classes that there are.
#[derive(Debug, Default)]
pub struct Classes(BTreeMap<String, Band>);

impl Classes {
    pub fn set(&mut self, name: &str, label: Option<&str>) {
        self.0.insert(name.to_owned(), Band::read(label));
    }

    pub fn remove(&mut self, name: &str) {
        self.0.remove(name);
    }

    pub fn band(&self, name: &str) -> Band {
        self.0.get(name).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::plugins::testing::{Cluster, cpu, pod};
    use crate::schedule::{Decision, Profile, schedule};

    fn runs(cluster: &mut Cluster, name: &str, machine: &str, amount: &str, priority: i64) {
        let info = PodInfo { priority, ..pod("ns", name, "", "", cpu(amount)) };
        cluster.snapshot.pod_bound(Arc::new(info), machine);
    }

    fn chosen(
        cluster: &mut Cluster,
        amount: &str,
        priority: i64,
        band: fn(&str) -> Band,
    ) -> Option<(String, Vec<String>)> {
        let info = PodInfo { priority, ..pod("ns", "new", "", "", cpu(amount)) };
        let Decision::Unschedulable(none) = schedule(&cluster.snapshot, &info, &Profile::default(), 0) else {
            panic!("it fits")
        };
        let found = preempt(&mut cluster.snapshot, &info, &none, band)?;
        cluster.snapshot.validate();
        let name = cluster.snapshot.name(found.machine).to_owned();
        Some((name, found.victims.iter().map(|v| v.name.clone()).collect()))
    }

    fn two_machines() -> Cluster {
        let mut cluster = Cluster::default();
        for name in ["a", "b"] {
            cluster.machine(name, json!({"status": {"allocatable": {"cpu": "4", "pods": "9"}}}));
        }
        runs(&mut cluster, "a-high", "a", "2", 50);
        runs(&mut cluster, "a-low", "a", "2", 1);
        runs(&mut cluster, "b-mid", "b", "3", 20);
        runs(&mut cluster, "b-low", "b", "1", 1);
        cluster
    }

    #[test]
    fn the_least_important_and_fewest_go() {
        let ordinary = |_: &str| Band::Ordinary;
        let check = |amount: &str, priority: i64, expect: Option<(&str, &[&str])>| {
            let got = chosen(&mut two_machines(), amount, priority, ordinary);
            let expect = expect.map(|(m, v)| (m.to_owned(), v.iter().map(|n| (*n).to_owned()).collect()));
            assert_eq!(got, expect, "{amount} at {priority}");
        };
        check("2", 100, Some(("a", &["a-low"])));
        check("1", 100, Some(("a", &["a-low"])));
        check("3", 100, Some(("b", &["b-mid"])));
        check("4", 30, Some(("b", &["b-mid", "b-low"])));
        check("4", 1, None);
        check("5", 100, None);
    }

    #[test]
    fn production_does_not_go_for_production() {
        assert_eq!(chosen(&mut two_machines(), "2", 100, |_| Band::Production), None);
    }
}
