//! The decision: one pod of a class, one snapshot, one answer. Pure: the same arguments give the same answer.

use std::collections::BTreeMap;

use crate::bits::{WORD, ones};
use crate::class::Class;
use crate::plugins::{Reason, Scale, Wake};
use crate::snapshot::{Machine, Placed, Snapshot, Standing};

/// A walk stops after this many machines that would do, or after one in twenty if that is more.
const ENOUGH: usize = 500;
const ENOUGH_PART: usize = 20;
/// The best machines that an answer names, for a committer that finds the first one taken.
const CHOICES: usize = 4;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    Placement(Placement),
    Unschedulable(Unschedulable),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    /// The best first.
    pub choices: Vec<Machine>,
    pub feasible: usize,
    pub score: i64,
}

impl Placement {
    pub fn machine(&self) -> Machine {
        self.choices[0]
    }
}

/// Machines that refuse for one reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    pub machines: usize,
    /// Of those that are short of something, the machine that has most of it, what is wanted and what is free there.
    pub nearest: Option<Nearest>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nearest {
    pub machine: Machine,
    pub wants: i64,
    pub free: i64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unschedulable {
    /// Machines that there are.
    pub machines: usize,
    /// Those that refuse, and not only because room is held for another pod.
    pub refused: usize,
    /// How many refused for which reason.
    pub reasons: BTreeMap<Reason, Refused>,
    /// Machines on which ending pods could cure every reason.
    pub curable: Vec<Machine>,
    pub wake_on: Wake,
}

impl Unschedulable {
    /// Nothing is wrong with the pod: news of the machines is only on its way.
    pub fn is_catching_up(&self) -> bool {
        self.reasons.contains_key(&Reason::CatchingUp) || self.reasons.contains_key(&Reason::Unregistered)
    }
}

/// Room for a decision's intermediate results, kept from one to the next.
#[derive(Debug, Default)]
pub struct Scratch {
    feasible: Vec<Machine>,
    totals: Vec<i64>,
    scores: Vec<i64>,
}

/// Where the pod should run, or why nowhere. `seed` chooses where the walk starts and between equals.
pub fn schedule(snapshot: &Snapshot, class: &Class, seed: u64, scratch: &mut Scratch) -> Decision {
    find(snapshot, class, seed, &mut scratch.feasible);
    match best(snapshot, class, seed, scratch) {
        Some(placement) => Decision::Placement(placement),
        None => Decision::Unschedulable(explain(snapshot, class)),
    }
}

/// Enough machines that would do, from where the seed points.
fn find(snapshot: &Snapshot, class: &Class, seed: u64, feasible: &mut Vec<Machine>) {
    feasible.clear();
    let words = snapshot.slots().div_ceil(WORD);
    let enough = class.enough.unwrap_or_else(|| ENOUGH.max(snapshot.slots() / ENOUGH_PART));
    let start = if words == 0 { 0 } else { usize::try_from(seed % words as u64).unwrap_or(0) };
    for word in (start..words).chain(0..start) {
        let live = snapshot.live().word(word);
        let mut mask = live;
        for (_, check) in &class.checks {
            if mask == 0 {
                break;
            }
            mask = check.admit_word(snapshot, word, mask);
        }
        feasible.extend(ones(mask).map(|bit| word * WORD + bit));
        let held = live & snapshot.held().word(word) & !mask;
        feasible.extend(ones(held).map(|bit| word * WORD + bit).filter(|m| outranks(snapshot, class, *m)));
        if feasible.len() >= enough {
            break;
        }
    }
}

/// Whether the machine would do once room that is held for less important pods is not.
fn outranks(snapshot: &Snapshot, class: &Class, machine: Machine) -> bool {
    let lesser = held_for_lesser(snapshot, class, machine);
    !lesser.is_empty() && does_with(snapshot, class, machine, &lesser)
}

pub(crate) fn held_for_lesser<'a>(snapshot: &'a Snapshot, class: &Class, machine: Machine) -> Vec<&'a Placed> {
    let lesser = |p: &&Placed| p.standing == Standing::Held && p.importance() < class.importance();
    snapshot.pods_on(machine).filter(lesser).collect()
}

/// Whether the machine would do if these pods did not run on it.
pub fn does_with(snapshot: &Snapshot, class: &Class, machine: Machine, without: &[&Placed]) -> bool {
    let mut reasons = Vec::new();
    class.checks.iter().all(|(_, check)| {
        check.refuse(snapshot, machine, without, &mut reasons);
        reasons.is_empty()
    })
}

/// As [`does_with`], also where news of the machine is on its way.
pub(crate) fn would_do(snapshot: &Snapshot, class: &Class, machine: Machine, without: &[&Placed]) -> bool {
    let mut reasons = Vec::new();
    let lasting = class.checks.iter().filter(|(_, check)| !check.is_passing());
    snapshot.is_live(machine)
        && lasting.into_iter().all(|(_, check)| {
            check.refuse(snapshot, machine, without, &mut reasons);
            reasons.is_empty()
        })
}

