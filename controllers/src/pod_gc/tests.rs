//! Only pods that nobody else deletes are removed.

use std::collections::BTreeSet;
use std::sync::Arc;

use gantry_apimachinery::kinds;
use serde_json::json;

use super::core::reconcile;
use super::types::Observed;
use crate::objects::Pod;
use crate::plan::Plan;
use crate::sim::World;

fn look(world: &World, kept: usize, gone: &[&str]) -> Plan {
    let pods = world.list::<Pod>(&kinds::POD);
    let finished = pods.iter().filter(|p| p.is_finished() && !p.is_terminating()).cloned().collect();
    let stranded: Vec<Arc<Pod>> = pods.into_iter().filter(|p| p.node() != Some("n1")).collect();
    let gone: BTreeSet<String> = gone.iter().map(|n| (*n).to_owned()).collect();
    reconcile(&Observed { finished, kept, stranded, gone }, world.now)
}

fn names(world: &World) -> Vec<String> {
    world.list::<Pod>(&kinds::POD).iter().map(|p| p.metadata.name.clone()).collect()
}

#[test]
fn pods_of_machines_that_are_gone_go() {
    let mut world = World::new();
    for (name, node) in [("a", "n1"), ("b", "n2"), ("c", "n3")] {
        world.create(&kinds::POD, json!({"metadata": {"name": name}, "spec": {"nodeName": node}})).unwrap();
    }
    world.agents(|_| false);
    assert!(look(&world, 10, &[]).is_settled(), "not seen to be gone for long enough");
    world.apply(&look(&world, 10, &["n2"])).unwrap();
    assert_eq!(names(&world), ["a", "c"]);
    assert!(look(&world, 10, &["n2"]).is_settled());
}

#[test]
fn a_pod_that_was_never_placed_goes_when_told() {
    let mut world = World::new();
    for (name, finalizers) in [("a", json!([])), ("b", json!(["x"]))] {
        world.create(&kinds::POD, json!({"metadata": {"name": name, "finalizers": finalizers}})).unwrap();
    }
    world.delete(&kinds::POD, "ns", "b", None);
    world.edit(&kinds::POD, "ns", "b", |p| p["metadata"]["finalizers"] = json!(["x"]));
    let plan = look(&world, 10, &[]);
    let deleted: Vec<&str> = plan.writes().map(|w| w.name.as_str()).collect();
    assert_eq!(deleted, ["b"]);
}

#[test]
fn the_oldest_finished_pods_go_above_the_limit() {
    let mut world = World::new();
    for n in 0..5 {
        world.create(&kinds::POD, json!({"metadata": {"name": format!("p{n}")}})).unwrap();
        world.agents(|_| false);
        world.pass(1);
    }
    world.end("Succeeded", |p| p["metadata"]["name"] != "p0");
    world.apply(&look(&world, 2, &[])).unwrap();
    world.agents(|_| false);
    assert_eq!(names(&world), ["p0", "p3", "p4"]);
    assert!(look(&world, 2, &[]).is_settled());
}
