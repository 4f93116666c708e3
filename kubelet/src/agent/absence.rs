//! When a pod that the store no longer lists may be stopped: only when that is sure. Pure.

use std::collections::BTreeMap;

use crate::checkpoint::Membership;

/// More than half of the pods gone at once is more likely a broken store than a wish.
const HOLD_MS: u64 = 60_000;
/// Below this many pods "more than half" says nothing.
const FEW: usize = 3;

/// Whether a list of pods may be believed at all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trust {
    /// It is of our cluster and not older than what was seen.
    Yes,
    OtherCluster,
    /// The store went back in time (it was restored): nothing is stopped until it passes what was seen.
    Older,
}

pub fn trust(remembered: Option<&Membership>, cluster: &str, revision: u64) -> Trust {
    match remembered {
        Some(m) if m.cluster != cluster => Trust::OtherCluster,
        Some(m) if revision < m.revision => Trust::Older,
        _ => Trust::Yes,
    }
}

/// The pods that are missing from the store, and since when (milliseconds since boot).
#[derive(Clone, Debug, Default)]
pub struct Absent {
    since: BTreeMap<String, u64>,
    held_until: Option<u64>,
}

impl Absent {
    pub fn missing(&mut self, uid: &str, now_ms: u64) {
        self.since.entry(uid.to_owned()).or_insert(now_ms);
    }
    pub fn back(&mut self, uid: &str) {
        self.since.remove(uid);
    }
    /// When `ready` should be asked again.
    pub fn wake_ms(&self) -> Option<u64> {
        if self.since.is_empty() { None } else { self.held_until }
    }
    /// The pods to confirm now, each with a live read. `known` is how many pods the agent has, the missing ones too.
    pub fn ready(&mut self, known: usize, now_ms: u64) -> Vec<String> {
        if self.since.len() >= FEW && self.since.len() * 2 > known && self.held_until.is_none() {
            self.held_until = Some(now_ms + HOLD_MS);
        }
        if self.held_until.is_some_and(|until| until > now_ms) {
            return vec![];
        }
        self.held_until = None;
        std::mem::take(&mut self.since).into_keys().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_cluster_and_never_an_older_one() {
        let m = Membership { cluster: "a".into(), revision: 10 };
        assert_eq!(trust(None, "a", 1), Trust::Yes);
        assert_eq!(trust(Some(&m), "a", 10), Trust::Yes);
        assert_eq!(trust(Some(&m), "a", 9), Trust::Older);
        assert_eq!(trust(Some(&m), "b", 99), Trust::OtherCluster);
    }

    #[test]
    fn many_at_once_are_held_for_a_minute() {
        let mut a = Absent::default();
        a.missing("1", 0);
        assert_eq!(a.ready(1, 0), ["1"]);
        for uid in ["1", "2", "3"] {
            a.missing(uid, 1_000);
        }
        assert_eq!(a.ready(5, 1_000), Vec::<String>::new());
        assert_eq!(a.wake_ms(), Some(61_000));
        a.back("2");
        assert_eq!(a.ready(5, 60_999), Vec::<String>::new());
        assert_eq!(a.ready(5, 61_000), ["1", "3"]);
        for uid in ["1", "2", "3"] {
            a.missing(uid, 62_000);
        }
        assert_eq!(a.ready(6, 62_000).len(), 3);
    }
}
