//! A queue of keys: each at most once, each handled by at most one worker at a time, with delays and back-off.
//! Never knows what a key means, and runs no task of its own: waiting workers do the waiting.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::backoff;

const BACKOFF_BASE: Duration = Duration::from_millis(5);
const BACKOFF_CAP: Duration = Duration::from_secs(60);

/// A cheap handle on a shared queue. It holds each key once, so it is bounded by the number of objects.
pub struct WorkQueue<K>(Arc<Inner<K>>);

impl<K> Clone for WorkQueue<K> {
    fn clone(&self) -> Self {
        WorkQueue(self.0.clone())
    }
}

struct Inner<K> {
    state: Mutex<State<K>>,
    wake: Notify,
}

/// The pure part. `since` is when the oldest unhandled change to a key came in.
struct State<K> {
    ready: VecDeque<K>,
    since: HashMap<K, Instant>,
    /// Keys in workers' hands; true when the key was added again meanwhile.
    running: HashMap<K, bool>,
    delayed: BTreeMap<(Instant, u64), K>,
    due: HashMap<K, (Instant, u64)>,
    /// Handled keys, still running for all others, by when they may be handled again.
    resting: BTreeMap<(Instant, u64), K>,
    failures: HashMap<K, u32>,
    sequence: u64,
    closed: bool,
}

impl<K: Clone + Eq + Hash> Default for WorkQueue<K> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: Clone + Eq + Hash> WorkQueue<K> {
    pub fn new() -> Self {
        WorkQueue(Arc::new(Inner { state: Mutex::new(State::new()), wake: Notify::new() }))
    }

    /// To be handled now; a key that waits already is not added again.
    pub fn add(&self, key: K) {
        if self.0.state.lock().add(key, Instant::now()) {
            self.0.wake.notify_one();
        }
    }

    /// To be handled after `delay`; of several delays the earliest counts.
    pub fn add_after(&self, key: K, delay: Duration) {
        if delay.is_zero() {
            return self.add(key);
        }
        if self.0.state.lock().delay(key, Instant::now() + delay) {
            self.0.wake.notify_one();
        }
    }

    /// To be handled after a back-off that doubles with each call, from 5 ms to a minute, until `forget`.
    pub fn add_rate_limited(&self, key: K) {
        let attempt = {
            let mut state = self.0.state.lock();
            let failures = state.failures.entry(key.clone()).or_insert(0);
            *failures = failures.saturating_add(1);
            *failures - 1
        };
        self.add_after(key, backoff::delay(BACKOFF_BASE, BACKOFF_CAP, attempt));
    }

    /// The key's back-off starts from the beginning.
    pub fn forget(&self, key: &K) {
        self.0.state.lock().failures.remove(key);
    }

    /// The next key, once there is one; `None` after `close`. The caller owes a `done`.
    pub async fn next(&self) -> Option<K> {
        self.next_since().await.map(|(key, _)| key)
    }

    /// Like `next`, with the time of the oldest change that the key stands for.
    pub async fn next_since(&self) -> Option<(K, Instant)> {
        loop {
            let notified = self.0.wake.notified();
            let wait_until = {
                let mut state = self.0.state.lock();
                if state.closed {
                    self.0.wake.notify_one();
                    return None;
                }
                state.release_due(Instant::now());
                if let Some(found) = state.take() {
                    // Whoever takes a key waits no longer for what is due later: another one has to.
                    if !state.ready.is_empty() || state.next_due().is_some() {
                        self.0.wake.notify_one();
                    }
                    return Some(found);
                }
                state.next_due()
            };
            match wait_until {
                Some(due) => drop(tokio::time::timeout_at(due, notified).await),
                None => notified.await,
            }
        }
    }

    /// The key is handled; if it was added meanwhile it is ready again.
    pub fn done(&self, key: &K) {
        if self.0.state.lock().done(key) {
            self.0.wake.notify_one();
        }
    }

    /// Like `done`, but the key is not handled again for `rest`, however often it is added. What costs more the more there is
    /// of it is looked at less often.
    pub fn done_after(&self, key: &K, rest: Duration) {
        if rest.is_zero() {
            return self.done(key);
        }
        // A waiting worker must learn when the rest is over.
        if self.0.state.lock().rest(key, Instant::now() + rest) {
            self.0.wake.notify_one();
        }
    }

