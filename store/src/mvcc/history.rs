//! The commits that are still remembered, in blocks that are filled in place: taking one more neither copies nor disturbs
//! who reads a clone, and forgetting gives whole blocks back.
//!
//! It knows nothing of revisions but that they follow each other.

use super::Commit;
use imbl::Vector;
use std::sync::{Arc, OnceLock};

/// Commits in a block: large enough that the allocator can give its memory back.
const BLOCK: usize = 4_096;

type Block = Arc<[OnceLock<Commit>]>;

/// The newest commit is `revision`'s; clones share blocks.
#[derive(Clone, Debug, Default)]
pub struct History {
    blocks: Vector<Block>,
    /// Places in front of the first block that are forgotten.
    skipped: usize,
    len: usize,
}

impl History {
    pub fn len(&self) -> usize {
        self.len
    }

    pub fn get(&self, at: usize) -> Option<&Commit> {
        if at >= self.len {
            return None;
        }
        let place = self.skipped + at;
        self.blocks.get(place / BLOCK)?[place % BLOCK].get()
    }

    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Commit> + DoubleEndedIterator {
        (0..self.len).map(|at| self.get(at).expect("every place up to the length is filled"))
    }

    pub fn push_back(&mut self, commit: Commit) {
        let place = self.skipped + self.len;
        if place / BLOCK == self.blocks.len() {
            self.blocks.push_back(std::iter::repeat_with(OnceLock::new).take(BLOCK).collect());
        }
        self.len += 1;
        if let Err(commit) = self.blocks[place / BLOCK][place % BLOCK].set(commit) {
            // A clone went another way from here.
            let own = self.blocks[place / BLOCK][..place % BLOCK].iter().cloned();
            let rest = std::iter::repeat_with(OnceLock::new).take(BLOCK - place % BLOCK);
            let block: Block = own.chain(rest).collect();
            let _ = block[place % BLOCK].set(commit);
            self.blocks.set(place / BLOCK, block);
        }
    }

    /// Forgets the oldest commit and answers it. Where a clone shares the block, [`Self::tidy`] lets go of it.
    pub fn pop_front(&mut self) -> Option<Commit> {
        if self.len == 0 {
            return None;
        }
        let first = match self.blocks.get_mut(0).and_then(Arc::get_mut) {
            Some(block) => block[self.skipped].take()?,
            None => self.get(0)?.clone(),
        };
        self.skipped += 1;
        self.len -= 1;
        if self.skipped == BLOCK {
            self.blocks.pop_front();
            self.skipped = 0;
        }
        Some(first)
    }

    /// Changes a commit in its place. Clones see what was there: a block that one of them shares is copied first, once.
    pub fn edit(&mut self, at: usize, edit: impl FnOnce(&mut Commit)) {
        let place = self.skipped + at;
        let Some(block) = self.blocks.get_mut(place / BLOCK).filter(|_| at < self.len) else { return };
        if Arc::get_mut(block).is_none() {
            *block = block.iter().cloned().collect();
        }
        let own = Arc::get_mut(block).and_then(|block| block[place % BLOCK].get_mut());
        edit(own.expect("every place up to the length is filled"));
    }

    /// Keeps nothing of what was forgotten but for clones that remember it.
    pub fn tidy(&mut self) {
        let Some(first) = self.blocks.front() else { return };
        if first[..self.skipped].iter().any(|place| place.get().is_some()) {
            let forgotten = std::iter::repeat_with(OnceLock::new).take(self.skipped);
            let block = forgotten.chain(first[self.skipped..].iter().cloned()).collect();
            self.blocks.set(0, block);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::Revision;
    use crate::mvcc::{Change, Version};

    fn commit(number: u64) -> Commit {
        let change = Change { kv: Version::deleted(b"k", Revision(number)), prev: None };
        Commit::new(vec![change], number)
    }

    fn numbers(history: &History) -> Vec<u64> {
        history.iter().map(|commit| commit.hash).collect()
    }

    #[test]
    fn it_grows_at_one_end_and_shrinks_at_the_other() {
        let mut history = History::default();
        let mut first = 0;
        for number in 0..3 * BLOCK as u64 {
            history.push_back(commit(number));
            if number % 3 == 0 {
                assert_eq!(history.pop_front().unwrap().hash, first);
                first += 1;
            }
        }
        assert_eq!(numbers(&history), (first..3 * BLOCK as u64).collect::<Vec<_>>());
        assert_eq!(history.blocks.len(), 2, "a forgotten block is given back");
        assert_eq!(history.get(history.len()), None);
        while history.pop_front().is_some() {}
        assert_eq!((history.len(), history.blocks.len()), (0, 0));
    }

    #[test]
    fn clones_see_what_was_there_and_may_go_their_own_way() {
        let mut one = History::default();
        (0..5).for_each(|number| one.push_back(commit(number)));
        let before = one.clone();
        one.push_back(commit(5));
        let mut other = before.clone();
        other.push_back(commit(50));
        one.push_back(commit(6));
        other.push_back(commit(51));
        assert_eq!(numbers(&before), [0, 1, 2, 3, 4]);
        assert_eq!(numbers(&one), [0, 1, 2, 3, 4, 5, 6]);
        assert_eq!(numbers(&other), [0, 1, 2, 3, 4, 50, 51]);
    }

    #[test]
    fn an_edit_is_not_seen_by_clones() {
        let mut history = History::default();
        (0..BLOCK as u64 + 3).for_each(|number| history.push_back(commit(number)));
        drop(history.pop_front());
        let reader = history.clone();
        for at in [0, BLOCK - 1, BLOCK] {
            history.edit(at, |commit| commit.hash += 1_000_000);
        }
        let alone: *const _ = &history.blocks[0][1];
        history.edit(5, |commit| commit.hash = 7);
        assert!(std::ptr::eq(alone, &history.blocks[0][1]), "what nobody shares is not copied");
        history.edit(BLOCK + 2, |_| panic!("it is not there"));
        assert_eq!(numbers(&reader), (1..BLOCK as u64 + 3).collect::<Vec<_>>());
        let expect = (1..BLOCK as u64 + 3).map(|n| if [1, 4_096, 4_097].contains(&n) { n + 1_000_000 } else { n });
        let expect: Vec<_> = expect.map(|n| if n == 6 { 7 } else { n }).collect();
        assert_eq!(numbers(&history), expect);
        // What the reader forgot to share goes on growing in place.
        history.push_back(commit(9));
        assert_eq!((history.len(), reader.len()), (BLOCK + 3, BLOCK + 2));
    }

    #[test]
    fn what_is_forgotten_is_let_go_of_at_once_or_when_its_readers_are_gone() {
        let value = commit(0);
        let Change { kv, .. } = value.changes()[0].clone();
        let held = || kv.holders();
        drop(value);
        let before = held();
        let mut history = History::default();
        for _ in 0..3 {
            history.push_back(Commit::new(vec![Change { kv: kv.clone(), prev: None }], 0));
        }
        drop(history.pop_front());
        history.tidy();
        assert_eq!(held(), before + 2, "nobody shares the block");
        let reader = history.clone();
        drop(history.pop_front());
        assert_eq!(held(), before + 2);
        history.tidy();
        assert_eq!((numbers(&history).len(), numbers(&reader).len()), (1, 2));
        drop(reader);
        assert_eq!(held(), before + 1, "the reader was the last who knew it");
    }
}
