//! Counts of matching pods per topology domain, for the rules of pods that wait.

use std::collections::{BTreeMap, BTreeSet};

use super::groups::Group;
use super::{Domain, Machine, Map, Matching, Member, is_about, listed_in};
use crate::pod::PodRule;
use crate::snapshot::{KeyId, NodeSetId};

pub type MatcherId = usize;
pub type ViewId = usize;

/// Pods that all of these speak of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MatchRule {
    pub rules: Vec<PodRule>,
    /// Pods that are stopping do not count.
    pub living: bool,
}

#[derive(Debug, Default)]
pub(in crate::snapshot) struct Matcher {
    pub rule: MatchRule,
    pub views: Vec<ViewId>,
}

#[derive(Debug, Default)]
pub struct View {
    matcher: MatcherId,
    pub key: KeyId,
    /// Only machines of this set count.
    pub eligible: Option<NodeSetId>,
    pub(super) users: u32,
    by_domain: Vec<i32>,
    /// Eligible machines by domain.
    machines: Vec<u32>,
    /// Domains with eligible machines, by their count.
    histogram: BTreeMap<i32, u32>,
    total: i64,
}

impl View {
    pub fn of(&self, domain: Domain) -> i32 {
        self.by_domain.get(domain).copied().unwrap_or(0)
    }

    /// The least count of any domain that there is.
    pub fn least(&self) -> i32 {
        self.histogram.first_key_value().map_or(0, |(least, _)| *least)
    }

    pub fn most(&self) -> i32 {
        self.histogram.last_key_value().map_or(0, |(most, _)| *most)
    }

    /// Domains with eligible machines.
    pub fn domains(&self) -> i64 {
        self.histogram.values().map(|domains| i64::from(*domains)).sum()
    }

    pub fn total(&self) -> i64 {
        self.total
    }

    pub(in crate::snapshot) fn domain(&self, map: Map, machine: Machine) -> Option<Domain> {
        let is_eligible = self.eligible.is_none_or(|set| map.sets.members(set).get(machine));
        map.topology.domain(self.key, machine).filter(|_| is_eligible)
    }

    fn reach(&mut self, domain: Domain) {
        if self.by_domain.len() <= domain {
            self.by_domain.resize(domain + 1, 0);
            self.machines.resize(domain + 1, 0);
        }
    }

    fn in_histogram(&mut self, domain: Domain, by: i32) {
        let entry = self.histogram.entry(self.by_domain[domain]).or_insert(0);
        *entry = entry.saturating_add_signed(by);
        if *entry == 0 {
            self.histogram.remove(&self.by_domain[domain]);
        }
    }

    pub(super) fn count(&mut self, map: Map, machine: Machine, by: i32) {
        let Some(domain) = self.domain(map, machine) else { return };
        self.reach(domain);
        if self.machines[domain] > 0 {
            self.in_histogram(domain, -1);
        }
        self.by_domain[domain] += by;
        self.total += i64::from(by);
        if self.machines[domain] > 0 {
            self.in_histogram(domain, 1);
        }
    }

    /// An eligible machine is there (1) or goes (−1); its pods are counted apart.
    pub(super) fn machine(&mut self, map: Map, machine: Machine, by: i32) {
        let Some(domain) = self.domain(map, machine) else { return };
        self.reach(domain);
        let was = self.machines[domain];
        self.machines[domain] = was.saturating_add_signed(by);
        if was == 0 && by > 0 {
            self.in_histogram(domain, 1);
        }
        if was > 0 && self.machines[domain] == 0 {
            self.in_histogram(domain, -1);
        }
    }
}

impl Matching {
    pub fn view(&self, id: ViewId) -> &View {
        &self.views[id]
    }

    /// Whether the view counts pods like this one.
    pub fn is_counted(&self, view: ViewId, member: Member) -> bool {
        let matcher = &self.matchers[self.views[view].matcher];
        let matches = |rule: &PodRule| is_about(rule, member.tags, &self.namespaces);
        !(matcher.rule.living && member.deleting) && matcher.rule.rules.iter().all(matches)
    }

