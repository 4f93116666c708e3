//! The log's bytes: a segment's header, its records, and what a scan of them means after a crash. It touches a file only to
//! begin a segment.
//!
//! A segment is a 32-byte header and then records, each 8-byte aligned, up to a record header of zeros. What follows that
//! means nothing: zeros that were written ahead, or what the file held when it was an older segment. Its records do not
//! match their checksums under this segment's sequence:
//!
//! ```text
//! header: "GNTRYWAL" | version u8 | 3 zero | crc32 u32 of (version, sequence) | sequence u64 | 8 zero
//! record: crc32 u32 of (sequence, all that follows) | length u32 | durable u32 | kind u8 | 3 zero | payload | padding
//! ```
//!
//! `durable` is how far the segment was on disk when the record was written. It tells a torn tail (never acknowledged, cut
//! off) from damage (acknowledged, refused): damage is a bad record that a later record knows to have been durable.

use crate::codec::{DecodeError, Reader};
use crate::disk::DiskFile;
use crate::raft::types::{self, LogId, Vote};
use bytes::Bytes;
use std::io;
use std::ops::Range;

pub const VERSION: u8 = 3;
/// Its segments end with zeros alone.
const OLDEST_VERSION: u8 = 2;
pub const SEGMENT_HEADER: usize = 32;
pub const RECORD_HEADER: usize = 16;
const MAGIC: &[u8; 8] = b"GNTRYWAL";
const ALIGN: usize = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    Entry = 1,
    Vote = 2,
    /// Entries after this log id are void.
    Truncate = 3,
    /// Entries up to this log id are in a snapshot.
    Purge = 4,
    /// Everything up to this log id is committed. Never waited for.
    Committed = 5,
}

impl Kind {
    fn from_u8(kind: u8) -> Option<Self> {
        [Self::Entry, Self::Vote, Self::Truncate, Self::Purge, Self::Committed].into_iter().find(|k| *k as u8 == kind)
    }
}

/// A record as it was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    pub kind: Kind,
    /// Where its payload is in the segment.
    pub at: u32,
    pub len: u32,
}

/// What a record other than an entry says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    Vote(Vote),
    Truncate(Option<LogId>),
    Purge(LogId),
    Committed(Option<LogId>),
}

impl State {
    pub fn kind(&self) -> Kind {
        match self {
            Self::Vote(_) => Kind::Vote,
            Self::Truncate(_) => Kind::Truncate,
            Self::Purge(_) => Kind::Purge,
            Self::Committed(_) => Kind::Committed,
        }
    }

    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        match self {
            Self::Vote(vote) => types::put_vote(&mut out, vote),
            Self::Purge(id) => types::put_log_id(&mut out, id),
            Self::Truncate(id) | Self::Committed(id) => types::put_option(&mut out, id.as_ref(), types::put_log_id),
        }
        out
    }

    /// `None` for an entry.
    pub fn decode(kind: Kind, payload: Bytes) -> Result<Option<Self>, DecodeError> {
        let mut from = Reader::new(payload);
        let state = match kind {
            Kind::Entry => return Ok(None),
            Kind::Vote => Self::Vote(types::vote(&mut from)?),
            Kind::Purge => Self::Purge(types::log_id(&mut from)?),
            Kind::Truncate => Self::Truncate(types::option(&mut from, types::log_id)?),
            Kind::Committed => Self::Committed(types::option(&mut from, types::log_id)?),
        };
        from.end()?;
        Ok(Some(state))
    }
}

/// Makes a file an empty segment, whatever it held before.
pub fn write_head(file: &dyn DiskFile, sequence: u64) -> io::Result<()> {
    let mut bytes = [0; SEGMENT_HEADER + RECORD_HEADER];
    bytes[..SEGMENT_HEADER].copy_from_slice(&segment_header(sequence));
    file.write_all_at(&bytes, 0)
}

pub fn segment_header(sequence: u64) -> [u8; SEGMENT_HEADER] {
    let mut header = [0; SEGMENT_HEADER];
    header[..8].copy_from_slice(MAGIC);
    header[8] = VERSION;
    header[12..16].copy_from_slice(&header_crc(VERSION, sequence).to_le_bytes());
    header[16..24].copy_from_slice(&sequence.to_le_bytes());
    header
}

fn header_crc(version: u8, sequence: u64) -> u32 {
    let mut crc = crc32fast::Hasher::new();
    crc.update(&[version]);
    crc.update(&sequence.to_le_bytes());
    crc.finalize()
}

