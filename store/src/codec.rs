//! The bytes of entries, votes and log ids, in the log, in snapshots and between members. Whoever frames them (a segment,
//! a snapshot file, a message) says the version; nothing here guesses one.

use crate::api::{Compare, CompareTarget, Op, Revision, Txn};
use crate::mvcc::{Command, Compact, Entry};
use bytes::{Buf, BufMut, Bytes};

/// Bytes that are not what this version writes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    #[error("the encoding ends early")]
    Short,
    #[error("unknown {what} tag {tag}")]
    Tag { what: &'static str, tag: u8 },
    #[error("a number is out of range")]
    Range,
    #[error("{0} bytes are left over")]
    Trailing(usize),
}

/// Appends a number in LEB128: seven bits a byte, least significant first.
pub fn put_u64(out: &mut Vec<u8>, mut n: u64) {
    while n >= 0x80 {
        out.put_u8(n as u8 | 0x80);
        n >>= 7;
    }
    out.put_u8(n as u8);
}

pub fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_u64(out, bytes.len() as u64);
    out.put_slice(bytes);
}

/// Reads what the `put` functions wrote.
pub struct Reader {
    rest: Bytes,
}

impl Reader {
    pub fn new(bytes: Bytes) -> Self {
        Self { rest: bytes }
    }

    pub fn u8(&mut self) -> Result<u8, DecodeError> {
        self.rest.try_get_u8().map_err(|_| DecodeError::Short)
    }

    pub fn u64(&mut self) -> Result<u64, DecodeError> {
        let mut n = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.u8()?;
            if shift == 63 && byte > 1 {
                return Err(DecodeError::Range);
            }
            n |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(n);
            }
        }
        Err(DecodeError::Range)
    }

    /// Eight bytes, least significant first.
    pub fn u64_le(&mut self) -> Result<u64, DecodeError> {
        self.rest.try_get_u64_le().map_err(|_| DecodeError::Short)
    }

    /// A length: never more than there are bytes left, so that no allocation trusts the input.
    pub fn len(&mut self) -> Result<usize, DecodeError> {
        let n = usize::try_from(self.u64()?).map_err(|_| DecodeError::Range)?;
        if n > self.rest.len() { Err(DecodeError::Short) } else { Ok(n) }
    }

    /// Bytes of their own when they are a small part of the buffer, otherwise a share of it.
    pub fn bytes(&mut self) -> Result<Bytes, DecodeError> {
        let n = self.len()?;
        let buffer = self.rest.len();
        let bytes = self.rest.split_to(n);
        Ok(if n * 2 < buffer { Bytes::copy_from_slice(&bytes) } else { bytes })
    }

    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub fn end(self) -> Result<(), DecodeError> {
        if self.rest.is_empty() { Ok(()) } else { Err(DecodeError::Trailing(self.rest.len())) }
    }
}

const COMMAND_TXN: u8 = 1;
const COMMAND_COMPACT: u8 = 2;

pub fn put_entry(out: &mut Vec<u8>, entry: &Entry) {
    put_u64(out, entry.time_ms);
    put_u64(out, entry.commands.len() as u64);
    for command in &entry.commands {
        match command {
            Command::Txn(txn) => {
                out.put_u8(COMMAND_TXN);
                put_txn(out, txn);
            }
            Command::Compact(compact) => {
                out.put_u8(COMMAND_COMPACT);
                put_u64(out, compact.revision.0);
                out.put_u8(u8::from(compact.check.is_some()));
                if let Some((revision, hash)) = compact.check {
                    put_u64(out, revision.0);
                    out.put_u64_le(hash);
                }
            }
        }
    }
}

pub fn entry(from: &mut Reader) -> Result<Entry, DecodeError> {
    let time_ms = from.u64()?;
    let mut commands = Vec::with_capacity(from.len()?);
    for _ in 0..commands.capacity() {
        commands.push(match from.u8()? {
            COMMAND_TXN => Command::Txn(txn(from)?),
            COMMAND_COMPACT => Command::Compact(compact(from)?),
            tag => return Err(DecodeError::Tag { what: "command", tag }),
        });
    }
    Ok(Entry { time_ms, commands })
}