    /// The view, with one more user, and whether it is new; then all machines are counted, and the placed pods that it is about.
    pub fn acquire_view(
        &mut self,
        map: Map,
        rule: &MatchRule,
        key: KeyId,
        eligible: Option<NodeSetId>,
        machines: impl Iterator<Item = Machine>,
    ) -> (ViewId, bool) {
        let matcher = self.matcher(rule);
        let same = |id: &&ViewId| self.views[**id].key == key && self.views[**id].eligible == eligible;
        if let Some(known) = self.matchers[matcher].views.iter().find(same).copied() {
            self.views[known].users += 1;
            return (known, false);
        }
        let mut view = View { matcher, key, eligible, users: 1, ..View::default() };
        machines.for_each(|machine| view.machine(map, machine, 1));
        let lists = rule.rules.first().map(listed_in).unwrap_or_default();
        let groups: BTreeSet<usize> = self.groups_in(&lists).into_iter().collect();
        let spoken_of = |group: &&Group| group.placed > 0 && group.matchers.contains(&matcher);
        for group in groups.iter().map(|id| &self.groups[id]).filter(spoken_of) {
            for (machine, here) in &group.on {
                view.count(map, *machine, i32::try_from(here.count(rule.living)).unwrap_or(i32::MAX));
            }
        }
        let id = match self.views.iter().position(|view| view.users == 0) {
            Some(free) => {
                self.views[free] = view;
                free
            }
            None => {
                self.views.push(view);
                self.views.len() - 1
            }
        };
        self.matchers[matcher].views.push(id);
        (id, true)
    }

    /// Gives back the key and the set that the view used once nobody uses it.
    pub fn release_view(&mut self, id: ViewId) -> Option<(KeyId, Option<NodeSetId>)> {
        self.views[id].users -= 1;
        if self.views[id].users > 0 {
            return None;
        }
        let gone = std::mem::take(&mut self.views[id]);
        let matcher = &mut self.matchers[gone.matcher];
        matcher.views.retain(|view| *view != id);
        if matcher.views.is_empty() {
            self.drop_matcher(gone.matcher);
        }
        Some((gone.key, gone.eligible))
    }

    fn matcher(&mut self, rule: &MatchRule) -> MatcherId {
        let lists = rule.rules.first().map(listed_in).unwrap_or_default();
        let near = lists.first().and_then(|ns| self.neighbours.get(ns));
        let same = |id: &&MatcherId| self.matchers[**id].rule == *rule;
        if let Some(known) = near.and_then(|near| near.matchers.iter().find(same)) {
            return *known;
        }
        let free = self.matchers.iter().position(|matcher| matcher.views.is_empty());
        let id = free.unwrap_or_else(|| {
            self.matchers.push(Matcher::default());
            self.matchers.len() - 1
        });
        self.matchers[id] = Matcher { rule: rule.clone(), views: Vec::new() };
        for ns in &lists {
            self.neighbours.entry(ns.clone()).or_default().matchers.push(id);
        }
        for group in self.groups_in(&lists) {
            let namespaces = &self.namespaces;
            let Some(group) = self.groups.get_mut(&group) else { continue };
            let Group { tags, matchers, .. } = group;
            if rule.rules.iter().all(|rule| is_about(rule, tags, namespaces)) {
                matchers.push(id);
            }
        }
        id
    }

    fn drop_matcher(&mut self, id: MatcherId) {
        let rule = std::mem::take(&mut self.matchers[id].rule);
        let lists = rule.rules.first().map(listed_in).unwrap_or_default();
        for group in self.groups_in(&lists) {
            if let Some(group) = self.groups.get_mut(&group) {
                group.matchers.retain(|matcher| *matcher != id);
            }
        }
        for ns in lists {
            if let Some(near) = self.neighbours.get_mut(&ns) {
                near.matchers.retain(|matcher| *matcher != id);
            }
        }
    }
}
