//! Which pod is decided next. Pods that fit nowhere sleep until something happens that could help, and back off.
//! Pure: time is an argument.

mod ready;
mod sleeping;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use crate::pod::{Band, Importance, PodInfo};
use crate::snapshot::TeamId;
pub use ready::{Rank, Ready};
pub use sleeping::{Found, Sleepers, Sleeping};

const BACKOFF_BASE_MS: u64 = 100;
const BACKOFF_CAP_MS: u64 = 10_000;
/// However hopeless, every pod is looked at again after this long.
const FLUSH_MS: u64 = 300_000;

#[derive(Debug)]
struct Entry {
    info: Arc<PodInfo>,
    rank: Rank,
    attempts: u32,
    decided_ms: u64,
    place: Place,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    Ready,
    /// Until then, whatever happens.
    Waiting(u64),
    /// Until something that its class waits for happens, or until then.
    Sleeping(u64),
    /// Until its gang is complete.
    Parked,
    /// Somebody decides about it now.
    Taken,
}

/// How many pods are where.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Depths {
    pub ready: usize,
    pub waiting: usize,
    pub sleeping: usize,
    pub taken: usize,
}

#[derive(Debug, Default)]
pub struct Queue {
    entries: HashMap<Arc<str>, Entry>,
    ready: Ready,
    sleeping: Sleeping,
    /// When waiting and sleeping pods become ready by themselves.
    due: BTreeSet<(u64, Arc<str>)>,
    /// The age of the youngest there ever was, by which those that go behind all others are placed.
    youngest_us: i64,
    /// What teams had when it was last told.
    shares: HashMap<TeamId, f64>,
}

impl Queue {
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub fn depths(&self) -> Depths {
        let (ready, sleeping) = (self.ready.len(), self.sleeping.len());
        let waiting = self.due.len() - sleeping;
        Depths { ready, waiting, sleeping, taken: self.entries.len() - ready - waiting - sleeping }
    }

    /// A pod that wants a machine, or a change of it. Only a change that matters makes it ready before its time.
    pub fn put(&mut self, info: Arc<PodInfo>, band: Band, team: TeamId) {
        let importance = Importance::of(band, info.priority);
        let known = self.entries.get(&info.uid);
        if known
            .is_some_and(|entry| entry.info == info && entry.rank.importance == importance && entry.rank.team == team)
        {
            return;
        }
        let place = known.map(|entry| entry.place);
        let attempts = known.map_or(0, |entry| entry.attempts);
        // Who went behind others stays there.
        let created_us = known.map_or(info.created_us, |entry| info.created_us.max(entry.rank.created_us));
        self.youngest_us = self.youngest_us.max(created_us);
        let uid = info.uid.clone();
        self.unplace(&uid);
        let rank = Rank { importance, team, created_us, uid: uid.clone() };
        self.entries.insert(uid.clone(), Entry { info, rank, attempts, decided_ms: 0, place: Place::Taken });
        if place != Some(Place::Taken) {
            self.set(&uid, Place::Ready);
        }
    }

    pub fn remove(&mut self, uid: &str) {
        self.unplace(uid);
        self.entries.remove(uid);
    }

    /// The next pod. The caller owes a `remove`, `retry`, `again` or `sleep`.
    pub fn take(&mut self, now_ms: u64) -> Option<Arc<PodInfo>> {
        self.release_due(now_ms);
        let uid = self.ready.first()?.uid;
        self.take_one(&uid, now_ms)
    }

    /// This pod, wherever it waits. The caller owes the same as after `take`.
    pub fn take_one(&mut self, uid: &str, now_ms: u64) -> Option<Arc<PodInfo>> {
        if self.entries.get(uid)?.place == Place::Taken {
            return None;
        }
        self.set(uid, Place::Taken);
        let entry = self.entries.get_mut(uid)?;
        entry.decided_ms = now_ms;
        Some(entry.info.clone())
    }

    /// What was found for pods of this class: they fit nowhere.
    pub fn found(&mut self, found: Found, now_ms: u64) {
        self.sleeping.found(found, now_ms);
    }

    /// It fits nowhere, as was `found` for its class. It is looked at again then at the latest, or after five minutes.
    pub fn sleep(&mut self, uid: &str, class: u64, until_ms: Option<u64>, now_ms: u64) {
        if let Some(entry) = self.entries.get_mut(uid) {
            entry.attempts = entry.attempts.saturating_add(1);
            let (created_us, uid) = (entry.rank.created_us, entry.info.uid.clone());
            let flush_ms = now_ms + FLUSH_MS;
            self.set(&uid, Place::Sleeping(until_ms.map_or(flush_ms, |until| until.min(flush_ms))));
            self.sleeping.insert(class, created_us, uid);
        }
    }

