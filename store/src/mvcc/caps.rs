//! How much a group keeps under each prefix and in all: a pure decision that the leader turns into ordinary log entries.

use super::{Mvcc, Version, apply::size};
use crate::api::{Compare, Op, Txn};
use bytes::Bytes;
use std::collections::BTreeMap;

/// Keys and values that are live; history does not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caps {
    /// Keys that are the same up to and with this slash belong together. Those with fewer slashes count in all only.
    pub slash: usize,
    pub each_bytes: u64,
    pub all_bytes: u64,
}

fn prefix(key: &[u8], slash: usize) -> Option<&[u8]> {
    let mut slashes = key.iter().enumerate().filter(|(_, byte)| **byte == b'/');
    slashes.nth(slash.checked_sub(1)?).map(|(at, _)| &key[..=at])
}

/// One transaction for each key that is too much, those first that were not written for the longest, at most `most`. Each
/// deletes its key only if it was not written since.
pub fn surplus(mvcc: &Mvcc, caps: &Caps, most: usize) -> Vec<Txn> {
    // Where all of it is less, no part is more.
    if mvcc.live_bytes() <= caps.each_bytes.min(caps.all_bytes) {
        return Vec::new();
    }
    let mut each: BTreeMap<&[u8], u64> = BTreeMap::new();
    for live in &mvcc.live {
        if let Some(prefix) = prefix(live.0.key(), caps.slash) {
            *each.entry(prefix).or_default() += size(&live.0);
        }
    }
    let mut all = mvcc.live_bytes();
    each.retain(|_, bytes| *bytes > caps.each_bytes);
    if each.is_empty() && all <= caps.all_bytes {
        return Vec::new();
    }
    let mut oldest: Vec<&Version> = mvcc.live.iter().map(|live| &live.0).collect();
    oldest.sort_unstable_by_key(|version| version.mod_revision());
    let mut drops = Vec::new();
    for version in oldest {
        let bytes = size(version);
        let of_prefix = prefix(version.key(), caps.slash).and_then(|prefix| each.get_mut(prefix));
        let over = of_prefix.as_ref().is_some_and(|bytes| **bytes > caps.each_bytes);
        if !over && all <= caps.all_bytes {
            continue;
        }
        if let Some(of_prefix) = of_prefix {
            *of_prefix -= bytes;
        }
        all -= bytes;
        drops.push(drop_unchanged(version));
        if drops.len() == most {
            break;
        }
    }
    drops
}

fn drop_unchanged(version: &Version) -> Txn {
    let key = Bytes::copy_from_slice(version.key());
    let compare = vec![Compare::unchanged(key.clone(), version.mod_revision())];
    Txn { compare, success: vec![Op::delete(key)], failure: vec![] }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mvcc::{Command, Entry, apply};

    /// Keys with values of so many bytes, written in this order.
    fn mvcc(keys: &[(&'static str, usize)]) -> Mvcc {
        let mut mvcc = Mvcc::default();
        for (key, len) in keys {
            let txn = Txn { success: vec![Op::put(*key, vec![0; len - key.len()])], ..Txn::default() };
            apply(&mut mvcc, &Entry { time_ms: 0, commands: vec![Command::Txn(txn)] }).unwrap();
        }
        mvcc
    }

    #[test]
    fn the_oldest_go_until_no_prefix_and_not_all_is_too_much() {
        let keys = [
            ("/r/e/a/1", 50),
            ("/r/e/b/1", 30),
            ("/r/e/a/2", 50),
            ("/r/e/a/3", 50),
            ("/r/e/c/1", 20),
            ("/other", 20),
            ("/r/e/a/2", 40),
        ];
        let rows: [(u64, u64, usize, &[&str]); 8] = [
            (140, 1_000, 9, &[]),
            (139, 1_000, 9, &["/r/e/a/1"]),
            // It was written again later than the third.
            (89, 1_000, 9, &["/r/e/a/1", "/r/e/a/3"]),
            (0, 1_000, 9, &["/r/e/a/1", "/r/e/b/1", "/r/e/a/3", "/r/e/c/1", "/r/e/a/2"]),
            (1_000, 210, 9, &[]),
            (1_000, 209, 9, &["/r/e/a/1"]),
            (1_000, 130, 9, &["/r/e/a/1", "/r/e/b/1"]),
            (89, 100, 1, &["/r/e/a/1"]),
        ];
        for (each_bytes, all_bytes, most, expect) in rows {
            let mut mvcc = mvcc(&keys);
            let drops = surplus(&mvcc, &Caps { slash: 4, each_bytes, all_bytes }, most);
            let keys: Vec<_> = drops.iter().map(|txn| txn.compare[0].start.clone()).collect();
            assert_eq!(keys, expect, "{each_bytes} each, {all_bytes} in all");
            // What is dropped is what was seen, and then there is nothing more to drop.
            for txn in drops {
                let commands = vec![Command::Txn(txn)];
                let replies = apply(&mut mvcc, &Entry { time_ms: 0, commands }).unwrap().replies;
                assert!(replies.into_iter().all(|reply| reply.into_txn().unwrap().succeeded));
            }
            let left = surplus(&mvcc, &Caps { slash: 4, each_bytes, all_bytes }, most);
            assert!(left.is_empty() || most == 1, "{left:?}");
        }
    }
}
