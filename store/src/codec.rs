//! The bytes of entries, votes and log ids, in the log, in snapshots and between members. Whoever frames them (a segment,
//! a snapshot file, a message) says the version; nothing here guesses one.

use crate::api::{
    Compare, CompareTarget, Delete, LeaseId, Only, Op, Put, RangeRequest, Relation, Revision, SortBy, Txn,
};
use crate::mvcc::{Alarm, AlarmKind, Command, Compact, Entry, Identity};
use crate::sink::Sink;
use bytes::{Buf, Bytes};

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
pub fn put_u64(out: &mut impl Sink, mut n: u64) {
    while n >= 0x80 {
        out.put_u8(n as u8 | 0x80);
        n >>= 7;
    }
    out.put_u8(n as u8);
}

pub fn put_bytes(out: &mut impl Sink, bytes: &[u8]) {
    put_u64(out, bytes.len() as u64);
    out.put_slice(bytes);
}

/// How many items a list is given room for before it has them.
const TRUSTED: usize = 64;

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

    /// A length, and as many items. Room is made as they come: the length alone proves none of them.
    pub fn list<T>(
        &mut self,
        mut item: impl FnMut(&mut Self) -> Result<T, DecodeError>,
    ) -> Result<Vec<T>, DecodeError> {
        let n = self.len()?;
        let mut items = Vec::with_capacity(n.min(TRUSTED));
        for _ in 0..n {
            items.push(item(self)?);
        }
        Ok(items)
    }

    /// A share of the buffer: what is decoded together is dropped together. What stays longer, such as a version, copies.
    pub fn bytes(&mut self) -> Result<Bytes, DecodeError> {
        let n = self.len()?;
        Ok(self.rest.split_to(n))
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
const COMMAND_GRANT: u8 = 3;
const COMMAND_REVOKE: u8 = 4;
const COMMAND_ALARM: u8 = 5;
const COMMAND_FOUND: u8 = 6;
/// Transactions in transactions in …; `limits` allows fewer.
pub const MAX_NESTING: usize = 128;

pub fn put_entry(out: &mut impl Sink, entry: &Entry) {
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
            Command::Grant { id, ttl_s } => {
                out.put_u8(COMMAND_GRANT);
                put_lease(out, *id);
                put_u64(out, ttl_s.cast_unsigned());
            }
            Command::Revoke { id } => {
                out.put_u8(COMMAND_REVOKE);
                put_lease(out, *id);
            }
            Command::Found(identity) => {
                out.put_u8(COMMAND_FOUND);
                put_identity(out, identity);
            }
            Command::Alarm { alarm, raise } => {
                out.put_slice(&[COMMAND_ALARM, u8::from(*raise)]);
                put_alarm(out, *alarm);
            }
        }
    }
}

pub fn entry(from: &mut Reader) -> Result<Entry, DecodeError> {
    let time_ms = from.u64()?;
    Ok(Entry { time_ms, commands: from.list(command)? })
}

fn command(from: &mut Reader) -> Result<Command, DecodeError> {
    Ok(match from.u8()? {
        COMMAND_TXN => Command::Txn(txn(from, 0)?),
        COMMAND_COMPACT => Command::Compact(compact(from)?),
        COMMAND_GRANT => Command::Grant { id: lease(from)?, ttl_s: from.u64()?.cast_signed() },
        COMMAND_REVOKE => Command::Revoke { id: lease(from)? },
        COMMAND_FOUND => Command::Found(identity(from)?),
        COMMAND_ALARM => Command::Alarm { raise: from.u8()? != 0, alarm: alarm(from)? },
        tag => return Err(DecodeError::Tag { what: "command", tag }),
    })
}

pub fn put_txns(out: &mut impl Sink, txns: &[Txn]) {
    put_u64(out, txns.len() as u64);
    txns.iter().for_each(|txn| put_txn(out, txn));
}

pub fn txns(from: &mut Reader) -> Result<Vec<Txn>, DecodeError> {
    from.list(|from| txn(from, 0))
}

pub fn put_lease(out: &mut impl Sink, id: LeaseId) {
    put_u64(out, id.0.cast_unsigned());
}

