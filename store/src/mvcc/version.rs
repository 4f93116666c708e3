//! One version of one key in one allocation: its numbers, its key and its value, or where in the log the value is. Everything
//! that holds a version shares it.
//!
//! It decides only how a version lies in memory; a million small keys must fit. It reads no log.

use super::Place;
use crate::api::{KeyValue, LeaseId, Revision};
use bytes::Bytes;
use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};
use triomphe::{Arc, ThinArc};

/// The numbers of a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Numbers {
    pub create_revision: Revision,
    pub mod_revision: Revision,
    /// 0 is no version: the key was deleted by `mod_revision`.
    pub version: u64,
    pub lease: LeaseId,
}

/// What stands before the key and the value.
struct Head {
    numbers: Numbers,
    /// And [`AWAY`].
    key_len: u32,
    /// Where the value is in the data of the log entry that wrote it, for whoever looks for it there; 0 is not known. It says
    /// nothing about the version, and fits where there would be padding.
    noted: AtomicU32,
}

/// The key is followed by the place of the value and not by the value.
const AWAY: u32 = 1 << 31;

/// What a version costs in memory beside its key and value: its head, a reference count, the length, and the allocator's share.
pub const OVERHEAD: usize = size_of::<Head>() + 16 + 16;

/// Cheap to clone, and one pointer wide: the tree of live keys consists of them.
#[derive(Clone)]
pub struct Version(ThinArc<Head, u8>);

impl Version {
    pub fn new(numbers: Numbers, key: &[u8], value: &[u8]) -> Self {
        Self::lay_out(numbers, key, value, 0)
    }

    fn lay_out(numbers: Numbers, key: &[u8], value: &[u8], away: u32) -> Self {
        // A request is never near 2 GiB.
        let key_len = u32::try_from(key.len()).ok().filter(|len| len & AWAY == 0);
        let key_len = key_len.expect("a key is shorter than a request may be") | away;
        let noted = AtomicU32::new(0);
        let zeros = std::iter::repeat_n(0, key.len() + value.len());
        let mut all = ThinArc::from_header_and_iter(Head { numbers, key_len, noted }, zeros);
        all.with_arc_mut(|all| {
            let own = Arc::get_mut(all).expect("nobody else has it yet");
            let (at_key, at_value) = own.slice_mut().split_at_mut(key.len());
            at_key.copy_from_slice(key);
            at_value.copy_from_slice(value);
        });
        Self(all)
    }

    /// "`key` was deleted by `revision`."
    pub fn deleted(key: &[u8], revision: Revision) -> Self {
        let numbers =
            Numbers { create_revision: Revision(0), mod_revision: revision, version: 0, lease: LeaseId::NONE };
        Self::new(numbers, key, &[])
    }

    fn head(&self) -> &Head {
        &self.0.header.header
    }

    /// The same version, with its value at `place` in the log.
    pub fn put_away(&self, place: Place) -> Self {
        debug_assert_eq!(place.len as usize, self.value_len());
        Self::lay_out(self.head().numbers, self.key(), &place.to_bytes(), AWAY)
    }

    /// The same version, with its value in memory.
    pub fn brought_back(&self, value: &[u8]) -> Self {
        Self::new(self.head().numbers, self.key(), value)
    }

    /// Where the value is, if it is not in memory. What is live always is.
    pub fn away(&self) -> Option<Place> {
        (self.head().key_len & AWAY != 0).then(|| Place::from_bytes(&self.0.slice[self.key_len()..]))
    }

    fn key_len(&self) -> usize {
        (self.head().key_len & !AWAY) as usize
    }

    pub fn key(&self) -> &[u8] {
        &self.0.slice[..self.key_len()]
    }

    /// Of a version whose value is in memory.
    pub fn value(&self) -> &[u8] {
        assert!(self.head().key_len & AWAY == 0, "a value that is in the log is fetched before it is used");
        &self.0.slice[self.key_len()..]
    }

    /// The value's, wherever it is.
    pub fn value_len(&self) -> usize {
        self.away().map_or(self.0.slice.len() - self.key_len(), |place| place.len as usize)
    }

    /// Bytes of key and value, wherever they are.
    pub fn len(&self) -> usize {
        self.key_len() + self.value_len()
    }

    /// Remembers where the value is in the data of the entry that wrote it.
    pub fn note(&self, at: u32) {
        self.head().noted.store(at, Ordering::Relaxed);
    }

    pub fn noted(&self) -> Option<u32> {
        Some(self.head().noted.load(Ordering::Relaxed)).filter(|at| *at != 0)
    }

    /// Whether it is the very same, not only an equal one.
    pub fn is_same(&self, other: &Self) -> bool {
        std::ptr::eq(self.head(), other.head())
    }

