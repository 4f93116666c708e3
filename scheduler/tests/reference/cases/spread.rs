//! Topology spread.

use super::{ZONE, bound, passing, pod, with, zoned};
use crate::reference::World;
use serde_json::{Value, json};

/// One pod per machine named, labelled `app: web`.
fn webs(machines: &[&str]) -> Vec<Value> {
    let web = |(i, machine): (usize, &&str)| bound(&format!("p{i}"), machine, json!({"app": "web"}), json!({}));
    machines.iter().enumerate().map(web).collect()
}

fn world(nodes: &[&str], pods: &[&str]) -> World {
    World { nodes: zoned(nodes), pods: webs(pods), ..World::default() }
}

/// `maxSkew: 1` over zones for `app: web`, with changes.
fn constraint(changes: Value) -> Value {
    let mut constraint = json!({
        "maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
    });
    for (field, value) in changes.as_object().into_iter().flatten() {
        constraint[field] = value.clone();
    }
    constraint
}

fn check_pod(world: &World, labels: Value, spec: Value, expect: &str) {
    let pod = pod(labels, spec);
    assert_eq!(passing("PodTopologySpread", world, &pod), expect, "{pod}");
}

fn check(world: &World, changes: Value, expect: &str) {
    check_pod(world, json!({"app": "web"}), json!({"topologySpreadConstraints": [constraint(changes)]}), expect);
}

#[test]
fn skew_against_the_emptiest_domain() {
    // The documents' example: zones with 2/2/1 and maxSkew 1 take the pod only in the third.
    let three = world(&["a1", "b1", "c1"], &["a1", "a1", "b1", "b1", "c1"]);
    check(&three, json!({}), "c1");
    check(&three, json!({"maxSkew": 2}), "a1 b1 c1");
    let two = world(&["a1", "a2", "b1"], &["a1", "a2", "b1"]);
    check(&two, json!({}), "b1");
    // By machine: each is a domain.
    check(&world(&["a1", "a2", "b1"], &["a1"]), json!({"topologyKey": "host"}), "a2 b1");
    check(&world(&["a1", "b1"], &[]), json!({}), "a1 b1");
    check(&two, json!({"whenUnsatisfiable": "ScheduleAnyway"}), "a1 a2 b1");
}

#[test]
fn two_constraints_must_both_hold() {
    let world = world(&["a1", "a2", "b1"], &["a1", "a2", "b1"]);
    let both = json!([constraint(json!({})), constraint(json!({"topologyKey": "host"}))]);
    check_pod(&world, json!({"app": "web"}), json!({"topologySpreadConstraints": both}), "b1");
    let by_host = json!([constraint(json!({"maxSkew": 5})), constraint(json!({"topologyKey": "host", "maxSkew": 2}))]);
    check_pod(&world, json!({"app": "web"}), json!({"topologySpreadConstraints": by_host}), "a1 a2 b1");
}

#[test]
fn machines_without_a_key_are_passed_over_with_their_pods() {
    check(&world(&["a1", "b1", "-1"], &["a1", "-1"]), json!({}), "b1");
    // The machine lacks the zone, which is the other constraint's key: its empty host is no minimum.
    let full = world(&["a1", "b1", "-1"], &["a1", "b1"]);
    let both = json!([constraint(json!({})), constraint(json!({"topologyKey": "host"}))]);
    check_pod(&full, json!({"app": "web"}), json!({"topologySpreadConstraints": both}), "a1 b1");
    // A soft constraint's key asks nothing of the hard ones.
    let soft = constraint(json!({"whenUnsatisfiable": "ScheduleAnyway"}));
    let mixed = json!([soft, constraint(json!({"topologyKey": "host"}))]);
    check_pod(&full, json!({"app": "web"}), json!({"topologySpreadConstraints": mixed}), "-1");
}

#[test]
fn too_few_domains_make_the_minimum_zero() {
    let world = world(&["a1", "b1"], &["a1", "b1"]);
    check(&world, json!({}), "a1 b1");
    check(&world, json!({"minDomains": 2}), "a1 b1");
    check(&world, json!({"minDomains": 3}), "");
    check(&world, json!({"minDomains": 3, "maxSkew": 2}), "a1 b1");
}

#[test]
fn who_is_counted() {
    let one = |change: &str, value: Value| {
        let mut world = world(&["a1", "b1"], &["a1"]);
        world.pods[0] = with(world.pods[0].clone(), change, value);
        world
    };
    check(&one("spec.nodeName", "a1".into()), json!({}), "b1");
    check(&one("metadata.namespace", "b".into()), json!({}), "a1 b1");
    check(&one("metadata.deletionTimestamp", "2026-01-01T00:00:00Z".into()), json!({}), "a1 b1");
    check(&one("status.phase", "Succeeded".into()), json!({}), "a1 b1");
    check(&one("metadata.labels", json!({"app": "db"})), json!({}), "a1 b1");
}

