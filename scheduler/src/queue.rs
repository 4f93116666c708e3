//! Which pod is decided next. Pods that fit nowhere sleep until something happens that could help, and back off.
//! Pure: time is an argument.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::plugins::Wake;
use crate::pod::PodInfo;

const BACKOFF_BASE_MS: u64 = 100;
const BACKOFF_CAP_MS: u64 = 10_000;
/// However hopeless, every pod is looked at again after this long.
const FLUSH_MS: u64 = 300_000;

/// Highest priority first, then the oldest.
type Rank = (Reverse<i64>, i64, String);

#[derive(Debug)]
struct Entry {
    info: Arc<PodInfo>,
    attempts: u32,
    decided_ms: u64,
    place: Place,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Ready,
    /// Until then, whatever happens.
    Waiting(u64),
    /// Until one of these happens, or until then.
    Sleeping(Wake, u64),
    /// Somebody decides about it now.
    Taken,
}

#[derive(Debug, Default)]
pub struct Queue {
    entries: BTreeMap<String, Entry>,
    ready: BTreeSet<Rank>,
    /// When waiting and sleeping pods become ready by themselves.
    due: BTreeSet<(u64, String)>,
}

fn rank(info: &PodInfo) -> Rank {
    (Reverse(info.priority), info.created_us, info.uid.clone())
}

impl Queue {
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// A pod that wants a machine, or a change of it. Only a change that matters makes it ready before its time.
    pub fn put(&mut self, info: Arc<PodInfo>) {
        let known = self.entries.get(&info.uid);
        if known.is_some_and(|entry| entry.info == info) {
            return;
        }
        let place = known.map(|entry| entry.place);
        let attempts = known.map_or(0, |entry| entry.attempts);
        self.unplace(&info.uid);
        let uid = info.uid.clone();
        let taken = place == Some(Place::Taken);
        let entry = Entry { info, attempts, decided_ms: 0, place: Place::Taken };
        self.entries.insert(uid.clone(), entry);
        if !taken {
            self.set(&uid, Place::Ready);
        }
    }

    pub fn remove(&mut self, uid: &str) {
        self.unplace(uid);
        self.entries.remove(uid);
    }

    /// The next pod. The caller owes a `remove`, `retry` or `sleep`.
    pub fn take(&mut self, now_ms: u64) -> Option<Arc<PodInfo>> {
        self.release_due(now_ms);
        let (_, _, uid) = self.ready.first()?.clone();
        self.set(&uid, Place::Taken);
        let entry = self.entries.get_mut(&uid)?;
        entry.decided_ms = now_ms;
        Some(entry.info.clone())
    }

    /// It fits nowhere.
    pub fn sleep(&mut self, uid: &str, wake_on: Wake, now_ms: u64) {
        if let Some(entry) = self.entries.get_mut(uid) {
            entry.attempts = entry.attempts.saturating_add(1);
            self.set(uid, Place::Sleeping(wake_on, now_ms + FLUSH_MS));
        }
    }

    /// It was decided but did not get through: again after a back-off.
    pub fn retry(&mut self, uid: &str, now_ms: u64) {
        if let Some(entry) = self.entries.get_mut(uid) {
            entry.attempts = entry.attempts.saturating_add(1);
            let due = now_ms + backoff_ms(entry.attempts);
            self.set(uid, Place::Waiting(due));
        }
    }

    /// It is ready again at once: nothing was wrong with the decision or the pod.
    pub fn again(&mut self, uid: &str) {
        if self.entries.contains_key(uid) {
            self.set(uid, Place::Ready);
        }
    }

