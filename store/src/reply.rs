//! The bytes of replies and errors between members, for writes that a follower passes on.

use crate::api::{KeyValue, LeaseId, OpReply, RangeReply, Revision, StoreError, TxnReply};
use crate::codec::{self, DecodeError, Reader, put_bytes, put_u64};
use crate::mvcc::Reply;
use bytes::BufMut;

pub fn put_replies(out: &mut Vec<u8>, replies: &[Reply]) {
    put_u64(out, replies.len() as u64);
    for reply in replies {
        match reply {
            Reply::Txn(txn) => {
                out.put_u8(1);
                put_txn_reply(out, txn);
            }
            Reply::Done(revision) => {
                out.put_u8(2);
                put_u64(out, revision.0);
            }
            Reply::Refused(error) => {
                out.put_u8(3);
                put_error(out, error);
            }
        }
    }
}

pub fn replies(from: &mut Reader) -> Result<Vec<Reply>, DecodeError> {
    from.list(|from| {
        Ok(match from.u8()? {
            1 => Reply::Txn(txn_reply(from, 0)?),
            2 => Reply::Done(Revision(from.u64()?)),
            3 => Reply::Refused(error(from)?),
            tag => return Err(DecodeError::Tag { what: "reply", tag }),
        })
    })
}

fn put_txn_reply(out: &mut Vec<u8>, reply: &TxnReply) {
    out.put_u8(u8::from(reply.succeeded));
    put_u64(out, reply.revision.0);
    put_u64(out, reply.ops.len() as u64);
    for op in &reply.ops {
        match op {
            OpReply::Put { prev: None } => out.put_u8(1),
            OpReply::Put { prev: Some(kv) } => {
                out.put_u8(2);
                put_key_value(out, kv);
            }
            OpReply::Delete { deleted, prev } => {
                out.put_u8(3);
                put_u64(out, *deleted);
                put_key_values(out, prev);
            }
            OpReply::Range(range) => {
                out.put_u8(4);
                put_key_values(out, &range.kvs);
                put_u64(out, range.revision.0);
                put_u64(out, range.count as u64);
                out.put_u8(u8::from(range.more));
            }
            OpReply::Txn(txn) => {
                out.put_u8(5);
                put_txn_reply(out, txn);
            }
        }
    }
}

fn txn_reply(from: &mut Reader, depth: usize) -> Result<TxnReply, DecodeError> {
    if depth > codec::MAX_NESTING {
        return Err(DecodeError::Range);
    }
    let (succeeded, revision) = (from.u8()? != 0, Revision(from.u64()?));
    let ops = from.list(|from| {
        Ok(match from.u8()? {
            1 => OpReply::Put { prev: None },
            2 => OpReply::Put { prev: Some(key_value(from)?) },
            3 => OpReply::Delete { deleted: from.u64()?, prev: key_values(from)? },
            4 => OpReply::Range(RangeReply {
                kvs: key_values(from)?,
                revision: Revision(from.u64()?),
                count: usize::try_from(from.u64()?).map_err(|_| DecodeError::Range)?,
                more: from.u8()? != 0,
            }),
            5 => OpReply::Txn(txn_reply(from, depth + 1)?),
            tag => return Err(DecodeError::Tag { what: "operation reply", tag }),
        })
    })?;
    Ok(TxnReply { succeeded, revision, ops })
}

fn put_key_values(out: &mut Vec<u8>, kvs: &[KeyValue]) {
    put_u64(out, kvs.len() as u64);
    kvs.iter().for_each(|kv| put_key_value(out, kv));
}

fn key_values(from: &mut Reader) -> Result<Vec<KeyValue>, DecodeError> {
    from.list(key_value)
}

pub fn put_key_value(out: &mut Vec<u8>, kv: &KeyValue) {
    put_bytes(out, &kv.key);
    put_bytes(out, &kv.value);
    put_u64(out, kv.create_revision.0);
    put_u64(out, kv.mod_revision.0);
    put_u64(out, kv.version);
    codec::put_lease(out, kv.lease);
}

pub fn key_value(from: &mut Reader) -> Result<KeyValue, DecodeError> {
    Ok(KeyValue {
        key: from.bytes()?,
        value: from.bytes()?,
        create_revision: Revision(from.u64()?),
        mod_revision: Revision(from.u64()?),
        version: from.u64()?,
        lease: codec::lease(from)?,
    })
}

/// What `TooLarge` can be about: the error holds a static name.
const LARGE: [&str; 4] = ["the request", "a value", "a key", "the transaction"];

