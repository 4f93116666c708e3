//! What a transaction may not exceed, checked before it is proposed. It never looks at stored data.

use crate::api::{Op, StoreError, Txn};
use std::collections::BTreeSet;

pub const MAX_OPERATIONS: usize = 4_096;
pub const MAX_KEY_BYTES: usize = 4_096;
pub const MAX_VALUE_BYTES: usize = 3 * 512 * 1024;
pub const MAX_TXN_BYTES: usize = 16 * 1024 * 1024;

/// The bytes that a transaction takes in a log entry, near enough to bound batches with.
pub fn size(txn: &Txn) -> usize {
    let compares: usize = txn.compare.iter().map(|c| c.key.len() + 40).sum();
    let ops = txn.success.iter().chain(&txn.failure).map(|op| match op {
        Op::Put { key, value } => key.len() + value.len() + 16,
        Op::Delete { key } | Op::Get { key } => key.len() + 16,
    });
    compares + ops.sum::<usize>()
}

/// Refuses what `apply` would have to refuse on every member, so that a bad request never reaches the log.
pub fn check(txn: &Txn) -> Result<(), StoreError> {
    let operations = txn.compare.len() + txn.success.len() + txn.failure.len();
    at_most("the number of operations", operations, MAX_OPERATIONS)?;
    for compare in &txn.compare {
        check_key(&compare.key)?;
    }
    for branch in [&txn.success, &txn.failure] {
        check_branch(branch)?;
    }
    at_most("the transaction", size(txn), MAX_TXN_BYTES)
}

fn check_branch(ops: &[Op]) -> Result<(), StoreError> {
    let mut written = BTreeSet::new();
    for op in ops {
        let (key, writes) = match op {
            Op::Put { key, value } => {
                at_most("a value", value.len(), MAX_VALUE_BYTES)?;
                (key, true)
            }
            Op::Delete { key } => (key, true),
            Op::Get { key } => (key, false),
        };
        check_key(key)?;
        if writes && !written.insert(key) {
            return Err(StoreError::Invalid(format!("duplicate key in one transaction: {}", key.escape_ascii())));
        }
    }
    Ok(())
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
    use bytes::Bytes;

    fn put(key: &'static str, value: usize) -> Op {
        Op::Put { key: Bytes::from(key), value: vec![0; value].into() }
    }

    #[test]
    fn limits() {
        let delete = Op::Delete { key: Bytes::from("a") };
        let rows: [(&str, Vec<Op>, Result<(), &str>); 8] = [
            ("largest value", vec![put("a", MAX_VALUE_BYTES)], Ok(())),
            ("value too large", vec![put("a", MAX_VALUE_BYTES + 1)], Err("a value is")),
            ("empty key", vec![put("", 1)], Err("a key is empty")),
            ("put twice", vec![put("a", 1), put("a", 1)], Err("duplicate key")),
            ("put and delete", vec![put("a", 1), delete], Err("duplicate key")),
            ("get twice", vec![Op::Get { key: "a".into() }, Op::Get { key: "a".into() }], Ok(())),
            ("too many", (0..=MAX_OPERATIONS).map(|_| Op::Get { key: "a".into() }).collect(), Err("number of op")),
            (
                "in all",
                (0..11)
                    .map(|i| put(["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k"][i], MAX_VALUE_BYTES))
                    .collect(),
                Err("the transaction"),
            ),
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
