//! Decides how an event is written: as a new one, as one more of the same, as one of many similar ones, or not at all.
//! The rules are those users know from client-go's recorder. Never does I/O.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use gantry_apimachinery::time::Timestamp;

use super::{EventType, Happening, ObjectRef};

/// More than this many different messages of one reason within the interval are told as one.
const SIMILAR: usize = 10;
const SIMILAR_INTERVAL_S: i64 = 600;
/// One object may speak this often at once, and once per refill after that.
const BURST: i64 = 25;
const REFILL_S: i64 = 300;
/// Entries remembered per table; the oldest are forgotten.
const REMEMBERED: usize = 4096;

/// What to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Write {
    pub name: String,
    pub message: String,
    /// 1 is a new event, more is a patch of the one with this name.
    pub count: i32,
    pub first: Timestamp,
    pub last: Timestamp,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Similar {
    about: ObjectRef,
    event_type: EventType,
    reason: String,
}

struct Told {
    name: String,
    count: i32,
    first: Timestamp,
}

struct Messages {
    distinct: BTreeSet<String>,
    last: Timestamp,
}

/// A token bucket, in microseconds of credit.
struct Bucket {
    credit_us: i64,
    last: Timestamp,
}

pub(super) struct Correlator {
    told: Remembered<(Similar, String), Told>,
    similar: Remembered<Similar, Messages>,
    buckets: Remembered<ObjectRef, Bucket>,
    /// The last new event's name holds this moment.
    named_us: i64,
}

impl Correlator {
    pub fn new() -> Self {
        Correlator {
            told: Remembered::new(),
            similar: Remembered::new(),
            buckets: Remembered::new(),
            named_us: i64::MIN,
        }
    }

    /// `None` when the object has spoken too much.
    pub fn observe(&mut self, happening: &Happening) -> Option<Write> {
        let now = happening.at;
        // The version differs from write to write of the same object.
        let about = ObjectRef { resource_version: String::new(), ..happening.about.clone() };
        let similar = Similar { about, event_type: happening.event_type, reason: happening.reason.clone() };
        let combined = self.is_combined(&similar, &happening.message, now);
        if !self.may_speak(&similar.about, now) {
            return None;
        }
        let (message, key) = if combined {
            (format!("(combined from similar events): {}", happening.message), String::new())
        } else {
            (happening.message.clone(), happening.message.clone())
        };
        // Two things may be told within one microsecond; their names differ all the same.
        let named_us = &mut self.named_us;
        let fresh = || {
            *named_us = now.micros().max(named_us.saturating_add(1));
            Told { name: name(&happening.about.name, *named_us), count: 0, first: now }
        };
        let told = self.told.entry((similar, key), fresh);
        told.count = told.count.saturating_add(1);
        Some(Write { name: told.name.clone(), message, count: told.count, first: told.first, last: now })
    }

    fn is_combined(&mut self, similar: &Similar, message: &str, now: Timestamp) -> bool {
        let messages = self.similar.entry(similar.clone(), || Messages { distinct: BTreeSet::new(), last: now });
        if seconds(messages.last, now) > SIMILAR_INTERVAL_S {
            messages.distinct.clear();
        }
        messages.last = now;
        if messages.distinct.contains(message) {
            return false;
        }
        if messages.distinct.len() >= SIMILAR {
            return true;
        }
        messages.distinct.insert(message.to_owned());
        false
    }

    fn may_speak(&mut self, about: &ObjectRef, now: Timestamp) -> bool {
        const COST_US: i64 = REFILL_S * 1_000_000;
        let bucket = self.buckets.entry(about.clone(), || Bucket { credit_us: BURST * COST_US, last: now });
        let gained = micros(bucket.last, now).clamp(0, BURST * COST_US);
        bucket.credit_us = (bucket.credit_us + gained).min(BURST * COST_US);
        bucket.last = now;
        if bucket.credit_us < COST_US {
            return false;
        }
        bucket.credit_us -= COST_US;
        true
    }
}

