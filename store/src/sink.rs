//! What encodings are written to: bytes, or a count of them that notes where values come to lie. It knows no format.

use bytes::Bytes;

pub trait Sink {
    fn put_slice(&mut self, bytes: &[u8]);

    fn put_u8(&mut self, byte: u8) {
        self.put_slice(&[byte]);
    }

    fn put_u64_le(&mut self, n: u64) {
        self.put_slice(&n.to_le_bytes());
    }

    /// The value that a put gives a key.
    fn put_value(&mut self, _key: &Bytes, value: &Bytes) {
        self.put_slice(value);
    }
}

impl Sink for Vec<u8> {
    fn put_slice(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

/// Where a value lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spot {
    pub key: Bytes,
    pub len: usize,
    pub at: usize,
}

/// Counts bytes instead of keeping them.
#[derive(Debug, Default)]
pub struct Spots {
    pub at: usize,
    /// Shorter values are not noted.
    pub least: usize,
    pub found: Vec<Spot>,
}

impl Sink for Spots {
    fn put_slice(&mut self, bytes: &[u8]) {
        self.at += bytes.len();
    }

    fn put_value(&mut self, key: &Bytes, value: &Bytes) {
        if value.len() >= self.least {
            self.found.push(Spot { key: key.clone(), len: value.len(), at: self.at });
        }
        self.put_slice(value);
    }
}
