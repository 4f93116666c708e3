//! A claim and a volume stay while they are used, and go after that.

use gantry_apimachinery::kinds::{self, Kind};
use serde_json::{Value, json};

use super::core::reconcile;
use super::types::Observed;
use crate::sim::World;

const CLAIM: &str = "kubernetes.io/pvc-protection";
const VOLUME: &str = "kubernetes.io/pv-protection";

fn look(world: &World, kind: &'static Kind, used: bool) -> Option<Observed> {
    if *kind == kinds::PERSISTENT_VOLUME {
        return world.get(kind, "", "x").map(Observed::Volume);
    }
    world.get(kind, "ns", "x").map(|claim| Observed::Claim(claim, used))
}

/// Applies plans until nothing is planned; `None` when the object is gone.
fn settled(world: &mut World, kind: &'static Kind, used: bool) -> Option<Value> {
    for _ in 0..5 {
        let plan = reconcile(&look(world, kind, used)?);
        if plan.is_settled() {
            let namespace = if kind.namespaced { "ns" } else { "" };
            return world.raw(kind, namespace, "x").cloned();
        }
        world.apply(&plan).unwrap();
    }
    panic!("never settled");
}

#[test]
fn a_claim_goes_when_no_pod_mounts_it() {
    let mut world = World::new();
    let kind = &kinds::PERSISTENT_VOLUME_CLAIM;
    world.create(kind, json!({"metadata": {"name": "x", "finalizers": ["other", CLAIM]}})).unwrap();
    assert!(settled(&mut world, kind, false).is_some(), "nobody deleted it");
    world.delete(kind, "ns", "x", None);
    let held = settled(&mut world, kind, true).expect("a pod mounts it");
    assert_eq!(held["metadata"]["finalizers"], json!(["other", CLAIM]));
    let free = settled(&mut world, kind, false).expect("another holds it");
    assert_eq!(free["metadata"]["finalizers"], json!(["other"]));
}

#[test]
fn a_volume_goes_when_it_is_bound_to_no_claim() {
    let mut world = World::new();
    let kind = &kinds::PERSISTENT_VOLUME;
    world
        .create(kind, json!({"metadata": {"name": "x", "finalizers": [VOLUME]}, "status": {"phase": "Bound"}}))
        .unwrap();
    world.delete(kind, "", "x", None);
    assert!(settled(&mut world, kind, false).is_some());
    world.edit(kind, "", "x", |volume| volume["status"]["phase"] = "Released".into());
    assert_eq!(settled(&mut world, kind, false), None);
}

#[test]
fn what_nobody_held_is_held() {
    for (kind, finalizer) in [(&kinds::PERSISTENT_VOLUME_CLAIM, CLAIM), (&kinds::PERSISTENT_VOLUME, VOLUME)] {
        let mut world = World::new();
        world.create(kind, json!({"metadata": {"name": "x"}})).unwrap();
        let held = settled(&mut world, kind, false).unwrap();
        assert_eq!(held["metadata"]["finalizers"], json!([finalizer]));
    }
}
