//! A namespace empties in order, says what it waits for, and goes.

use gantry_apimachinery::kinds::{self, Kind};
use gantry_apimachinery::meta::Header;
use serde_json::json;

use super::core::reconcile;
use super::types::{Observed, Remaining};
use crate::objects::Namespace;
use crate::plan::Plan;
use crate::sim::World;

const KINDS: [&Kind; 3] = [&kinds::POD, &kinds::SECRET, &kinds::CONFIG_MAP];

fn world() -> World {
    let mut world = World::new();
    world
        .create(&kinds::NAMESPACE, json!({"metadata": {"name": "ns"}, "spec": {"finalizers": ["kubernetes"]}}))
        .unwrap();
    world.create(&kinds::POD, json!({"metadata": {"name": "p"}})).unwrap();
    world.create(&kinds::SECRET, json!({"metadata": {"name": "s"}})).unwrap();
    world.create(&kinds::CONFIG_MAP, json!({"metadata": {"name": "c"}})).unwrap();
    world.agents(|_| false);
    // The server holds a namespace by its spec's finalizers; the small world by the ordinary ones.
    world.edit(&kinds::NAMESPACE, "", "ns", |ns| ns["metadata"]["finalizers"] = json!(["spec"]));
    world
}

fn look(world: &World) -> Plan {
    let namespace = (*world.get::<Namespace>(&kinds::NAMESPACE, "", "ns").unwrap()).clone();
    let of = |kind: &&'static Kind| {
        let objects = world.list::<Header>(kind).iter().map(|h| (**h).clone()).collect();
        Remaining { kind, objects, more: false }
    };
    let remaining = KINDS.iter().map(of).collect();
    reconcile(&Observed { namespace, remaining, ..Observed::default() }, world.now)
}

#[test]
fn a_live_namespace_is_left_alone() {
    assert!(look(&world()).is_settled());
}

#[test]
fn pods_go_before_the_rest_and_the_namespace_last() {
    let mut world = world();
    world.delete(&kinds::NAMESPACE, "", "ns", None);
    world.apply(&look(&world)).unwrap();
    assert_eq!((world.count(&kinds::SECRET), world.count(&kinds::CONFIG_MAP)), (1, 1), "they may be needed by the pod");
    let waiting = look(&world);
    assert!(waiting.is_settled() && waiting.requeue.is_some(), "{waiting:?}");
    let conditions = world.raw(&kinds::NAMESPACE, "", "ns").unwrap()["status"]["conditions"].clone();
    let remaining = conditions.as_array().unwrap().iter().find(|c| c["type"] == "NamespaceContentRemaining").unwrap();
    assert_eq!((&remaining["status"], &remaining["reason"]), (&json!("True"), &json!("SomeResourcesRemain")));
    world.agents(|_| false);
    world.apply(&look(&world)).unwrap();
    assert_eq!((world.count(&kinds::POD), world.count(&kinds::SECRET), world.count(&kinds::CONFIG_MAP)), (0, 0, 0));
    world.apply(&look(&world)).unwrap();
    assert_eq!(world.count(&kinds::NAMESPACE), 0);
}

#[test]
fn a_namespace_waits_for_groups_that_do_not_answer() {
    let mut world = world();
    world.delete(&kinds::NAMESPACE, "", "ns", None);
    let failing = |world: &World| {
        let namespace = (*world.get::<Namespace>(&kinds::NAMESPACE, "", "ns").unwrap()).clone();
        let failures = vec!["e.com/v1: no answer".to_owned()];
        reconcile(&Observed { namespace, failures, ..Observed::default() }, world.now)
    };
    world.apply(&failing(&world)).unwrap();
    assert!(failing(&world).is_settled() && failing(&world).requeue > look(&world).requeue);
    let conditions = world.raw(&kinds::NAMESPACE, "", "ns").unwrap()["status"]["conditions"].clone();
    let failure = conditions.as_array().unwrap().iter().find(|c| c["type"] == "NamespaceDeletionDiscoveryFailure");
    let failure = failure.unwrap();
    assert_eq!((&failure["status"], &failure["reason"]), (&json!("True"), &json!("DiscoveryFailed")));
    assert!(failure["message"].as_str().unwrap().ends_with("e.com/v1: no answer"), "{failure}");
}

#[test]
fn a_finalizer_is_named_and_never_taken_off() {
    let mut world = world();
    world.edit(&kinds::SECRET, "ns", "s", |s| s["metadata"]["finalizers"] = json!(["example.com/hold"]));
    world.delete(&kinds::NAMESPACE, "", "ns", None);
    for _ in 0..10 {
        world.apply(&look(&world)).unwrap();
        world.agents(|_| false);
    }
    assert_eq!((world.count(&kinds::NAMESPACE), world.count(&kinds::SECRET)), (1, 1));
    let conditions = world.raw(&kinds::NAMESPACE, "", "ns").unwrap()["status"]["conditions"].to_string();
    assert!(conditions.contains("example.com/hold in 1 resource instances"), "{conditions}");
    assert!(look(&world).is_settled());
}
