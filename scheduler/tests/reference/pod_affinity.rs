//! Pods that want to be near other pods, or away from them, from both sides.

use super::World;
use super::manifest::{label, labels, list, name, namespace, selects, text, texts};
use super::readings::{AFFINITY_COUNTS_PODS_THAT_MATCH_ALL_TERMS, FIRST_POD_IGNORES_PODS_OUTSIDE_THE_TOPOLOGY};
use serde_json::Value;

/// Each term finds a matching pod in the machine's domain; or nobody matches anywhere and the pod would itself.
pub fn required_holds(world: &World, pod: &Value, node: &Value) -> bool {
    let terms = required(pod, "podAffinity");
    let has_key = |node: &Value, term: &Value| label(node, text(&term["topologyKey"])).is_some();
    if !terms.iter().all(|term| has_key(node, term)) {
        return false;
    }
    let matches_all = |other: &Value| terms.iter().all(|term| selected(world, pod, term, other));
    let counts = |term: &Value, other: &Value| {
        if AFFINITY_COUNTS_PODS_THAT_MATCH_ALL_TERMS { matches_all(other) } else { selected(world, pod, term, other) }
    };
    let found = |term: &Value| {
        world.bound().into_iter().any(|other| counts(term, other) && same_domain(world, term, node, other))
    };
    let seen = |other: &Value| {
        let inside = |machine: &Value| terms.iter().any(|term| has_key(machine, term));
        !FIRST_POD_IGNORES_PODS_OUTSIDE_THE_TOPOLOGY || world.machine_of(other).is_some_and(inside)
    };
    let somebody = || world.bound().into_iter().any(|other| matches_all(other) && seen(other));
    terms.iter().all(found) || (!somebody() && matches_all(pod))
}

/// No term finds a matching pod in the machine's domain. A machine without the key has no domain, so nobody is in it.
pub fn own_anti_holds(world: &World, pod: &Value, node: &Value) -> bool {
    let broken =
        |term: &Value, other: &Value| selected(world, pod, term, other) && same_domain(world, term, node, other);
    let terms = required(pod, "podAntiAffinity");
    !terms.iter().any(|term| world.bound().into_iter().any(|other| broken(term, other)))
}

/// Nobody in the machine's domain keeps pods like this one away.
pub fn others_anti_holds(world: &World, pod: &Value, node: &Value) -> bool {
    let objects = |other: &Value| {
        let terms = required(other, "podAntiAffinity");
        terms.iter().any(|term| selected(world, other, term, pod) && same_domain(world, term, node, other))
    };
    !world.bound().into_iter().any(objects)
}

/// Weights for each existing pod that the pod's preferred terms find in the machine's domain, against it for
/// anti-affinity; the same from the existing pods' preferred terms; and 1 for each of their required affinity terms.
pub fn preferred_weight(world: &World, pod: &Value, node: &Value) -> i64 {
    let mut sum = 0;
    for other in world.bound() {
        let near = |owner: &Value, subject: &Value, term: &Value| {
            selected(world, owner, term, subject) && same_domain(world, term, node, other)
        };
        for (kind, sign) in [("podAffinity", 1), ("podAntiAffinity", -1)] {
            for (owner, subject) in [(pod, other), (other, pod)] {
                let terms = preferred(owner, kind).iter().filter(|it| near(owner, subject, &it["podAffinityTerm"]));
                sum += sign * terms.map(|it| it["weight"].as_i64().unwrap_or(0)).sum::<i64>();
            }
        }
        sum += required(other, "podAffinity").iter().filter(|term| near(other, pod, term)).count() as i64;
    }
    sum
}

fn required<'a>(pod: &'a Value, kind: &str) -> &'a [Value] {
    list(&pod["spec"]["affinity"][kind]["requiredDuringSchedulingIgnoredDuringExecution"])
}

fn preferred<'a>(pod: &'a Value, kind: &str) -> &'a [Value] {
    list(&pod["spec"]["affinity"][kind]["preferredDuringSchedulingIgnoredDuringExecution"])
}

/// Whether a machine is in the same domain as an existing pod's machine: both have the key, with the same value.
fn same_domain(world: &World, term: &Value, node: &Value, other: &Value) -> bool {
    let key = text(&term["topologyKey"]);
    let theirs = world.machine_of(other).and_then(|machine| label(machine, key));
    theirs.is_some() && theirs == label(node, key)
}

/// Whether a term of `owner` means the pod `subject`.
fn selected(world: &World, owner: &Value, term: &Value, subject: &Value) -> bool {
    let labels = labels(subject);
    let value_of = |key: &str| labels.get(key).map(String::as_str);
    let same = |key: &&str| label(owner, key).is_none_or(|value| value_of(key) == Some(value));
    let differs = |key: &&str| label(owner, key).is_none_or(|value| value_of(key) != Some(value));
    namespace_selected(world, owner, term, subject)
        && selects(&term["labelSelector"], &labels)
        && texts(&term["matchLabelKeys"]).iter().all(same)
        && texts(&term["mismatchLabelKeys"]).iter().all(differs)
}

/// The listed namespaces and those that the selector matches; neither given means the owner's own, `{}` means all.
fn namespace_selected(world: &World, owner: &Value, term: &Value, subject: &Value) -> bool {
    let listed = texts(&term["namespaces"]);
    let selector = &term["namespaceSelector"];
    if listed.is_empty() && selector.is_null() {
        return namespace(subject) == namespace(owner);
    }
    let object = world.namespaces.iter().find(|object| name(object) == namespace(subject));
    let namespace_labels = object.map(labels).unwrap_or_default();
    listed.contains(&namespace(subject)) || selects(selector, &namespace_labels)
}
