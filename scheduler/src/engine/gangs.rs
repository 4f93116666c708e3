//! Pods that are placed together or not at all: who belongs to which gang, and what their PodGroups say. Decides only which of
//! them are decided again.

mod deciding;
mod giving_up;
mod making_room;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{Effect, Engine};
use crate::api::PodGroup;
use crate::pod::PodInfo;
use crate::queue::Place;
use crate::snapshot::{Assumed, Machine};
use giving_up::Patience;

pub(super) use deciding::ASKED;

/// Pods in one transaction.
pub(super) const MOST: usize = 512;
/// The reason of the condition that a PodGroup has when its gang was tried for too long.
pub(crate) const TIMED_OUT: &str = "TimedOut";

pub(super) type Key = (String, String);

#[derive(Debug, Default)]
struct Gang {
    /// From the PodGroup.
    min_member: Option<u32>,
    /// What the pods' labels say, and how many say it.
    says: BTreeMap<u32, usize>,
    /// Those that have no machine, by age.
    pending: BTreeSet<(i64, Arc<str>)>,
    /// Those that have or had one: who has ended did start with the others.
    bound: BTreeSet<Arc<str>>,
    /// It was decided and did not fit.
    is_short: bool,
    patience: Patience,
    /// What the PodGroup's status says, and what was last sent.
    written: (String, u32, bool),
    told: Option<(&'static str, u32, Option<u32>)>,
}

impl Gang {
    /// How many start together: as the PodGroup says, or else the pods; the most, where they are not of one mind.
    fn min(&self) -> Option<u32> {
        self.min_member.or_else(|| self.says.last_key_value().map(|(says, _)| *says))
    }

    /// How many must find a place together now; `None` while nobody has said how many they are.
    fn needs(&self) -> Option<usize> {
        Some((self.min()? as usize).saturating_sub(self.bound.len()))
    }
}

/// How a gang stands, for whoever asks.
#[derive(Debug)]
pub(super) struct Standing {
    pub min_member: Option<u32>,
    /// A PodGroup says how many they are, not a label.
    pub has_object: bool,
    /// By age.
    pub pending: Vec<Arc<str>>,
    pub placed: usize,
}

/// How a pod belongs to its gang.
#[derive(Debug, PartialEq, Eq)]
struct Membership {
    key: Key,
    created_us: i64,
    /// How many start together, by its label.
    says: Option<u32>,
    has_machine: bool,
}

/// A gang that was decided and waits for its machines.
#[derive(Debug)]
struct Ticket {
    key: Key,
    members: Vec<Assumed>,
    machines: BTreeSet<Machine>,
}

#[derive(Debug, Default)]
pub(super) struct Gangs {
    known: BTreeMap<Key, Gang>,
    of: BTreeMap<Arc<str>, Membership>,
    tickets: BTreeMap<u64, Ticket>,
    issued: u64,
    /// Gangs whose PodGroup may have to say something else.
    changed: BTreeSet<Key>,
    /// When gangs have been tried for long enough; some of it may be out of date.
    due: BTreeSet<(u64, Key)>,
}

fn key(info: &PodInfo) -> Option<Key> {
    info.gang.as_ref().map(|gang| (info.namespace.clone(), gang.name.clone()))
}

impl Gangs {
    /// The pod is of the gang that it names now, if any, and of no other. Returns the gangs that are not as they were.
    fn joins(&mut self, info: &PodInfo, has_machine: bool) -> Vec<Key> {
        let says = info.gang.as_ref().and_then(|gang| gang.min_member);
        let now = key(info).map(|key| Membership { key, created_us: info.created_us, says, has_machine });
        if self.of.get(&info.uid) == now.as_ref() {
            return Vec::new();
        }
        let mut changed: Vec<Key> = self.gone(&info.uid).into_iter().collect();
        let Some(now) = now else { return changed };
        let gang = self.known.entry(now.key.clone()).or_default();
        if has_machine {
            gang.bound.insert(info.uid.clone());
        } else {
            gang.pending.insert((info.created_us, info.uid.clone()));
        }
        if let Some(says) = says {
            *gang.says.entry(says).or_insert(0) += 1;
        }
        self.changed.insert(now.key.clone());
        if changed.first() != Some(&now.key) {
            changed.push(now.key.clone());
        }
        self.of.insert(info.uid.clone(), now);
        changed
    }

