//! What other servers answered, kept for a while. Decides what is forgotten when there is no more room: what ends first.

use parking_lot::Mutex;
use sha2::{Digest, Sha256};
use std::collections::HashMap;

/// A question's hash, so that no token is kept.
type Key = [u8; 32];

struct Kept<T> {
    answer: T,
    until_ms: u64,
}

pub struct Answers<T> {
    kept: Mutex<HashMap<Key, Kept<T>>>,
    most: usize,
}

impl<T: Clone> Answers<T> {
    pub fn new(most: usize) -> Self {
        Self { kept: Mutex::default(), most }
    }

    pub fn key(question: &[u8]) -> Key {
        Sha256::digest(question).into()
    }

    pub fn get(&self, key: &Key, now_ms: u64) -> Option<T> {
        let kept = self.kept.lock();
        kept.get(key).filter(|one| one.until_ms > now_ms).map(|one| one.answer.clone())
    }

    pub fn put(&self, key: Key, answer: T, now_ms: u64, for_ms: u64) {
        if for_ms == 0 {
            return;
        }
        let mut kept = self.kept.lock();
        if kept.len() >= self.most && !kept.contains_key(&key) {
            kept.retain(|_, one| one.until_ms > now_ms);
            if kept.len() >= self.most
                && let Some(first) = kept.iter().min_by_key(|(_, one)| one.until_ms).map(|(key, _)| *key)
            {
                kept.remove(&first);
            }
        }
        kept.insert(key, Kept { answer, until_ms: now_ms + for_ms });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_end_and_their_number_is_bounded() {
        let answers = Answers::new(2);
        let key = |name: &str| Answers::<u8>::key(name.as_bytes());
        answers.put(key("a"), 1, 0, 100);
        answers.put(key("none"), 9, 0, 0);
        assert_eq!((answers.get(&key("a"), 99), answers.get(&key("a"), 100)), (Some(1), None));
        assert_eq!(answers.get(&key("none"), 0), None);
        answers.put(key("b"), 2, 0, 50);
        answers.put(key("c"), 3, 10, 100);
        assert_eq!(answers.get(&key("b"), 10), None, "it would have ended first");
        assert_eq!((answers.get(&key("a"), 10), answers.get(&key("c"), 10)), (Some(1), Some(3)));
        answers.put(key("d"), 4, 105, 100);
        assert_eq!(
            (answers.get(&key("c"), 105), answers.get(&key("d"), 105)),
            (Some(3), Some(4)),
            "what ended made room"
        );
    }
}