pub fn lease(from: &mut Reader) -> Result<LeaseId, DecodeError> {
    Ok(LeaseId(from.u64()?.cast_signed()))
}

pub fn put_identity(out: &mut impl Sink, identity: &Identity) {
    out.put_u64_le(identity.cluster);
    put_bytes(out, identity.group.as_bytes());
}

pub fn identity(from: &mut Reader) -> Result<Identity, DecodeError> {
    let cluster = from.u64_le()?;
    let group = String::from_utf8(from.bytes()?.to_vec()).map_err(|_| DecodeError::Range)?;
    Ok(Identity { cluster, group })
}

pub fn put_alarm(out: &mut impl Sink, alarm: Alarm) {
    out.put_u8(alarm.kind as u8);
    put_u64(out, alarm.member);
}

pub fn alarm(from: &mut Reader) -> Result<Alarm, DecodeError> {
    let tag = from.u8()?;
    let kind = AlarmKind::from_u8(tag).ok_or(DecodeError::Tag { what: "alarm", tag })?;
    Ok(Alarm { kind, member: from.u64()? })
}

fn compact(from: &mut Reader) -> Result<Compact, DecodeError> {
    let revision = Revision(from.u64()?);
    let check = match from.u8()? {
        0 => None,
        _ => Some((Revision(from.u64()?), from.u64_le()?)),
    };
    Ok(Compact { revision, check })
}

fn put_txn(out: &mut impl Sink, txn: &Txn) {
    put_u64(out, txn.compare.len() as u64);
    txn.compare.iter().for_each(|compare| put_compare(out, compare));
    for ops in [&txn.success, &txn.failure] {
        put_ops(out, ops);
    }
}

fn txn(from: &mut Reader, depth: usize) -> Result<Txn, DecodeError> {
    if depth > MAX_NESTING {
        return Err(DecodeError::Range);
    }
    Ok(Txn { compare: from.list(compare)?, success: ops_at(from, depth)?, failure: ops_at(from, depth)? })
}

fn put_compare(out: &mut impl Sink, compare: &Compare) {
    put_bytes(out, &compare.start);
    put_bytes(out, &compare.end);
    out.put_u8(match compare.relation {
        Relation::Equal => 0,
        Relation::NotEqual => 1,
        Relation::Greater => 2,
        Relation::Less => 3,
    });
    let (tag, number) = match &compare.target {
        CompareTarget::Version(version) => (1, *version),
        CompareTarget::CreateRevision(revision) => (2, revision.0),
        CompareTarget::ModRevision(revision) => (3, revision.0),
        CompareTarget::Lease(lease) => (4, lease.0.cast_unsigned()),
        CompareTarget::Value(value) => {
            out.put_u8(5);
            return put_bytes(out, value);
        }
    };
    out.put_u8(tag);
    put_u64(out, number);
}

fn compare(from: &mut Reader) -> Result<Compare, DecodeError> {
    let (start, end) = (from.bytes()?, from.bytes()?);
    let relation = match from.u8()? {
        0 => Relation::Equal,
        1 => Relation::NotEqual,
        2 => Relation::Greater,
        3 => Relation::Less,
        tag => return Err(DecodeError::Tag { what: "relation", tag }),
    };
    let target = match from.u8()? {
        1 => CompareTarget::Version(from.u64()?),
        2 => CompareTarget::CreateRevision(Revision(from.u64()?)),
        3 => CompareTarget::ModRevision(Revision(from.u64()?)),
        4 => CompareTarget::Lease(lease(from)?),
        5 => CompareTarget::Value(from.bytes()?),
        tag => return Err(DecodeError::Tag { what: "compare", tag }),
    };
    Ok(Compare { start, end, relation, target })
}

/// Eight answers to yes-or-no questions.
fn flags(answers: &[bool]) -> u8 {
    answers.iter().rev().fold(0, |byte, answer| byte << 1 | u8::from(*answer))
}

