//! Preemption: who may be sent away for whom, and whether a choice of victims was necessary. Which of several necessary
//! choices is the best one is not decided here, only how many budgets each breaks.

use super::manifest::{is_empty_selector, key, labels, name, namespace, selects, text};
use super::readings::{EMPTY_BUDGET_SELECTOR_COVERS_ALL, PREEMPTION_KEEPS_THE_RESERVE};
use super::room::{Band, band, class};
use super::{World, refusals};
use serde_json::Value;
use std::collections::BTreeMap;

/// Written on the pod by admission; a pod that missed it has its class's.
pub fn priority(world: &World, pod: &Value) -> i64 {
    let written = pod["spec"]["priority"].as_i64();
    written.or_else(|| class(world, pod)?["value"].as_i64()).unwrap_or(0)
}

/// Lower priority, and never production for production.
pub fn may_go(world: &World, pod: &Value, victim: &Value) -> bool {
    let both_production = [pod, victim].iter().all(|each| band(world, each) == Band::Production);
    priority(world, victim) < priority(world, pod) && !both_production
}

/// What is wrong with sending these pods (`namespace/name`) away from a machine for a pod: one of them must stay, the
/// pod does not fit then either, or it would fit with one of them still there.
pub fn check_preemption(world: &World, pod: &Value, machine: &str, victims: &[String]) -> Result<(), String> {
    let world = &*world.others(pod);
    let node = world.node(machine).ok_or_else(|| format!("there is no machine {machine}"))?;
    if text(&pod["spec"]["preemptionPolicy"]) == "Never" {
        return Err(format!("{} must not preempt", key(pod)));
    }
    for (i, victim) in victims.iter().enumerate() {
        let bound = world.bound_to(node).into_iter().find(|other| key(other) == *victim);
        let bound = bound.ok_or_else(|| format!("{victim} is not on {machine}"))?;
        if !may_go(world, pod, bound) {
            return Err(format!("{victim} must not go for {}", key(pod)));
        }
        if victims[..i].contains(victim) {
            return Err(format!("{victim} is named twice"));
        }
    }
    if refusals(world, pod, node).is_empty() {
        return Err(format!("{} fits on {machine} with nobody gone", key(pod)));
    }
    let left = once_gone(world, victims, pod, node);
    if !left.is_empty() {
        return Err(format!("{} does not fit on {machine} with the victims gone: {left:?}", key(pod)));
    }
    for back in victims {
        let gone: Vec<String> = victims.iter().filter(|victim| *victim != back).cloned().collect();
        if once_gone(world, &gone, pod, node).is_empty() {
            return Err(format!("{back} could have stayed on {machine}"));
        }
    }
    Ok(())
}

/// What still refuses a machine once these pods have left it.
pub fn once_gone(world: &World, gone: &[String], pod: &Value, node: &Value) -> Vec<&'static str> {
    let counts = |filter: &&str| PREEMPTION_KEEPS_THE_RESERVE || gone.is_empty() || *filter != "ZoneReserve";
    refusals(&world.without(gone), pod, node).into_iter().filter(counts).collect()
}

/// For each machine where the pod does not fit but would if everybody went who may: those who may. A machine that is
/// absent has room, or nobody could make any there; all are absent when the pod does not preempt.
pub fn preemptable(world: &World, pod: &Value) -> BTreeMap<String, Vec<String>> {
    let world = &*world.others(pod);
    let mut helped = BTreeMap::new();
    for node in &world.nodes {
        let removable: Vec<&Value> =
            world.bound_to(node).into_iter().filter(|other| may_go(world, pod, other)).collect();
        let removable: Vec<String> = removable.into_iter().map(key).collect();
        let would_fit = once_gone(world, &removable, pod, node).is_empty();
        let never = text(&pod["spec"]["preemptionPolicy"]) == "Never";
        if would_fit && !never && !refusals(world, pod, node).is_empty() {
            helped.insert(name(node).to_owned(), removable);
        }
    }
    helped
}

/// How many of the victims, sent away in this order, go although a budget that covers them allows no more. Pods that
/// are already being disrupted were counted by the budget's controller.
pub fn budget_violations(world: &World, victims: &[String]) -> usize {
    let mut allowed: Vec<i64> =
        world.budgets.iter().map(|budget| budget["status"]["disruptionsAllowed"].as_i64().unwrap_or(0)).collect();
    let mut violations = 0;
    for victim in victims.iter().filter_map(|victim| world.pod(victim)) {
        let mut violates = false;
        for (budget, allowed) in world.budgets.iter().zip(&mut allowed) {
            if covers(budget, victim) {
                *allowed -= 1;
                violates |= *allowed < 0;
            }
        }
        violations += usize::from(violates);
    }
    violations
}

fn covers(budget: &Value, victim: &Value) -> bool {
    let selector = &budget["spec"]["selector"];
    let disrupted = !budget["status"]["disruptedPods"][name(victim)].is_null();
    let selected =
        selects(selector, &labels(victim)) && (EMPTY_BUDGET_SELECTOR_COVERS_ALL || !is_empty_selector(selector));
    namespace(budget) == namespace(victim) && selected && !disrupted
}