/// Whether the machine would do as things are now: what a committer asks again before it assumes.
pub fn does(snapshot: &Snapshot, class: &Class, machine: Machine) -> bool {
    snapshot.is_live(machine)
        && (class.checks.iter().all(|(_, check)| check.admits(snapshot, machine))
            || (snapshot.held().get(machine) && outranks(snapshot, class, machine)))
}

/// The highest scores; between equals the seed decides.
fn best(snapshot: &Snapshot, class: &Class, seed: u64, scratch: &mut Scratch) -> Option<Placement> {
    let Scratch { feasible, totals, scores } = scratch;
    if feasible.is_empty() {
        return None;
    }
    totals.clear();
    totals.resize(feasible.len(), 0);
    for (_, weight, score) in &class.scores {
        scores.clear();
        score.score(snapshot, feasible, scores);
        scaled(score.scale(), scores);
        for (total, score) in totals.iter_mut().zip(&*scores) {
            *total += weight * score;
        }
    }
    // A rotation by the seed makes the first of equals a fair choice.
    let turn = usize::try_from((seed >> 20) % feasible.len() as u64).unwrap_or(0);
    let mut choices: [(i64, Machine); CHOICES] = [(i64::MIN, 0); CHOICES];
    for at in (turn..feasible.len()).chain(0..turn) {
        let mut candidate = (totals[at], feasible[at]);
        for choice in &mut choices {
            if candidate.0 > choice.0 {
                std::mem::swap(choice, &mut candidate);
            }
        }
    }
    let score = choices[0].0;
    let choices = choices.iter().take(feasible.len()).map(|(_, machine)| *machine).collect();
    Some(Placement { choices, feasible: feasible.len(), score })
}

/// Brings raw scores to 0 to 100.
pub(crate) fn scaled(scale: Scale, scores: &mut [i64]) {
    if scale == Scale::AsIs {
        return;
    }
    let (Some(least), Some(most)) = (scores.iter().copied().min(), scores.iter().copied().max()) else { return };
    let span = most - least;
    for score in scores {
        *score = match scale {
            _ if span == 0 => 100,
            Scale::Fewer => 100 - (*score - least) * 100 / span,
            _ => (*score - least) * 100 / span,
        };
    }
}

/// Why each machine refuses, counted.
pub fn explain(snapshot: &Snapshot, class: &Class) -> Unschedulable {
    let mut none = Unschedulable { wake_on: Wake::MACHINE, ..Unschedulable::default() };
    let mut reasons = Vec::new();
    for machine in snapshot.machines() {
        none.machines += 1;
        reasons.clear();
        refuse(snapshot, class, machine, &mut reasons);
        none.refused += usize::from(reasons.iter().any(|reason| *reason != Reason::Held));
        if !reasons.is_empty() && reasons.iter().all(Reason::is_preemptible) {
            none.curable.push(machine);
        }
        for reason in reasons.drain(..) {
            none.wake_on = none.wake_on.or(reason.wake_on());
            tally(&mut none.reasons, reason, machine);
        }
    }
    none
}

/// The first filter that refuses, with all that it says. That a machine's news is on its way counts only where nothing else is
/// in the way: no news can help then. Room that is held for another pod is a reason of its own.
pub fn refuse(snapshot: &Snapshot, class: &Class, machine: Machine, reasons: &mut Vec<Reason>) -> Option<usize> {
    let is_held = snapshot.held().get(machine);
    let held = |p: &&Placed| p.standing == Standing::Held;
    let held: Vec<&Placed> = if is_held { snapshot.pods_on(machine).filter(held).collect() } else { Vec::new() };
    let mut behind = None;
    for (plugin, check) in &class.checks {
        check.refuse(snapshot, machine, &held, reasons);
        match reasons.first() {
            Some(Reason::CatchingUp | Reason::Unregistered) => behind = reasons.pop().map(|reason| (*plugin, reason)),
            Some(_) => return Some(*plugin),
            None => {}
        }
    }
    if behind.is_none() && is_held && !does(snapshot, class, machine) {
        behind = class.checks.last().map(|(plugin, _)| (*plugin, Reason::Held));
    }
    let (plugin, reason) = behind?;
    reasons.push(reason);
    Some(plugin)
}

fn tally(counts: &mut BTreeMap<Reason, Refused>, reason: Reason, machine: Machine) {
    let near = match reason {
        Reason::Short { wants, free, .. } => Some(Nearest { machine, wants, free }),
        _ => None,
    };
    let entry = counts.entry(reason.headline()).or_insert(Refused { machines: 0, nearest: None });
    entry.machines += 1;
    if near.is_some_and(|near| entry.nearest.is_none_or(|known| near.free > known.free)) {
        entry.nearest = near;
    }
}
