//! The map as everybody expects it: small, slow and obvious. It knows no members, no log and no time.

use crate::record::{Condition, Event, KeyValue, Op, Reply, Span, Target, Txn};
use std::collections::{BTreeMap, BTreeSet};

/// The keys right after one revision.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Model {
    keys: BTreeMap<String, Version>,
    /// Leases that are known to be gone.
    ended: BTreeSet<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    pub value: String,
    pub created: u64,
    pub modified: u64,
    pub version: u64,
    pub lease: u64,
}

/// What a transaction answers and does.
pub struct Ran {
    pub succeeded: bool,
    pub replies: Vec<Reply>,
    /// In key order; empty if nothing was written.
    pub events: Vec<Event>,
}

impl Model {
    pub fn get(&self, span: &Span) -> Vec<KeyValue> {
        let kv = |(key, version): (&String, &Version)| version.of(key);
        self.keys.iter().filter(|(key, _)| span.contains(key)).map(kv).collect()
    }

    fn holds(&self, condition: &Condition) -> bool {
        let found = self.keys.get(&condition.key);
        match &condition.target {
            Target::Modified(revision) => found.map_or(0, |version| version.modified) == *revision,
            Target::Value(value) => found.is_some_and(|version| version.value == *value),
        }
    }

    /// The leases that keys go with.
    pub fn leases(&self) -> BTreeSet<u64> {
        self.keys.values().map(|version| version.lease).filter(|lease| *lease != 0).collect()
    }

    /// Whether a transaction puts a key to a lease that is gone, which no store does.
    pub fn misses_lease(&self, txn: &Txn) -> bool {
        let ops = if txn.conditions.iter().all(|condition| self.holds(condition)) { &txn.then } else { &txn.otherwise };
        ops.iter().any(|op| matches!(op, Op::Put { lease, .. } if self.ended.contains(lease)))
    }

    /// A lease is gone, with its keys.
    pub fn end(&mut self, lease: u64, revision: u64) -> Vec<Event> {
        self.ended.insert(lease);
        let gone = self.keys.iter().filter(|(_, version)| version.lease == lease).map(|(key, version)| version.of(key));
        self.remove(gone.collect(), revision)
    }

    /// Runs a transaction that gets `revision` if it writes.
    pub fn run(&mut self, txn: &Txn, revision: u64) -> Ran {
        let succeeded = txn.conditions.iter().all(|condition| self.holds(condition));
        let mut ran = Ran { succeeded, replies: Vec::new(), events: Vec::new() };
        for op in if succeeded { &txn.then } else { &txn.otherwise } {
            ran.replies.push(match op {
                Op::Get(span) => Reply::Got(self.get(span)),
                Op::Put { key, value, lease } => {
                    ran.events.push(self.put(key, (value, *lease), revision));
                    Reply::Put
                }
                Op::Delete(span) => {
                    let before = ran.events.len();
                    ran.events.extend(self.delete(span, revision));
                    Reply::Deleted((ran.events.len() - before) as u64)
                }
            });
        }
        ran.events.sort_by(|a, b| a.key.cmp(&b.key));
        ran
    }

    fn put(&mut self, key: &str, (value, lease): (&str, u64), revision: u64) -> Event {
        let before = self.keys.get(key).cloned();
        let (created, version) = before.as_ref().map_or((revision, 1), |prev| (prev.created, prev.version + 1));
        let now = Version { value: value.to_owned(), created, modified: revision, version, lease };
        let event = Event {
            revision,
            key: key.to_owned(),
            now: Some(now.of(key)),
            prev: before.map(|version| version.of(key)),
        };
        self.keys.insert(key.to_owned(), now);
        event
    }

    fn delete(&mut self, span: &Span, revision: u64) -> Vec<Event> {
        self.remove(self.get(span), revision)
    }

    fn remove(&mut self, gone: Vec<KeyValue>, revision: u64) -> Vec<Event> {
        for kv in &gone {
            self.keys.remove(&kv.key);
        }
        gone.into_iter().map(|kv| Event { revision, key: kv.key.clone(), now: None, prev: Some(kv) }).collect()
    }
}

impl Version {
    fn of(&self, key: &str) -> KeyValue {
        let Self { value, created, modified, version, lease } = self.clone();
        KeyValue { key: key.to_owned(), value, created, modified, version, lease }
    }
}
