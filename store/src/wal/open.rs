//! Opens a log: reads every segment, cuts off what was never acknowledged, and refuses what is damaged. It never repairs.

use super::WalConfig;
use super::index::{Index, Location};
use super::record::{self, HeaderError, Kind, Scan, State, Tail};
use super::reserve::Reserve;
use super::writer::{Segment, Writer, segment_name, write_zeros};
use crate::codec::{DecodeError, Reader};
use crate::disk::{self, Disk, DiskRef, FileRef};
use crate::plant::{Plant, planted};
use crate::raft::types::{self, LogId};
use bytes::Bytes;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What to do about a member whose data is damaged.
pub const REBUILD: &str = "remove this member from the group, empty its directory, and add it anew with --join (a member alone: \
                           restore a saved snapshot)";

/// Why a log cannot be opened. A person acts.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("{path} cannot be used", path = .path.display())]
    Io {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("{path} is in use by another process", path = .path.display())]
    InUse { path: PathBuf },
    #[error("{path} is damaged at byte {at}: a record that was durable does not match its checksum; {REBUILD}", path = .path.display())]
    Damaged { path: PathBuf, at: u32 },
    #[error("{path} is damaged; {REBUILD}", path = .path.display())]
    Header {
        path: PathBuf,
        #[source]
        source: HeaderError,
    },
    #[error("{path} holds a record at byte {at} that this build does not understand", path = .path.display())]
    Record {
        path: PathBuf,
        at: u32,
        #[source]
        source: DecodeError,
    },
    #[error("{path} does not follow the segment before it: one is missing; put it back, or {REBUILD}", path = .path.display())]
    MissingSegment { path: PathBuf },
    #[error("{path} holds entry {found} where entry {expected} belongs; {REBUILD}", path = .path.display())]
    Gap { path: PathBuf, found: u64, expected: u64 },
    #[error("the log's threads cannot be started")]
    Thread(#[source] io::Error),
}

trait At<T> {
    fn at(self, path: &Path) -> Result<T, OpenError>;
}

impl<T> At<T> for io::Result<T> {
    fn at(self, path: &Path) -> Result<T, OpenError> {
        self.map_err(|source| OpenError::Io { path: path.to_owned(), source })
    }
}

/// Who makes room ahead of the log.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Reserving {
    Thread,
    /// The writer itself, when it needs room: for simulations, which have one thread.
    #[cfg_attr(not(test), allow(dead_code, reason = "only simulations do"))]
    Inline,
}

pub fn open(disk: DiskRef, dir: &Path, config: WalConfig, reserving: Reserving) -> Result<(Writer, Index), OpenError> {
    disk.create_dir_all(dir).at(dir)?;
    if let Some(parent) = dir.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        disk.sync_dir(parent).at(parent)?;
    }
    let lock = lock(&*disk, dir)?;
    let mut found = Recovered::default();
    let mut sequences = sequences(&*disk, dir)?;
    drop_unneeded(&*disk, dir, &mut sequences)?;
    for (i, &sequence) in sequences.iter().enumerate() {
        if i > 0 && sequences[i - 1] + 1 != sequence {
            return Err(OpenError::MissingSegment { path: dir.join(segment_name(sequence)) });
        }
        found.read_segment(&*disk, dir, sequence, i + 1 == sequences.len())?;
    }
    found.check_start(dir)?;
    let next = sequences.last().map_or(1, |last| last + 1);
    let segment = match found.segment {
        Some(segment) => segment,
        // Nothing in the last one was ever acknowledged, so its name is free again.
        None => Segment::create(&*disk, dir, if found.last_is_void { next - 1 } else { next }).at(dir)?,
    };
    let reserved = segment.file.bytes().at(dir)?;
    let inline = reserving == Reserving::Inline;
    let reserve = Reserve::new((disk.clone(), dir), &config, segment.sequence, reserved, inline);
    let reserving = if inline { None } else { Some(reserve_beside(&reserve)?) };
    let mut index = found.index;
    let mut last_index = found.last_index;
    if planted(Plant::ForgottenTail) && index.written.len() > 1 {
        last_index -= 1;
        index.unstage_after(Some(last_index));
        index.unwrite_after(Some(last_index));
    }
    index.segments.insert(segment.sequence, segment.file.clone());
    let writer = Writer {
        disk,
        dir: dir.to_owned(),
        config,
        segment,
        full: found.full,
        last_index,
        committed: index.committed,
        pending: Vec::new(),
        pending_entries: Vec::new(),
        reserve,
        reserving,
        failed: None,
        _lock: lock,
    };
    Ok((writer, index))
}

