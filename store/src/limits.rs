//! What a transaction may not exceed, checked before it is proposed. It never looks at stored data.

use crate::api::{Compare, Delete, Op, StoreError, Txn};
use crate::mvcc::Command;
use bytes::Bytes;
use std::collections::BTreeSet;

/// Comparisons, and operations of each branch; what is nested counts where it is nested. An etcd has 128 unless its `--max-txn-ops`
/// says otherwise. The largest here binds 512 pods with their claims on as many machines.
pub const MAX_OPERATIONS: usize = 2_048;
pub const MAX_KEY_BYTES: usize = 64 * 1024;
pub const MAX_VALUE_BYTES: usize = 3 * 512 * 1024;
pub const MAX_TXN_BYTES: usize = 16 * 1024 * 1024;

/// The bytes that a transaction takes in a log entry, near enough to bound batches with.
pub fn size(txn: &Txn) -> usize {
    let compares: usize = txn.compare.iter().map(|c| c.start.len() + c.end.len() + 40).sum();
    let ops = txn.success.iter().chain(&txn.failure).map(|op| match op {
        Op::Put(put) => put.key.len() + put.value.len() + 16,
        Op::Delete(delete) => delete.start.len() + delete.end.len() + 16,
        Op::Range(range) => range.start.len() + range.end.len() + 16,
        Op::Txn(txn) => size(txn),
    });
    compares + ops.sum::<usize>()
}

/// About the memory that a command holds.
pub fn resident(command: &Command) -> usize {
    let nested = if let Command::Txn(txn) = command { bytes(txn) } else { 0 };
    return size_of::<Command>() + nested;

    fn bytes(txn: &Txn) -> usize {
        let compares = txn.compare.iter().map(|compare| size_of::<Compare>() + compare.start.len() + compare.end.len());
        let ops = txn.success.iter().chain(&txn.failure).map(|op| {
            size_of::<Op>()
                + match op {
                    Op::Put(put) => put.key.len() + put.value.len(),
                    Op::Delete(delete) => delete.start.len() + delete.end.len(),
                    Op::Range(range) => range.start.len() + range.end.len(),
                    Op::Txn(nested) => size_of::<Txn>() + bytes(nested),
                }
        });
        compares.sum::<usize>() + ops.sum::<usize>()
    }
}

/// Whether a transaction puts a key, in whichever branch.
pub fn puts(txn: &Txn) -> bool {
    txn.success.iter().chain(&txn.failure).any(|op| match op {
        Op::Put(_) => true,
        Op::Delete(_) | Op::Range(_) => false,
        Op::Txn(nested) => puts(nested),
    })
}

/// By how much a transaction may make the store larger: the keys and values of its larger branch.
pub fn growth(txn: &Txn) -> usize {
    let branch = |ops: &[Op]| -> usize {
        let op = |op: &Op| match op {
            Op::Put(put) => put.key.len() + put.value.len(),
            Op::Delete(_) | Op::Range(_) => 0,
            Op::Txn(nested) => growth(nested),
        };
        ops.iter().map(op).sum()
    };
    branch(&txn.success).max(branch(&txn.failure))
}

/// Refuses what `apply` would have to refuse on every member, so that a bad request never reaches the log.
pub fn check(txn: &Txn) -> Result<(), StoreError> {
    check_counts(txn, MAX_OPERATIONS)?;
    check_each(txn)?;
    check_doubles(txn)?;
    at_most("the transaction", size(txn), MAX_TXN_BYTES)
}

fn check_counts(txn: &Txn, room: usize) -> Result<(), StoreError> {
    let most = txn.compare.len().max(txn.success.len()).max(txn.failure.len());
    let left = room.checked_sub(most).ok_or(StoreError::TooManyOps { limit: MAX_OPERATIONS })?;
    txn.success.iter().chain(&txn.failure).try_for_each(|op| match op {
        Op::Txn(nested) => check_counts(nested, left),
        Op::Put(_) | Op::Delete(_) | Op::Range(_) => Ok(()),
    })
}

fn check_each(txn: &Txn) -> Result<(), StoreError> {
    txn.compare.iter().try_for_each(|compare| check_key(&compare.start))?;
    txn.success.iter().chain(&txn.failure).try_for_each(|op| match op {
        Op::Put(put) => {
            at_most("a value", put.value.len(), MAX_VALUE_BYTES)?;
            check_key(&put.key)
        }
        Op::Delete(delete) => check_key(&delete.start),
        Op::Range(range) => check_key(&range.start),
        Op::Txn(nested) => check_each(nested),
    })
}

/// What one way through a transaction may write: keys put, and ranges deleted.
#[derive(Default)]
struct Written<'a> {
    puts: BTreeSet<&'a Bytes>,
    deletes: Vec<&'a Delete>,
}

/// No key may be put twice. What one operation deletes, none beside it may put, nor any that is nested beside it and comes
/// later; the branches of one transaction exclude each other (etcd's rule, which lets a nested transaction delete what one
/// before it has put).
fn check_doubles(txn: &Txn) -> Result<(), StoreError> {
    writes(&txn.success)?;
    writes(&txn.failure).map(drop)
}