    /// The pod is of no gang. Returns the one that it was of.
    fn gone(&mut self, uid: &str) -> Option<Key> {
        let Membership { key, created_us, says, .. } = self.of.remove(uid)?;
        let gang = self.known.get_mut(&key)?;
        gang.pending.remove(&(created_us, uid.into()));
        gang.bound.remove(uid);
        if let Some(count) = says.and_then(|says| gang.says.get_mut(&says)) {
            *count -= 1;
        }
        gang.says.retain(|_, count| *count > 0);
        self.changed.insert(key.clone());
        if gang.pending.is_empty() && gang.bound.is_empty() && gang.min_member.is_none() {
            self.known.remove(&key);
        }
        Some(key)
    }

    pub fn key_of(&self, uid: &str) -> Option<Key> {
        self.of.get(uid).map(|of| of.key.clone())
    }

    /// The pods that are of any gang.
    pub fn members(&self) -> impl Iterator<Item = &Arc<str>> {
        self.of.keys()
    }

    /// Whether a PodGroup may have to say something else.
    pub fn has_news(&self) -> bool {
        !self.changed.is_empty()
    }

    pub fn forget_news(&mut self) {
        self.changed.clear();
    }

    /// Gangs of which a PodGroup is known.
    pub fn with_object(&self) -> impl Iterator<Item = (String, String)> + '_ {
        self.known.iter().filter(|(_, gang)| gang.min_member.is_some()).map(|(key, _)| key.clone())
    }

    /// The gang that the pod is of.
    pub fn standing(&self, info: &PodInfo) -> Option<Standing> {
        let gang = self.known.get(&key(info)?)?;
        let pending = gang.pending.iter().map(|(_, uid)| uid.clone()).collect();
        let min_member = gang.min();
        Some(Standing { min_member, has_object: gang.min_member.is_some(), pending, placed: gang.bound.len() })
    }

    pub fn machines(&self, ticket: u64) -> Option<BTreeSet<Machine>> {
        self.tickets.get(&ticket).map(|ticket| ticket.machines.clone())
    }

    /// The gang's name and members; the ticket is used up.
    pub fn take(&mut self, ticket: u64) -> (String, Vec<Assumed>) {
        self.tickets.remove(&ticket).map(|ticket| (ticket.key.1, ticket.members)).unwrap_or_default()
    }
}

#[cfg(test)]
impl Gangs {
    /// Whether the ticket is for this pod on this machine.
    pub fn stands(&self, ticket: u64, uid: &str, machine: Machine) -> bool {
        let members = self.tickets.get(&ticket).map(|ticket| &ticket.members);
        members.into_iter().flatten().any(|member| &**member.uid() == uid && member.machine() == machine)
    }

    /// Those that wait with this pod, itself included, if its gang is complete.
    pub fn whole(&self, uid: &str) -> impl Iterator<Item = &Arc<str>> {
        let gang = self.of.get(uid).and_then(|of| self.known.get(&of.key));
        let gang = gang.filter(|gang| gang.needs().is_some_and(|needs| needs <= MOST && gang.pending.len() >= needs));
        gang.into_iter().flat_map(|gang| gang.pending.iter().map(|(_, uid)| uid))
    }
}

/// Knowing who belongs together.
impl Engine {
    /// The pod waits for a machine, with its gang if it has one.
    pub(super) fn gang_pending(&mut self, info: &PodInfo) {
        self.gang_joined(info, false);
    }

    pub(super) fn gang_bound(&mut self, info: &PodInfo) {
        self.gang_joined(info, true);
    }

    /// A pod that is being deleted is no member any more: the gang that comes after it must not count on it.
    pub(super) fn gang_bound_unless_going(&mut self, info: &PodInfo) {
        if info.deleting {
            self.gang_gone(&info.uid);
        } else {
            self.gang_bound(info);
        }
    }

    fn gang_joined(&mut self, info: &PodInfo, has_machine: bool) {
        let now = key(info);
        for changed in self.gangs.joins(info, has_machine) {
            if Some(&changed) != now.as_ref() {
                // What was held for it was held for it as one of the others.
                self.give_back(&info.uid);
                self.give_back_unless_whole(&changed);
            }
            self.gang_changed(&changed);
        }
    }