/// Appends one record to `out`, which starts at an aligned offset, and returns where its payload is in `out`.
pub fn put(
    out: &mut Vec<u8>,
    sequence: u64,
    durable: u32,
    kind: Kind,
    payload: impl FnOnce(&mut Vec<u8>),
) -> Range<usize> {
    let start = out.len();
    out.extend_from_slice(&[0; 8]);
    out.extend_from_slice(&durable.to_le_bytes());
    out.extend_from_slice(&[kind as u8, 0, 0, 0]);
    payload(out);
    let len = (out.len() - start - RECORD_HEADER) as u32;
    out[start + 4..start + 8].copy_from_slice(&len.to_le_bytes());
    let crc = record_crc(sequence, &out[start + 4..]);
    out[start..start + 4].copy_from_slice(&crc.to_le_bytes());
    let end = out.len();
    out.resize(end.next_multiple_of(ALIGN), 0);
    start + RECORD_HEADER..end
}

/// The room that a record with this payload takes.
fn size(payload: usize) -> usize {
    (RECORD_HEADER + payload).next_multiple_of(ALIGN)
}

fn record_crc(sequence: u64, rest: &[u8]) -> u32 {
    let mut crc = crc32fast::Hasher::new();
    crc.update(&sequence.to_le_bytes());
    crc.update(rest);
    crc.finalize()
}

/// Whether a segment whose header is unreadable holds records that had been durable.
pub fn holds_durable_records(bytes: &[u8], sequence: u64) -> bool {
    later_record_vouches_for(bytes, sequence, SEGMENT_HEADER - ALIGN)
}

/// What is in a segment.
#[derive(Debug, PartialEq, Eq)]
pub struct Scan {
    pub records: Vec<Found>,
    /// Where the next record goes.
    pub end: u32,
    pub tail: Tail,
}

#[derive(Debug, PartialEq, Eq)]
pub enum Tail {
    /// The records end with a header of zeros, or with the file.
    Clean,
    /// Bytes of records that were never acknowledged.
    Torn,
    /// A record at `end` is damaged although it had been durable.
    Damaged,
}

/// Why a segment cannot be read at all.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeaderError {
    #[error("the header is torn or not one of a log segment")]
    Torn,
    #[error("the format version is {0}, this build reads versions {OLDEST_VERSION} to {VERSION}")]
    Version(u8),
    #[error("the header names sequence {0}")]
    Sequence(u64),
}

/// The version of a segment that a newer build wrote.
pub fn newer_version(head: &[u8]) -> Option<u8> {
    let version = *head.get(8).filter(|_| head.starts_with(MAGIC))?;
    (version > VERSION).then_some(version)
}

pub fn check_header(bytes: &[u8], sequence: u64) -> Result<(), HeaderError> {
    let header = bytes.get(..SEGMENT_HEADER).ok_or(HeaderError::Torn)?;
    let named = u64::from_le_bytes(header[16..24].try_into().expect("8 bytes"));
    let crc = u32::from_le_bytes(header[12..16].try_into().expect("4 bytes"));
    if &header[..8] != MAGIC || crc != header_crc(header[8], named) {
        return Err(HeaderError::Torn);
    }
    if !(OLDEST_VERSION..=VERSION).contains(&header[8]) {
        return Err(HeaderError::Version(header[8]));
    }
    if named != sequence { Err(HeaderError::Sequence(named)) } else { Ok(()) }
}

/// The first record of a kind in a segment whose header was checked, or in the beginning of one.
pub fn first(bytes: &[u8], sequence: u64, kind: Kind) -> Option<Found> {
    let mut at = SEGMENT_HEADER;
    loop {
        let found = read(bytes, sequence, at)?;
        if found.kind == kind {
            return Some(found);
        }
        at += size(found.len as usize);
    }
}

/// Reads every record of a segment whose header was checked.
pub fn scan(bytes: &[u8], sequence: u64) -> Scan {
    let mut records = Vec::new();
    let mut at = SEGMENT_HEADER;
    while let Some(found) = read(bytes, sequence, at) {
        at += size(found.len as usize);
        records.push(found);
    }
    let rest = bytes.get(at..).unwrap_or_default();
    let tail = if later_record_vouches_for(bytes, sequence, at) {
        Tail::Damaged
    } else if rest.iter().take(RECORD_HEADER).all(|byte| *byte == 0) {
        Tail::Clean
    } else {
        Tail::Torn
    };
    Scan { records, end: at as u32, tail }
}

/// A record's header, if it can be one.
struct Head {
    kind: Kind,
    crc: u32,
    len: u32,
    durable: u32,
}

fn head(bytes: &[u8], at: usize) -> Option<Head> {
    let header = bytes.get(at..at + RECORD_HEADER)?;
    let word = |i: usize| u32::from_le_bytes(header[i..i + 4].try_into().expect("4 bytes"));
    let kind = Kind::from_u8(header[12]).filter(|_| header[13..] == [0; 3])?;
    let head = Head { kind, crc: word(0), len: word(4), durable: word(8) };
    (head.len as usize <= bytes.len() - at - RECORD_HEADER).then_some(head)
}

/// The valid record at `at`.
fn read(bytes: &[u8], sequence: u64, at: usize) -> Option<Found> {
    let head = head(bytes, at)?;
    let end = at + RECORD_HEADER + head.len as usize;
    let found = Found { kind: head.kind, at: (at + RECORD_HEADER) as u32, len: head.len };
    (head.crc == record_crc(sequence, &bytes[at + 4..end])).then_some(found)
}

