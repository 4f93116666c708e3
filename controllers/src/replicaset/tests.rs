//! Replica sets reach and keep their number, through failures and adoptions, and settle.

use gantry_apimachinery::kinds;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::core::reconcile;
use super::types::Observed;
use crate::edge::Failure;
use crate::objects::{Pod, ReplicaSet};
use crate::plan::{Plan, Verb};
use crate::sim::World;

pub fn set(replicas: i32) -> Value {
    json!({"metadata": {"name": "web", "namespace": "ns"}, "spec": {"replicas": replicas,
        "selector": {"matchLabels": {"app": "web"}}, "template": {"metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]}}}})
}

fn look(world: &World, failure: Option<Failure>) -> Plan {
    let set = world.get::<ReplicaSet>(&kinds::REPLICA_SET, "ns", "web").unwrap();
    let observed = Observed { set, pods: world.list(&kinds::POD), failure, ..Observed::default() };
    reconcile(&observed, world.now)
}

fn settle(world: &mut World) {
    for _ in 0..50 {
        let plan = look(world, None);
        world.apply(&plan).unwrap();
        let moved = world.agents(|_| false);
        world.pass(1);
        if plan.is_settled() && plan.requeue.is_none() && !moved {
            return;
        }
    }
    panic!("never settles");
}

fn active(world: &World) -> usize {
    world.list::<Pod>(&kinds::POD).iter().filter(|p| p.is_active() && p.owner().is_some()).count()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn any_history_settles_and_then_plans_nothing(
        sizes in prop::collection::vec(0..12_i32, 1..5),
        min_ready_s in 0..3_i32,
        ends in prop::collection::vec(0..4_usize, 0..3),
    ) {
        let mut world = World::new();
        world.create(&kinds::REPLICA_SET, set(sizes[0])).unwrap();
        world.edit(&kinds::REPLICA_SET, "ns", "web", |s| s["spec"]["minReadySeconds"] = json!(min_ready_s));
        for (round, size) in sizes.iter().enumerate() {
            world.edit(&kinds::REPLICA_SET, "ns", "web", |s| s["spec"]["replicas"] = json!(size));
            // A step or two, then a pod dies under it.
            world.apply(&look(&world, None)).unwrap();
            world.agents(|_| false);
            if let Some(nth) = ends.get(round) {
                let name = world.list::<Pod>(&kinds::POD).get(*nth).map(|p| p.metadata.name.clone()).unwrap_or_default();
                world.end("Failed", |p| p["metadata"]["name"] == json!(name));
            }
            settle(&mut world);
            prop_assert_eq!(active(&world), usize::try_from(*size).unwrap());
        }
        let status = world.get::<ReplicaSet>(&kinds::REPLICA_SET, "ns", "web").unwrap().status.clone();
        let last = *sizes.last().unwrap();
        prop_assert_eq!((status.replicas, status.ready_replicas, status.available_replicas), (last, last, last));
        prop_assert!(look(&world, None).is_settled());
    }
}

#[test]
fn a_refused_create_is_said_and_unsaid() {
    let mut world = World::new();
    world.create(&kinds::REPLICA_SET, set(2)).unwrap();
    let failure = Failure { message: "quota".into(), ..Failure::default() };
    let plan = look(&world, Some(failure.clone()));
    world.refuse = Some("pods");
    assert!(world.apply(&plan).is_err());
    let conditions =
        |world: &World| world.raw(&kinds::REPLICA_SET, "ns", "web").unwrap()["status"]["conditions"].clone();
    assert_eq!(conditions(&world)[0]["reason"], "FailedCreate");
    assert!(look(&world, Some(failure)).status.is_none(), "the same failure is said once");
    world.refuse = None;
    settle(&mut world);
    assert_eq!(conditions(&world), json!([]));
}

#[test]
fn adopts_what_matches_and_lets_go_of_what_does_not() {
    let mut world = World::new();
    world.create(&kinds::REPLICA_SET, set(1)).unwrap();
    world.create(&kinds::POD, json!({"metadata": {"name": "orphan", "labels": {"app": "web"}}})).unwrap();
    settle(&mut world);
    assert_eq!(world.count(&kinds::POD), 1, "the orphan is the one replica");
    world.edit(&kinds::POD, "ns", "orphan", |p| p["metadata"]["labels"]["app"] = json!("other"));
    settle(&mut world);
    assert_eq!(world.count(&kinds::POD), 2);
    assert!(world.get::<Pod>(&kinds::POD, "ns", "orphan").unwrap().owner().is_none());
}

#[test]
fn a_set_that_is_deleted_makes_no_pods() {
    let mut world = World::new();
    let mut body = set(3);
    body["metadata"]["finalizers"] = json!(["x"]);
    world.create(&kinds::REPLICA_SET, body).unwrap();
    world.delete(&kinds::REPLICA_SET, "ns", "web", None);
    assert!(!look(&world, None).writes().any(|w| matches!(w.verb, Verb::Create(_))));
}
