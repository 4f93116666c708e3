//! Where superseded values are that are not in memory: the edge that whoever answers from history reads them through. The log
//! is one (`wal::archive`); a store that puts nothing away has [`Nothing`].
//!
//! It decides that a value which cannot be had is an error and never other bytes.

use crate::api::StoreError;
use crate::mvcc::{Place, Version};
use bytes::Bytes;
use std::fmt::Debug;
use std::io;
use std::sync::Arc;

pub trait Archive: Debug + Send + Sync + 'static {
    /// The value at `place`, exactly. Blocks.
    fn value(&self, place: Place) -> Result<Bytes, Unreadable>;

    /// The same archive, in which everything that is there now stays readable.
    fn pin(&self) -> ArchiveRef;
}

pub type ArchiveRef = Arc<dyn Archive>;

/// Why a value is not had. The disk is at fault, or this program.
#[derive(Debug, thiserror::Error)]
pub enum Unreadable {
    #[error("log segment {:x} is not there any more", .0.segment)]
    Gone(Place),
    #[error("log segment {:x} cannot be read at byte {}: {source}", .place.segment, .place.at)]
    Io { place: Place, source: io::Error },
    #[error("log segment {:x} is damaged at byte {}: a value there does not match its checksum", .0.segment, .0.at)]
    Damaged(Place),
    #[error("reading the log was interrupted: {0}")]
    Interrupted(String),
}

impl From<Unreadable> for StoreError {
    /// Where it is handled: whoever asked hears of it, and so does whoever runs the member.
    fn from(error: Unreadable) -> Self {
        tracing::error!(%error, "a superseded value cannot be read from the log");
        Self::Unreadable(error.to_string())
    }
}

/// A version with its value in memory. Blocks if it has to be fetched.
pub fn bring_back(version: &Version, archive: &dyn Archive) -> Result<Version, Unreadable> {
    match version.away() {
        None => Ok(version.clone()),
        Some(place) => Ok(version.brought_back(&archive.value(place)?)),
    }
}

/// The archive of a store that keeps everything in memory.
#[derive(Debug)]
pub struct Nothing;

impl Archive for Nothing {
    fn value(&self, place: Place) -> Result<Bytes, Unreadable> {
        Err(Unreadable::Gone(place))
    }

    fn pin(&self) -> ArchiveRef {
        Arc::new(Self)
    }
}

/// An archive for tests: values in a list.
#[cfg(test)]
#[derive(Clone, Debug, Default)]
pub struct Shelf(Arc<parking_lot::Mutex<Vec<Bytes>>>);

#[cfg(test)]
impl Shelf {
    pub fn put(&self, value: &[u8]) -> Place {
        let mut shelf = self.0.lock();
        shelf.push(Bytes::copy_from_slice(value));
        let at = shelf.len() as u32 - 1;
        Place { segment: 1, at, len: value.len() as u32, crc: crc32fast::hash(value) }
    }

    pub fn swap(&self, old: crate::mvcc::Superseded) -> crate::mvcc::Swap {
        let new = old.version.put_away(self.put(old.version.value()));
        crate::mvcc::Swap { old, new }
    }
}

#[cfg(test)]
impl Archive for Shelf {
    fn value(&self, place: Place) -> Result<Bytes, Unreadable> {
        self.0.lock().get(place.at as usize).cloned().ok_or(Unreadable::Gone(place))
    }

    fn pin(&self) -> ArchiveRef {
        Arc::new(Self(Arc::new(parking_lot::Mutex::new(self.0.lock().clone()))))
    }
}
