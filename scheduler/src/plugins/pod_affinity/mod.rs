//! Pods that run together or apart, by topology: what this pod demands, what the pods that run demand of it, and what it
//! prefers.

use std::collections::{BTreeMap, BTreeSet};

use super::{Filter, Reason, Scale, Scorer};
use crate::pod::{AffinityTerm, PodInfo};
use crate::snapshot::{Machine, Snapshot};

/// Whether a term speaks of a pod with this namespace and these labels.
fn is_about(snapshot: &Snapshot, term: &AffinityTerm, pod: &PodInfo) -> bool {
    let by_labels = || {
        let selector = term.namespace_selector.as_ref();
        selector.is_some_and(|s| snapshot.namespace_labels(&pod.namespace).is_some_and(|labels| s.matches(labels)))
    };
    (term.namespaces.contains(&pod.namespace) || by_labels()) && term.selector.matches(&pod.labels)
}

/// A topology key and one of its values.
type Domain<'a> = (&'a str, &'a str);

fn domain<'a>(snapshot: &'a Snapshot, key: &'a str, machine: Machine) -> Option<Domain<'a>> {
    snapshot.labels(machine).get(key).map(|value| (key, value))
}

/// The domains in which a pod runs that does not want this one near.
fn closed_by_others<'a>(snapshot: &'a Snapshot, pod: &PodInfo) -> BTreeSet<Domain<'a>> {
    let mut closed = BTreeSet::new();
    for placed in snapshot.with_anti_affinity() {
        for term in &placed.info.anti_affinity {
            if is_about(snapshot, term, pod) {
                closed.extend(domain(snapshot, &term.topology_key, placed.machine));
            }
        }
    }
    closed
}

/// For each demand to be apart, the domains in which such a pod runs.
fn closed_to_self<'a>(snapshot: &'a Snapshot, pod: &'a PodInfo) -> BTreeSet<Domain<'a>> {
    let mut closed = BTreeSet::new();
    for placed in snapshot.placed().filter(|_| !pod.anti_affinity.is_empty()) {
        for term in &pod.anti_affinity {
            if is_about(snapshot, term, &placed.info) {
                closed.extend(domain(snapshot, &term.topology_key, placed.machine));
            }
        }
    }
    closed
}

/// The domains in which a pod runs that meets every demand to be together.
fn open_by_affinity<'a>(snapshot: &'a Snapshot, pod: &'a PodInfo) -> BTreeSet<Domain<'a>> {
    let mut open = BTreeSet::new();
    for placed in snapshot.placed().filter(|_| !pod.affinity.is_empty()) {
        if pod.affinity.iter().all(|term| is_about(snapshot, term, &placed.info)) {
            open.extend(pod.affinity.iter().filter_map(|t| domain(snapshot, &t.topology_key, placed.machine)));
        }
    }
    open
}

pub fn filter<'a>(snapshot: &'a Snapshot, pod: &'a PodInfo) -> Option<Filter<'a>> {
    let (by_others, to_self) = (closed_by_others(snapshot, pod), closed_to_self(snapshot, pod));
    if by_others.is_empty() && to_self.is_empty() && pod.affinity.is_empty() {
        return None;
    }
    let open = open_by_affinity(snapshot, pod);
    // The first of a group that wants to be together may start anywhere.
    let is_first = open.is_empty() && pod.affinity.iter().all(|term| is_about(snapshot, term, pod));
    Some(Box::new(move |machine| {
        let at = |key: &'a str| domain(snapshot, key, machine);
        let together = pod.affinity.iter().all(|t| at(&t.topology_key).is_some_and(|d| is_first || open.contains(&d)));
        if !together {
            return Err(vec![Reason::Affinity]);
        }
        if pod.anti_affinity.iter().filter_map(|t| at(&t.topology_key)).any(|d| to_self.contains(&d)) {
            return Err(vec![Reason::AntiAffinity]);
        }
        if by_others.iter().any(|(key, value)| snapshot.labels(machine).get(key) == Some(value)) {
            return Err(vec![Reason::ExistingAntiAffinity]);
        }
        Ok(())
    }))
}

pub fn score<'a>(snapshot: &'a Snapshot, pod: &'a PodInfo) -> Option<Scorer<'a>> {
    if pod.preferences.is_empty() {
        return None;
    }
    let mut worth: BTreeMap<Domain<'a>, i64> = BTreeMap::new();
    for placed in snapshot.placed() {
        for term in &pod.preferences {
            if is_about(snapshot, term, &placed.info)
                && let Some(domain) = domain(snapshot, &term.topology_key, placed.machine)
            {
                *worth.entry(domain).or_insert(0) += term.weight;
            }
        }
    }
    let keys: BTreeSet<&str> = pod.preferences.iter().map(|t| t.topology_key.as_str()).collect();
    let score = move |machine| {
        keys.iter().filter_map(|key| domain(snapshot, key, machine)).filter_map(|d| worth.get(&d)).sum::<i64>()
    };
    Some(Scorer { score: Box::new(score), scale: Scale::More })
}

#[cfg(test)]
mod tests;