#[test]
fn the_pod_counts_itself_only_when_it_matches() {
    let other = json!({"topologySpreadConstraints": [constraint(json!({}))]});
    check_pod(&world(&["a1", "b1"], &["a1"]), json!({"app": "db"}), other.clone(), "a1 b1");
    check_pod(&world(&["a1", "b1"], &["a1", "a1"]), json!({"app": "db"}), other, "b1");
}

#[test]
fn selectors() {
    let world = world(&["a1", "b1"], &["a1"]);
    // None selects nobody, not even the pod; `{}` counts the pod alone.
    check(&world, json!({"labelSelector": null}), "a1 b1");
    check(&world, json!({"labelSelector": {}}), "a1 b1");
    check(&world, json!({"labelSelector": {}, "minDomains": 5}), "a1 b1");
    check(&world, json!({"labelSelector": {"matchExpressions": [{"key": "app", "operator": "Exists"}]}}), "b1");
    check(&world, json!({"labelSelector": {"matchExpressions": [{"key": "x", "operator": "DoesNotExist"}]}}), "b1");
}

#[test]
fn match_label_keys_compare_with_the_pods_own_values() {
    let mut world = world(&["a1", "b1"], &["a1"]);
    world.pods[0]["metadata"]["labels"]["version"] = "1".into();
    let spec = |keys: Value| json!({"topologySpreadConstraints": [constraint(json!({"matchLabelKeys": keys}))]});
    check_pod(&world, json!({"app": "web", "version": "1"}), spec(json!(["version"])), "b1");
    check_pod(&world, json!({"app": "web", "version": "2"}), spec(json!(["version"])), "a1 b1");
    // "Keys that don't exist in the incoming pod labels will be ignored."
    check_pod(&world, json!({"app": "web"}), spec(json!(["version"])), "b1");
    check_pod(&world, json!({"app": "web", "version": "1"}), spec(json!(["version", "absent"])), "b1");
}

#[test]
fn machines_that_the_pod_rules_out_itself() {
    // Zone c is empty, and the pod does not go there anyway: it is no minimum.
    let world = world(&["a1", "b1", "c1"], &["a1", "b1"]);
    let not_c =
        json!({"nodeSelectorTerms": [{"matchExpressions": [{"key": ZONE, "operator": "NotIn", "values": ["c"]}]}]});
    let affinity = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": not_c}});
    for (policy, expect) in [(Value::Null, "a1 b1 c1"), (json!("Honor"), "a1 b1 c1"), (json!("Ignore"), "c1")] {
        let constraints = json!([constraint(json!({"nodeAffinityPolicy": policy}))]);
        let spec = json!({"affinity": affinity, "topologySpreadConstraints": constraints});
        check_pod(&world, json!({"app": "web"}), spec, expect);
    }
    let constraints = json!([constraint(json!({}))]);
    let selector = json!({"nodeSelector": {ZONE: "a"}, "topologySpreadConstraints": constraints});
    check_pod(&world, json!({"app": "web"}), selector, "a1 b1 c1");
}

#[test]
fn tainted_machines_count_unless_taints_are_honoured() {
    let mut world = world(&["a1", "b1", "c1"], &["a1", "b1"]);
    world.nodes[2]["spec"]["taints"] = json!([{"key": "k", "effect": "NoSchedule"}]);
    let tolerations = json!([{"key": "k", "operator": "Exists"}]);
    for (policy, tolerations, expect) in [
        (Value::Null, json!([]), "c1"),
        (json!("Ignore"), json!([]), "c1"),
        (json!("Honor"), json!([]), "a1 b1 c1"),
        (json!("Honor"), tolerations, "c1"),
    ] {
        let constraints = json!([constraint(json!({"nodeTaintsPolicy": policy}))]);
        let spec = json!({"tolerations": tolerations, "topologySpreadConstraints": constraints});
        check_pod(&world, json!({"app": "web"}), spec, expect);
    }
    // A cordon alone is no taint, and a soft taint keeps nobody out.
    let soft = json!([{"key": "k", "effect": "PreferNoSchedule"}]);
    world.nodes[2] = with(with(world.nodes[2].clone(), "spec.taints", soft), "spec.unschedulable", true.into());
    check(&world, json!({"nodeTaintsPolicy": "Honor"}), "c1");
}
