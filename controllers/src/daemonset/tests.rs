//! One pod per machine, through joins, taints and updates within their bounds, and a history to go back to.

use std::collections::BTreeSet;

use gantry_apimachinery::kinds;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::core::reconcile;
use super::types::{DaemonSet, Observed};
use crate::objects::Pod;
use crate::plan::Plan;
use crate::revision::{ControllerRevision, HASH_LABEL};
use crate::sim::World;

fn set(strategy: Value) -> Value {
    json!({"metadata": {"name": "agent", "namespace": "ns"}, "spec": {"selector": {"matchLabels": {"app": "agent"}},
        "updateStrategy": strategy, "revisionHistoryLimit": 2, "template": {"metadata": {"labels": {"app": "agent"}},
        "spec": {"containers": [{"name": "c", "image": "v1"}]}}}})
}

fn rolling(unavailable: i32, surge: i32) -> Value {
    json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": unavailable, "maxSurge": surge}})
}

fn world(nodes: usize, strategy: Value) -> World {
    let mut world = World::new();
    for n in 0..nodes {
        world
            .create(&kinds::NODE, json!({"metadata": {"name": format!("n{n}"), "labels": {"n": n.to_string()}}}))
            .unwrap();
    }
    world.create(&kinds::DAEMON_SET, set(strategy)).unwrap();
    world
}

fn look(world: &World) -> Plan {
    let observed = Observed {
        set: world.get(&kinds::DAEMON_SET, "ns", "agent").unwrap(),
        nodes: world.list(&kinds::NODE),
        pods: world.list(&kinds::POD),
        deleting: BTreeSet::new(),
        revisions: world.list(&kinds::CONTROLLER_REVISION),
        collided: false,
    };
    reconcile(&observed, world.now)
}

fn settle(world: &mut World) {
    for _ in 0..100 {
        let plan = look(world);
        world.apply(&plan).unwrap();
        let moved = world.agents(|_| false);
        world.pass(1);
        if plan.is_settled() && !moved {
            return;
        }
    }
    panic!("never settles");
}

fn set_image(world: &mut World, image: &str) {
    world.edit(&kinds::DAEMON_SET, "ns", "agent", |d| {
        d["spec"]["template"]["spec"]["containers"][0]["image"] = json!(image)
    });
}

fn images(world: &World) -> Vec<String> {
    let pods = world.list::<Value>(&kinds::POD);
    pods.iter().map(|p| p["spec"]["containers"][0]["image"].as_str().unwrap().to_owned()).collect()
}

fn revisions(world: &World) -> Vec<i64> {
    let mut all: Vec<i64> =
        world.list::<ControllerRevision>(&kinds::CONTROLLER_REVISION).iter().map(|r| r.revision).collect();
    all.sort_unstable();
    all
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn updates_keep_their_bounds_and_settle(
        nodes in 1..8_usize,
        unavailable in 0..4_i32,
        surge in 0..4_i32,
        slow in prop::collection::vec(any::<bool>(), 25),
    ) {
        prop_assume!((unavailable > 0) != (surge > 0));
        let mut world = world(nodes, rolling(unavailable, surge));
        settle(&mut world);
        set_image(&mut world, "v2");
        for slow in slow {
            world.apply(&look(&world)).unwrap();
            let pods = world.list::<Pod>(&kinds::POD);
            let available = pods.iter().filter(|p| p.is_active() && p.is_ready()).count();
            prop_assert!(available + usize::try_from(unavailable).unwrap() >= nodes, "{available} of {nodes}");
            let active = pods.iter().filter(|p| p.is_active()).count();
            prop_assert!(active <= nodes + usize::try_from(surge).unwrap());
            if !slow {
                world.agents(|_| false);
            }
            world.pass(1);
        }
        settle(&mut world);
        prop_assert_eq!(images(&world), vec!["v2"; nodes]);
        let status = world.get::<DaemonSet>(&kinds::DAEMON_SET, "ns", "agent").unwrap().status.clone();
        let all = i32::try_from(nodes).unwrap();
        prop_assert_eq!((status.desired_number_scheduled, status.updated_number_scheduled, status.number_available), (all, all, all));
        prop_assert!(look(&world).is_settled());
    }
}

