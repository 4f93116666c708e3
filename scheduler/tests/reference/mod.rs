//! Placement rules once more, as plainly as they can be written: what a machine must offer before a pod may go there,
//! what makes it the nicer choice, and which pods may make room. It reads stored manifests (defaults already written)
//! and knows nothing of the scheduler, so that the fast core can be compared with it over random clusters (`compare`).
//!
//! The rules are those of Kubernetes 1.35 (documentation and API reference), with Gantry's bands on top. Where the
//! documents leave a choice, `readings` names it. Volumes, gates, image locality and nominations are not covered.
#![allow(dead_code, reason = "each test target that includes this module uses a part of it")]

pub mod compare;
pub mod generate;
mod generate_pods;
pub mod machine;
pub mod manifest;
pub mod node_affinity;
pub mod pod_affinity;
pub mod ports;
pub mod preempt;
pub mod readings;
pub mod requests;
pub mod room;
pub mod shrink;
pub mod spread;

use manifest::{ended, key, name, node_of};
use serde_json::Value;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// A cluster at one moment. Every element is a manifest as the API server stores it.
#[derive(Clone, Debug, Default)]
pub struct World {
    pub nodes: Vec<Value>,
    /// Bound and pending.
    pub pods: Vec<Value>,
    pub namespaces: Vec<Value>,
    /// PriorityClasses.
    pub classes: Vec<Value>,
    /// PodDisruptionBudgets.
    pub budgets: Vec<Value>,
    /// BatchCapacity objects, named as their machine.
    pub lendable: Vec<Value>,
}

impl World {
    pub fn node(&self, wanted: &str) -> Option<&Value> {
        self.nodes.iter().find(|node| name(node) == wanted)
    }

    pub fn pod(&self, wanted: &str) -> Option<&Value> {
        self.pods.iter().find(|pod| key(pod) == wanted)
    }

    /// Pods that take part: bound to a machine that exists, and not ended. Deleting ones still do.
    pub fn bound(&self) -> Vec<&Value> {
        self.pods.iter().filter(|pod| !ended(pod) && self.machine_of(pod).is_some()).collect()
    }

    pub fn bound_to(&self, node: &Value) -> Vec<&Value> {
        self.pods.iter().filter(|pod| !ended(pod) && node_of(pod) == name(node)).collect()
    }

    /// The machine that a pod is bound to.
    pub fn machine_of(&self, pod: &Value) -> Option<&Value> {
        self.node(node_of(pod))
    }

    /// Pods that wait for a machine.
    pub fn pending(&self) -> Vec<&Value> {
        self.pods.iter().filter(|pod| !ended(pod) && node_of(pod).is_empty()).collect()
    }

    /// The same cluster without these pods (`namespace/name`).
    pub fn without(&self, gone: &[String]) -> World {
        let mut left = self.clone();
        left.pods.retain(|pod| !gone.contains(&key(pod)));
        left
    }

    /// The cluster as a pod sees it that is looking for a machine: without itself, should it be bound.
    pub fn others(&self, pod: &Value) -> Cow<'_, World> {
        let own = key(pod);
        let is_bound = self.bound().into_iter().any(|other| key(other) == own);
        if is_bound { Cow::Owned(self.without(&[own])) } else { Cow::Borrowed(self) }
    }

    /// The same cluster with this pod bound to a machine.
    pub fn with_bound(&self, pod: &Value, machine: &str) -> World {
        let mut next = self.without(&[key(pod)]);
        let mut placed = pod.clone();
        placed["spec"]["nodeName"] = machine.into();
        next.pods.push(placed);
        next
    }
}

/// Whether a machine (third argument) passes for a pod (second).
pub type Filter = fn(&World, &Value, &Value) -> bool;

/// Every filter by name, in the order in which the first refusal is reported.
pub const FILTERS: &[(&str, Filter)] = &[
    ("NodeUnschedulable", machine::is_open),
    ("NodeName", machine::is_the_named_one),
    ("TaintToleration", machine::taints_are_tolerated),
    ("NodeSelector", node_affinity::selector_holds),
    ("NodeAffinity", node_affinity::required_holds),
    ("NodePorts", ports::are_free),
    ("NodeResourcesFit", room::suffices),
    ("ZoneReserve", room::zone_keeps_its_reserve),
    ("PodTopologySpread", spread::holds),
    ("PodAffinity", pod_affinity::required_holds),
    ("PodAntiAffinity", pod_affinity::own_anti_holds),
    ("ExistingPodsAntiAffinity", pod_affinity::others_anti_holds),
];

/// Every filter that refuses the machine, in order.
pub fn refusals(world: &World, pod: &Value, node: &Value) -> Vec<&'static str> {
    FILTERS.iter().filter(|(_, passes)| !passes(world, pod, node)).map(|(name, _)| *name).collect()
}

/// For each machine: it may take the pod, or the first filter that refuses it. The pod itself is never in its own way.
pub fn feasible(world: &World, pod: &Value) -> BTreeMap<String, Result<(), &'static str>> {
    let world = &*world.others(pod);
    let verdict = |node| match refusals(world, pod, node).first() {
        Some(filter) => Err(*filter),
        None => Ok(()),
    };
    world.nodes.iter().map(|node| (name(node).to_owned(), verdict(node))).collect()
}

/// The machines that may take the pod.
pub fn feasible_nodes(world: &World, pod: &Value) -> Vec<String> {
    feasible(world, pod).into_iter().filter(|(_, verdict)| verdict.is_ok()).map(|(name, _)| name).collect()
}

/// How much a pod likes a machine (third argument), before any normalising.
pub type Score = fn(&World, &Value, &Value) -> i64;

/// Every score by name. More is better, apart from `TaintToleration`, which counts what is held against a machine.
pub const SCORES: &[(&str, Score)] = &[
    ("NodeAffinity", node_affinity::preferred_weight),
    ("TaintToleration", machine::avoided_taints),
    ("InterPodAffinity", pod_affinity::preferred_weight),
];

/// For each score its raw value on each of the named machines.
pub fn scores(world: &World, pod: &Value, nodes: &[String]) -> BTreeMap<&'static str, BTreeMap<String, i64>> {
    let world = &*world.others(pod);
    let over = |score: Score| {
        let named = world.nodes.iter().filter(|node| nodes.iter().any(|wanted| wanted == name(node)));
        named.map(|node| (name(node).to_owned(), score(world, pod, node))).collect()
    };
    SCORES.iter().map(|(name, score)| (*name, over(*score))).collect()
}