pub fn put_op(out: &mut impl Sink, op: &Op) {
    match op {
        Op::Put(put) => {
            out.put_u8(1);
            out.put_u8(flags(&[put.lease != LeaseId::NONE, put.prev_kv, put.keep_value, put.keep_lease]));
            put_bytes(out, &put.key);
            put_u64(out, put.value.len() as u64);
            out.put_value(&put.key, &put.value);
            if put.lease != LeaseId::NONE {
                put_lease(out, put.lease);
            }
        }
        Op::Delete(delete) => {
            out.put_u8(2);
            out.put_u8(flags(&[!delete.end.is_empty(), delete.prev_kv]));
            put_bytes(out, &delete.start);
            if !delete.end.is_empty() {
                put_bytes(out, &delete.end);
            }
        }
        Op::Range(range) => {
            out.put_u8(3);
            put_range(out, range);
        }
        Op::Txn(txn) => {
            out.put_u8(4);
            put_txn(out, txn);
        }
    }
}

fn op(from: &mut Reader, depth: usize) -> Result<Op, DecodeError> {
    Ok(match from.u8()? {
        1 => {
            let flags = from.u8()?;
            let (key, value) = (from.bytes()?, from.bytes()?);
            let lease = if flags & 1 > 0 { lease(from)? } else { LeaseId::NONE };
            let (prev_kv, keep_value, keep_lease) = (flags & 2 > 0, flags & 4 > 0, flags & 8 > 0);
            Op::Put(Put { key, value, lease, prev_kv, keep_value, keep_lease })
        }
        2 => {
            let flags = from.u8()?;
            let start = from.bytes()?;
            let end = if flags & 1 > 0 { from.bytes()? } else { Bytes::new() };
            Op::Delete(Delete { start, end, prev_kv: flags & 2 > 0 })
        }
        3 => Op::Range(range(from)?),
        4 => Op::Txn(Box::new(txn(from, depth + 1)?)),
        tag => return Err(DecodeError::Tag { what: "operation", tag }),
    })
}

const PLAIN: RangeRequest = RangeRequest {
    start: Bytes::new(),
    end: Bytes::new(),
    limit: 0,
    revision: None,
    serializable: false,
    keys_only: false,
    count_only: false,
    whole: false,
    order: None,
    only: Only { min_mod: Revision(0), max_mod: Revision(0), min_create: Revision(0), max_create: Revision(0) },
};

fn put_range(out: &mut impl Sink, range: &RangeRequest) {
    let plain = *range == RangeRequest { start: range.start.clone(), end: range.end.clone(), ..PLAIN };
    let answers = [range.serializable, range.keys_only, range.count_only, range.whole, range.order.is_some()];
    out.put_u8(flags(&[answers[0], answers[1], answers[2], answers[3], answers[4], false, false, plain]));
    put_bytes(out, &range.start);
    put_bytes(out, &range.end);
    if plain {
        return;
    }
    if let Some((by, descending)) = range.order {
        let by = match by {
            SortBy::Key => 0,
            SortBy::Version => 1,
            SortBy::CreateRevision => 2,
            SortBy::ModRevision => 3,
            SortBy::Value => 4,
        };
        out.put_slice(&[by, u8::from(descending)]);
    }
    put_u64(out, range.limit as u64);
    put_u64(out, range.revision.map_or(0, |revision| revision.0));
    let only = &range.only;
    for revision in [only.min_mod, only.max_mod, only.min_create, only.max_create] {
        put_u64(out, revision.0);
    }
}

fn range(from: &mut Reader) -> Result<RangeRequest, DecodeError> {
    let flags = from.u8()?;
    let (start, end) = (from.bytes()?, from.bytes()?);
    if flags & 128 > 0 {
        return Ok(RangeRequest { start, end, ..PLAIN });
    }
    let order = if flags & 16 > 0 {
        let by = match from.u8()? {
            0 => SortBy::Key,
            1 => SortBy::Version,
            2 => SortBy::CreateRevision,
            3 => SortBy::ModRevision,
            4 => SortBy::Value,
            tag => return Err(DecodeError::Tag { what: "order", tag }),
        };
        Some((by, from.u8()? != 0))
    } else {
        None
    };
    let limit = usize::try_from(from.u64()?).map_err(|_| DecodeError::Range)?;
    let revision = Some(Revision(from.u64()?)).filter(|revision| revision.0 > 0);
    let mut bound = || from.u64().map(Revision);
    let only = Only { min_mod: bound()?, max_mod: bound()?, min_create: bound()?, max_create: bound()? };
    let (serializable, keys_only) = (flags & 1 > 0, flags & 2 > 0);
    let (count_only, whole) = (flags & 4 > 0, flags & 8 > 0);
    Ok(RangeRequest { start, end, limit, revision, serializable, keys_only, count_only, whole, order, only })
}