fn compact(from: &mut Reader) -> Result<Compact, DecodeError> {
    let revision = Revision(from.u64()?);
    let check = match from.u8()? {
        0 => None,
        _ => Some((Revision(from.u64()?), from.u64_le()?)),
    };
    Ok(Compact { revision, check })
}

pub fn put_txn(out: &mut Vec<u8>, txn: &Txn) {
    put_u64(out, txn.compare.len() as u64);
    for compare in &txn.compare {
        put_bytes(out, &compare.key);
        match &compare.target {
            CompareTarget::ModRevision(revision) => {
                out.put_u8(1);
                put_u64(out, revision.0);
            }
            CompareTarget::Exists => out.put_u8(2),
            CompareTarget::Value(value) => {
                out.put_u8(3);
                put_bytes(out, value);
            }
        }
    }
    for ops in [&txn.success, &txn.failure] {
        put_u64(out, ops.len() as u64);
        ops.iter().for_each(|op| put_op(out, op));
    }
}

pub fn txn(from: &mut Reader) -> Result<Txn, DecodeError> {
    let mut compare = Vec::with_capacity(from.len()?);
    for _ in 0..compare.capacity() {
        let key = from.bytes()?;
        let target = match from.u8()? {
            1 => CompareTarget::ModRevision(Revision(from.u64()?)),
            2 => CompareTarget::Exists,
            3 => CompareTarget::Value(from.bytes()?),
            tag => return Err(DecodeError::Tag { what: "compare", tag }),
        };
        compare.push(Compare { key, target });
    }
    Ok(Txn { compare, success: ops(from)?, failure: ops(from)? })
}

pub fn put_op(out: &mut Vec<u8>, op: &Op) {
    match op {
        Op::Put { key, value } => {
            out.put_u8(1);
            put_bytes(out, key);
            put_bytes(out, value);
        }
        Op::Delete { key } => {
            out.put_u8(2);
            put_bytes(out, key);
        }
        Op::Get { key } => {
            out.put_u8(3);
            put_bytes(out, key);
        }
    }
}

pub fn ops(from: &mut Reader) -> Result<Vec<Op>, DecodeError> {
    let mut ops = Vec::with_capacity(from.len()?);
    for _ in 0..ops.capacity() {
        ops.push(match from.u8()? {
            1 => Op::Put { key: from.bytes()?, value: from.bytes()? },
            2 => Op::Delete { key: from.bytes()? },
            3 => Op::Get { key: from.bytes()? },
            tag => return Err(DecodeError::Tag { what: "operation", tag }),
        });
    }
    Ok(ops)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Entry {
        let txn = Txn {
            compare: vec![
                Compare::unchanged("a", Revision(u64::MAX)),
                Compare::exists("b"),
                Compare { key: "c".into(), target: CompareTarget::Value("v".into()) },
            ],
            success: vec![Op::Put { key: "k".into(), value: vec![7; 300].into() }, Op::Delete { key: "d".into() }],
            failure: vec![Op::Get { key: "g".into() }],
        };
        let compact = Compact { revision: Revision(300), check: Some((Revision(299), u64::MAX)) };
        Entry { time_ms: 128, commands: vec![Command::Txn(txn), Command::Compact(compact)] }
    }

    #[test]
    fn an_entry_survives_and_no_prefix_of_it_decodes() {
        let mut out = Vec::new();
        put_entry(&mut out, &sample());
        let mut reader = Reader::new(out.clone().into());
        assert_eq!(entry(&mut reader), Ok(sample()));
        assert_eq!(reader.end(), Ok(()));
        for cut in 0..out.len() {
            let mut reader = Reader::new(Bytes::copy_from_slice(&out[..cut]));
            assert!(entry(&mut reader).is_err(), "{cut} bytes of {} decode", out.len());
        }
    }

    #[test]
    fn numbers_out_of_range_are_refused() {
        let mut reader = Reader::new(Bytes::from_static(&[0xff; 11]));
        assert_eq!(reader.u64(), Err(DecodeError::Range));
    }
}
