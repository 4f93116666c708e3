//! Topology spread constraints: how unevenly matching pods may lie over the values of a label.

use std::collections::BTreeMap;

use super::{Filter, Reason, Scale, Scorer, node_affinity, taints};
use crate::pod::{PodInfo, Spread};
use crate::snapshot::{Machine, Snapshot};

/// Matching pods per domain, counted over the machines that the pod could use at all.
struct Count<'a> {
    rule: &'a Spread,
    by_domain: BTreeMap<&'a str, i64>,
}

impl Count<'_> {
    fn least(&self) -> i64 {
        let few = i64::try_from(self.by_domain.len()).unwrap_or(i64::MAX) < self.rule.min_domains;
        if few { 0 } else { self.by_domain.values().copied().min().unwrap_or(0) }
    }
}

fn is_eligible(snapshot: &Snapshot, pod: &PodInfo, rule: &Spread, machine: Machine) -> bool {
    let hard = |effect: &str| effect == "NoSchedule" || effect == "NoExecute";
    let tolerated = || {
        let taints = snapshot.taints(machine).iter().filter(|t| hard(&t.effect));
        taints.into_iter().all(|t| taints::tolerates(&pod.tolerations, t))
    };
    (!rule.honor_affinity || node_affinity::matches(snapshot, pod, machine)) && (!rule.honor_taints || tolerated())
}

/// Only machines that have every key are looked at.
fn counts<'a>(snapshot: &'a Snapshot, pod: &'a PodInfo, required: bool) -> Vec<Count<'a>> {
    let rules: Vec<&Spread> = pod.spread.iter().filter(|rule| rule.required == required).collect();
    let mut counts: Vec<Count> = rules.iter().map(|rule| Count { rule, by_domain: BTreeMap::new() }).collect();
    for machine in snapshot.machines() {
        let labels = snapshot.labels(machine);
        if !rules.iter().all(|rule| labels.get(&rule.topology_key).is_some()) {
            continue;
        }
        for count in &mut counts {
            let Some(domain) = labels.get(&count.rule.topology_key) else { continue };
            if !is_eligible(snapshot, pod, count.rule, machine) {
                continue;
            }
            let matching = snapshot.pods_on(machine).filter(|placed| {
                let other = &placed.info;
                !other.deleting && other.namespace == pod.namespace && count.rule.selector.matches(&other.labels)
            });
            *count.by_domain.entry(domain).or_insert(0) += i64::try_from(matching.count()).unwrap_or(i64::MAX);
        }
    }
    counts
}

pub fn filter<'a>(snapshot: &'a Snapshot, pod: &'a PodInfo) -> Option<Filter<'a>> {
    if !pod.spread.iter().any(|rule| rule.required) {
        return None;
    }
    let counts = counts(snapshot, pod, true);
    Some(Box::new(move |machine| {
        for count in &counts {
            let rule = count.rule;
            let Some(domain) = snapshot.labels(machine).get(&rule.topology_key) else {
                return Err(vec![Reason::NoDomain(rule.topology_key.clone())]);
            };
            let own = i64::from(rule.selector.matches(&pod.labels));
            let there = count.by_domain.get(domain).copied().unwrap_or(0);
            if there + own - count.least() > rule.max_skew {
                return Err(vec![Reason::Skew(rule.topology_key.clone())]);
            }
        }
        Ok(())
    }))
}

pub fn score<'a>(snapshot: &'a Snapshot, pod: &'a PodInfo) -> Option<Scorer<'a>> {
    if pod.spread.iter().all(|rule| rule.required) {
        return None;
    }
    let counts = counts(snapshot, pod, false);
    let score = move |machine| {
        let labels = snapshot.labels(machine);
        let of = |count: &Count| match labels.get(&count.rule.topology_key) {
            Some(domain) => count.by_domain.get(domain).copied().unwrap_or(0),
            // A machine outside of the topology is the last choice.
            None => count.by_domain.values().copied().max().unwrap_or(0) + 1,
        };
        counts.iter().map(of).sum()
    };
    Some(Scorer { score: Box::new(score), scale: Scale::Fewer })
}

#[cfg(test)]
mod tests;
