//! When whom to look at again: one moment for each key, the earliest first. Never reads a clock.

use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug)]
pub struct Timers<K> {
    by_key: BTreeMap<K, u64>,
    by_time: BTreeSet<(u64, K)>,
}

impl<K> Default for Timers<K> {
    fn default() -> Self {
        Self { by_key: BTreeMap::new(), by_time: BTreeSet::new() }
    }
}

impl<K: Clone + Ord> Timers<K> {
    /// The key's moment, instead of the one before; `None`: none.
    pub fn set(&mut self, key: &K, at_ms: Option<u64>) {
        if self.by_key.get(key).copied() == at_ms {
            return;
        }
        if let Some(before_ms) = self.by_key.remove(key) {
            self.by_time.remove(&(before_ms, key.clone()));
        }
        if let Some(at_ms) = at_ms {
            self.by_key.insert(key.clone(), at_ms);
            self.by_time.insert((at_ms, key.clone()));
        }
    }

    /// A key whose moment has come; it has none afterwards.
    pub fn due(&mut self, now_ms: u64) -> Option<K> {
        if self.next_ms()? > now_ms {
            return None;
        }
        let (_, key) = self.by_time.pop_first()?;
        self.by_key.remove(&key);
        Some(key)
    }

    pub fn next_ms(&self) -> Option<u64> {
        self.by_time.first().map(|(at_ms, _)| *at_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_earliest_comes_first_and_once() {
        let mut timers = Timers::default();
        timers.set(&"a", Some(5));
        timers.set(&"b", Some(3));
        timers.set(&"c", Some(4));
        timers.set(&"b", Some(9));
        timers.set(&"c", None);
        assert_eq!((timers.next_ms(), timers.due(4)), (Some(5), None));
        assert_eq!((timers.due(9), timers.due(9), timers.due(9)), (Some("a"), Some("b"), None));
        assert_eq!(timers.next_ms(), None);
    }
}
