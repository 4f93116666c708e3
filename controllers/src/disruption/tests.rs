//! What a budget allows, and that a settled one is left alone.

use std::sync::Arc;

use gantry_apimachinery::kinds;
use serde_json::{Value, json};

use super::core::reconcile;
use super::types::{Observed, PodDisruptionBudget, Wanted};
use crate::objects::Pod;
use crate::plan::Plan;
use crate::sim::World;

const KIND: &kinds::Kind = &kinds::POD_DISRUPTION_BUDGET;

/// `ready` pods that are ready and `broken` ones that are not, and a budget for all of them.
fn world(spec: Value, ready: usize, broken: usize) -> World {
    let mut world = World::new();
    for n in 0..ready + broken {
        world.create(&kinds::POD, json!({"metadata": {"name": format!("p{n:02}"), "labels": {"app": "a"}}})).unwrap();
    }
    world.agents(|pod| pod["metadata"]["name"].as_str().unwrap() >= format!("p{ready:02}").as_str());
    let mut spec = spec;
    spec["selector"] = json!({"matchLabels": {"app": "a"}});
    world.create(KIND, json!({"metadata": {"name": "b"}, "spec": spec})).unwrap();
    world
}

fn look(world: &World, wanted: Result<i32, &str>) -> Plan {
    let budget: Arc<PodDisruptionBudget> = world.get(KIND, "ns", "b").unwrap();
    let selector = budget.selector().unwrap();
    let mut pods = world.list::<Pod>(&kinds::POD);
    pods.retain(|pod| selector.matches(&pod.metadata.labels));
    let wanted = wanted.map(|pods| Wanted { pods, unowned: 0 }).map_err(str::to_owned);
    reconcile(&Observed { budget, pods, wanted }, world.now)
}

fn settle(world: &mut World, wanted: Result<i32, &str>) -> Value {
    let plan = look(world, wanted);
    world.apply(&plan).unwrap();
    let again = look(world, wanted);
    assert!(again.is_settled(), "{again:?}");
    world.raw(KIND, "ns", "b").unwrap()["status"].clone()
}

#[test]
fn what_is_healthy_beyond_what_is_kept_may_go() {
    let check = |spec: Value, pods: (usize, usize), wanted: i32, expect: (i64, i64, i64)| {
        let status = settle(&mut world(spec.clone(), pods.0, pods.1), Ok(wanted));
        // The server has all counts from the start.
        let count = |field: &str| status[field].as_i64().unwrap_or(0);
        assert_eq!((count("expectedPods"), count("desiredHealthy"), count("disruptionsAllowed")), expect, "{spec}");
        let reason = if expect.2 > 0 { "SufficientPods" } else { "InsufficientPods" };
        assert_eq!((&status["conditions"][0]["reason"], count("observedGeneration")), (&json!(reason), 1));
        assert_eq!(count("currentHealthy"), pods.0 as i64);
    };
    check(json!({"minAvailable": 1}), (3, 0), 0, (3, 1, 2));
    check(json!({"minAvailable": 1}), (1, 2), 0, (3, 1, 0));
    check(json!({"minAvailable": 5}), (3, 0), 0, (3, 5, 0));
    check(json!({"minAvailable": "50%"}), (4, 1), 5, (5, 3, 1));
    check(json!({"maxUnavailable": 1}), (3, 0), 3, (3, 2, 1));
    check(json!({"maxUnavailable": 1}), (2, 0), 3, (3, 2, 0));
    check(json!({"maxUnavailable": "30%"}), (3, 0), 3, (3, 2, 1));
    check(json!({"maxUnavailable": 9}), (3, 0), 3, (3, 0, 3));
    check(json!({}), (3, 0), 0, (0, 0, 0));
    check(json!({"minAvailable": 0}), (0, 0), 0, (0, 0, 0));
}

#[test]
fn an_allowed_eviction_counts_until_the_pod_is_gone_or_two_minutes_are_over() {
    let mut world = world(json!({"minAvailable": 1}), 3, 0);
    settle(&mut world, Ok(0));
    let now = world.now;
    world.edit(KIND, "ns", "b", |budget| {
        budget["status"]["disruptedPods"] = json!({"p00": now, "gone": now});
        budget["status"]["disruptionsAllowed"] = json!(1);
    });
    let status = settle(&mut world, Ok(0));
    assert_eq!(status["disruptedPods"], json!({"p00": now}));
    assert_eq!((&status["disruptionsAllowed"], &status["currentHealthy"]), (&json!(1), &json!(2)));
    assert!(look(&world, Ok(0)).requeue.is_some());
    world.pass(121);
    let plan = look(&world, Ok(0));
    assert_eq!(plan.events[0].reason, "NotDeleted");
    let status = settle(&mut world, Ok(0));
    assert_eq!((&status["disruptionsAllowed"], status["disruptedPods"].as_object()), (&json!(2), None));
}

#[test]
fn nothing_may_go_while_it_is_not_known_what_must_stay() {
    let mut world = world(json!({"maxUnavailable": 1}), 3, 0);
    settle(&mut world, Ok(3));
    let plan = look(&world, Err("no scale"));
    assert_eq!(plan.events[0].reason, "CalculateExpectedPodCountFailed");
    let status = settle(&mut world, Err("no scale"));
    assert_eq!(status["disruptionsAllowed"], 0);
    let condition = &status["conditions"][0];
    assert_eq!((&condition["reason"], &condition["message"]), (&json!("SyncFailed"), &json!("no scale")));
}
