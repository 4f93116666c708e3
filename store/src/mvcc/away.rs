//! Superseded values that are in the log and not in memory: which ones may go there, and how a state comes to hold their places.
//! Nothing that anyone reads, hashes or replicates changes by it.
//!
//! It reads no log: whoever does so gives the places, after comparing the bytes there with those in memory.

use super::{Change, Commit, Mvcc, Undo, Version};
use crate::api::Revision;

/// Where the log has a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    pub segment: u64,
    /// In the segment.
    pub at: u32,
    pub len: u32,
    /// The value's CRC-32.
    pub crc: u32,
}

const PLACE_BYTES: usize = 20;

impl Place {
    pub fn to_bytes(self) -> [u8; PLACE_BYTES] {
        let mut bytes = [0; PLACE_BYTES];
        bytes[..8].copy_from_slice(&self.segment.to_le_bytes());
        for (at, word) in [(8, self.at), (12, self.len), (16, self.crc)] {
            bytes[at..at + 4].copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// The first bytes are a place's.
    pub fn from_bytes(bytes: &[u8]) -> Self {
        let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes"));
        let segment = u64::from_le_bytes(bytes[..8].try_into().expect("8 bytes"));
        Self { segment, at: word(8), len: word(12), crc: word(16) }
    }
}

/// A version that was replaced or deleted.
#[derive(Clone, Debug)]
pub struct Superseded {
    pub version: Version,
    /// The revision that did it.
    pub until: u64,
}

/// The same version with its value in the log.
pub struct Swap {
    pub old: Superseded,
    pub new: Version,
}

/// Which superseded values stay in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Warm {
    /// The newest of them with so many bytes, so that what follows the present never waits for the disk.
    pub bytes: u64,
    /// Those that are shorter than this: their places would take as much.
    pub least: usize,
}

/// Goes through the history in the order in which values were superseded, a warm window behind the newest.
#[derive(Debug, Default)]
pub struct Window {
    /// Commits before this one are done.
    next: u64,
    /// Commits before this one are counted.
    seen: u64,
    /// Bytes that the commits from `next` to `seen` superseded.
    warm: u64,
}

/// Commits that one look takes in.
const LOOK: u64 = 2_048;

/// What one look found.
#[derive(Debug, Default)]
pub struct Due {
    pub values: Vec<Superseded>,
    /// There may be more.
    pub more: bool,
}

impl Window {
    /// The values that commits up to `upto` superseded and that are not warm any more; about `most` at a time, each once.
    pub fn due(&mut self, mvcc: &Mvcc, upto: Revision, warm: &Warm, most: usize) -> Due {
        let first = mvcc.first_commit();
        let newest = upto.0.min(mvcc.revision);
        if self.next < first || self.seen > mvcc.revision + 1 {
            // What was counted is forgotten, or another state took its place.
            *self = Self { next: first, seen: first, warm: 0 };
        }
        let end = (newest + 1).min(self.seen + LOOK).max(self.seen);
        let commits = |from: u64, to: u64| (from..to).filter_map(|revision| Some((revision, mvcc.commit(revision)?)));
        self.warm += commits(self.seen, end).map(|(_, commit)| superseded(commit, warm.least)).sum::<u64>();
        self.seen = end;
        let mut due = Due::default();
        while self.next < self.seen && self.warm > warm.bytes && due.values.len() < most {
            let (until, commit) = (self.next, mvcc.commit(self.next));
            self.next += 1;
            let Some(commit) = commit else { continue };
            self.warm -= superseded(commit, warm.least);
            let versions = commit.changes().iter().filter_map(|change| candidate(change, warm.least));
            let here = versions.filter(|version| version.away().is_none());
            due.values.extend(here.map(|version| Superseded { version: version.clone(), until }));
        }
        due.more = self.seen <= newest || due.values.len() >= most;
        due
    }
}

fn candidate(change: &Change, least: usize) -> Option<&Version> {
    change.prev.as_ref().filter(|prev| change.undoes() && prev.value_len() >= least.max(1))
}

fn superseded(commit: &Commit, least: usize) -> u64 {
    let candidates = commit.changes().iter().filter_map(|change| candidate(change, least));
    candidates.map(|version| version.value_len() as u64).sum()
}

impl Mvcc {
    /// Takes places for values that are still remembered.
    pub fn put_away(&mut self, swaps: &[Swap]) {
        for Swap { old: Superseded { version, until }, new } in swaps {
            if self.replace(*until, |change| change.prev.as_mut(), version, new) {
                self.past.insert(Undo { prev: new.clone(), until: *until });
                self.away_bytes += new.value_len() as u64;
                self.replace(version.mod_revision().0, |change| Some(&mut change.kv), version, new);
            }
        }
    }

    /// Puts `new` in the place of the very version `old` in one commit, if it is there.
    fn replace(
        &mut self,
        revision: u64,
        of: impl Fn(&mut Change) -> Option<&mut Version>,
        old: &Version,
        new: &Version,
    ) -> bool {
        let at = revision.checked_sub(self.first_commit()).and_then(|at| usize::try_from(at).ok());
        let Some(at) = at.filter(|at| *at < self.history.len()) else { return false };
        let mut replaced = false;
        self.history.edit(at, |commit| {
            commit.edit(|change| {
                if let Some(version) = of(change).filter(|version| version.is_same(old)) {
                    *version = new.clone();
                    replaced = true;
                }
            });
        });
        replaced
    }

    /// Bytes of superseded values in memory, and in the log.
    pub fn superseded_values(&self) -> (u64, u64) {
        (self.superseded_values - self.away_bytes, self.away_bytes)
    }
}

impl Commit {
    fn edit(&mut self, edit: impl FnMut(&mut Change)) {
        match &mut self.changes {
            super::Changes::One(change) => std::slice::from_mut(change).iter_mut().for_each(edit),
            super::Changes::Many(changes) => std::sync::Arc::make_mut(changes).iter_mut().for_each(edit),
        }
    }
}