fn reserve_beside(reserve: &Arc<Reserve>) -> Result<std::thread::JoinHandle<()>, OpenError> {
    let reserve = reserve.clone();
    let thread = std::thread::Builder::new().name("wal-reserve".into());
    thread.spawn(move || reserve.run()).map_err(OpenError::Thread)
}

fn lock(disk: &dyn Disk, dir: &Path) -> Result<FileRef, OpenError> {
    let path = dir.join("lock");
    disk.lock(&path).at(&path)?.ok_or_else(|| OpenError::InUse { path: dir.to_owned() })
}

fn sequences(disk: &dyn Disk, dir: &Path) -> Result<Vec<u64>, OpenError> {
    let mut sequences = Vec::new();
    for file in disk.list(dir).at(dir)? {
        let name = file.file_name().and_then(|name| name.to_str());
        let sequence = name.and_then(|name| name.strip_suffix(".wal"));
        sequences.extend(sequence.and_then(|hex| u64::from_str_radix(hex, 16).ok()));
    }
    sequences.sort_unstable();
    Ok(sequences)
}

/// How much of a segment is looked at for its first entry.
const FIRST_BYTES: u64 = 64 << 10;

/// Removes the segments that are there only because superseded values were in them: whoever referred to those is gone.
fn drop_unneeded(disk: &dyn Disk, dir: &Path, sequences: &mut Vec<u64>) -> Result<(), OpenError> {
    let Some(purged) = sequences.last().map(|last| newest_purge(disk, dir, *last)).transpose()?.flatten() else {
        return Ok(());
    };
    for at in (1..sequences.len()).rev() {
        let path = dir.join(segment_name(sequences[at]));
        let file = disk.open(&path).at(&path)?;
        let mut start = vec![0; file.bytes().at(&path)?.min(FIRST_BYTES) as usize];
        file.read_exact_at(&mut start, 0).at(&path)?;
        let first = first_entry(&start.into(), sequences[at]);
        if first.is_some_and(|first| first <= purged.index + 1) {
            // That they were purged may only be in the page cache, as may be the name of the segment that says so. Neither must
            // be lost after they are.
            let newest = dir.join(segment_name(sequences[sequences.len() - 1]));
            disk.open(&newest).at(&newest)?.sync_data().at(&newest)?;
            disk.sync_dir(dir).at(dir)?;
            // Oldest first, so that those which are there always follow each other.
            for sequence in sequences.drain(..at) {
                let path = dir.join(segment_name(sequence));
                disk.remove(&path).at(&path)?;
            }
            return Ok(());
        }
    }
    Ok(())
}

/// What the newest segment says was purged: each says it when it begins, or later. `None` if that is not to be read.
fn newest_purge(disk: &dyn Disk, dir: &Path, sequence: u64) -> Result<Option<LogId>, OpenError> {
    let path = dir.join(segment_name(sequence));
    let bytes = Bytes::from(disk::read_whole(&*disk.open(&path).at(&path)?).at(&path)?);
    if record::check_header(&bytes, sequence).is_err() {
        return Ok(None);
    }
    let purge = |found: &record::Found| {
        let payload = bytes.slice(found.at as usize..(found.at + found.len) as usize);
        match State::decode(found.kind, payload) {
            Ok(Some(State::Purge(upto))) => Some(upto),
            _ => None,
        }
    };
    Ok(record::scan(&bytes, sequence).records.iter().filter_map(purge).max())
}

/// The index of the first entry in a segment of which this is the beginning.
fn first_entry(start: &Bytes, sequence: u64) -> Option<u64> {
    record::check_header(start, sequence).ok()?;
    let found = record::first(start, sequence, Kind::Entry)?;
    let payload = start.slice(found.at as usize..(found.at + found.len) as usize);
    Some(types::log_id(&mut Reader::new(payload)).ok()?.index)
}

#[derive(Default)]
struct Recovered {
    index: Index,
    full: Vec<(u64, u64)>,
    last_index: u64,
    /// The last segment, if it goes on.
    segment: Option<Segment>,
    last_is_void: bool,
}

