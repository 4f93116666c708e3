//! Pods of one namespace with the same labels: which rules speak of them is asked once for all of them.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use super::holders::{Holder, HolderId};
use super::views::{Matcher, MatcherId};
use super::{Machine, Matching, is_about};
use crate::pod::Tags;

/// A group is known by the place of its shared tags, which it holds.
pub(super) fn id(tags: &Arc<Tags>) -> usize {
    Arc::as_ptr(tags).addr()
}

#[derive(Debug)]
pub(super) struct Group {
    pub tags: Arc<Tags>,
    pub placed: u32,
    /// Where they are: a new view counts these and looks at no pod.
    pub on: HashMap<Machine, Here>,
    pub matchers: Vec<MatcherId>,
    pub holders: Vec<HolderId>,
}

/// Pods of a group on one machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Here {
    living: u32,
    stopping: u32,
}

impl Here {
    pub fn count(self, living_alone: bool) -> u32 {
        if living_alone { self.living } else { self.living + self.stopping }
    }
}

/// What is in a namespace.
#[derive(Debug, Default)]
pub(super) struct Neighbours {
    pub groups: BTreeSet<usize>,
    pub matchers: Vec<MatcherId>,
    pub holders: Vec<HolderId>,
}

impl Group {
    /// One more pod (1) or one less (−1).
    pub fn count(&mut self, machine: Machine, stopping: bool, by: i32) {
        self.placed = self.placed.saturating_add_signed(by);
        let here = self.on.entry(machine).or_default();
        let of_its_kind = if stopping { &mut here.stopping } else { &mut here.living };
        *of_its_kind = of_its_kind.saturating_add_signed(by);
        if *here == Here::default() {
            self.on.remove(&machine);
        }
    }

    pub fn find(
        &mut self,
        neighbours: &HashMap<String, Neighbours>,
        matchers: &[Matcher],
        holders: &[Holder],
        namespaces: &BTreeMap<String, BTreeMap<String, String>>,
    ) {
        let tags = &self.tags;
        let near = [neighbours.get(&tags.namespace), neighbours.get("")];
        let near = || near.iter().flatten();
        let matches = |m: &MatcherId| matchers[*m].rule.rules.iter().all(|rule| is_about(rule, tags, namespaces));
        self.matchers = near().flat_map(|n| &n.matchers).copied().filter(matches).collect();
        let meets = |h: &HolderId| is_about(holders[*h].rule(), tags, namespaces);
        self.holders = near().flat_map(|n| &n.holders).copied().filter(meets).collect();
        self.matchers.sort_unstable();
        self.matchers.dedup();
        self.holders.sort_unstable();
        self.holders.dedup();
    }
}

impl Matching {
    /// The group with these tags, made where it is new.
    pub(super) fn group(&mut self, tags: &Arc<Tags>) -> usize {
        let id = id(tags);
        if self.groups.contains_key(&id) {
            return id;
        }
        if self.groups.len() >= self.sweep_at.max(1024) {
            self.sweep();
        }
        let mut group =
            Group { tags: tags.clone(), placed: 0, on: HashMap::new(), matchers: Vec::new(), holders: Vec::new() };
        group.find(&self.neighbours, &self.matchers, &self.holders, &self.namespaces);
        self.neighbours.entry(tags.namespace.clone()).or_default().groups.insert(id);
        self.groups.insert(id, group);
        id
    }

    /// Groups of which nobody is placed are asked for again when somebody comes.
    fn sweep(&mut self) {
        let neighbours = &mut self.neighbours;
        self.groups.retain(|id, group| {
            let keep = group.placed > 0;
            if !keep && let Some(near) = neighbours.get_mut(&group.tags.namespace) {
                near.groups.remove(id);
            }
            keep
        });
        self.neighbours.retain(|_, n| !(n.groups.is_empty() && n.matchers.is_empty() && n.holders.is_empty()));
        self.sweep_at = self.groups.len() * 2;
    }

    /// The rules that placed pods carry and that speak of pods with these tags.
    pub fn carried_about(&mut self, tags: &Arc<Tags>) -> &[HolderId] {
        let group = self.group(tags);
        &self.groups[&group].holders
    }

    /// The groups in these namespaces; all of them for "".
    pub(super) fn groups_in(&self, namespaces: &[String]) -> Vec<usize> {
        if namespaces.iter().any(String::is_empty) {
            return self.groups.keys().copied().collect();
        }
        namespaces.iter().filter_map(|ns| self.neighbours.get(ns)).flat_map(|n| n.groups.iter().copied()).collect()
    }
}