#[test]
fn every_machine_has_its_own_pod() {
    let mut world = world(3, rolling(1, 0));
    settle(&mut world);
    let nodes = |world: &World| -> BTreeSet<String> {
        world.list::<Pod>(&kinds::POD).iter().filter(|p| p.is_active()).map(|p| p.node().unwrap().to_owned()).collect()
    };
    assert_eq!((world.count(&kinds::POD), nodes(&world).len()), (3, 3));
    world.create(&kinds::NODE, json!({"metadata": {"name": "n9"}})).unwrap();
    settle(&mut world);
    assert!(nodes(&world).contains("n9"));
    // A taint that evicts takes the pod away, one that only keeps new ones out does not.
    let taint = |effect: &str| json!([{"key": "k", "effect": effect}]);
    world.edit(&kinds::NODE, "", "n0", |n| n["spec"]["taints"] = taint("NoExecute"));
    world.edit(&kinds::NODE, "", "n1", |n| n["spec"]["taints"] = taint("NoSchedule"));
    settle(&mut world);
    assert_eq!(nodes(&world), BTreeSet::from(["n1".into(), "n2".into(), "n9".into()]));
    let status = world.get::<DaemonSet>(&kinds::DAEMON_SET, "ns", "agent").unwrap().status.clone();
    assert_eq!((status.desired_number_scheduled, status.number_misscheduled), (2, 1));
}

#[test]
fn history_is_numbered_kept_and_gone_back_to() {
    let mut world = world(1, rolling(1, 0));
    settle(&mut world);
    for image in ["v2", "v3", "v4", "v5"] {
        set_image(&mut world, image);
        settle(&mut world);
    }
    assert_eq!(revisions(&world), [3, 4, 5], "two old ones and the current");
    set_image(&mut world, "v4");
    settle(&mut world);
    assert_eq!(revisions(&world), [3, 5, 6]);
    let current = world
        .list::<ControllerRevision>(&kinds::CONTROLLER_REVISION)
        .iter()
        .find(|r| r.revision == 6)
        .cloned()
        .unwrap();
    let raw = world.raw(&kinds::CONTROLLER_REVISION, "ns", &current.metadata.name).unwrap();
    assert_eq!(raw["data"]["spec"]["template"]["$patch"], "replace");
    assert_eq!(world.list::<Pod>(&kinds::POD)[0].metadata.labels[HASH_LABEL], current.hash());
}

#[test]
fn on_delete_waits_for_the_user() {
    let mut world = world(2, json!({"type": "OnDelete"}));
    settle(&mut world);
    set_image(&mut world, "v2");
    settle(&mut world);
    assert_eq!(images(&world), ["v1", "v1"]);
    let name = world.list::<Pod>(&kinds::POD)[0].metadata.name.clone();
    world.delete(&kinds::POD, "ns", &name, None);
    settle(&mut world);
    assert_eq!(images(&world).iter().filter(|i| *i == "v2").count(), 1);
}

#[test]
fn a_failed_pod_is_replaced_after_a_moment() {
    let mut world = world(1, rolling(1, 0));
    settle(&mut world);
    world.end("Failed", |_| true);
    let plan = look(&world);
    assert!(plan.requeue.is_some() && !plan.writes().any(|w| w.kind == &kinds::POD), "not at once");
    world.pass(6);
    let plan = look(&world);
    assert_eq!(plan.events[0].reason, "FailedDaemonPod");
    settle(&mut world);
    assert_eq!(world.list::<Pod>(&kinds::POD)[0].phase(), "Running");
}
