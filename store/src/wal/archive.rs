//! The log as the place of superseded values: where an entry lies, which segments stay because somebody refers to them, and
//! reading a value back. It decides that what does not match its checksum is no value.

use super::index::Location;
use super::{Job, Shared, Wal};
use crate::archive::{Archive, ArchiveRef, Unreadable};
use crate::disk::FileRef;
use crate::mvcc::Place;
use bytes::Bytes;
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

/// An entry in the log, which stays where it is.
pub struct Written {
    file: FileRef,
    location: Location,
}

impl Written {
    /// A place as if whatever lies there were the value; see [`crate::plant::Plant::NextEntry`].
    pub fn place_of_anything(&self, at: u32, len: usize) -> io::Result<Place> {
        let at = self.location.at + at.min(self.location.len.saturating_sub(len as u32));
        let place = Place { segment: self.location.segment, at, len: len as u32, crc: 0 };
        Ok(Place { crc: crc32fast::hash(&read(&self.file, place)?), ..place })
    }

    /// Whether `value` lies at `at` in the entry's bytes, and then its place. Blocks.
    pub fn place(&self, at: u32, value: &[u8]) -> io::Result<Option<Place>> {
        let Ok(len) = u32::try_from(value.len()) else { return Ok(None) };
        if u64::from(at) + u64::from(len) > u64::from(self.location.len) {
            return Ok(None);
        }
        let place =
            Place { segment: self.location.segment, at: self.location.at + at, len, crc: crc32fast::hash(value) };
        let found = read(&self.file, place)?;
        Ok((found == value).then_some(place))
    }
}

fn read(file: &FileRef, place: Place) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; place.len as usize];
    file.read_exact_at(&mut bytes, u64::from(place.at))?;
    Ok(bytes)
}

fn value(file: Option<&FileRef>, place: Place) -> Result<Bytes, Unreadable> {
    let file = file.ok_or(Unreadable::Gone(place))?;
    let bytes = read(file, place).map_err(|source| Unreadable::Io { place, source })?;
    if crc32fast::hash(&bytes) != place.crc {
        return Err(Unreadable::Damaged(place));
    }
    Ok(bytes.into())
}

impl Wal {
    pub fn archive(&self) -> ArchiveRef {
        Arc::new(Log(self.owner.shared.clone()))
    }

    /// Where entry `index` is, if it is on disk, not more than `farthest` segments before the newest. Its segment and all after
    /// it stay until [`Self::keep_from`] says otherwise.
    pub fn refer(&self, index: u64, farthest: u64) -> Option<Written> {
        let (file, location) = self.shared().index.lock().refer(index, farthest)?;
        Some(Written { file, location })
    }

    /// From now on only segments from `keep` on stay for what is in them; `None`: none does.
    pub fn keep_from(&self, keep: Option<u64>) {
        let before = std::mem::replace(&mut self.shared().index.lock().keep, keep);
        let later = match (before, keep) {
            (Some(before), Some(keep)) => keep > before,
            (Some(_), None) => true,
            (None, _) => false,
        };
        if later {
            self.shared().push(Job::Release, false);
        }
    }

    /// The first entry whose place is known.
    pub fn first_known(&self) -> u64 {
        self.shared().index.lock().first
    }

    /// The bytes of log that are there for superseded values alone, about.
    pub fn kept_bytes(&self) -> u64 {
        let index = self.shared().index.lock();
        let purged = index.purged.map_or(0, |purged| purged.index);
        let kept = usize::try_from((purged + 1).saturating_sub(index.first)).unwrap_or(usize::MAX);
        index.written.iter().take(kept).map(|location| u64::from(location.len)).sum()
    }
}

/// Segments that stay readable while this exists, whatever becomes of their names.
#[derive(Clone, Debug)]
struct Segments(BTreeMap<u64, FileRef>);

impl Archive for Segments {
    fn value(&self, place: Place) -> Result<Bytes, Unreadable> {
        value(self.0.get(&place.segment), place)
    }

    fn pin(&self) -> ArchiveRef {
        Arc::new(self.clone())
    }
}

/// Every segment that there is; it does not keep the log open.
struct Log(Arc<Shared>);

impl Archive for Log {
    fn value(&self, place: Place) -> Result<Bytes, Unreadable> {
        let file = self.0.index.lock().segments.get(&place.segment).cloned();
        value(file.as_ref(), place)
    }

    fn pin(&self) -> ArchiveRef {
        Arc::new(Segments(self.0.index.lock().segments.clone()))
    }
}

impl std::fmt::Debug for Log {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Log").finish_non_exhaustive()
    }
}