    /// Something happened; the pods that it could help become ready, those decided just now after their back-off.
    pub fn wake(&mut self, happened: Wake, now_ms: u64) {
        let helped = |entry: &Entry| match entry.place {
            Place::Sleeping(on, _) => on.meets(happened),
            _ => false,
        };
        let woken: Vec<(String, u64)> = self
            .entries
            .iter()
            .filter(|(_, entry)| helped(entry))
            .map(|(uid, entry)| (uid.clone(), entry.decided_ms + backoff_ms(entry.attempts)))
            .collect();
        for (uid, due) in woken {
            self.set(&uid, if due <= now_ms { Place::Ready } else { Place::Waiting(due) });
        }
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
            Place::Ready => drop(self.ready.insert(rank(&entry.info))),
            Place::Waiting(due) | Place::Sleeping(_, due) => drop(self.due.insert((due, uid.to_owned()))),
            Place::Taken => {}
        }
    }

    fn unplace(&mut self, uid: &str) {
        let Some(entry) = self.entries.get(uid) else { return };
        match entry.place {
            Place::Ready => drop(self.ready.remove(&rank(&entry.info))),
            Place::Waiting(due) | Place::Sleeping(_, due) => drop(self.due.remove(&(due, uid.to_owned()))),
            Place::Taken => {}
        }
    }
}

fn backoff_ms(attempts: u32) -> u64 {
    (BACKOFF_BASE_MS << attempts.saturating_sub(1).min(16)).min(BACKOFF_CAP_MS)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::plugins::testing::pod;

    fn with(name: &str, priority: i64, created_us: i64) -> Arc<PodInfo> {
        Arc::new(PodInfo { priority, created_us, ..pod("ns", name, "", "", json!({})) })
    }

    fn take(queue: &mut Queue, now_ms: u64) -> Option<String> {
        queue.take(now_ms).map(|info| info.name.clone())
    }

    #[test]
    fn priority_then_age() {
        let mut queue = Queue::default();
        for (name, priority, created) in [("young", 0, 9), ("old", 0, 3), ("urgent", 5, 20)] {
            queue.put(with(name, priority, created));
        }
        let order: Vec<String> = std::iter::from_fn(|| take(&mut queue, 0)).collect();
        assert_eq!(order, ["urgent", "old", "young"]);
        assert_eq!(queue.len(), 3, "they are taken, not gone");
    }

    #[test]
    fn sleepers_wake_for_what_could_help_after_their_back_off() {
        let mut queue = Queue::default();
        queue.put(with("p", 0, 0));
        assert_eq!(take(&mut queue, 1_000).as_deref(), Some("p"));
        queue.sleep("p", Wake::MACHINE, 1_000);
        queue.wake(Wake::POD_GONE, 5_000);
        assert_eq!(take(&mut queue, 5_000), None);
        queue.wake(Wake::MACHINE.or(Wake::POD_GONE), 1_040);
        assert_eq!((take(&mut queue, 1_099), queue.next_due_ms()), (None, Some(1_100)));
        assert_eq!(take(&mut queue, 1_100).as_deref(), Some("p"));
        queue.sleep("p", Wake::MACHINE, 1_100);
        assert_eq!(queue.next_due_ms(), Some(301_100));
        assert_eq!(take(&mut queue, 301_100).as_deref(), Some("p"), "everything is tried again now and then");
    }

    #[test]
    fn a_change_wakes_and_the_same_again_does_not() {
        let mut queue = Queue::default();
        queue.put(with("p", 0, 0));
        take(&mut queue, 0);
        queue.sleep("p", Wake::MACHINE, 0);
        queue.put(with("p", 0, 0));
        assert_eq!(take(&mut queue, 0), None);
        queue.put(with("p", 7, 0));
        assert_eq!(take(&mut queue, 0).as_deref(), Some("p"));
        queue.put(with("p", 8, 0));
        assert_eq!(take(&mut queue, 0), None, "a taken one stays taken");
        queue.again("p");
        assert_eq!(take(&mut queue, 0).as_deref(), Some("p"));
        queue.remove("p");
        assert!(queue.is_empty() && queue.next_due_ms().is_none());
    }

    #[test]
    fn retries_back_off() {
        let mut queue = Queue::default();
        queue.put(with("p", 0, 0));
        let mut waits = Vec::new();
        let mut now = 0;
        for _ in 0..9 {
            take(&mut queue, now).unwrap();
            queue.retry("p", now);
            let due = queue.next_due_ms().unwrap();
            waits.push(due - now);
            now = due;
        }
        assert_eq!(waits, [100, 200, 400, 800, 1_600, 3_200, 6_400, 10_000, 10_000]);
    }
}
