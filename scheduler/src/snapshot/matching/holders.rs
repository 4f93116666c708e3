//! Rules that placed pods carry: who must not, must or should be near them. Counted per domain while any such pod is placed.

use super::groups::Group;
use super::{Domain, Machine, Matching, is_about, listed_in};
use crate::pod::{AffinityTerm, PodRule};
use crate::snapshot::KeyId;
use crate::snapshot::topology::Topology;

pub type HolderId = usize;

/// What a carried rule says of pods that it speaks of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Carried {
    /// Not in my domain.
    Apart,
    /// I demanded to be near them; they are welcome.
    Together,
    /// Worth this much in my domain.
    Prefers(i64),
}

pub(super) type Key = (PodRule, String, Carried);

#[derive(Debug)]
pub(super) struct Holder {
    identity: Key,
    pub key: KeyId,
    /// Of this rule alone, as its place among the holders is not.
    serial: u64,
    /// Specs that carry it.
    users: u32,
    by_domain: Vec<i32>,
    total: i64,
}

impl Holder {
    pub fn rule(&self) -> &PodRule {
        &self.identity.0
    }

    #[cfg(test)]
    pub fn is_used(&self) -> bool {
        self.users > 0
    }

    pub fn count(&mut self, topology: &Topology, machine: Machine, by: i32) {
        let Some(domain) = topology.domain(self.key, machine) else { return };
        if self.by_domain.len() <= domain {
            self.by_domain.resize(domain + 1, 0);
        }
        self.by_domain[domain] += by;
        self.total += i64::from(by);
    }
}

impl Matching {
    pub fn carried(&self, id: HolderId) -> (Carried, KeyId) {
        (self.holders[id].identity.2, self.holders[id].key)
    }

    pub fn holder_serial(&self, id: HolderId) -> u64 {
        self.holders[id].serial
    }

    /// Carriers in the domain.
    pub fn carriers(&self, id: HolderId, domain: Domain) -> i32 {
        self.holders[id].by_domain.get(domain).copied().unwrap_or(0)
    }

    pub fn has_carriers(&self, id: HolderId) -> bool {
        self.holders[id].total > 0
    }

    /// One more spec carries this rule. `key` acquires its topology key when the rule is new.
    pub fn acquire_holder(
        &mut self,
        term: &AffinityTerm,
        carried: Carried,
        key: impl FnOnce(&str) -> KeyId,
    ) -> HolderId {
        let identity = (term.rule.clone(), term.topology_key.clone(), carried);
        if let Some(known) = self.holder_by_rule.get(&identity) {
            self.holders[*known].users += 1;
            return *known;
        }
        self.holders_made += 1;
        let (key, serial) = (key(&term.topology_key), self.holders_made);
        let holder = Holder { identity: identity.clone(), key, serial, users: 1, by_domain: vec![], total: 0 };
        let id = match self.holders.iter().position(|holder| holder.users == 0) {
            Some(free) => {
                self.holders[free] = holder;
                free
            }
            None => {
                self.holders.push(holder);
                self.holders.len() - 1
            }
        };
        let lists = listed_in(&term.rule);
        for ns in &lists {
            self.neighbours.entry(ns.clone()).or_default().holders.push(id);
        }
        for group in self.groups_in(&lists) {
            let namespaces = &self.namespaces;
            let Some(Group { tags, holders, .. }) = self.groups.get_mut(&group) else { continue };
            if is_about(&term.rule, tags, namespaces) {
                holders.push(id);
                holders.sort_unstable();
            }
        }
        self.holder_by_rule.insert(identity, id);
        id
    }

    /// Gives the topology key back once no spec carries the rule.
    pub fn release_holder(&mut self, id: HolderId) -> Option<KeyId> {
        self.holders[id].users -= 1;
        if self.holders[id].users > 0 {
            return None;
        }
        let lists = listed_in(self.holders[id].rule());
        for group in self.groups_in(&lists) {
            if let Some(group) = self.groups.get_mut(&group) {
                group.holders.retain(|holder| *holder != id);
            }
        }
        for ns in lists {
            if let Some(near) = self.neighbours.get_mut(&ns) {
                near.holders.retain(|holder| *holder != id);
            }
        }
        let Holder { identity, key, .. } = &self.holders[id];
        self.holder_by_rule.remove(identity);
        Some(*key)
    }
}
