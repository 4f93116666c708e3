//! Writes of one kind that wait for their turn: each key once, not before its moment, so many in flight. Decides whose turn it is;
//! never what is written.

use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug)]
pub struct Lane<K> {
    limit: usize,
    in_flight: usize,
    /// By the earliest moment, then in the order in which they came.
    waiting: BTreeMap<(u64, u64), K>,
    keys: BTreeSet<K>,
    came: u64,
}

impl<K: Clone + Ord> Lane<K> {
    pub fn new(limit: usize) -> Self {
        Self { limit: limit.max(1), in_flight: 0, waiting: BTreeMap::new(), keys: BTreeSet::new(), came: 0 }
    }

    /// One that waits already keeps its turn.
    pub fn push(&mut self, key: K, not_before_ms: u64) {
        if self.keys.insert(key.clone()) {
            self.waiting.insert((not_before_ms, self.came), key);
            self.came += 1;
        }
    }

    /// Whose turn it is now. The caller begins the write and says when it has [`ended`](Self::ended).
    pub fn next(&mut self, now_ms: u64) -> Option<K> {
        if self.next_ms()? > now_ms {
            return None;
        }
        let (_, key) = self.waiting.pop_first()?;
        self.keys.remove(&key);
        self.in_flight += 1;
        Some(key)
    }

    pub fn ended(&mut self) {
        self.in_flight = self.in_flight.checked_sub(1).expect("what ended had begun");
    }

    /// When the next turn comes; `None` while all places are taken or nobody waits.
    pub fn next_ms(&self) -> Option<u64> {
        let (at_ms, _) = self.waiting.keys().next()?;
        (self.in_flight < self.limit).then_some(*at_ms)
    }

    pub fn len(&self) -> usize {
        self.waiting.len() + self.in_flight
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_come_in_order_one_each_and_no_more_than_there_are_places() {
        let mut lane = Lane::new(2);
        for (key, at_ms) in [("a", 5), ("b", 3), ("c", 3), ("b", 1)] {
            lane.push(key, at_ms);
        }
        assert_eq!((lane.next(2), lane.next_ms(), lane.len()), (None, Some(3), 3));
        assert_eq!((lane.next(9), lane.next(9), lane.next(9)), (Some("b"), Some("c"), None));
        assert_eq!((lane.next_ms(), lane.len()), (None, 3));
        lane.push("b", 9);
        lane.ended();
        assert_eq!((lane.next(9), lane.next(9)), (Some("a"), None));
    }
}
