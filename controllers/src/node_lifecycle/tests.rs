//! Conditions and taints follow what is known of a machine, and settle.

use std::sync::Arc;

use gantry_apimachinery::kinds;
use serde_json::{Value, json};

use super::core::reconcile;
use super::types::Observed;
use crate::objects::{Node, Pod};
use crate::plan::Plan;
use crate::sim::World;

fn world(ready: &str, taints: Value) -> World {
    let mut world = World::new();
    world.create(&kinds::NODE, json!({"metadata": {"name": "n1"}, "spec": {"taints": taints}})).unwrap();
    world.edit(&kinds::NODE, "", "n1", |node| {
        node["status"]["conditions"] = json!([{"type": "Ready", "status": ready, "reason": "KubeletReady",
            "lastHeartbeatTime": "2025-12-31T23:59:00Z", "lastTransitionTime": "2025-12-31T00:00:00Z"}]);
    });
    world
}

fn look(world: &World, silent: bool, may_lose: bool) -> Plan {
    let node = world.get::<Node>(&kinds::NODE, "", "n1").unwrap();
    let ready_pods: Vec<Arc<Pod>> = world.list::<Pod>(&kinds::POD).into_iter().filter(|p| p.is_ready()).collect();
    reconcile(&Observed { node, silent, may_lose, ready_pods }, world.now)
}

fn settle(world: &mut World, silent: bool, may_lose: bool) {
    for _ in 0..5 {
        let plan = look(world, silent, may_lose);
        if plan.is_settled() {
            return;
        }
        world.apply(&plan).unwrap();
        world.pass(1);
    }
    panic!("never settles");
}

fn taints(world: &World) -> Vec<String> {
    let node = world.get::<Node>(&kinds::NODE, "", "n1").unwrap();
    node.spec
        .taints
        .iter()
        .map(|t| format!("{}:{}", t.key.trim_start_matches("node.kubernetes.io/"), t.effect))
        .collect()
}

#[test]
fn taints_follow_conditions() {
    let check = |ready: &str, silent, may_lose, expect: &[&str]| {
        let mut world = world(ready, json!([{"key": "mine", "effect": "NoSchedule"}]));
        settle(&mut world, silent, may_lose);
        assert_eq!(taints(&world)[1..], *expect, "{ready} {silent} {may_lose}");
        assert_eq!(taints(&world)[0], "mine:NoSchedule");
    };
    check("True", false, false, &[]);
    check("False", false, false, &["not-ready:NoSchedule", "not-ready:NoExecute"]);
    check("True", true, true, &["unreachable:NoSchedule", "unreachable:NoExecute"]);
    check("True", true, false, &["unreachable:NoSchedule"]);
}

#[test]
fn a_silent_machine_is_unknown_and_comes_back() {
    let mut world = world("True", json!([]));
    settle(&mut world, true, true);
    let node = world.get::<Node>(&kinds::NODE, "", "n1").unwrap();
    let ready = node.condition("Ready").unwrap();
    assert_eq!(
        (&*ready.status, &*ready.reason, &*ready.message),
        ("Unknown", "NodeStatusUnknown", "Kubelet stopped posting node status.")
    );
    assert!(node.condition("MemoryPressure").is_some_and(|c| c.reason == "NodeStatusNeverUpdated"));
    assert!(node.spec.taints.iter().all(|t| t.time_added.is_some()));
    world.edit(&kinds::NODE, "", "n1", |node| {
        node["status"]["conditions"] = json!([{"type": "Ready", "status": "True"}])
    });
    settle(&mut world, false, false);
    assert!(taints(&world).is_empty());
}

#[test]
fn a_new_machine_keeps_the_taint_it_registered_with() {
    let mut world = world("True", json!([{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]));
    world.edit(&kinds::NODE, "", "n1", |node| node["status"] = json!({}));
    settle(&mut world, false, false);
    assert_eq!(taints(&world), ["not-ready:NoSchedule"]);
    world.edit(&kinds::NODE, "", "n1", |node| {
        node["status"] = json!({"conditions": [{"type": "Ready", "status": "True"}]})
    });
    settle(&mut world, false, false);
    assert!(taints(&world).is_empty());
}

#[test]
fn cordon_and_pressure_keep_pods_away() {
    let mut world = world("True", json!([]));
    world.edit(&kinds::NODE, "", "n1", |node| {
        node["spec"]["unschedulable"] = json!(true);
        node["status"]["conditions"].as_array_mut().unwrap().push(json!({"type": "DiskPressure", "status": "True"}));
    });
    settle(&mut world, false, false);
    assert_eq!(taints(&world), ["disk-pressure:NoSchedule", "unschedulable:NoSchedule"]);
}

#[test]
fn pods_of_a_lost_machine_stop_being_ready_a_few_at_a_time() {
    let mut world = world("True", json!([]));
    for n in 0..30 {
        world.create(&kinds::POD, json!({"metadata": {"name": format!("p{n}")}})).unwrap();
    }
    world.agents(|_| false);
    let ready = |world: &World| world.list::<Pod>(&kinds::POD).iter().filter(|p| p.is_ready()).count();
    // First the condition, then the taints and the first twenty pods.
    world.apply(&look(&world, true, true)).unwrap();
    assert_eq!(ready(&world), 30);
    world.apply(&look(&world, true, true)).unwrap();
    assert_eq!(ready(&world), 10);
    settle(&mut world, true, true);
    assert_eq!(ready(&world), 0);
    assert!(look(&world, true, true).is_settled());
}