fn put_ops(out: &mut impl Sink, ops: &[Op]) {
    put_u64(out, ops.len() as u64);
    ops.iter().for_each(|op| put_op(out, op));
}

pub fn ops(from: &mut Reader) -> Result<Vec<Op>, DecodeError> {
    ops_at(from, 0)
}

fn ops_at(from: &mut Reader, depth: usize) -> Result<Vec<Op>, DecodeError> {
    from.list(|from| op(from, depth))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Entry {
        let compare = |target| Compare { start: "c".into(), end: "d".into(), relation: Relation::Less, target };
        let full = Put {
            key: "k2".into(),
            value: Bytes::new(),
            lease: LeaseId(i64::MIN),
            prev_kv: true,
            keep_value: true,
            keep_lease: true,
        };
        let range = RangeRequest {
            start: "a".into(),
            end: "\0".into(),
            limit: 9,
            revision: Some(Revision(7)),
            serializable: true,
            keys_only: true,
            count_only: true,
            whole: true,
            order: Some((SortBy::Value, true)),
            only: Only { min_mod: Revision(1), max_mod: Revision(2), min_create: Revision(3), max_create: Revision(4) },
        };
        let nested = Txn { failure: vec![Op::Range(range)], ..Txn::default() };
        let txn = Txn {
            compare: vec![
                Compare::unchanged("a", Revision(u64::MAX)),
                Compare::exists("b"),
                Compare::has_value("c", "v"),
                compare(CompareTarget::CreateRevision(Revision(1))),
                compare(CompareTarget::Lease(LeaseId(-1))),
            ],
            success: vec![Op::put("k", vec![7; 300]), Op::Put(full), Op::delete("d")],
            failure: vec![
                Op::get("g"),
                Op::Delete(Delete { start: "a".into(), end: "b".into(), prev_kv: true }),
                Op::Txn(Box::new(nested)),
            ],
        };
        let compact = Compact { revision: Revision(300), check: Some((Revision(299), u64::MAX)) };
        let grant = Command::Grant { id: LeaseId(7), ttl_s: 60 };
        let alarm = Command::Alarm { alarm: Alarm { kind: AlarmKind::NoSpace, member: 3 }, raise: true };
        let found = Command::Found(Identity { cluster: u64::MAX, group: "state".into() });
        let revoke = Command::Revoke { id: LeaseId(7) };
        let commands = vec![Command::Txn(txn), Command::Compact(compact), grant, revoke, alarm, found];
        Entry { time_ms: 128, commands }
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
    fn what_is_decoded_shares_the_buffer() {
        let ops = (b'a'..=b'z').map(|key| crate::api::Op::put(vec![key], vec![key; 100])).collect();
        let commands = vec![Command::Txn(Txn { success: ops, ..Txn::default() })];
        let mut out = Vec::new();
        put_entry(&mut out, &Entry { time_ms: 1, commands });
        let buffer = Bytes::from(out);
        let decoded = entry(&mut Reader::new(buffer.clone())).unwrap();
        let [Command::Txn(txn)] = &decoded.commands[..] else { panic!("one transaction") };
        for op in &txn.success {
            let crate::api::Op::Put(put) = op else { panic!("only puts") };
            assert!(buffer.as_ptr_range().contains(&put.value.as_ptr()), "{put:?} is a copy");
        }
    }

    #[test]
    fn numbers_out_of_range_are_refused() {
        let mut reader = Reader::new(Bytes::from_static(&[0xff; 11]));
        assert_eq!(reader.u64(), Err(DecodeError::Range));
    }
}
