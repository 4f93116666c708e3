//! Room for a gang that does not fit: others are ended for all of its pods that must start together, or nobody is. A place is held
//! for each of them until those that make way are gone, not for long, and given back as soon as the gang is another one.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::super::{Effect, Engine, Waits};
use super::Key;
use crate::class::Class;
use crate::pod::PodInfo;
use crate::preempt::{Budget, preempt};
use crate::schedule::{Decision, does_with, schedule};
use crate::snapshot::{Assumed, Machine, Placed};

/// Machines that are asked who could be ended there, for all pods of the gang together, and so many at a time.
const LOOKS: usize = 4_096;
const AT_ONCE: usize = 64;
/// So long places are held; then it is looked again.
const HOLD_MS: u64 = 60_000;

/// Where the gang's pods would go once others made way.
#[derive(Default)]
pub(in crate::engine) struct Plan {
    placing: Vec<(Assumed, Arc<PodInfo>)>,
    pub victims: BTreeMap<Machine, Vec<Arc<PodInfo>>>,
}

/// What is left to be tried for the gang.
struct Search {
    /// Classes that fit nowhere by themselves any more: the machines that ending pods could cure, and how far they were looked at.
    full: BTreeMap<u64, (Vec<Machine>, usize)>,
    looks: usize,
    budgets: Vec<Budget>,
}

impl Plan {
    /// With these pods going as well. What others of the gang count on goes in any case.
    fn ends(&mut self, machine: Machine, victims: Vec<Arc<PodInfo>>) {
        let known = self.victims.entry(machine).or_default();
        for victim in victims {
            if !known.iter().any(|known| known.uid == victim.uid) {
                known.push(victim);
            }
        }
    }
}

impl Engine {
    /// Ends pods for this gang and holds places for its members. False when it cannot be had for so many of them.
    pub(super) fn make_room_for_all(
        &mut self,
        members: &[Arc<PodInfo>],
        needs: usize,
        now_ms: u64,
        effects: &mut Vec<Effect>,
    ) -> bool {
        let Some(Plan { placing, victims }) = self.plan_room(members, needs) else { return false };
        let mut asked = BTreeSet::new();
        for (assumed, info) in placing {
            let machine = assumed.machine();
            self.snapshot.forget(assumed);
            let ends = victims.get(&machine).map_or(&[][..], Vec::as_slice);
            let waits = Waits {
                victims: ends.iter().map(|victim| victim.uid.clone()).collect(),
                until_ms: Some(now_ms + HOLD_MS),
                for_volumes: false,
            };
            self.keep(&info, Some((machine, waits)));
            if asked.insert(machine) {
                self.evict(ends, &info, machine, effects);
            }
            self.nominate(&info, machine, effects);
        }
        true
    }

    /// Each member on top of the ones before, where it fits, or where it would fit if others were ended. Nothing stays assumed
    /// when too few have a place; otherwise the caller owes it.
    pub(in crate::engine) fn plan_room(&mut self, members: &[Arc<PodInfo>], needs: usize) -> Option<Plan> {
        let least = self.snapshot.least_importance()?;
        if !members.iter().any(|member| member.may_preempt && least < self.class_of(member).importance()) {
            return None;
        }
        let budgets = self.budgets.values().cloned().collect();
        let mut search = Search { full: BTreeMap::new(), looks: LOOKS, budgets };
        let mut plan = Plan::default();
        for member in members {
            if plan.placing.len() == needs {
                break;
            }
            let class = self.class_of(member);
            if let Some(machine) = self.find_room(&class, &mut search, &mut plan) {
                plan.placing.push((self.snapshot.assume(member.clone(), machine), member.clone()));
            }
        }
        if plan.placing.len() == needs && !plan.victims.is_empty() {
            return Some(plan);
        }
        self.forget_plan(plan);
        None
    }

    pub(in crate::engine) fn forget_plan(&mut self, plan: Plan) {
        for (assumed, _) in plan.placing {
            self.snapshot.forget(assumed);
        }
    }

    /// A machine for one more pod of the class: as it is, by those that go already, or by others that go as well.
    fn find_room(&mut self, class: &Arc<Class>, search: &mut Search, plan: &mut Plan) -> Option<Machine> {
        if let Entry::Vacant(unknown) = search.full.entry(class.id) {
            match schedule(&self.snapshot, class, 0, &mut self.scratch) {
                Decision::Placement(placement) => return Some(placement.machine()),
                Decision::Unschedulable(none) => drop(unknown.insert((none.curable, 0))),
            }
        }
        let emptied = |(machine, victims): (&Machine, &Vec<Arc<PodInfo>>)| {
            let gone: Vec<&Placed> = victims.iter().filter_map(|victim| self.snapshot.placement(&victim.uid)).collect();
            (self.snapshot.is_live(*machine) && does_with(&self.snapshot, class, *machine, &gone)).then_some(*machine)
        };
        if let Some(machine) = plan.victims.iter().find_map(emptied) {
            return Some(machine);
        }
        let (curable, at) = search.full.get_mut(&class.id)?;
        while *at < curable.len() && search.looks > 0 {
            let some = &curable[*at..curable.len().min(*at + AT_ONCE)];
            search.looks = search.looks.saturating_sub(some.len());
            if let Some(found) = preempt(&self.snapshot, class, some, &search.budgets, 0) {
                let new = found.victims.iter().filter(|victim| {
                    !plan.victims.get(&found.machine).is_some_and(|known| known.iter().any(|k| k.uid == victim.uid))
                });
                let new: Vec<Arc<PodInfo>> = new.cloned().collect();
                // What a budget allows is used up by all of them together.
                for budget in &mut search.budgets {
                    let uses = new.iter().filter(|victim| !victim.deleting && budget.protects(victim)).count();
                    budget.allowed -= i64::try_from(uses).unwrap_or(i64::MAX);
                }
                plan.ends(found.machine, new);
                return Some(found.machine);
            }
            *at += some.len();
        }
        None
    }

    /// Nothing is held for the gang any more.
    pub(in crate::engine) fn give_back_all(&mut self, key: &Key) {
        let Some(gang) = self.gangs.known.get(key) else { return };
        let held = gang.pending.iter().map(|(_, uid)| uid).filter(|uid| self.nominated.contains_key(*uid));
        let held: Vec<Arc<str>> = held.cloned().collect();
        held.iter().for_each(|uid| self.give_back(uid));
    }
}
