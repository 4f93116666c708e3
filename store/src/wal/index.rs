//! Where each entry is: in memory, in which segment, or gone. It does no I/O but the reads of `Source::load`.

use crate::disk::FileRef;
use crate::limits;
use crate::raft::types::{self, LogId, RaftEntry, Vote};
use bytes::Bytes;
use openraft::EntryPayload;
use std::collections::{BTreeMap, VecDeque};
use std::io;

/// An entry's payload on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Location {
    pub segment: u64,
    pub at: u32,
    pub len: u32,
}

#[derive(Default)]
pub struct Index {
    pub vote: Option<Vote>,
    pub committed: Option<LogId>,
    pub purged: Option<LogId>,
    /// The last entry, staged or written.
    pub last: Option<LogId>,
    /// The index of `written`'s first entry. Those up to `purged` are there only for who refers to what they wrote.
    pub first: u64,
    pub written: VecDeque<Location>,
    /// This segment and all after it stay, also if they hold nothing but purged entries.
    pub keep: Option<u64>,
    /// The last entry that somebody refers to.
    pub referred: u64,
    pub segments: BTreeMap<u64, FileRef>,
    staged: BTreeMap<u64, (RaftEntry, usize)>,
    staged_bytes: usize,
    /// Log ids of the first entry of each run of one leader, so that `last` can step back.
    leaders: BTreeMap<u64, LogId>,
    /// Entries up to this index are durable, so their copies in memory may go.
    pub durable: u64,
}

/// Where to get an entry from, without holding the index.
pub enum Source {
    Memory(Box<RaftEntry>, usize),
    Disk(FileRef, Location),
}

impl Source {
    pub fn load(self) -> io::Result<(RaftEntry, usize)> {
        match self {
            Self::Memory(entry, len) => Ok((*entry, len)),
            Self::Disk(file, location) => {
                let mut payload = vec![0; location.len as usize];
                file.read_exact_at(&mut payload, u64::from(location.at))?;
                let entry = types::decode_entry(Bytes::from(payload)).map_err(io::Error::other)?;
                Ok((entry, location.len as usize))
            }
        }
    }
}

impl Index {
    /// Keeps entries readable from now on.
    pub fn stage(&mut self, entries: &[RaftEntry]) {
        for entry in entries {
            let len = weight(entry);
            self.note(entry.log_id);
            self.staged.insert(entry.log_id.index, (entry.clone(), len));
            self.staged_bytes += len;
        }
    }

    /// Takes note of the log's next entry.
    pub fn note(&mut self, id: LogId) {
        if self.last.is_none_or(|last| last.leader_id != id.leader_id) {
            self.leaders.insert(id.index, id);
        }
        self.last = Some(id);
    }

    /// Drops entries after `last` from memory.
    pub fn unstage_after(&mut self, last: Option<u64>) {
        let first_void = last.map_or(0, |last| last + 1);
        for (_, (_, len)) in self.staged.split_off(&first_void) {
            self.staged_bytes -= len;
        }
        self.leaders.split_off(&first_void);
        let before = self.leaders.last_key_value().map(|(_, id)| *id);
        self.last = match (before, last) {
            (Some(run), Some(index)) => Some(LogId { index, ..run }),
            _ => self.purged,
        };
    }

    /// Drops entries after `last` from the written ones.
    pub fn unwrite_after(&mut self, last: Option<u64>) {
        let keep = last.map_or(0, |last| (last + 1).saturating_sub(self.first));
        self.written.truncate(usize::try_from(keep).unwrap_or(usize::MAX));
        self.durable = self.durable.min(last.unwrap_or(0));
    }

    /// Drops entries up to `upto`.
    pub fn purge(&mut self, upto: LogId) {
        self.purged = self.purged.max(Some(upto));
        if upto.index >= self.first + self.written.len() as u64 {
            // What comes next does not follow what is there.
            self.forget_written(upto.index);
        }
        let kept = self.staged.split_off(&(upto.index + 1));
        for (_, (_, len)) in std::mem::replace(&mut self.staged, kept) {
            self.staged_bytes -= len;
        }
        // The run that `upto` is part of goes on after it.
        let run = self.leaders.range(..=upto.index).next_back().map(|(_, id)| *id);
        self.leaders = self.leaders.split_off(&(upto.index + 1));
        match (self.last, run) {
            (Some(last), Some(run)) if last.index > upto.index => {
                self.leaders.entry(upto.index + 1).or_insert(LogId { index: upto.index + 1, ..run });
            }
            (Some(last), _) if last.index > upto.index => {}
            _ => self.last = None,
        }
    }

    /// Forgets where the entries up to `upto` are.
    pub fn forget_written(&mut self, upto: u64) {
        let gone = (upto + 1).saturating_sub(self.first).min(self.written.len() as u64);
        self.written.drain(..gone as usize);
        self.first = self.first.max(upto + 1);
    }

    /// Where an entry is, also if it is purged. From now on its segment stays; see `keep`.
    pub fn refer(&mut self, index: u64, farthest: u64) -> Option<(FileRef, Location)> {
        let location = *self.written.get(usize::try_from(index.checked_sub(self.first)?).ok()?)?;
        let file = self.segments.get(&location.segment)?.clone();
        let newest = *self.segments.last_key_value()?.0;
        if newest - location.segment > farthest {
            return None;
        }
        self.keep = Some(self.keep.map_or(location.segment, |keep| keep.min(location.segment)));
        self.referred = self.referred.max(index);
        Some((file, location))
    }

    /// An entry is in its segment now.
    pub fn wrote(&mut self, index: u64, location: Location) {
        if self.written.is_empty() {
            self.first = index;
        }
        debug_assert_eq!(index, self.first + self.written.len() as u64, "entries are written in order");
        self.written.push_back(location);
    }

    /// Entries up to `durable` can be read from disk: keeps the newest `cache_bytes` of them in memory.
    pub fn evict(&mut self, durable: u64, cache_bytes: usize) {
        self.durable = self.durable.max(durable);
        while self.staged_bytes > cache_bytes
            && let Some(oldest) = self.staged.first_entry()
            && *oldest.key() <= self.durable
        {
            self.staged_bytes -= oldest.remove().1;
        }
    }

    pub fn source(&self, index: u64) -> Option<Source> {
        if let Some((entry, len)) = self.staged.get(&index) {
            return Some(Source::Memory(Box::new(entry.clone()), *len));
        }
        if self.purged.is_some_and(|purged| index <= purged.index) {
            return None;
        }
        let location = *self.written.get(usize::try_from(index.checked_sub(self.first)?).ok()?)?;
        Some(Source::Disk(self.segments.get(&location.segment)?.clone(), location))
    }

    pub fn bytes_after(&self, index: u64) -> u64 {
        let index = index.max(self.purged.map_or(0, |purged| purged.index));
        let skip = usize::try_from((index + 1).saturating_sub(self.first)).unwrap_or(usize::MAX);
        self.written.iter().skip(skip).map(|location| u64::from(location.len)).sum()
    }
}

/// About what an entry takes in memory.
fn weight(entry: &RaftEntry) -> usize {
    let own = size_of::<RaftEntry>();
    let EntryPayload::Normal(proposal) = &entry.payload else { return own };
    own + proposal.0.commands.iter().map(limits::resident).sum::<usize>()
}
