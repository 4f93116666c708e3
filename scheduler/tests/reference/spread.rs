//! Topology spread, the part that must hold (`DoNotSchedule`).

use super::World;
use super::machine::taints_are_tolerated;
use super::manifest::{deleting, is_empty_selector, label, labels, list, namespace, selects, text, texts};
use super::node_affinity;
use super::readings::EMPTY_SPREAD_SELECTOR_COUNTS_NOBODY;
use serde_json::Value;
use std::collections::BTreeMap;

/// On each constraint: the machine's domain, with the pod in it, holds at most `maxSkew` matching pods more than the
/// emptiest domain.
pub fn holds(world: &World, pod: &Value, node: &Value) -> bool {
    constraints(pod).iter().all(|constraint| constraint_holds(world, pod, node, constraint))
}

fn constraints(pod: &Value) -> Vec<&Value> {
    let all = list(&pod["spec"]["topologySpreadConstraints"]).iter();
    all.filter(|constraint| constraint["whenUnsatisfiable"] == "DoNotSchedule").collect()
}

fn constraint_holds(world: &World, pod: &Value, node: &Value, constraint: &Value) -> bool {
    let key = text(&constraint["topologyKey"]);
    let Some(domain) = label(node, key) else { return false };
    let mut matching: BTreeMap<&str, i64> = BTreeMap::new();
    for machine in world.nodes.iter().filter(|machine| takes_part(world, pod, machine, constraint)) {
        let here = world.bound_to(machine).into_iter().filter(|other| counts(pod, constraint, other)).count();
        *matching.entry(label(machine, key).unwrap_or("")).or_insert(0) += here as i64;
    }
    let min_domains = constraint["minDomains"].as_u64().unwrap_or(1);
    let fewest = match matching.values().min() {
        Some(fewest) if matching.len() as u64 >= min_domains => *fewest,
        _ => 0,
    };
    let with_pod = matching.get(domain).copied().unwrap_or(0) + i64::from(selected(pod, constraint, pod));
    with_pod - fewest <= constraint["maxSkew"].as_i64().unwrap_or(1)
}

/// A machine that lacks the key of any constraint is passed over with its pods. So are machines that the pod's own node
/// selector and affinity rule out, unless the policy is `Ignore`, and those with untolerated taints if it is `Honor`.
fn takes_part(world: &World, pod: &Value, machine: &Value, constraint: &Value) -> bool {
    let has_keys = constraints(pod).iter().all(|each| label(machine, text(&each["topologyKey"])).is_some());
    let asked_for = constraint["nodeAffinityPolicy"] == "Ignore"
        || (node_affinity::selector_holds(world, pod, machine) && node_affinity::required_holds(world, pod, machine));
    let tolerated = constraint["nodeTaintsPolicy"] != "Honor" || taints_are_tolerated(world, pod, machine);
    has_keys && asked_for && tolerated
}

/// Pods of the same namespace that are not on their way out.
fn counts(pod: &Value, constraint: &Value, other: &Value) -> bool {
    let has_keys = texts(&constraint["matchLabelKeys"]).iter().any(|key| label(pod, key).is_some());
    let nobody = EMPTY_SPREAD_SELECTOR_COUNTS_NOBODY && is_empty_selector(&constraint["labelSelector"]) && !has_keys;
    !nobody && !deleting(other) && namespace(other) == namespace(pod) && selected(pod, constraint, other)
}

/// The selector, and the incoming pod's values of `matchLabelKeys`; keys that it lacks are ignored.
fn selected(pod: &Value, constraint: &Value, other: &Value) -> bool {
    let same = |key: &&str| label(pod, key).is_none() || label(pod, key) == label(other, key);
    selects(&constraint["labelSelector"], &labels(other)) && texts(&constraint["matchLabelKeys"]).iter().all(same)
}
