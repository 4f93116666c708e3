//! The scheduler's core beside the reference: over random clusters both let the same machines in, the core's placement is one of
//! them, what is preferred is counted alike, and preemption ends nobody who need not end.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use gantry_apimachinery::labels::{LabelSelector, Selector};
use gantry_scheduler::api::{BatchCapacity, Namespace, Node, Pod, PriorityClass};
use gantry_scheduler::class::{Class, Classes};
use gantry_scheduler::pod::PodInfo;
use gantry_scheduler::preempt::{Budget, preempt};
use gantry_scheduler::schedule::{Decision, Scratch, explain, refuse, schedule};
use gantry_scheduler::snapshot::{Cause, Snapshot, Version, Watch};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::reference::compare::compare;
use crate::reference::manifest::{ended, key, name, node_of};
use crate::reference::preempt::{check_preemption, preemptable};
use crate::reference::{World, feasible_nodes, scores};

const CLUSTERS: u64 = 1_000;

fn read<T: DeserializeOwned>(object: &Value) -> T {
    serde_json::from_value(object.clone()).expect("the reference's objects are readable")
}

fn info(pod: &Value) -> PodInfo {
    let mut pod: Pod = read(pod);
    if pod.metadata.uid.is_empty() {
        pod.metadata.uid.0 = pod.metadata.key();
    }
    PodInfo::read(&pod)
}

/// The cluster as the core keeps it. `pod` is left out: it is the one that looks for a machine.
struct Core {
    snapshot: Snapshot,
    classes: Classes,
    budgets: Vec<Budget>,
}

impl Core {
    fn new(world: &World, pod: &Value) -> Self {
        let mut snapshot = Snapshot::default();
        for class in &world.classes {
            let class: PriorityClass = read(class);
            let label = class.metadata.labels.get("gantry.dev/band").cloned();
            snapshot.class_applied(&class.metadata.name, label.as_deref());
        }
        for namespace in &world.namespaces {
            let namespace: Namespace = read(namespace);
            snapshot.namespace_applied(&namespace.metadata.name, &namespace.metadata.labels);
        }
        for node in &world.nodes {
            snapshot.node_applied(&read::<Node>(node));
            snapshot
                .allocation_applied(name(node), Version { revision: 1, cause: Cause::Pods(0), ..Version::default() });
        }
        for capacity in &world.lendable {
            let capacity: BatchCapacity = read(capacity);
            snapshot.lendable_applied(&capacity.metadata.name, Some(&capacity.spec.lendable), 1);
        }
        for bound in
            world.pods.iter().filter(|other| !ended(other) && !node_of(other).is_empty() && key(other) != key(pod))
        {
            let info = snapshot.adopt(info(bound));
            snapshot.pod_bound(info, node_of(bound));
        }
        snapshot.reached(Watch::Pods, 1);
        let budgets = world.budgets.iter().map(budget).collect();
        Core { snapshot, classes: Classes::default(), budgets }
    }

    fn class(&mut self, pod: &Value) -> Arc<Class> {
        let info = self.snapshot.adopt(info(pod));
        self.classes.of(&mut self.snapshot, &info, "")
    }
}

fn budget(budget: &Value) -> Budget {
    let selector = budget["spec"].get("selector").map(read::<LabelSelector>);
    let selector = selector.and_then(|s| Selector::from_label_selector(&s).ok()).unwrap_or_else(Selector::nothing);
    let allowed = budget["status"]["disruptionsAllowed"].as_i64().unwrap_or(0);
    let namespace = budget["metadata"]["namespace"].as_str().unwrap_or_default().to_owned();
    Budget { namespace, selector, allowed }
}

/// The machines that the core lets in, by asking about each; a placement is one of them, and there is one if there are any.
fn let_in(world: &World, pod: &Value) -> BTreeSet<String> {
    let mut core = Core::new(world, pod);
    let class = core.class(pod);
    let admitted = |machine: &usize| refuse(&core.snapshot, &class, *machine, &mut Vec::new()).is_none();
    let names: BTreeSet<String> =
        core.snapshot.machines().filter(admitted).map(|machine| core.snapshot.name(machine).to_owned()).collect();
    match schedule(&core.snapshot, &class, 7, &mut Scratch::default()) {
        Decision::Placement(placement) => {
            assert_eq!(placement.feasible, names.len(), "a walk finds all machines of a small cluster");
            assert!(names.contains(core.snapshot.name(placement.machine())), "it goes where it may");
        }
        Decision::Unschedulable(_) => assert!(names.is_empty(), "what fits somewhere is placed"),
    }
    names
}

#[test]
fn both_let_the_same_machines_in() {
    let reference = |world: &World, pod: &Value| feasible_nodes(world, pod).into_iter().collect::<BTreeSet<_>>();
    compare(0..CLUSTERS, reference, let_in);
}

/// Raw scores of the preferences that both know.
#[test]
fn both_count_preferences_alike() {
    let named = [("NodeAffinity", "NodeAffinity"), ("Taints", "TaintToleration"), ("PodAffinity", "InterPodAffinity")];
    let core = |world: &World, pod: &Value| {
        let mut core = Core::new(world, pod);
        let class = core.class(pod);
        let machines: Vec<usize> = core.snapshot.machines().collect();
        let mut told: BTreeMap<&str, BTreeMap<String, i64>> = BTreeMap::new();
        for (own, theirs) in named {
            let mut raw = Vec::new();
            if let Some(score) = class.score(own) {
                score.score(&core.snapshot, &machines, &mut raw);
            }
            raw.resize(machines.len(), 0);
            let of = |(machine, raw): (&usize, &i64)| (core.snapshot.name(*machine).to_owned(), *raw);
            told.insert(theirs, machines.iter().zip(&raw).map(of).collect());
        }
        told
    };
    let reference = |world: &World, pod: &Value| {
        let nodes: Vec<String> = world.nodes.iter().map(|node| name(node).to_owned()).collect();
        scores(&world.others(pod), pod, &nodes)
    };
    compare(0..CLUSTERS, reference, core);
}

/// Whom the core would end, checked by the reference; and that it finds somebody where the reference does.
#[test]
fn preemption_ends_nobody_who_need_not_end() {
    let core = |world: &World, pod: &Value| {
        let mut core = Core::new(world, pod);
        let class = core.class(pod);
        if let_in(world, pod).is_empty() {
            let none = explain(&core.snapshot, &class);
            return match preempt(&core.snapshot, &class, &none.curable, &core.budgets, 3) {
                None => preemptable(world, pod).is_empty().then_some(()).ok_or("nobody was found".to_owned()),
                Some(found) => {
                    let machine = core.snapshot.name(found.machine);
                    let victims: Vec<String> = found.victims.iter().map(|victim| victim.key()).collect();
                    check_preemption(world, pod, machine, &victims)
                }
            };
        }
        Ok(())
    };
    compare(0..CLUSTERS, |_, _| Ok(()), core);
}
