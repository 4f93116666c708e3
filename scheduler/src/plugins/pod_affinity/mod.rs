//! Pods that run together or apart, by topology: what this pod demands, what the pods that run demand of it, and what it
//! and they prefer. (Kubernetes: "Inter-pod affinity and anti-affinity"; a required affinity of a placed pod counts 1.)

use super::{Check, Checked, Preparing, Reason, Scale, Score, Scored};
use crate::snapshot::{Carried, HolderId, Machine, MatchRule, Placed, Snapshot, ViewId};

#[derive(Debug)]
struct PodAffinity {
    /// One for each demand to be together; each counts the pods that meet all of them.
    together: Vec<ViewId>,
    /// The pod meets its own demands: the first of a group may start anywhere.
    may_be_first: bool,
    /// One for each demand to be apart.
    apart: Vec<ViewId>,
    /// Placed pods' demands to be apart from this one.
    avoided_by: Vec<HolderId>,
}

pub fn check(preparing: &mut Preparing) -> Checked {
    let info = preparing.info;
    let rules = || info.affinity.iter().map(|term| term.rule.clone()).collect();
    let all = MatchRule { rules: rules(), living: false };
    let together = info.affinity.iter().map(|term| preparing.view(&all, &term.topology_key, None)).collect();
    let one = |rule| MatchRule { rules: vec![rule], living: false };
    let apart = info.anti_affinity.iter().map(|term| preparing.view(&one(term.rule.clone()), &term.topology_key, None));
    let apart: Vec<ViewId> = apart.collect();
    let snapshot = &preparing.snapshot;
    let avoided_by: Vec<HolderId> =
        preparing.carried.iter().copied().filter(|h| snapshot.carried(*h).0 == Carried::Apart).collect();
    let may_be_first = info.affinity.iter().all(|term| snapshot.is_about(&term.rule, &info.tags));
    if info.affinity.is_empty() && apart.is_empty() && avoided_by.is_empty() {
        return None;
    }
    Some(Box::new(PodAffinity { together, may_be_first, apart, avoided_by }))
}

impl PodAffinity {
    fn is_together(&self, snapshot: &Snapshot, machine: Machine, without: &[&Placed]) -> bool {
        let total =
            |view: &ViewId| snapshot.view(*view).total() - i64::from(snapshot.viewed_of(*view, machine, without));
        let is_first = || self.may_be_first && self.together.iter().all(|view| total(view) == 0);
        let near = |view: &ViewId| {
            snapshot.viewed(*view, machine).map(|near| near - snapshot.viewed_of(*view, machine, without))
        };
        self.together.iter().all(|view| near(view).is_some_and(|near| near > 0))
            || (self.together.iter().all(|view| near(view).is_some()) && is_first())
    }

    fn is_apart(&self, snapshot: &Snapshot, machine: Machine, without: &[&Placed]) -> bool {
        self.apart.iter().all(|view| {
            let near = snapshot.viewed(*view, machine).unwrap_or(0);
            near == 0 || near == snapshot.viewed_of(*view, machine, without)
        })
    }

    fn is_avoided(&self, snapshot: &Snapshot, machine: Machine, without: &[&Placed]) -> bool {
        self.avoided_by.iter().any(|holder| {
            let near = snapshot.carriers(*holder, machine);
            near > 0 && near > snapshot.carriers_of(*holder, without)
        })
    }
}

impl Check for PodAffinity {
    fn admits(&self, snapshot: &Snapshot, machine: Machine) -> bool {
        self.is_together(snapshot, machine, &[])
            && self.is_apart(snapshot, machine, &[])
            && !self.is_avoided(snapshot, machine, &[])
    }

    fn refuse(&self, snapshot: &Snapshot, machine: Machine, without: &[&Placed], reasons: &mut Vec<Reason>) {
        if !self.is_together(snapshot, machine, without) {
            reasons.push(Reason::Affinity);
        } else if !self.is_apart(snapshot, machine, without) {
            reasons.push(Reason::AntiAffinity);
        } else if self.is_avoided(snapshot, machine, without) {
            reasons.push(Reason::ExistingAntiAffinity);
        }
    }

    fn spans_machines(&self) -> bool {
        true
    }
}

#[derive(Debug)]
struct Preferences {
    own: Vec<(i64, ViewId)>,
    others: Vec<(i64, HolderId)>,
}

pub fn score(preparing: &mut Preparing) -> Scored {
    let info = preparing.info;
    let one = |rule| MatchRule { rules: vec![rule], living: false };
    let own: Vec<_> = info
        .preferences
        .iter()
        .map(|term| (term.weight, preparing.view(&one(term.rule.clone()), &term.topology_key, None)))
        .collect();
    let snapshot = &preparing.snapshot;
    let worth = |holder: &HolderId| match snapshot.carried(*holder).0 {
        Carried::Apart => None,
        Carried::Together => Some((1, *holder)),
        Carried::Prefers(weight) => Some((weight, *holder)),
    };
    let others: Vec<_> = preparing.carried.iter().filter_map(worth).collect();
    if own.is_empty() && others.is_empty() {
        return None;
    }
    Some(Box::new(Preferences { own, others }))
}

impl Score for Preferences {
    fn scale(&self) -> Scale {
        Scale::More
    }

    fn score(&self, snapshot: &Snapshot, machines: &[Machine], scores: &mut Vec<i64>) {
        scores.extend(machines.iter().map(|machine| {
            let near = |view: ViewId| i64::from(snapshot.viewed(view, *machine).unwrap_or(0));
            let own: i64 = self.own.iter().map(|(weight, view)| weight * near(*view)).sum();
            let carriers = |holder: HolderId| i64::from(snapshot.carriers(holder, *machine));
            own + self.others.iter().map(|(weight, holder)| weight * carriers(*holder)).sum::<i64>()
        }));
    }
}

#[cfg(test)]
mod tests;