fn writes(ops: &[Op]) -> Result<Written<'_>, StoreError> {
    let deleted = ops.iter().filter_map(|op| if let Op::Delete(delete) = op { Some(delete) } else { None });
    let mut all = Written { deletes: deleted.collect(), ..Written::default() };
    for op in ops {
        let Op::Txn(nested) = op else { continue };
        // Either branch may run beside the operations around it, but not beside the other.
        let (one, other) = (writes(&nested.success)?, writes(&nested.failure)?);
        if let Some(double) = one.puts.iter().chain(&other.puts).find(|key| all.writes(key)) {
            return Err(StoreError::DuplicateKey(Bytes::clone(double)));
        }
        for branch in [one, other] {
            all.puts.extend(branch.puts);
            all.deletes.extend(branch.deletes);
        }
    }
    for op in ops {
        let Op::Put(put) = op else { continue };
        if all.writes(&put.key) {
            return Err(StoreError::DuplicateKey(put.key.clone()));
        }
        all.puts.insert(&put.key);
    }
    Ok(all)
}

impl Written<'_> {
    fn writes(&self, key: &Bytes) -> bool {
        self.puts.contains(key) || self.deletes.iter().any(|delete| deletes(delete, key))
    }
}

fn deletes(delete: &Delete, key: &Bytes) -> bool {
    match &delete.end[..] {
        [] => *key == delete.start,
        [0] => *key >= delete.start,
        end => *key >= delete.start && &key[..] < end,
    }
}

fn check_key(key: &[u8]) -> Result<(), StoreError> {
    if key.is_empty() {
        return Err(StoreError::Invalid("a key is empty".into()));
    }
    at_most("a key", key.len(), MAX_KEY_BYTES)
}

fn at_most(what: &'static str, size: usize, limit: usize) -> Result<(), StoreError> {
    if size > limit { Err(StoreError::TooLarge { what, size, limit }) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(key: &str, value: usize) -> Op {
        Op::put(key.to_owned(), vec![0; value])
    }

    fn nested(success: Vec<Op>, failure: Vec<Op>) -> Op {
        Op::Txn(Box::new(Txn { success, failure, ..Txn::default() }))
    }

    fn delete(start: &'static str, end: &'static str) -> Op {
        Op::Delete(Delete { start: start.into(), end: end.into(), prev_kv: false })
    }

    #[test]
    fn what_a_command_holds_counts_every_operation() {
        let txn = |ops: Vec<Op>| Command::Txn(Txn { success: ops, ..Txn::default() });
        let small = resident(&txn((0..100).map(|at| put(&at.to_string(), 1)).collect()));
        assert!(small >= 100 * (size_of::<Op>() + 2), "{small}: a hundred operations are more than their bytes");
        let deep = resident(&txn(vec![nested(vec![nested(vec![put("a", 1_000)], vec![])], vec![put("b", 1_000)])]));
        assert!(deep >= 2_002 + 4 * size_of::<Op>(), "{deep}: nested ones count");
        assert_eq!(resident(&Command::Revoke { id: crate::api::LeaseId(1) }), size_of::<Command>());
    }

    #[test]
    fn limits() {
        let gets = |n: usize| (0..n).map(|_| Op::get("a")).collect::<Vec<_>>();
        let wide = || vec![nested(gets(MAX_OPERATIONS - 1), vec![])];
        let rows: [(&str, Vec<Op>, Result<(), &str>); 21] = [
            ("largest value", vec![put("a", MAX_VALUE_BYTES)], Ok(())),
            ("value too large", vec![put("a", MAX_VALUE_BYTES + 1)], Err("a value is")),
            ("empty key", vec![put("", 1)], Err("a key is empty")),
            ("put twice", vec![put("a", 1), put("a", 1)], Err("duplicate key")),
            ("put and delete", vec![put("a", 1), delete("a", "")], Err("duplicate key")),
            ("put and delete of a range", vec![delete("a", "c"), put("b", 1)], Err("duplicate key")),
            ("delete to the end", vec![delete("a", "\0"), put("b", 1)], Err("duplicate key")),
            ("delete twice", vec![delete("a", "c"), delete("b", "")], Ok(())),
            ("put beside a nested put", vec![put("a", 1), nested(vec![], vec![put("a", 1)])], Err("duplicate key")),
            ("puts in branches that exclude each other", vec![nested(vec![put("a", 1)], vec![put("a", 1)])], Ok(())),
            ("delete and put in such branches", vec![nested(vec![delete("a", "")], vec![put("a", 1)])], Ok(())),
            ("and the other way round", vec![nested(vec![put("a", 1)], vec![delete("a", "")])], Ok(())),
            (
                "delete in a nested one after a put in another",
                vec![nested(vec![put("a", 1)], vec![]), nested(vec![delete("a", "")], vec![])],
                Ok(()),
            ),
            (
                "and before it",
                vec![nested(vec![delete("a", "")], vec![]), nested(vec![], vec![put("a", 1)])],
                Err("duplicate key"),
            ),
            (
                "put beside a nested delete",
                vec![put("a", 1), nested(vec![delete("a", "")], vec![])],
                Err("duplicate key"),
            ),
            (
                "delete beside a nested put",
                vec![nested(vec![put("b", 1)], vec![]), delete("a", "c")],
                Err("duplicate key"),
            ),
            ("get twice", vec![Op::get("a"), Op::get("a")], Ok(())),
            ("too many", gets(MAX_OPERATIONS + 1), Err("more than 2048 operations")),
            ("as many as may be, nested", wide(), Ok(())),
            ("too many, nested", [wide(), wide()].concat(), Err("more than 2048 operations")),
            ("in all", (0..11).map(|i| put(&format!("k{i}"), MAX_VALUE_BYTES)).collect(), Err("the transaction")),
        ];
        for (name, success, expect) in rows {
            let result = check(&Txn { success, ..Txn::default() }).map_err(|e| e.to_string());
            match expect {
                Ok(()) => assert_eq!(result, Ok(()), "{name}"),
                Err(part) => assert!(result.clone().is_err_and(|e| e.contains(part)), "{name}: {result:?}"),
            }
        }
    }
}