pub fn put_error(out: &mut Vec<u8>, error: &StoreError) {
    let mut pair = |tag, a: u64, b: u64| {
        out.put_u8(tag);
        put_u64(out, a);
        put_u64(out, b);
    };
    match error {
        StoreError::Compacted { requested, oldest } => pair(1, requested.0, oldest.0),
        StoreError::Future { requested, current } => pair(2, requested.0, current.0),
        StoreError::TooLarge { what, size, limit } => {
            pair(3, *size as u64, *limit as u64);
            let what = LARGE.iter().position(|name| name == what).unwrap_or(LARGE.len() - 1);
            out.put_u8(what as u8);
        }
        StoreError::Slow => out.put_u8(7),
        StoreError::NoSpace => out.put_u8(14),

        StoreError::DiskFull { member } => pair(15, *member, 0),
        StoreError::TooManyOps { limit } => pair(9, *limit as u64, 0),
        StoreError::NoLease(id) => pair(10, id.0.cast_unsigned(), 0),
        StoreError::LeaseExists(id) => pair(11, id.0.cast_unsigned(), 0),
        StoreError::DuplicateKey(key) => put_tagged(out, 12, key),
        StoreError::NoKey(key) => put_tagged(out, 13, key),
        StoreError::Invalid(text) => put_text(out, 4, text),
        StoreError::Unavailable(text) => put_text(out, 5, text),
        StoreError::Unknown(text) => put_text(out, 6, text),
        StoreError::Corrupt(text) => put_text(out, 8, text),
        StoreError::Unreadable(text) => put_text(out, 16, text),
    }
}

fn put_text(out: &mut Vec<u8>, tag: u8, text: &str) {
    put_tagged(out, tag, text.as_bytes());
}

fn put_tagged(out: &mut Vec<u8>, tag: u8, bytes: &[u8]) {
    out.put_u8(tag);
    put_bytes(out, bytes);
}

/// A number of a `pair` whose second half means nothing.
fn single(from: &mut Reader) -> Result<u64, DecodeError> {
    let number = from.u64()?;
    from.u64().map(|_| number)
}

pub fn error(from: &mut Reader) -> Result<StoreError, DecodeError> {
    let text = |from: &mut Reader| Ok(String::from_utf8_lossy(&from.bytes()?).into_owned());
    Ok(match from.u8()? {
        1 => StoreError::Compacted { requested: Revision(from.u64()?), oldest: Revision(from.u64()?) },
        2 => StoreError::Future { requested: Revision(from.u64()?), current: Revision(from.u64()?) },
        3 => {
            let (size, limit) = (from.u64()? as usize, from.u64()? as usize);
            let what = LARGE.get(usize::from(from.u8()?)).ok_or(DecodeError::Range)?;
            StoreError::TooLarge { what, size, limit }
        }
        4 => StoreError::Invalid(text(from)?),
        5 => StoreError::Unavailable(text(from)?),
        6 => StoreError::Unknown(text(from)?),
        7 => StoreError::Slow,
        8 => StoreError::Corrupt(text(from)?),
        9 => StoreError::TooManyOps { limit: usize::try_from(single(from)?).map_err(|_| DecodeError::Range)? },
        10 => StoreError::NoLease(LeaseId(single(from)?.cast_signed())),
        11 => StoreError::LeaseExists(LeaseId(single(from)?.cast_signed())),
        12 => StoreError::DuplicateKey(from.bytes()?),
        13 => StoreError::NoKey(from.bytes()?),
        14 => StoreError::NoSpace,
        15 => StoreError::DiskFull { member: single(from)? },
        16 => StoreError::Unreadable(text(from)?),
        tag => return Err(DecodeError::Tag { what: "error", tag }),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_survive() {
        let r = Revision;
        let errors = [
            StoreError::Compacted { requested: r(1), oldest: r(2) },
            StoreError::Future { requested: r(3), current: r(2) },
            StoreError::TooLarge { what: "a value", size: 9, limit: 8 },
            StoreError::Invalid("i".into()),
            StoreError::Unavailable("u".into()),
            StoreError::Unknown("k".into()),
            StoreError::Slow,
            StoreError::NoSpace,
            StoreError::DiskFull { member: 3 },
            StoreError::Corrupt("c".into()),
            StoreError::Unreadable("h".into()),
            StoreError::TooManyOps { limit: 128 },
            StoreError::NoLease(LeaseId(-7)),
            StoreError::LeaseExists(LeaseId(7)),
            StoreError::DuplicateKey("d".into()),
            StoreError::NoKey("n".into()),
        ];
        for expect in errors {
            let mut out = Vec::new();
            put_error(&mut out, &expect);
            let mut reader = Reader::new(out.into());
            let found = error(&mut reader).unwrap();
            assert!(reader.is_empty(), "{found:?}");
            assert_eq!(format!("{found:?}"), format!("{expect:?}"));
        }
    }
}