impl Recovered {
    fn read_segment(&mut self, disk: &dyn Disk, dir: &Path, sequence: u64, is_last: bool) -> Result<(), OpenError> {
        let path = dir.join(segment_name(sequence));
        let file = disk.open(&path).at(&path)?;
        let bytes = Bytes::from(disk::read_whole(&*file).at(&path)?);
        match record::check_header(&bytes, sequence) {
            Ok(()) => {}
            Err(HeaderError::Torn) if is_last && !record::holds_durable_records(&bytes, sequence) => {
                self.last_is_void = true;
                return Ok(());
            }
            Err(source) => return Err(OpenError::Header { path, source }),
        }
        let scan = record::scan(&bytes, sequence);
        if scan.tail == Tail::Damaged || (scan.tail == Tail::Torn && !is_last) {
            return Err(OpenError::Damaged { path, at: scan.end });
        }
        self.replay(&path, &bytes, sequence, &scan)?;
        if scan.tail == Tail::Torn {
            tracing::warn!(path = %path.display(), at = scan.end, "cut off an unfinished write at the end of the log");
        }
        if is_last && bytes[scan.end as usize..].iter().any(|byte| *byte != 0) {
            // Parts of a write that was cut off must not come back behind the records that will take its place.
            write_zeros(&*file, u64::from(scan.end), bytes.len() as u64).at(&path)?;
        }
        self.index.segments.insert(sequence, file.clone());
        if is_last {
            // What was read may only be in the page cache: durable from here on, and zeros stay zeros.
            file.sync_data().at(&path)?;
            disk.sync_dir(dir).at(dir)?;
            let end = u64::from(scan.end);
            self.segment = Some(Segment { sequence, file, at: end, durable: end });
        } else {
            self.full.push((sequence, self.last_index));
        }
        Ok(())
    }

    fn replay(&mut self, path: &Path, bytes: &Bytes, sequence: u64, scan: &Scan) -> Result<(), OpenError> {
        for found in &scan.records {
            let payload = bytes.slice(found.at as usize..(found.at + found.len) as usize);
            let undecodable = |source| OpenError::Record { path: path.to_owned(), at: found.at, source };
            if found.kind == Kind::Entry {
                let id = types::log_id(&mut Reader::new(payload)).map_err(undecodable)?;
                self.entry(path, id, Location { segment: sequence, at: found.at, len: found.len })?;
                continue;
            }
            match State::decode(found.kind, payload).map_err(undecodable)? {
                Some(State::Vote(vote)) => self.index.vote = Some(vote),
                Some(State::Committed(committed)) => self.index.committed = self.index.committed.max(committed),
                Some(State::Purge(upto)) => {
                    self.index.purge(upto);
                    self.index.forget_written(upto.index);
                }
                Some(State::Truncate(last)) => {
                    self.index.unstage_after(last.map(|id| id.index));
                    self.index.unwrite_after(last.map(|id| id.index));
                    let known = self.index.last.max(self.index.purged).map_or(0, |id| id.index);
                    if last.is_some_and(|last| last.index > known) {
                        // The entries before the cut were in segments that are gone: like at the start, any may follow.
                        self.index.last = None;
                    }
                    self.last_index = last.map_or(0, |id| id.index);
                }
                None => {}
            }
        }
        Ok(())
    }

    fn check_start(&self, dir: &Path) -> Result<(), OpenError> {
        let expected = self.index.purged.map_or(0, |purged| purged.index + 1);
        if self.index.written.is_empty() || self.index.first == expected {
            return Ok(());
        }
        Err(OpenError::Gap { path: dir.to_owned(), found: self.index.first, expected })
    }

    fn entry(&mut self, path: &Path, id: LogId, location: Location) -> Result<(), OpenError> {
        // The oldest segment may start anywhere: `check_start` sees whether what came before is purged.
        let expected = self.index.last.map_or(id.index, |last| last.index + 1);
        if id.index != expected {
            return Err(OpenError::Gap { path: path.to_owned(), found: id.index, expected });
        }
        self.index.note(id);
        self.index.wrote(id.index, location);
        self.index.durable = id.index;
        self.last_index = id.index;
        Ok(())
    }
}