    pub(super) fn gang_gone(&mut self, uid: &str) {
        if let Some(key) = self.gangs.gone(uid) {
            self.give_back_unless_whole(&key);
            self.gang_changed(&key);
        }
    }

    /// A gang that lacks a pod has nothing held for it.
    fn give_back_unless_whole(&mut self, key: &Key) {
        let gang = self.gangs.known.get(key);
        if gang.is_some_and(|gang| gang.needs().is_none_or(|needs| gang.pending.len() < needs)) {
            self.give_back_all(key);
        }
    }

    pub(super) fn group(&mut self, group: &PodGroup) {
        let key = (group.metadata.namespace.clone(), group.metadata.name.clone());
        let gang = self.gangs.known.entry(key.clone()).or_default();
        let timed_out = group.status.conditions.iter().any(|condition| condition.reason == TIMED_OUT);
        gang.written = (group.status.phase.clone(), group.status.scheduled, timed_out);
        self.gangs.changed.insert(key.clone());
        if gang.patience.limit_s != group.spec.schedule_timeout_seconds {
            gang.patience.limit_s = group.spec.schedule_timeout_seconds;
            gang.patience.reset();
        }
        if gang.min_member != Some(group.spec.min_member) {
            gang.min_member = Some(group.spec.min_member);
            self.give_back_unless_whole(&key);
            self.gang_changed(&key);
        }
    }

    /// What the PodGroups' statuses should say and do not.
    pub(super) fn tell_groups(&mut self, effects: &mut Vec<Effect>) {
        for key in std::mem::take(&mut self.gangs.changed) {
            let Some(gang) = self.gangs.known.get_mut(&key).filter(|gang| gang.min_member.is_some()) else { continue };
            let under_way = gang.pending.iter().any(|(_, uid)| self.deciding.contains_key(uid));
            let phase = match gang.needs() {
                Some(0) => "Scheduled",
                _ if under_way => "Scheduling",
                _ if gang.is_short => "Unschedulable",
                _ => "Pending",
            };
            let scheduled = u32::try_from(gang.bound.len()).unwrap_or(u32::MAX);
            let timed_out_s = gang.patience.timed_out_s();
            let (written_phase, written_scheduled, written_timed_out) = &gang.written;
            let is_written = written_phase == phase
                && *written_scheduled == scheduled
                && *written_timed_out == timed_out_s.is_some();
            if is_written {
                gang.told = None;
            } else if gang.told != Some((phase, scheduled, timed_out_s)) {
                gang.told = Some((phase, scheduled, timed_out_s));
                let (namespace, name) = key;
                effects.push(Effect::Group { namespace, name, phase, scheduled, timed_out_s });
            }
        }
    }

    pub(super) fn group_gone(&mut self, key: &Key) {
        if let Some(gang) = self.gangs.known.get_mut(key) {
            gang.min_member = None;
            gang.patience = Patience::default();
            if gang.pending.is_empty() && gang.bound.is_empty() {
                self.gangs.known.remove(key);
            } else {
                self.give_back_unless_whole(key);
                self.gang_changed(key);
            }
        }
    }

    /// Those that wait for the gang alone are decided again: one of them when it is complete, all when each goes alone.
    fn gang_changed(&mut self, key: &Key) {
        let Some(gang) = self.gangs.known.get_mut(key) else { return };
        let needs = gang.needs();
        let ready = match needs {
            Some(0) => gang.pending.len(),
            Some(needs) if gang.pending.len() >= needs => 1,
            _ => return,
        };
        // Who fits nowhere by itself sleeps on.
        let slept = needs != Some(0) || std::mem::take(&mut gang.is_short);
        let waits = |uid: &Arc<str>| match self.queue.place(uid) {
            Some((Place::Parked, ..)) => true,
            Some((Place::Sleeping(_), ..)) => slept,
            _ => false,
        };
        let waiting: Vec<_> =
            gang.pending.iter().map(|(_, uid)| uid).filter(|uid| waits(uid)).take(ready).cloned().collect();
        waiting.iter().for_each(|uid| self.queue.again(uid));
    }
}
