//! How long a gang is tried for: from when enough of its pods wait until its PodGroup's `scheduleTimeoutSeconds` are over. Then it
//! lets go of what it holds, its pods go behind all that wait, and it is counted anew from when it is next decided in vain.
//! A gang without a PodGroup has no such time.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::super::{Effect, Engine};
use super::{Gang, Gangs, Key};

/// How long a gang has been tried for.
#[derive(Debug, Default)]
pub(super) struct Patience {
    /// From the PodGroup.
    pub limit_s: Option<u32>,
    /// Since then it is tried.
    since_ms: Option<u64>,
    /// It was tried for too long since it last was complete, and has no place yet.
    pub gave_up: bool,
    /// Why its last decision found no place for all.
    pub missing: Option<String>,
}

impl Patience {
    /// When it is over.
    fn until_ms(&self) -> Option<u64> {
        Some(self.since_ms?.saturating_add(u64::from(self.limit_s?) * 1_000))
    }

    /// It was tried for so long, in vain.
    pub fn timed_out_s(&self) -> Option<u32> {
        self.limit_s.filter(|_| self.gave_up)
    }

    /// Nothing was tried yet.
    pub fn reset(&mut self) {
        *self = Patience { limit_s: self.limit_s, ..Patience::default() };
    }
}

impl Gang {
    /// Enough of them wait for a machine.
    fn waits_whole(&self) -> bool {
        self.needs().is_some_and(|needs| needs > 0 && self.pending.len() >= needs)
    }
}

impl Gangs {
    /// When the first gang has been tried for long enough.
    pub fn next_due_ms(&self) -> Option<u64> {
        self.due.first().map(|(due, _)| *due)
    }

    /// Counts for those that changed: whoever is complete for the first time is tried from now on.
    fn count(&mut self, now_ms: u64) {
        for key in self.changed.clone() {
            let Some(gang) = self.known.get_mut(&key) else { continue };
            if !gang.waits_whole() {
                gang.patience.reset();
            } else if !gang.patience.gave_up {
                self.count_from(&key, now_ms);
            }
        }
    }

    /// It is tried from now on, unless it is already.
    pub(super) fn count_from(&mut self, key: &Key, now_ms: u64) {
        let Some(gang) = self.known.get_mut(key) else { return };
        gang.patience.since_ms.get_or_insert(now_ms);
        self.due.extend(gang.patience.until_ms().map(|until| (until, key.clone())));
    }

    /// Takes those whose time is over.
    fn take_due(&mut self, now_ms: u64) -> Vec<Key> {
        let mut over = Vec::new();
        while self.due.first().is_some_and(|(due, _)| *due <= now_ms)
            && let Some((_, key)) = self.due.pop_first()
        {
            // It may be counted from another time by now.
            if self.is_over(&key, now_ms) {
                over.push(key);
            }
        }
        over
    }

    pub(super) fn is_over(&self, key: &Key, now_ms: u64) -> bool {
        let until_ms = self.known.get(key).and_then(|gang| gang.patience.until_ms());
        until_ms.is_some_and(|until| until <= now_ms)
    }
}

impl Engine {
    /// Gangs whose time is over give up.
    pub(in crate::engine) fn give_up(&mut self, now_ms: u64, effects: &mut Vec<Effect>) {
        self.gangs.count(now_ms);
        for key in self.gangs.take_due(now_ms) {
            self.leave_lanes(&key, effects);
            let under_way = |gang: &Gang| gang.pending.iter().any(|(_, uid)| self.deciding.contains_key(uid));
            // What was sent cannot be called back. Should it fail, the gang gives up when it is next decided.
            if self.gangs.known.get(&key).is_some_and(|gang| !under_way(gang)) {
                self.let_go(&key, now_ms, effects);
            }
        }
    }

    /// The gang stands no more in line at machines.
    fn leave_lanes(&mut self, key: &Key, effects: &mut Vec<Effect>) {
        let mine = self.gangs.tickets.iter().filter(|(_, ticket)| ticket.key == *key).map(|(id, _)| *id);
        for ticket in mine.collect::<Vec<u64>>() {
            self.abandon_gang(ticket);
        }
        self.launch_freed(effects);
    }

    /// It goes behind all that wait, with nothing held for it, and its pods say so.
    pub(super) fn let_go(&mut self, key: &Key, now_ms: u64, effects: &mut Vec<Effect>) {
        let Some(gang) = self.gangs.known.get_mut(key) else { return };
        gang.patience.gave_up = true;
        gang.patience.since_ms = None;
        gang.is_short = true;
        let message: Arc<str> = gang.message(&key.1).into();
        let members: BTreeSet<Arc<str>> = gang.pending.iter().map(|(_, uid)| uid.clone()).collect();
        self.gangs.changed.insert(key.clone());
        for uid in &members {
            self.give_back(uid);
            self.explain(uid, &message, effects);
        }
        self.queue.behind(&members, now_ms);
    }
}

impl Gang {
    /// What its pods are told. It says nothing that time alone changes.
    pub(super) fn message(&self, name: &str) -> String {
        let missing = self.patience.missing.as_deref();
        match self.patience.timed_out_s() {
            None => format!("pod group {name} {}", missing.unwrap_or("waits for its turn")),
            Some(limit_s) => {
                let missing = missing.unwrap_or("was not bound or had no turn");
                format!(
                    "pod group {name} timed out: not placed within {limit_s} s, it goes behind others; it {missing}"
                )
            }
        }
    }
}