    pub fn create_revision(&self) -> Revision {
        self.head().numbers.create_revision
    }

    pub fn mod_revision(&self) -> Revision {
        self.head().numbers.mod_revision
    }

    pub fn version(&self) -> u64 {
        self.head().numbers.version
    }

    pub fn lease(&self) -> LeaseId {
        self.head().numbers.lease
    }

    pub fn is_delete(&self) -> bool {
        self.version() == 0
    }

    #[cfg(test)]
    pub fn holders(&self) -> usize {
        ThinArc::strong_count(&self.0)
    }

    /// For readers: key and value are this version's own bytes, not copied. The value is in memory.
    pub fn key_value(&self) -> KeyValue {
        assert!(self.head().key_len & AWAY == 0, "a value that is in the log is fetched before it is used");
        let all = Bytes::from_owner(self.clone());
        let value_at = self.key_len();
        KeyValue { key: all.slice(..value_at), value: all.slice(value_at..), ..self.bare() }
    }

    /// Without the value.
    pub fn key_only(&self) -> KeyValue {
        KeyValue { key: Bytes::copy_from_slice(self.key()), ..self.bare() }
    }

    fn bare(&self) -> KeyValue {
        KeyValue {
            key: Bytes::new(),
            value: Bytes::new(),
            create_revision: self.create_revision(),
            mod_revision: self.mod_revision(),
            version: self.version(),
            lease: self.lease(),
        }
    }
}

impl From<&KeyValue> for Version {
    fn from(kv: &KeyValue) -> Self {
        let &KeyValue { create_revision, mod_revision, version, lease, .. } = kv;
        Self::new(Numbers { create_revision, mod_revision, version, lease }, &kv.key, &kv.value)
    }
}

impl PartialEq for Version {
    fn eq(&self, other: &Self) -> bool {
        let (one, two) = (self.head(), other.head());
        one.numbers == two.numbers && one.key_len == two.key_len && self.0.slice == other.0.slice
    }
}
impl Eq for Version {}

impl AsRef<[u8]> for Version {
    fn as_ref(&self) -> &[u8] {
        &self.0.slice
    }
}

impl fmt::Debug for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.away() {
            Some(place) => write!(f, "{:?} with its value at {place:?}", self.key_only()),
            None => self.key_value().fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_what_it_was_made_of() {
        let kv = KeyValue {
            key: "registry/pods/a".into(),
            value: vec![7; 300].into(),
            create_revision: Revision(3),
            mod_revision: Revision(u64::MAX),
            version: 12,
            lease: LeaseId(-5),
        };
        let version = Version::from(&kv);
        assert_eq!(version.key_value(), kv);
        assert_eq!((version.key(), version.value(), version.len()), (&kv.key[..], &kv.value[..], 315));
        assert_eq!(version.key_only(), KeyValue { value: Bytes::new(), ..kv.clone() });
        assert!(!version.is_delete());
        let empty = Version::deleted(b"", Revision(9));
        assert_eq!((empty.key(), empty.value(), empty.mod_revision()), (&b""[..], &b""[..], Revision(9)));
        assert!(empty.is_delete());
    }

    #[test]
    fn a_version_whose_value_is_away_is_the_same_but_for_that() {
        let kv = KeyValue {
            key: "k".into(),
            value: vec![7; 4_096].into(),
            create_revision: Revision(3),
            mod_revision: Revision(9),
            version: 2,
            lease: LeaseId(5),
        };
        let version = Version::from(&kv);
        let place = Place { segment: u64::MAX - 1, at: 77, len: 4_096, crc: u32::MAX };
        let away = version.put_away(place);
        assert_eq!((version.away(), away.away()), (None, Some(place)));
        assert_eq!((away.key(), away.len(), away.value_len()), (version.key(), version.len(), 4_096));
        assert_eq!(away.key_only(), version.key_only());
        assert_ne!(away, version);
        assert_eq!(away.brought_back(&kv.value), version);
        assert!(!away.is_same(&version) && version.is_same(&version.clone()));
        assert!(std::panic::catch_unwind(|| away.key_value()).is_err(), "it has none to give");
        assert_eq!(OVERHEAD, 72, "the place in the entry is where padding was");
    }

    #[test]
    fn what_a_reader_holds_outlives_the_version() {
        let version = Version::new(
            Numbers { create_revision: Revision(1), mod_revision: Revision(1), version: 1, lease: LeaseId::NONE },
            b"k",
            b"value",
        );
        let kv = version.key_value();
        assert_eq!(kv.value.as_ptr(), version.value().as_ptr(), "not a copy");
        drop(version);
        assert_eq!((&kv.key[..], &kv.value[..]), (&b"k"[..], &b"value"[..]));
    }
}