    /// It waits for its gang to be complete: nothing wakes it but that.
    pub fn park(&mut self, uid: &str) {
        self.set(uid, Place::Parked);
    }

    /// It was decided but did not get through: again after a back-off.
    pub fn retry(&mut self, uid: &str, now_ms: u64) {
        if let Some(entry) = self.entries.get_mut(uid) {
            entry.attempts = entry.attempts.saturating_add(1);
            let due = now_ms + backoff_ms(entry.attempts);
            self.set(uid, Place::Waiting(due));
        }
    }

    /// They go behind all that wait now, as if they came last; those that are ready wait for a back-off first.
    pub fn behind(&mut self, uids: &BTreeSet<Arc<str>>, now_ms: u64) {
        self.youngest_us += 1;
        for uid in uids {
            let Some(entry) = self.entries.get(uid) else { continue };
            let place = entry.place;
            if place == Place::Ready {
                self.retry(uid, now_ms);
            }
            if let Some(entry) = self.entries.get_mut(uid) {
                entry.rank.created_us = self.youngest_us;
            }
            if matches!(place, Place::Sleeping(_)) {
                self.sleeping.set_age(uid, self.youngest_us);
            }
        }
    }

    /// It is ready again at once: nothing was wrong with the decision or the pod.
    pub fn again(&mut self, uid: &str) {
        self.set(uid, Place::Ready);
    }

    /// The oldest few of the class become ready, those decided just now after their back-off.
    pub fn wake_class(&mut self, class: u64, now_ms: u64) {
        for uid in self.sleeping.front(class) {
            let Some(entry) = self.entries.get(&uid) else { continue };
            let due = entry.decided_ms + backoff_ms(entry.attempts);
            self.set(&uid, if due <= now_ms { Place::Ready } else { Place::Waiting(due) });
        }
    }

    pub fn sleeping(&self) -> &Sleeping {
        &self.sleeping
    }

    pub fn sleeping_mut(&mut self) -> &mut Sleeping {
        &mut self.sleeping
    }

    pub fn place(&self, uid: &str) -> Option<(Place, &Rank, u32)> {
        self.entries.get(uid).map(|entry| (entry.place, &entry.rank, entry.attempts))
    }

    /// Where everybody is.
    #[cfg(test)]
    pub fn places(&self) -> impl Iterator<Item = (&Arc<str>, Place)> {
        self.entries.iter().map(|(uid, entry)| (uid, entry.place))
    }

    pub fn ready(&self) -> &Ready {
        &self.ready
    }

    /// The team has this much now.
    pub fn charge(&mut self, team: TeamId, share: f64) {
        self.shares.insert(team, share);
        self.ready.charge(team, share);
    }

    /// All teams' shares are asked again.
    pub fn refresh(&mut self, teams: usize, share: impl Fn(TeamId) -> f64) {
        self.shares = (0..teams).map(|team| (team, share(team))).collect();
        self.ready.refresh(share);
    }

    /// When something becomes ready by itself.
    pub fn next_due_ms(&self) -> Option<u64> {
        self.due.first().map(|(due, _)| *due)
    }

    pub fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    fn release_due(&mut self, now_ms: u64) {
        while let Some((due, uid)) = self.due.first().cloned() {
            if due > now_ms {
                return;
            }
            self.set(&uid, Place::Ready);
        }
    }

    fn set(&mut self, uid: &str, place: Place) {
        self.unplace(uid);
        let Some(entry) = self.entries.get_mut(uid) else { return };
        entry.place = place;
        match place {
            Place::Ready => {
                let share = self.shares.get(&entry.rank.team).copied().unwrap_or(0.0);
                self.ready.insert(entry.rank.clone(), share);
            }
            Place::Waiting(due) | Place::Sleeping(due) => drop(self.due.insert((due, entry.info.uid.clone()))),
            Place::Parked | Place::Taken => {}
        }
    }

    fn unplace(&mut self, uid: &str) {
        let Some(entry) = self.entries.get(uid) else { return };
        match entry.place {
            Place::Ready => self.ready.remove(&entry.rank),
            Place::Waiting(due) => drop(self.due.remove(&(due, entry.info.uid.clone()))),
            Place::Sleeping(due) => {
                self.due.remove(&(due, entry.info.uid.clone()));
                self.sleeping.remove(&entry.info.uid);
            }
            Place::Parked | Place::Taken => {}
        }
    }
}

fn backoff_ms(attempts: u32) -> u64 {
    (BACKOFF_BASE_MS << attempts.saturating_sub(1).min(16)).min(BACKOFF_CAP_MS)
}

#[cfg(test)]
mod tests;
