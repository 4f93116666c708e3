//! Cascades over an owner graph in the small world: background, foreground, orphan, shared and circular owners.

use std::collections::BTreeSet;

use gantry_apimachinery::kinds::{self, Kind};
use gantry_apimachinery::meta::{Header, Uid};
use gantry_client::Propagation;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::core::reconcile;
use super::graph::{Graph, Item};
use super::types::{Observed, Owner};
use crate::sim::World;

const KINDS: [&Kind; 3] = [&kinds::DEPLOYMENT, &kinds::REPLICA_SET, &kinds::CONFIG_MAP];

fn kind_of(name: &str) -> &'static Kind {
    KINDS[usize::from(name.as_bytes()[1] - b'0') % 3]
}

fn live(world: &World, kind: &'static Kind, name: &str) -> Option<Header> {
    world.get::<Header>(kind, "ns", name).map(|h| (*h).clone())
}

fn create(world: &mut World, name: &str, owners: &[&str], blocks: bool) {
    let owners: Vec<Value> = owners
        .iter()
        .map(|owner| {
            let kind = kind_of(owner);
            let uid = live(world, kind, owner).map_or_else(|| Uid::from("gone"), |h| h.metadata.uid);
            json!({"apiVersion": kind.api_version(), "kind": kind.kind, "name": owner, "uid": uid,
                "blockOwnerDeletion": blocks})
        })
        .collect();
    let body = json!({"metadata": {"name": name, "namespace": "ns", "ownerReferences": owners}});
    world.create(kind_of(name), body).unwrap();
}

fn observe(world: &World, graph: &Graph, uid: &Uid) -> Option<Observed> {
    let item: Item = graph.get(uid.as_str())?.clone();
    let state = |name: &str, uid: &Uid| match live(world, kind_of(name), name) {
        Some(h) if h.metadata.uid == *uid => {
            let waits = h.metadata.is_deleting() && h.metadata.finalizers.iter().any(|f| f == super::graph::FOREGROUND);
            if waits { Owner::Waiting } else { Owner::There }
        }
        _ => Owner::Gone,
    };
    let owners = item.owners.iter().map(|o| (o.clone(), state(&o.name, &o.uid))).collect();
    let dependents = graph.dependents(uid.as_str()).into_iter().cloned().collect();
    let live = live(world, item.kind, &item.name).map(|h| h.metadata).filter(|m| m.uid == item.uid);
    Some(Observed { item, live, owners, dependents })
}

/// Feeds the world's changes to the graph and works its queue until it is empty.
fn collect(world: &mut World, graph: &mut Graph) {
    let mut queue: BTreeSet<Uid> = BTreeSet::new();
    let mut seen: BTreeSet<(Uid, u64)> = BTreeSet::new();
    for _ in 0..500 {
        for kind in KINDS {
            let objects = world.list::<Header>(kind);
            for object in &objects {
                if seen.insert((object.metadata.uid.clone(), object.metadata.revision())) {
                    queue.extend(graph.put(kind, &object.metadata));
                }
            }
            let present = objects.iter().map(|o| o.metadata.uid.clone()).collect();
            queue.extend(graph.retain(kind, &present));
        }
        let Some(uid) = queue.pop_first() else { return };
        if let Some(observed) = observe(world, graph, &uid) {
            world.apply(&reconcile(&observed, world.now)).unwrap();
        }
    }
    panic!("never settles");
}

fn names(world: &World) -> Vec<String> {
    let mut all: Vec<String> =
        KINDS.iter().flat_map(|k| world.list::<Header>(k)).map(|h| h.metadata.name.clone()).collect();
    all.sort();
    all
}

/// `a0` owns `b1`, which owns `c2`; `d1` belongs to nobody.
fn chain(blocks: bool) -> World {
    let mut world = World::new();
    create(&mut world, "a0", &[], blocks);
    create(&mut world, "b1", &["a0"], blocks);
    create(&mut world, "c2", &["b1"], blocks);
    create(&mut world, "d1", &[], blocks);
    world
}

#[test]
fn deletion_follows_the_policy() {
    let check = |propagation, blocks, expect: &[&str]| {
        let (mut world, mut graph) = (chain(blocks), Graph::default());
        collect(&mut world, &mut graph);
        assert_eq!(names(&world), ["a0", "b1", "c2", "d1"]);
        world.delete(&kinds::DEPLOYMENT, "ns", "a0", propagation);
        collect(&mut world, &mut graph);
        assert_eq!(names(&world), expect, "{propagation:?}");
    };
    check(None, true, &["d1"]);
    check(Some(Propagation::Background), false, &["d1"]);
    check(Some(Propagation::Foreground), true, &["d1"]);
    check(Some(Propagation::Foreground), false, &["d1"]);
    check(Some(Propagation::Orphan), true, &["b1", "c2", "d1"]);
}

