//! Who waits for a key: single keys by hash, ranges by interval. The hub finds readers with it, and a reader its watches.
//!
//! It holds names of those who wait and nothing else about them.

use super::ranges::{Ranges, before};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

/// Shared by everyone who holds the same span, and without the spare that growing buffers have.
pub type Key = Arc<[u8]>;

/// The keys of a watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reach {
    pub start: Key,
    /// `None`: `start` alone. Empty: to the end of the key space.
    pub end: Option<Key>,
}

impl Reach {
    /// From `[start, end)` as [`crate::RangeRequest`] has it.
    pub fn new(start: &[u8], end: &[u8]) -> Self {
        let end = match end {
            [] => None,
            [0] => Some(Key::from([])),
            end => Some(Key::from(end)),
        };
        Self { start: Key::from(start), end }
    }

    fn is_empty(&self) -> bool {
        self.end.as_deref().is_some_and(|end| !before(&self.start, end))
    }
}

/// Those who wait for the same span, in order.
pub enum Targets<T> {
    One(T),
    /// Boxed, because most spans have one.
    #[expect(clippy::box_collection, reason = "a vector of its own would double every entry")]
    Many(Box<Vec<T>>),
}

impl<T: Copy> Targets<T> {
    pub fn visit(&self, found: &mut impl FnMut(T)) -> usize {
        let all = match self {
            Self::One(target) => std::slice::from_ref(target),
            Self::Many(targets) => targets,
        };
        all.iter().copied().for_each(found);
        all.len()
    }
}

impl<T: Copy + Ord> Targets<T> {
    pub fn insert(&mut self, target: T) {
        match self {
            Self::One(one) if *one == target => {}
            Self::One(one) => {
                let mut many = vec![*one, target];
                many.sort_unstable();
                *self = Self::Many(Box::new(many));
            }
            Self::Many(many) => {
                if let Err(at) = many.binary_search(&target) {
                    many.insert(at, target);
                }
            }
        }
    }

    /// Whether nobody is left.
    pub fn remove(&mut self, target: T) -> bool {
        match self {
            Self::One(one) => *one == target,
            Self::Many(many) => {
                if let Ok(at) = many.binary_search(&target) {
                    many.remove(at);
                }
                if let [one] = many[..] {
                    *self = Self::One(one);
                }
                false
            }
        }
    }
}

pub struct Index<T> {
    keys: HashMap<Key, Targets<T>>,
    ranges: Ranges<T>,
}

impl<T> Default for Index<T> {
    fn default() -> Self {
        Self { keys: HashMap::new(), ranges: Ranges::default() }
    }
}

impl<T: Copy + Ord> Index<T> {
    /// The same span as it is kept here, if anybody waits for it.
    pub fn get(&self, reach: &Reach) -> Option<Reach> {
        match &reach.end {
            None => self.keys.get_key_value(&reach.start).map(|(start, _)| Reach { start: start.clone(), end: None }),
            Some(end) => self
                .ranges
                .get(&reach.start, end)
                .map(|(start, end)| Reach { start: start.clone(), end: Some(end.clone()) }),
        }
    }

    pub fn insert(&mut self, reach: &Reach, target: T) {
        match &reach.end {
            None => match self.keys.entry(reach.start.clone()) {
                Entry::Occupied(mut entry) => entry.get_mut().insert(target),
                Entry::Vacant(entry) => drop(entry.insert(Targets::One(target))),
            },
            // Nothing lies in it, and the tree counts on starts that come before their ends.
            Some(_) if reach.is_empty() => {}
            Some(end) => self.ranges.insert(reach.start.clone(), end.clone(), target),
        }
    }

    pub fn remove(&mut self, reach: &Reach, target: T) {
        match &reach.end {
            None => {
                if self.keys.get_mut(&reach.start).is_some_and(|targets| targets.remove(target)) {
                    self.keys.remove(&reach.start);
                }
            }
            Some(end) => self.ranges.remove(&reach.start, end, target),
        }
    }

    /// Names everyone who waits for `key`, and answers how many entries it looked at.
    pub fn visit(&self, key: &[u8], mut found: impl FnMut(T)) -> usize {
        let exact = self.keys.get(key).map_or(0, |targets| targets.visit(&mut found));
        exact + self.ranges.visit(key, &mut found)
    }

    #[cfg(test)]
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.ranges.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn contains(reach: &Reach, key: &[u8]) -> bool {
        match &reach.end {
            None => *reach.start == *key,
            Some(end) => *reach.start <= *key && before(key, end),
        }
    }

    fn found(index: &Index<u32>, key: &[u8]) -> (Vec<u32>, usize) {
        let mut all = Vec::new();
        let touched = index.visit(key, |target| all.push(target));
        all.sort_unstable();
        (all, touched)
    }

    fn word() -> impl Strategy<Value = Vec<u8>> {
        proptest::collection::vec(0_u8..4, 0..4)
    }

    proptest! {
        #[test]
        fn it_finds_what_a_list_finds(
            steps in proptest::collection::vec((word(), word(), 0_u32..8, any::<bool>()), 1..80),
            keys in proptest::collection::vec(word(), 1..20),
        ) {
            let mut index = Index::default();
            let mut list: Vec<(Reach, u32)> = Vec::new();
            for (start, end, target, leave) in steps {
                let entry = (Reach::new(&start, &end), target);
                if leave && !list.is_empty() {
                    let (reach, target) = list.swap_remove(target as usize % list.len());
                    index.remove(&reach, target);
                } else if !list.contains(&entry) {
                    index.insert(&entry.0, target);
                    list.push(entry);
                }
                for key in &keys {
                    let mut expect: Vec<_> = list.iter().filter(|(r, _)| contains(r, key)).map(|(_, t)| *t).collect();
                    expect.sort_unstable();
                    prop_assert_eq!(found(&index, key).0, expect);
                }
            }
            for (reach, target) in list {
                prop_assert!(index.get(&reach).is_some_and(|kept| kept == reach) || reach.is_empty());
                index.remove(&reach, target);
            }
            prop_assert!(index.is_empty());
        }
    }

    #[test]
    fn a_look_up_does_not_touch_the_spans_of_other_keys() {
        let mut index = Index::default();
        for i in 0..20_000_u32 {
            let name = format!("/registry/pods/{i:05}/");
            index.insert(&Reach::new(name.as_bytes(), &crate::api::prefix_end(name.as_bytes())), i);
            index.insert(&Reach::new(format!("{name}one").as_bytes(), b""), i + 20_000);
        }
        index.insert(&Reach::new(b"/", b"\0"), 40_000);
        let (all, touched) = found(&index, b"/registry/pods/12345/one");
        assert_eq!(all, [12_345, 32_345, 40_000]);
        assert!(touched < 200, "{touched} of 40,001 entries were looked at");
    }
}
