//! What was ever seen of each version of a key, wherever and whenever. It makes the search for unknown writes short: a
//! version that was seen says who wrote it and at which revision.

use crate::record::{Event, History, KeyValue, Op, Outcome, Reply, Request};
use std::collections::{BTreeMap, BTreeSet};

pub struct Traces<'a> {
    /// Versions by the revision that wrote them.
    seen: BTreeMap<u64, BTreeSet<(&'a str, &'a str)>>,
    /// The revisions at which a key was seen to get a value.
    at: BTreeMap<(&'a str, &'a str), BTreeSet<u64>>,
    /// How many requests put this value there.
    writers: BTreeMap<(&'a str, &'a str), usize>,
}

impl<'a> Traces<'a> {
    pub fn gather(history: &'a History) -> Self {
        let mut traces = Self { seen: BTreeMap::new(), at: BTreeMap::new(), writers: BTreeMap::new() };
        for operation in &history.operations {
            if let Request::Txn(txn) = &operation.request {
                for op in txn.then.iter().chain(&txn.otherwise) {
                    if let Op::Put { key, value, .. } = op {
                        *traces.writers.entry((key, value)).or_insert(0) += 1;
                    }
                }
            }
            if let Outcome::Done { replies, .. } = &operation.outcome {
                let got = replies.iter().filter_map(|reply| match reply {
                    Reply::Got(kvs) => Some(kvs),
                    Reply::Put | Reply::Deleted(_) => None,
                });
                got.flatten().for_each(|kv| traces.note(kv));
            }
        }
        let sessions = history.watches.iter().flat_map(|watch| &watch.sessions);
        for event in sessions.flat_map(|session| &session.batches).flat_map(|batch| &batch.events) {
            event.now.iter().chain(&event.prev).for_each(|kv| traces.note(kv));
        }
        traces
    }

    fn note(&mut self, kv: &'a KeyValue) {
        self.seen.entry(kv.modified).or_default().insert((&kv.key, &kv.value));
        self.at.entry((&kv.key, &kv.value)).or_default().insert(kv.modified);
    }

    /// Whether a write that does this can be the one of `revision`.
    pub fn allow(&self, revision: u64, events: &[Event]) -> bool {
        let puts: BTreeSet<(&str, &str)> = events
            .iter()
            .filter_map(|event| event.now.as_ref())
            .map(|kv| (kv.key.as_str(), kv.value.as_str()))
            .collect();
        let all_seen = self.seen.get(&revision).is_none_or(|seen| seen.iter().all(|version| puts.contains(version)));
        let elsewhere = |put: &(&str, &str)| {
            self.writers.get(put) == Some(&1) && self.at.get(put).is_some_and(|at| !at.contains(&revision))
        };
        all_seen && !puts.iter().any(elsewhere)
    }
}
