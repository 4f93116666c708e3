//! Pods that are placed together or not at all: who belongs to which gang, and what their PodGroups say. Decides only which of
//! them are decided again.

mod deciding;
mod giving_up;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{Effect, Engine};
use crate::api::PodGroup;
use crate::pod::PodInfo;
use crate::snapshot::{Assumed, Machine};
use giving_up::Patience;

/// The reason of the condition that a PodGroup has when its gang was tried for too long.
pub(crate) const TIMED_OUT: &str = "TimedOut";

type Key = (String, String);

#[derive(Debug, Default)]
struct Gang {
    /// From the PodGroup; without one the pods' label says it.
    min_member: Option<u32>,
    labelled: Option<u32>,
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
    /// How many must find a place together now; `None` while nobody has said how many they are.
    fn needs(&self) -> Option<usize> {
        let min = self.min_member.or(self.labelled)?;
        Some((min as usize).saturating_sub(self.bound.len()))
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
    key_of: BTreeMap<Arc<str>, Key>,
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
    fn pending(&mut self, info: &PodInfo) {
        let Some(key) = key(info) else { return };
        let gang = self.known.entry(key.clone()).or_default();
        gang.labelled = info.gang.as_ref().and_then(|gang| gang.min_member).or(gang.labelled);
        gang.pending.insert((info.created_us, info.uid.clone()));
        gang.bound.remove(&info.uid);
        self.changed.insert(key.clone());
        self.key_of.insert(info.uid.clone(), key);
    }

    pub fn bound(&mut self, info: &PodInfo) {
        let Some(key) = key(info) else { return };
        let gang = self.known.entry(key.clone()).or_default();
        gang.labelled = info.gang.as_ref().and_then(|gang| gang.min_member).or(gang.labelled);
        gang.pending.remove(&(info.created_us, info.uid.clone()));
        gang.bound.insert(info.uid.clone());
        self.changed.insert(key.clone());
        self.key_of.insert(info.uid.clone(), key);
    }

    fn gone(&mut self, uid: &str) {
        let Some(key) = self.key_of.remove(uid) else { return };
        let Some(gang) = self.known.get_mut(&key) else { return };
        gang.pending.retain(|(_, other)| &**other != uid);
        gang.bound.remove(uid);
        self.changed.insert(key.clone());
        if gang.pending.is_empty() && gang.bound.is_empty() && gang.min_member.is_none() {
            self.known.remove(&key);
        }
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
        let min_member = gang.min_member.or(gang.labelled);
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

/// Knowing who belongs together.
impl Engine {
    /// A pod of a gang waits. Whoever waits for the gang to be complete is decided again.
    pub(super) fn gang_pending(&mut self, info: &PodInfo) {
        if let Some(key) = key(info) {
            self.gangs.pending(info);
            self.gang_changed(&key);
        }
    }

    pub(super) fn gang_bound(&mut self, info: &PodInfo) {
        if let Some(key) = key(info) {
            self.gangs.bound(info);
            self.gang_changed(&key);
        }
    }

    pub(super) fn gang_gone(&mut self, uid: &str) {
        self.gangs.gone(uid);
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
                self.gang_changed(key);
            }
        }
    }

    /// Those that wait for the gang alone are decided again: its oldest when it is complete, all when each goes alone.
    fn gang_changed(&mut self, key: &Key) {
        let Some(gang) = self.gangs.known.get(key) else { return };
        let ready = match gang.needs() {
            Some(0) => gang.pending.len(),
            Some(needs) if gang.pending.len() >= needs => 1,
            _ => return,
        };
        let parked = gang.pending.iter().map(|(_, uid)| uid.clone()).filter(|uid| !self.deciding.contains_key(uid));
        let parked: Vec<Arc<str>> = parked.filter(|uid| self.queue.is_parked(uid)).take(ready).collect();
        parked.iter().for_each(|uid| self.queue.again(uid));
    }
}