#[test]
fn a_foreground_owner_waits_for_what_blocks_it() {
    let (mut world, mut graph) = (chain(true), Graph::default());
    world.edit(&kinds::CONFIG_MAP, "ns", "c2", |o| o["metadata"]["finalizers"] = json!(["hold"]));
    world.delete(&kinds::DEPLOYMENT, "ns", "a0", Some(Propagation::Foreground));
    collect(&mut world, &mut graph);
    assert_eq!(names(&world), ["a0", "b1", "c2", "d1"]);
    world.edit(&kinds::CONFIG_MAP, "ns", "c2", |o| o["metadata"]["finalizers"] = json!([]));
    collect(&mut world, &mut graph);
    assert_eq!(names(&world), ["d1"]);
}

#[test]
fn an_object_lives_as_long_as_one_of_its_owners() {
    let mut world = World::new();
    create(&mut world, "a0", &[], false);
    create(&mut world, "b0", &[], false);
    create(&mut world, "c2", &["a0", "b0"], false);
    let mut graph = Graph::default();
    world.delete(&kinds::DEPLOYMENT, "ns", "a0", None);
    collect(&mut world, &mut graph);
    assert_eq!(names(&world), ["b0", "c2"]);
    let owners = live(&world, &kinds::CONFIG_MAP, "c2").unwrap().metadata.owner_references;
    assert_eq!(owners.iter().map(|o| o.name.as_str()).collect::<Vec<_>>(), ["b0"], "the owner that went is cleared");
    world.delete(&kinds::DEPLOYMENT, "ns", "b0", None);
    collect(&mut world, &mut graph);
    assert!(names(&world).is_empty());
}

#[test]
fn an_owner_of_the_same_name_but_another_uid_is_no_owner() {
    let (mut world, mut graph) = (chain(false), Graph::default());
    world.delete(&kinds::DEPLOYMENT, "ns", "a0", Some(Propagation::Background));
    create(&mut world, "a0", &[], false);
    collect(&mut world, &mut graph);
    assert_eq!(names(&world), ["a0", "d1"]);
}

#[test]
fn two_that_block_each_other_both_go() {
    let (mut world, mut graph) = (World::new(), Graph::default());
    create(&mut world, "a0", &[], true);
    create(&mut world, "b1", &["a0"], true);
    let b = live(&world, &kinds::REPLICA_SET, "b1").unwrap().metadata.uid;
    world.edit(&kinds::DEPLOYMENT, "ns", "a0", |o| {
        o["metadata"]["ownerReferences"] = json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "b1", "uid": b,
            "blockOwnerDeletion": true}]);
    });
    world.delete(&kinds::DEPLOYMENT, "ns", "a0", Some(Propagation::Foreground));
    collect(&mut world, &mut graph);
    assert!(names(&world).is_empty(), "{:?}", names(&world));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    /// Whatever is deleted, in the end no object has only owners that are gone, and nothing else went.
    #[test]
    fn nothing_dangles_and_nothing_else_goes(
        owners in prop::collection::vec(prop::collection::vec(0..12_usize, 0..3), 12),
        deleted in prop::collection::vec((0..12_usize, 0..3_u8), 1..4),
        blocks in any::<bool>(),
    ) {
        let name = |n: usize| format!("{}{}", (b'a' + u8::try_from(n).unwrap()) as char, n % 3);
        let (mut world, mut graph) = (World::new(), Graph::default());
        for (n, of) in owners.iter().enumerate() {
            let of: BTreeSet<usize> = of.iter().copied().filter(|o| *o < n).collect();
            let of: Vec<String> = of.into_iter().map(name).collect();
            create(&mut world, &name(n), &of.iter().map(String::as_str).collect::<Vec<_>>(), blocks);
        }
        collect(&mut world, &mut graph);
        prop_assert_eq!(names(&world).len(), 12);
        let mut orphaned = false;
        for (n, policy) in &deleted {
            let policy = [Propagation::Background, Propagation::Foreground, Propagation::Orphan][usize::from(*policy)];
            orphaned |= policy == Propagation::Orphan;
            world.delete(kind_of(&name(*n)), "ns", &name(*n), Some(policy));
            collect(&mut world, &mut graph);
        }
        let left = names(&world);
        let mut expect: Vec<String> = Vec::new();
        for (n, of) in owners.iter().enumerate() {
            let of: BTreeSet<usize> = of.iter().copied().filter(|o| *o < n).collect();
            let deleted = deleted.iter().any(|(d, _)| *d == n);
            if !deleted && (of.is_empty() || of.iter().any(|o| expect.contains(&name(*o)))) {
                expect.push(name(n));
            }
        }
        expect.sort();
        if orphaned {
            prop_assert!(expect.iter().all(|e| left.contains(e)));
        } else {
            prop_assert_eq!(&left, &expect);
        }
        for name in &left {
            let meta = live(&world, kind_of(name), name).unwrap().metadata;
            prop_assert!(meta.owner_references.iter().all(|o| left.contains(&o.name)) );
        }
    }
}