    /// Keys that wait to be handled now; delayed, resting and running ones are not counted.
    pub fn len(&self) -> usize {
        self.0.state.lock().ready.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All `next` calls return `None` from now on.
    pub fn close(&self) {
        self.0.state.lock().closed = true;
        self.0.wake.notify_waiters();
        self.0.wake.notify_one();
    }
}

impl<K: Clone + Eq + Hash> State<K> {
    fn new() -> Self {
        State {
            ready: VecDeque::new(),
            since: HashMap::new(),
            running: HashMap::new(),
            delayed: BTreeMap::new(),
            due: HashMap::new(),
            resting: BTreeMap::new(),
            failures: HashMap::new(),
            sequence: 0,
            closed: false,
        }
    }

    /// Returns whether a worker has something new to do.
    fn add(&mut self, key: K, now: Instant) -> bool {
        self.forget_delay(&key);
        if self.since.contains_key(&key) {
            return false;
        }
        self.since.insert(key.clone(), now);
        if let Some(again) = self.running.get_mut(&key) {
            *again = true;
            return false;
        }
        self.ready.push_back(key);
        true
    }

    /// Returns whether the earliest due time moved.
    fn delay(&mut self, key: K, due: Instant) -> bool {
        if self.since.contains_key(&key) && !self.running.contains_key(&key) {
            return false;
        }
        if self.due.get(&key).is_some_and(|(at, _)| *at <= due) {
            return false;
        }
        self.forget_delay(&key);
        self.sequence += 1;
        let slot = (due, self.sequence);
        self.due.insert(key.clone(), slot);
        self.delayed.insert(slot, key);
        self.delayed.first_key_value().is_some_and(|(first, _)| *first == slot)
    }

    fn forget_delay(&mut self, key: &K) {
        if let Some(slot) = self.due.remove(key) {
            self.delayed.remove(&slot);
        }
    }

    /// Returns whether the earliest due time moved.
    fn rest(&mut self, key: &K, until: Instant) -> bool {
        self.sequence += 1;
        let before = self.next_due();
        self.resting.insert((until, self.sequence), key.clone());
        before.is_none_or(|due| until < due)
    }

    fn next_due(&self) -> Option<Instant> {
        let firsts = [self.delayed.first_key_value(), self.resting.first_key_value()];
        firsts.into_iter().flatten().map(|((due, _), _)| *due).min()
    }

    fn release_due(&mut self, now: Instant) {
        while let Some(entry) = self.resting.first_entry().filter(|entry| entry.key().0 <= now) {
            let key = entry.remove();
            self.done(&key);
        }
        while let Some(entry) = self.delayed.first_entry() {
            let due = entry.key().0;
            if due > now {
                return;
            }
            let key = entry.remove();
            self.due.remove(&key);
            self.add(key, due);
        }
    }

    fn take(&mut self) -> Option<(K, Instant)> {
        let key = self.ready.pop_front()?;
        let since = self.since.remove(&key).expect("a ready key has its time");
        self.running.insert(key.clone(), false);
        Some((key, since))
    }

    fn done(&mut self, key: &K) -> bool {
        let again = self.running.remove(key).unwrap_or(false);
        if again {
            self.ready.push_back(key.clone());
        }
        again
    }

    /// What always holds, for tests.
    #[cfg(test)]
    fn validate(&self) {
        let ready: std::collections::HashSet<&K> = self.ready.iter().collect();
        assert_eq!(ready.len(), self.ready.len(), "a key is ready at most once");
        assert!(ready.iter().all(|k| self.since.contains_key(k) && !self.running.contains_key(k)));
        assert_eq!(self.delayed.len(), self.due.len());
        assert!(self.resting.values().all(|k| self.running.contains_key(k)), "a resting key is in nobody else's hands");
        assert_eq!(self.since.len(), self.ready.len() + self.running.values().filter(|again| **again).count());
    }
}

#[cfg(test)]
mod tests;
