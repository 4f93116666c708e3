//! Random clusters: each filter decides often, both ways, and the reference agrees with itself on them.

use crate::reference::compare::{compare, difference};
use crate::reference::generate::{Dice, world, worlds};
use crate::reference::manifest::{key, name, node_of};
use crate::reference::preempt::{check_preemption, once_gone, preemptable};
use crate::reference::shrink::shrink;
use crate::reference::{FILTERS, SCORES, World, feasible, feasible_nodes, refusals, scores};
use proptest::prelude::*;
use std::collections::BTreeMap;

const WORLDS: u64 = 100;

/// How often, in per cent.
fn share(part: usize, whole: usize) -> f64 {
    100.0 * part as f64 / whole.max(1) as f64
}

#[test]
fn every_filter_and_score_decides_often() {
    let (mut pods, mut pairs, mut placeable, mut helped) = (0, 0, 0, 0);
    let mut refused: BTreeMap<&str, usize> = FILTERS.iter().map(|(name, _)| (*name, 0)).collect();
    let mut alone = refused.clone();
    let mut differs: BTreeMap<&str, usize> = SCORES.iter().map(|(name, _)| (*name, 0)).collect();
    for seed in 0..WORLDS {
        let world = world(seed);
        for pod in world.pending() {
            pods += 1;
            for node in &world.nodes {
                pairs += 1;
                let by = refusals(&world, pod, node);
                by.iter().for_each(|filter| *refused.entry(filter).or_default() += 1);
                if let [only] = by.as_slice() {
                    *alone.entry(only).or_default() += 1;
                }
            }
            let nodes = feasible_nodes(&world, pod);
            placeable += usize::from(!nodes.is_empty());
            helped += usize::from(nodes.is_empty() && !preemptable(&world, pod).is_empty());
            for (score, raw) in scores(&world, pod, &nodes) {
                let varies = raw.values().min() != raw.values().max();
                *differs.entry(score).or_default() += usize::from(varies);
            }
        }
    }
    println!(
        "{pods} pods, {:.1} % fit somewhere, {:.1} % only by preemption",
        share(placeable, pods),
        share(helped, pods)
    );
    for (filter, count) in &refused {
        println!("{filter:26} refuses {:5.1} %, alone {:5.1} %", share(*count, pairs), share(alone[filter], pairs));
    }
    for (score, count) in &differs {
        println!("{score:26} tells machines apart for {:5.1} % of the pods", share(*count, pods));
    }
    // A waiting pod names no machine, so that filter has nothing to say here.
    for (filter, count) in refused.iter().filter(|(filter, _)| **filter != "NodeName") {
        assert!(share(*count, pairs) >= 3.0, "{filter} refuses too rarely");
        // A zone that has used up its last free part mostly has no machine with room either.
        assert!(alone[filter] >= if *filter == "ZoneReserve" { 2 } else { 5 }, "{filter} never decides alone");
    }
    assert!(differs.values().all(|count| share(*count, pods) >= 3.0), "{differs:?}");
    assert!((25.0..90.0).contains(&share(placeable, pods)), "{placeable} of {pods} fit");
    assert!(share(helped, pods) >= 3.0, "{helped} of {pods} need preemption");
}

#[test]
fn a_seed_is_one_cluster() {
    assert_eq!(format!("{:?}", world(7)), format!("{:?}", world(7)));
    assert_ne!(format!("{:?}", world(7)), format!("{:?}", world(8)));
    let mut dice = Dice(1);
    assert!((0..1000).map(|_| dice.between(-2, 2)).all(|roll| (-2..=2).contains(&roll)));
}

#[test]
fn a_found_cluster_shrinks_to_what_matters() {
    let alone_by_affinity = |world: &World| {
        let pending = world.pending();
        let mut pairs = pending.iter().flat_map(|pod| world.nodes.iter().map(move |node| (pod, node)));
        pairs.any(|(pod, node)| refusals(world, pod, node) == ["ExistingPodsAntiAffinity"])
    };
    let found = (0..200).map(world).find(alone_by_affinity).expect("one of many clusters shows it");
    let small = shrink(&found, alone_by_affinity);
    assert!(alone_by_affinity(&small));
    // The incoming pod, the one that keeps it away, and at most their two machines.
    assert!(small.pods.len() == 2 && small.nodes.len() <= 2, "{small:?}");
}

#[test]
fn a_core_that_forgets_a_rule_is_found() {
    for (forgotten, _) in FILTERS.iter().filter(|(filter, _)| *filter != "NodeName") {
        let forgetful = |world: &World, pod: &serde_json::Value| {
            let others = |node| refusals(world, pod, node).into_iter().filter(|filter| filter != forgotten).count();
            world.nodes.iter().filter(|node| others(node) == 0).map(|node| name(node).to_owned()).collect::<Vec<_>>()
        };
        let found = (0..200).find_map(|seed| difference(seed, feasible_nodes, forgetful));
        let report = found.unwrap_or_else(|| panic!("nobody misses {forgotten}"));
        assert!(report.contains("seed ") && report.contains("core:"), "{report}");
    }
    assert_eq!(difference(3, feasible_nodes, feasible_nodes), None);
    compare(0..5, feasible, feasible);
}

/// Drops victims one by one until none can stay: what a scheduler would do.
fn some_choice(world: &World, pod: &serde_json::Value, machine: &str, everybody: &[String]) -> Vec<String> {
    let node = world.node(machine).expect("the machine exists");
    let mut gone = everybody.to_vec();
    while let Some(i) = (0..gone.len()).find(|i| {
        let mut fewer = gone.clone();
        fewer.remove(*i);
        once_gone(world, &fewer, pod, node).is_empty()
    }) {
        gone.remove(i);
    }
    gone
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn verdicts_do_not_depend_on_order_or_on_who_waits(mut world in worlds()) {
        let pods: Vec<_> = world.pending().into_iter().cloned().collect();
        let before: Vec<_> = pods.iter().map(|pod| feasible(&world, pod)).collect();
        world.pods.reverse();
        world.nodes.reverse();
        world.namespaces.reverse();
        world.pods.retain(|pod| !node_of(pod).is_empty());
        let after: Vec<_> = pods.iter().map(|pod| feasible(&world, pod)).collect();
        prop_assert_eq!(before, after);
    }

    #[test]
    fn a_placed_pod_stays_where_it_fits(world in worlds()) {
        for pod in world.pending() {
            for machine in feasible_nodes(&world, pod) {
                let placed = world.with_bound(pod, &machine);
                let placed_pod = placed.pod(&key(pod)).expect("just placed");
                prop_assert_eq!(feasible_nodes(&placed, placed_pod), vec![machine]);
            }
        }
    }

    #[test]
    fn a_choice_without_a_spare_victim_passes(world in worlds()) {
        for pod in world.pending() {
            for (machine, everybody) in preemptable(&world, pod) {
                let victims = some_choice(&world, pod, &machine, &everybody);
                prop_assert_eq!(check_preemption(&world, pod, &machine, &victims), Ok(()));
                let node = world.node(&machine).map(name);
                prop_assert_eq!(node, Some(machine.as_str()));
            }
        }
    }
}
