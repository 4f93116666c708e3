//! How many pods of which kind are in which topology domain: what spread and pod affinity ask for, counted as pods come and
//! go, so that a decision reads numbers instead of looking at pods.
//!
//! A *group* is all pods of one namespace with the same labels. A *matcher* is a rule about groups; a *view* counts a
//! matcher's pods per domain of a key. A *holder* is a rule that placed pods carry themselves, such as "nobody like that near
//! me"; it counts its carriers per domain. Only pending pods' rules have views; they go with the last class that uses them.

mod groups;
mod holders;
mod views;

use std::collections::{BTreeMap, HashMap};

pub use holders::{Carried, HolderId};
pub use views::{MatchRule, View, ViewId};

use super::node_sets::NodeSets;
use super::topology::Topology;
use super::{Domain, Machine};
use crate::pod::{PodRule, Tags};
use groups::{Group, Neighbours};
use holders::Holder;
use views::Matcher;

/// Where machines are and which count.
#[derive(Clone, Copy)]
pub(super) struct Map<'a> {
    pub topology: &'a Topology,
    pub sets: &'a NodeSets,
}

/// One pod, as counting sees it.
#[derive(Clone, Copy)]
pub(super) struct Member<'a> {
    pub tags: &'a std::sync::Arc<Tags>,
    pub deleting: bool,
    pub carries: &'a [HolderId],
}

#[derive(Debug, Default)]
pub(super) struct Matching {
    groups: HashMap<usize, Group>,
    sweep_at: usize,
    /// By namespace; "" for rules that choose namespaces by label.
    neighbours: HashMap<String, Neighbours>,
    matchers: Vec<Matcher>,
    views: Vec<View>,
    holders: Vec<Holder>,
    holders_made: u64,
    holder_by_rule: HashMap<holders::Key, HolderId>,
    namespaces: BTreeMap<String, BTreeMap<String, String>>,
}

/// Whether a rule speaks of pods with these tags.
fn is_about(rule: &PodRule, tags: &Tags, namespaces: &BTreeMap<String, BTreeMap<String, String>>) -> bool {
    let by_labels = || {
        let selector = rule.namespace_selector.as_ref();
        // A namespace that is not known yet has no labels.
        selector.is_some_and(|s| s.matches(namespaces.get(&tags.namespace).unwrap_or(&BTreeMap::new())))
    };
    (rule.namespaces.contains(&tags.namespace) || by_labels()) && rule.selector.matches(&tags.labels)
}

/// Where a rule is listed: with each namespace that it names, or with the rules for any.
fn listed_in(rule: &PodRule) -> Vec<String> {
    match rule.namespace_selector {
        Some(_) => vec![String::new()],
        None => rule.namespaces.iter().cloned().collect(),
    }
}

impl Matching {
    pub fn is_about(&self, rule: &PodRule, tags: &Tags) -> bool {
        is_about(rule, tags, &self.namespaces)
    }

    pub fn namespaces(&self) -> impl Iterator<Item = &str> {
        self.namespaces.keys().map(String::as_str)
    }

    /// A pod is counted on a machine (1) or is not any more (−1).
    pub fn count(&mut self, map: Map, member: Member, machine: Machine, by: i32) {
        let group = self.group(member.tags);
        let Some(group) = self.groups.get_mut(&group) else { return };
        group.count(machine, member.deleting, by);
        for matcher in &group.matchers {
            let matcher = &self.matchers[*matcher];
            if matcher.rule.living && member.deleting {
                continue;
            }
            for view in &matcher.views {
                self.views[*view].count(map, machine, by);
            }
        }
        for holder in member.carries {
            self.holders[*holder].count(map.topology, machine, by);
        }
    }

    /// Takes a machine with its pods out of all counts, before its labels or sets change; or puts it back in afterwards.
    pub fn machine<'a>(&mut self, map: Map, machine: Machine, members: impl Iterator<Item = Member<'a>>, is_in: bool) {
        let sign = if is_in { 1 } else { -1 };
        if is_in {
            self.views.iter_mut().filter(|view| view.users > 0).for_each(|view| view.machine(map, machine, 1));
        }
        for member in members {
            let Some(group) = self.groups.get(&groups::id(member.tags)) else { continue };
            for matcher in &group.matchers {
                let matcher = &self.matchers[*matcher];
                if !(matcher.rule.living && member.deleting) {
                    matcher.views.iter().for_each(|view| self.views[*view].count(map, machine, sign));
                }
            }
            member.carries.iter().for_each(|holder| self.holders[*holder].count(map.topology, machine, sign));
        }
        if !is_in {
            self.views.iter_mut().filter(|view| view.users > 0).for_each(|view| view.machine(map, machine, -1));
        }
    }

    /// Returns whether rules that choose namespaces by label may speak of other pods now; then everything is counted anew.
    pub fn namespace(&mut self, name: &str, labels: Option<&BTreeMap<String, String>>) -> bool {
        let old = match labels {
            Some(labels) => self.namespaces.insert(name.to_owned(), labels.clone()),
            None => self.namespaces.remove(name),
        };
        let changed = old.as_ref() != labels;
        changed && self.neighbours.get("").is_some_and(|wide| !wide.matchers.is_empty() || !wide.holders.is_empty())
    }

    /// Which groups the rules speak of is asked again. The caller takes all pods out of the counts before and in after.
    pub fn regroup(&mut self) {
        let Matching { groups, neighbours, matchers, holders, namespaces, .. } = self;
        for group in groups.values_mut() {
            group.find(neighbours, matchers, holders, namespaces);
        }
    }

    #[cfg(test)]
    pub fn used_views(&self) -> Vec<ViewId> {
        (0..self.views.len()).filter(|view| self.views[*view].users > 0).collect()
    }

    #[cfg(test)]
    pub fn used_holders(&self) -> Vec<HolderId> {
        (0..self.holders.len()).filter(|holder| self.holders[*holder].is_used()).collect()
    }
}
