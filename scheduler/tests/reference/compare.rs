//! Asks two sides the same over random clusters. A sibling test file takes this module with `mod reference;` and calls
//! `compare(0..500, reference, core)`, with closures that answer for one waiting pod: for filters the machines that may
//! take it, for scores the raw sums, for anything else whatever both sides can say of a cluster and a pod.

use super::World;
use super::generate::world;
use super::manifest::{key, name};
use super::shrink::shrink;
use serde_json::{Value, json};
use std::fmt::Debug;
use std::ops::Range;

/// Panics with the first cluster on which the two sides differ, made as small as it still shows the difference.
pub fn compare<T: PartialEq + Debug>(
    seeds: Range<u64>,
    reference: impl Fn(&World, &Value) -> T,
    core: impl Fn(&World, &Value) -> T,
) {
    if let Some(report) = seeds.into_iter().find_map(|seed| difference(seed, &reference, &core)) {
        panic!("{report}");
    }
}

/// What the two sides say of a seed's cluster, if they do not say the same.
pub fn difference<T: PartialEq + Debug>(
    seed: u64,
    reference: impl Fn(&World, &Value) -> T,
    core: impl Fn(&World, &Value) -> T,
) -> Option<String> {
    let differ = |world: &World| world.pending().iter().any(|pod| reference(world, pod) != core(world, pod));
    let found = world(seed);
    if !differ(&found) {
        return None;
    }
    let small = shrink(&found, differ);
    let mut report = format!("seed {seed}: the two sides differ on this cluster\n{}", written(&small));
    for pod in small.pending() {
        let (reference, core) = (reference(&small, pod), core(&small, pod));
        if reference != core {
            report += &format!("\n{}:\n  reference: {reference:?}\n  core:      {core:?}", key(pod));
        }
    }
    Some(report)
}

/// The cluster as JSON, one object a line; namespaces and classes are always the same and stay away.
pub fn written(world: &World) -> String {
    let lines = |objects: &[Value]| objects.iter().map(|object| format!("  {}\n", brief(object))).collect::<String>();
    [&world.nodes, &world.lendable, &world.budgets, &world.pods].map(|objects| lines(objects)).concat()
}

fn brief(object: &Value) -> Value {
    let mut brief = json!({"name": name(object), "labels": object["metadata"]["labels"]});
    for path in ["/metadata/namespace", "/metadata/deletionTimestamp", "/spec", "/status"] {
        if let (Some(value), Some((_, field))) = (object.pointer(path), path.rsplit_once('/')) {
            brief[field] = value.clone();
        }
    }
    brief
}