/// Looking for a record costs no more than this. Bytes that look like more headers than that are taken for damage.
const MOST_HASHED_BYTES: usize = 1 << 30;

fn later_record_vouches_for(bytes: &[u8], sequence: u64, bad: usize) -> bool {
    let mut hashed = 0;
    (bad + ALIGN..bytes.len()).step_by(ALIGN).any(|at| {
        // A record knows only of what comes before it.
        let vouches = |head: &Head| (bad + 1..=at).contains(&(head.durable as usize));
        let Some(head) = head(bytes, at).filter(vouches) else { return false };
        hashed += head.len as usize + RECORD_HEADER;
        hashed > MOST_HASHED_BYTES || read(bytes, sequence, at).is_some()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three records: the second is durable when the third is written.
    fn segment() -> (Vec<u8>, [usize; 4]) {
        let mut bytes = segment_header(7).to_vec();
        let mut starts = [0; 4];
        for (i, durable) in [0, 32, 112].into_iter().enumerate() {
            starts[i] = bytes.len();
            put(&mut bytes, 7, durable, Kind::Entry, |out| out.extend([i as u8 + 1; 20]));
        }
        starts[3] = bytes.len();
        bytes.resize(4096, 0);
        (bytes, starts)
    }

    fn check(name: &str, bytes: &[u8], records: usize, tail: Tail) {
        assert_eq!(check_header(bytes, 7), Ok(()), "{name}");
        let scan = scan(bytes, 7);
        assert_eq!((scan.records.len(), scan.tail), (records, tail), "{name}");
    }

    #[test]
    fn tails() {
        let (bytes, starts) = segment();
        check("whole", &bytes, 3, Tail::Clean);
        check("no zeros ahead", &bytes[..starts[3]], 3, Tail::Clean);
        for cut in starts[2] + 1..starts[3] - 4 {
            check("last record cut", &bytes[..cut], 2, Tail::Torn);
        }
        let flip = |at: usize| {
            let mut bytes = bytes.clone();
            bytes[at] ^= 0x40;
            bytes
        };
        check("last record damaged", &flip(starts[2] + 20), 2, Tail::Torn);
        check("second record damaged", &flip(starts[1] + 20), 1, Tail::Damaged);
        check("first record damaged", &flip(starts[0] + 20), 0, Tail::Damaged);
        let used = |mut bytes: Vec<u8>| {
            // The file was another segment before: its records lie behind, and across, the end.
            let from = bytes.len() - 4096 + starts[3] + RECORD_HEADER;
            let mut old = segment_header(6).to_vec();
            while old.len() < 4096 {
                put(&mut old, 6, 32, Kind::Entry, |out| out.extend([9; 20]));
            }
            bytes[from..].copy_from_slice(&old[from..4096]);
            bytes
        };
        check("over an older segment", &used(bytes.clone()), 3, Tail::Clean);
        check("over an older segment, last record damaged", &used(flip(starts[2] + 20)), 2, Tail::Torn);
        check("over an older segment, first record damaged", &used(flip(starts[0] + 20)), 0, Tail::Damaged);
        check("the end damaged", &flip(starts[3] + 1), 3, Tail::Torn);
        check("first record's length damaged", &flip(starts[0] + 5), 0, Tail::Damaged);
    }

    #[test]
    fn a_batch_that_was_never_synced_is_torn_even_if_its_later_part_is_whole() {
        let mut bytes = segment_header(7).to_vec();
        put(&mut bytes, 7, 32, Kind::Entry, |out| out.extend([1; 20]));
        put(&mut bytes, 7, 32, Kind::Entry, |out| out.extend([2; 20]));
        bytes[60] ^= 1;
        check("first of an unsynced batch", &bytes, 0, Tail::Torn);
    }

    #[test]
    fn headers() {
        let (bytes, _) = segment();
        assert_eq!(check_header(&bytes, 8), Err(HeaderError::Sequence(7)));
        assert_eq!(check_header(&bytes[..31], 7), Err(HeaderError::Torn));
        let mut newer = bytes.clone();
        newer[8] = 9;
        newer[12..16].copy_from_slice(&header_crc(9, 7).to_le_bytes());
        assert_eq!(check_header(&newer, 7), Err(HeaderError::Version(9)));
        let mut older = bytes.clone();
        older[8] = OLDEST_VERSION;
        older[12..16].copy_from_slice(&header_crc(OLDEST_VERSION, 7).to_le_bytes());
        assert_eq!(check_header(&older, 7), Ok(()));
        // Another segment's records mean nothing here.
        let mut other = segment_header(7).to_vec();
        put(&mut other, 6, 32, Kind::Entry, |out| out.extend([1; 20]));
        assert_eq!(scan(&other, 7).records, []);
    }
}