/// Unique per object, since one recorder names no two events by the same microsecond.
fn name(object: &str, at_us: i64) -> String {
    let object = &object[..object.len().min(230)];
    format!("{object}.{:x}", at_us.saturating_mul(1000))
}

fn micros(from: Timestamp, to: Timestamp) -> i64 {
    to.micros() - from.micros()
}

fn seconds(from: Timestamp, to: Timestamp) -> i64 {
    micros(from, to) / 1_000_000
}

/// A map that forgets its oldest entries.
struct Remembered<K, V> {
    entries: BTreeMap<K, V>,
    order: VecDeque<K>,
}

impl<K: Ord + Clone, V> Remembered<K, V> {
    fn new() -> Self {
        Remembered { entries: BTreeMap::new(), order: VecDeque::new() }
    }

    fn entry(&mut self, key: K, fresh: impl FnOnce() -> V) -> &mut V {
        if !self.entries.contains_key(&key) {
            if self.order.len() >= REMEMBERED
                && let Some(oldest) = self.order.pop_front()
            {
                self.entries.remove(&oldest);
            }
            self.order.push_back(key.clone());
        }
        self.entries.entry(key).or_insert_with(fresh)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn happening(message: &str, at: Timestamp) -> Happening {
        Happening {
            about: ObjectRef { kind: "Pod".into(), name: "p".into(), ..ObjectRef::default() },
            event_type: EventType::Normal,
            reason: "R".into(),
            message: message.into(),
            host: String::new(),
            at,
        }
    }

    #[test]
    fn what_is_told_within_one_microsecond_has_names_of_its_own() {
        let mut correlator = Correlator::new();
        let mut name = |message| correlator.observe(&happening(message, at(5))).unwrap().name;
        let (pulled, created) = (name("pulled"), name("created"));
        assert_ne!(pulled, created);
        assert_eq!(pulled, name("pulled"), "one more of the same has the same name");
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_micros(second * 1_000_000)
    }

    #[test]
    fn repeats_are_counted_in_place() {
        let mut correlator = Correlator::new();
        let first = correlator.observe(&happening("a", at(1))).unwrap();
        let mut newer = happening("a", at(5));
        newer.about.resource_version = "8".into();
        let again = correlator.observe(&newer).unwrap();
        assert_eq!((first.count, again.count), (1, 2));
        assert_eq!((again.name, again.first, again.last), (first.name, at(1), at(5)));
        assert_eq!(correlator.observe(&happening("b", at(6))).unwrap().count, 1);
    }

    #[test]
    fn many_similar_become_one() {
        let mut correlator = Correlator::new();
        for n in 0..10 {
            assert_eq!(correlator.observe(&happening(&n.to_string(), at(n))).unwrap().message, n.to_string());
        }
        let combined = correlator.observe(&happening("x", at(11))).unwrap();
        assert_eq!((combined.message.as_str(), combined.count), ("(combined from similar events): x", 1));
        assert_eq!(correlator.observe(&happening("y", at(12))).unwrap().count, 2);
        assert_eq!(correlator.observe(&happening("3", at(13))).unwrap().message, "3", "a known one is still its own");
        assert_eq!(correlator.observe(&happening("z", at(1000))).unwrap().message, "z", "the interval has passed");
    }

    #[test]
    fn one_object_cannot_flood() {
        let mut correlator = Correlator::new();
        let taken = (0..40).filter(|_| correlator.observe(&happening("a", at(1))).is_some()).count();
        assert_eq!(taken, 25);
        assert!(correlator.observe(&happening("a", at(300))).is_none());
        assert!(correlator.observe(&happening("a", at(302))).is_some());
        assert!(correlator.observe(&happening("a", at(303))).is_none());
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut remembered = Remembered::new();
        for n in 0..(2 * REMEMBERED) {
            *remembered.entry(n, || n) += 1;
        }
        assert_eq!((remembered.entries.len(), remembered.order.len()), (REMEMBERED, REMEMBERED));
    }
}
