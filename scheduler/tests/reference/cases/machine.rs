//! Names, cordons, taints and tolerations.

use super::{node, passes, pod, with};
use crate::reference::{World, feasible, machine};
use serde_json::{Value, json};

fn one(node: Value) -> World {
    World { nodes: vec![node], ..World::default() }
}

#[test]
fn a_pod_that_names_its_machine_goes_nowhere_else() {
    let node = node("m", json!({}));
    let world = one(node.clone());
    for (named, expect) in [(json!({}), true), (json!({"nodeName": "m"}), true), (json!({"nodeName": "n"}), false)] {
        assert_eq!(passes("NodeName", &world, &pod(json!({}), named.clone()), &node), expect, "{named}");
    }
}

#[test]
fn a_cordon_keeps_out_who_does_not_tolerate_it() {
    let key = "node.kubernetes.io/unschedulable";
    let check = |cordoned: bool, tolerations: Value, expect: bool| {
        let node = with(node("m", json!({})), "spec.unschedulable", cordoned.into());
        let pod = pod(json!({}), json!({"tolerations": tolerations}));
        assert_eq!(passes("NodeUnschedulable", &one(node.clone()), &pod, &node), expect, "{cordoned} {tolerations}");
    };
    check(false, json!([]), true);
    check(true, json!([]), false);
    check(true, json!([{"key": key, "operator": "Exists"}]), true);
    check(true, json!([{"key": key, "operator": "Exists", "effect": "NoSchedule"}]), true);
    check(true, json!([{"key": key, "effect": "NoSchedule"}]), true);
    check(true, json!([{"key": key, "operator": "Exists", "effect": "NoExecute"}]), false);
    check(true, json!([{"key": key, "value": "yes"}]), false);
    check(true, json!([{"operator": "Exists"}]), true);
    check(true, json!([{"key": "other", "operator": "Exists"}]), false);
}

#[test]
fn every_taint_that_keeps_out_needs_a_toleration() {
    let taint = |key: &str, value: &str, effect: &str| json!({"key": key, "value": value, "effect": effect});
    let check = |taints: Value, tolerations: Value, expect: bool| {
        let node = with(node("m", json!({})), "spec.taints", taints.clone());
        let pod = pod(json!({}), json!({"tolerations": tolerations}));
        let got = passes("TaintToleration", &one(node.clone()), &pod, &node);
        assert_eq!(got, expect, "{taints} {tolerations}");
    };
    let no_schedule = json!([taint("k", "v", "NoSchedule")]);
    check(json!([]), json!([]), true);
    check(no_schedule.clone(), json!([]), false);
    check(json!([taint("k", "v", "NoExecute")]), json!([]), false);
    check(json!([taint("k", "v", "PreferNoSchedule")]), json!([]), true);
    // "A toleration matches a taint if the keys are the same and the effects are the same", and by operator.
    check(no_schedule.clone(), json!([{"key": "k", "operator": "Equal", "value": "v", "effect": "NoSchedule"}]), true);
    check(no_schedule.clone(), json!([{"key": "k", "value": "v", "effect": "NoSchedule"}]), true);
    check(no_schedule.clone(), json!([{"key": "k", "value": "w", "effect": "NoSchedule"}]), false);
    check(no_schedule.clone(), json!([{"key": "k", "effect": "NoSchedule"}]), false);
    check(no_schedule.clone(), json!([{"key": "k", "operator": "Exists", "effect": "NoSchedule"}]), true);
    check(no_schedule.clone(), json!([{"key": "k", "operator": "Exists", "effect": "NoExecute"}]), false);
    check(no_schedule.clone(), json!([{"key": "j", "operator": "Exists"}]), false);
    // No value is the empty value, on either side.
    let bare = json!([{"key": "k", "effect": "NoSchedule"}]);
    check(json!([taint("k", "", "NoSchedule")]), json!([{"key": "k"}]), true);
    check(bare.clone(), json!([{"key": "k", "value": ""}]), true);
    check(bare, json!([{"key": "k", "value": "v"}]), false);
    // "An empty effect matches all effects with the key"; "an empty key with operator Exists matches all".
    check(no_schedule.clone(), json!([{"key": "k", "operator": "Exists"}]), true);
    check(no_schedule.clone(), json!([{"operator": "Exists"}]), true);
    check(no_schedule.clone(), json!([{"operator": "Exists", "effect": "NoExecute"}]), false);
    // How long it is tolerated is the eviction's matter.
    check(
        json!([taint("k", "v", "NoExecute")]),
        json!([{"key": "k", "value": "v", "effect": "NoExecute", "tolerationSeconds": 0}]),
        true,
    );
    // Numbers are compared only behind an alpha gate.
    check(json!([taint("k", "5", "NoSchedule")]), json!([{"key": "k", "operator": "Gt", "value": "1"}]), false);
    // "Process the rest": one untolerated taint is enough.
    let two = json!([taint("k", "v", "NoSchedule"), taint("j", "v", "NoExecute")]);
    check(two.clone(), json!([{"key": "k", "operator": "Exists"}]), false);
    check(two, json!([{"key": "k", "operator": "Exists"}, {"key": "j", "operator": "Exists"}]), true);
}

#[test]
fn avoided_taints_are_counted() {
    let taint = |key: &str, effect: &str| json!({"key": key, "effect": effect});
    let taints = json!([taint("a", "PreferNoSchedule"), taint("b", "PreferNoSchedule"), taint("c", "NoSchedule"),]);
    let node = with(node("m", json!({})), "spec.taints", taints);
    for (tolerations, expect) in [
        (json!([]), 2),
        (json!([{"key": "a", "operator": "Exists"}]), 1),
        (json!([{"key": "a", "operator": "Exists", "effect": "NoSchedule"}]), 2),
        (json!([{"operator": "Exists"}]), 0),
    ] {
        let pod = pod(json!({}), json!({"tolerations": tolerations}));
        assert_eq!(machine::avoided_taints(&one(node.clone()), &pod, &node), expect, "{tolerations}");
    }
}

#[test]
fn the_first_refusal_is_reported_and_nobody_is_in_their_own_way() {
    let cordoned = with(node("c", json!({})), "spec.unschedulable", true.into());
    let mut world = World { nodes: vec![cordoned, node("m", json!({}))], ..World::default() };
    let anti = json!([{"topologyKey": "host", "labelSelector": {}}]);
    let alone = json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": anti}});
    world.nodes[1]["metadata"]["labels"] = json!({"host": "m"});
    let pod = pod(json!({}), json!({"affinity": alone}));
    world = world.with_bound(&pod, "m");
    let verdicts = feasible(&world, &pod);
    assert_eq!(
        verdicts.into_iter().collect::<Vec<_>>(),
        [("c".to_owned(), Err("NodeUnschedulable")), ("m".to_owned(), Ok(())),]
    );
}
