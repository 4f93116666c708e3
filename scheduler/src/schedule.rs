//! The decision: one pod, one snapshot, one answer. Pure: the same arguments give the same answer.

use std::collections::BTreeMap;

use crate::plugins::{Filter, PLUGINS, Reason, Scale, Scorer, Wake};
use crate::pod::{Band, PodInfo};
use crate::snapshot::{Machine, Snapshot};

/// A walk stops after this many machines that would do, or after one in twenty if that is more.
const ENOUGH: usize = 500;
const ENOUGH_PART: usize = 20;

/// How pods of a band are placed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Profile {
    pub band: Band,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    Placement(Placement),
    Unschedulable(Unschedulable),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    pub machine: Machine,
    pub feasible: usize,
    pub score: i64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unschedulable {
    /// Machines that there are.
    pub machines: usize,
    /// Why each refused.
    pub refusals: BTreeMap<Machine, Vec<Reason>>,
    pub wake_on: Wake,
}

impl Unschedulable {
    /// Nothing is wrong with the pod: news of the machines is only on its way.
    pub fn is_catching_up(&self) -> bool {
        let behind = |r: &Reason| matches!(r, Reason::CatchingUp | Reason::Unregistered);
        self.refusals.values().flatten().any(behind)
    }
}

/// Where the pod should run, or why nowhere. `seed` chooses where the walk starts and between equals.
pub fn schedule(snapshot: &Snapshot, pod: &PodInfo, profile: &Profile, seed: u64) -> Decision {
    let filters: Vec<Filter> = PLUGINS.iter().filter_map(|p| p.filter?(snapshot, pod)).collect();
    let slots = snapshot.slots();
    let enough = ENOUGH.max(slots / ENOUGH_PART);
    let start = if slots == 0 { 0 } else { usize::try_from(seed % slots as u64).unwrap_or(0) };
    let mut feasible = Vec::new();
    let mut none = Unschedulable { wake_on: Wake::MACHINE, ..Unschedulable::default() };
    for machine in (start..slots).chain(0..start).filter(|m| snapshot.is_live(*m)) {
        none.machines += 1;
        match filters.iter().find_map(|filter| filter(machine).err()) {
            Some(reasons) => {
                none.wake_on = reasons.iter().fold(none.wake_on, |wake, reason| wake.or(reason.wake_on()));
                none.refusals.insert(machine, reasons);
            }
            None => feasible.push(machine),
        }
        if feasible.len() >= enough {
            break;
        }
    }
    match best(snapshot, pod, profile, &feasible, seed) {
        Some((machine, score)) => Decision::Placement(Placement { machine, feasible: feasible.len(), score }),
        None => Decision::Unschedulable(none),
    }
}

/// The highest score; of several the one that the seed points at.
fn best(
    snapshot: &Snapshot,
    pod: &PodInfo,
    profile: &Profile,
    feasible: &[Machine],
    seed: u64,
) -> Option<(Machine, i64)> {
    if let [only] = feasible {
        return Some((*only, 0));
    }
    let mut totals = vec![0; feasible.len()];
    for plugin in PLUGINS {
        let weight = (plugin.weight)(profile.band);
        if weight == 0 {
            continue;
        }
        let Some(scorer) = plugin.score.and_then(|score| score(snapshot, pod)) else { continue };
        for (total, score) in totals.iter_mut().zip(scaled(&scorer, feasible)) {
            *total += weight * score;
        }
    }
    let highest = totals.iter().copied().max()?;
    let ties: Vec<Machine> = feasible.iter().zip(&totals).filter(|(_, t)| **t == highest).map(|(m, _)| *m).collect();
    let at = usize::try_from((seed >> 20) % ties.len() as u64).unwrap_or(0);
    Some((ties[at], highest))
}

/// Scores from 0 to 100.
pub(crate) fn scaled(scorer: &Scorer, machines: &[Machine]) -> Vec<i64> {
    let raw: Vec<i64> = machines.iter().map(|m| (scorer.score)(*m)).collect();
    let (Some(least), Some(most)) = (raw.iter().copied().min(), raw.iter().copied().max()) else { return raw };
    let span = most - least;
    let scale = |score: i64| match scorer.scale {
        Scale::AsIs => score,
        _ if span == 0 => 100,
        Scale::More => (score - least) * 100 / span,
        Scale::Fewer => 100 - (score - least) * 100 / span,
    };
    raw.into_iter().map(scale).collect()
}
