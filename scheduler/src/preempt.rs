//! Makes room for a pod that fits nowhere: on one machine, the fewest and least important pods of less importance.
//! Decides who must go; never ends anybody itself. A production pod never goes for another production pod.
//!
//! For production: fewest broken budgets, then fewest victims, of the lowest band, of the lowest sum of priorities, started last. For
//! other pods as Kubernetes has it ("Pod Priority and Preemption"): fewest broken budgets, then the lowest highest priority, the
//! lowest sum, the fewest, started last.

use std::cmp::Reverse;
use std::sync::Arc;

use gantry_apimachinery::labels::Selector;

use crate::class::Class;
use crate::pod::{Band, Importance, PodInfo};
use crate::schedule::does_with;
use crate::snapshot::{Machine, Placed, Snapshot, Standing};

/// Machines looked at: this many, or one in ten if that is more.
const ENOUGH: usize = 100;
const ENOUGH_PART: usize = 10;

#[derive(Clone, Debug, PartialEq)]
pub struct Preemption {
    pub machine: Machine,
    pub victims: Vec<Arc<PodInfo>>,
}

/// A PodDisruptionBudget, as far as it protects pods from preemption.
#[derive(Clone, Debug, PartialEq)]
pub struct Budget {
    pub namespace: String,
    pub selector: Selector,
    pub allowed: i64,
}

impl Budget {
    pub(crate) fn protects(&self, info: &PodInfo) -> bool {
        // An empty selector protects every pod of the namespace.
        self.namespace == info.namespace && self.selector.matches(&info.tags.labels)
    }
}

/// What makes one choice better than another, the most important first.
type Cost = (usize, Most, i64, i64, Reverse<i64>);

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Most {
    Victims(i64),
    Important(Option<Importance>),
}

/// The cheapest of these machines to make room on. `seed` says where to begin to look.
pub fn preempt(
    snapshot: &Snapshot,
    class: &Class,
    machines: &[Machine],
    budgets: &[Budget],
    seed: u64,
) -> Option<Preemption> {
    if !class.spec.may_preempt || machines.is_empty() {
        return None;
    }
    let enough = ENOUGH.max(snapshot.slots() / ENOUGH_PART);
    let start = usize::try_from(seed % machines.len() as u64).unwrap_or(0);
    let mut best: Option<(Cost, Preemption)> = None;
    let mut possible = 0;
    for machine in machines[start..].iter().chain(&machines[..start]) {
        let Some(found) = on_machine(snapshot, class, *machine, budgets) else { continue };
        let cost = cost(class.band, snapshot, &found);
        let victims = found.victims.iter().map(|victim| victim.info.clone()).collect();
        if best.as_ref().is_none_or(|(least, _)| cost < *least) {
            best = Some((cost, Preemption { machine: *machine, victims }));
        }
        possible += 1;
        if possible >= enough {
            break;
        }
    }
    best.map(|(_, preemption)| preemption)
}

/// Whether this pod may be ended for a pod of the class.
pub fn may_go(class: &Class, other: &Placed) -> bool {
    let production = class.band == Band::Production && other.band == Band::Production;
    other.importance() < class.importance() && !production
}

struct Found<'a> {
    victims: Vec<&'a Placed>,
    broken: usize,
}

fn cost(band: Band, snapshot: &Snapshot, found: &Found) -> Cost {
    let priorities = || found.victims.iter().map(|victim| victim.info.priority);
    let highest = found.victims.iter().map(|victim| victim.importance()).max();
    // Every victim counts, also one of negative priority.
    let sum = priorities().map(|p| p.saturating_add(1 << 31)).fold(0, i64::saturating_add);
    let count = i64::try_from(found.victims.len()).unwrap_or(i64::MAX);
    let started = Reverse(found.victims.iter().map(|v| v.info.started_us).min().unwrap_or(i64::MAX));
    if band == Band::Production {
        let band = found.victims.iter().map(|v| snapshot.band(&v.info.class)).max().unwrap_or_default();
        return (found.broken, Most::Victims(count), band as i64, sum, started);
    }
    (found.broken, Most::Important(highest), sum, count, started)
}

/// All that may go are taken away; then as many as still fit come back: first those whose budget would be broken, then the most
/// important.
fn on_machine<'a>(snapshot: &'a Snapshot, class: &Class, machine: Machine, budgets: &[Budget]) -> Option<Found<'a>> {
    let may = |p: &&Placed| p.standing != Standing::Assumed && may_go(class, p);
    // Room held for less important pods is simply taken.
    let (held, mut stay): (Vec<&Placed>, Vec<&Placed>) =
        snapshot.pods_on(machine).filter(may).partition(|p| p.standing == Standing::Held);
    if stay.is_empty() {
        return None;
    }
    stay.sort_by_key(|p| (Reverse(p.importance()), p.info.started_us, p.info.uid.clone()));
    let all: Vec<&Placed> = held.iter().chain(&stay).copied().collect();
    if !does_with(snapshot, class, machine, &all) {
        return None;
    }
    let broken = breaking(budgets, &stay);
    let (breaking, harmless): (Vec<_>, Vec<_>) = stay.iter().zip(&broken).partition(|(_, broken)| **broken);
    let mut gone = all;
    let mut found = Found { victims: Vec::new(), broken: 0 };
    for (candidate, breaks) in breaking.into_iter().chain(harmless) {
        gone.retain(|p| p.info.uid != candidate.info.uid);
        if !does_with(snapshot, class, machine, &gone) {
            gone.push(candidate);
            found.victims.push(candidate);
            found.broken += usize::from(*breaks);
        }
    }
    Some(found)
}

/// Which of these would be one more than their budget allows. Pods that are ending already cost a budget nothing.
fn breaking(budgets: &[Budget], pods: &[&Placed]) -> Vec<bool> {
    let mut left: Vec<i64> = budgets.iter().map(|budget| budget.allowed).collect();
    let mut breaks = |info: &PodInfo| {
        let mut broken = false;
        for (budget, left) in budgets.iter().zip(&mut left) {
            if !info.deleting && budget.protects(info) {
                *left -= 1;
                broken |= *left < 0;
            }
        }
        broken
    };
    pods.iter().map(|placed| breaks(&placed.info)).collect()
}

#[cfg(test)]
mod tests;
