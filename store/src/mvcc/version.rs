//! One version of one key in one allocation: its numbers, its key and its value. Everything that holds a version shares it.
//!
//! It decides only how a version lies in memory; a million small keys must fit.

use crate::api::{KeyValue, LeaseId, Revision};
use bytes::Bytes;
use std::fmt;
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
#[derive(PartialEq, Eq)]
struct Head {
    numbers: Numbers,
    key_len: u32,
}

/// What a version costs in memory beside its key and value: its head, a reference count, the length, and the allocator's share.
pub const OVERHEAD: usize = size_of::<Head>() + 16 + 16;

/// Cheap to clone, and one pointer wide: the tree of live keys consists of them.
#[derive(Clone, PartialEq, Eq)]
pub struct Version(ThinArc<Head, u8>);

impl Version {
    pub fn new(numbers: Numbers, key: &[u8], value: &[u8]) -> Self {
        // A request is never near 4 GiB.
        let key_len = u32::try_from(key.len()).expect("a key is shorter than a request may be");
        let zeros = std::iter::repeat_n(0, key.len() + value.len());
        let mut all = ThinArc::from_header_and_iter(Head { numbers, key_len }, zeros);
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

    pub fn key(&self) -> &[u8] {
        &self.0.slice[..self.head().key_len as usize]
    }

    pub fn value(&self) -> &[u8] {
        &self.0.slice[self.head().key_len as usize..]
    }

    /// Bytes of key and value.
    pub fn len(&self) -> usize {
        self.0.slice.len()
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

    /// For readers: key and value are this version's own bytes, not copied.
    pub fn key_value(&self) -> KeyValue {
        let all = Bytes::from_owner(self.clone());
        let value_at = self.head().key_len as usize;
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

impl AsRef<[u8]> for Version {
    fn as_ref(&self) -> &[u8] {
        &self.0.slice
    }
}

impl fmt::Debug for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.key_value().fmt(f)
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
