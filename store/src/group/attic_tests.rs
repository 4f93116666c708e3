//! A member whose superseded values are in the log tells everyone what one that has them in memory would.

use super::tests::wait;
use super::*;
use crate::api::{EventKind, KeyValue, Op, OpReply};
use crate::mvcc::Warm;
use bytes::Bytes;
use std::os::unix::fs::FileExt;
use tempfile::TempDir;

const LEN: usize = 1_000;

fn config(dir: &TempDir, bytes: u64) -> GroupConfig {
    let attic = Attic { warm: Warm { bytes, least: 256 }, every: Duration::from_millis(5), ..Attic::default() };
    GroupConfig { attic, log_keep: 0, ..GroupConfig::single("state", dir.path()) }
}

fn value(n: u64) -> Bytes {
    Bytes::from(format!("{n:04}").repeat(LEN / 4))
}

/// Revision r has `k` at the value r; `short` stays as it is from revision 2 on.
async fn write(group: &Group, revisions: std::ops::RangeInclusive<u64>) {
    for revision in revisions {
        let mut success = vec![Op::put("k", value(revision))];
        if revision == 2 {
            success.push(Op::put("short", "s"));
        }
        let reply = group.txn(Txn { success, ..Txn::default() }).await.unwrap();
        assert_eq!(reply.revision, Revision(revision));
    }
}

fn in_memory_and_log(group: &Group) -> (u64, u64) {
    group.handle.hub.look(Mvcc::superseded_values)
}

async fn settled(group: &Group, expect: (u64, u64)) {
    wait(|| in_memory_and_log(group) == expect).await;
}

fn at(revision: u64) -> RangeRequest {
    RangeRequest { revision: Some(Revision(revision)), ..RangeRequest::key("k") }
}

fn only(kvs: &[KeyValue]) -> &Bytes {
    assert_eq!(kvs.len(), 1);
    &kvs[0].value
}

/// Everything that can be asked of the past, of revisions from `oldest` on.
async fn reads_the_past(group: &Group, oldest: u64, newest: u64) {
    let all = |revision| RangeRequest { end: Bytes::from_static(b"\0"), ..at(revision) };
    for revision in oldest..=newest {
        assert_eq!(only(&group.range(at(revision)).await.unwrap().kvs), &value(revision));
        let found = group.range(all(revision)).await.unwrap().kvs;
        assert_eq!((found.len(), &found[0].value, &found[1].value[..]), (2, &value(revision), &b"s"[..]));
        let keys = group.range(RangeRequest { keys_only: true, ..at(revision) }).await.unwrap();
        assert_eq!(keys.kvs[0].mod_revision, Revision(revision));
        let nested = Txn { success: vec![Op::get("short"), Op::Range(at(revision))], ..Txn::default() };
        let read = Txn { success: vec![Op::get("k"), Op::Txn(Box::new(nested))], ..Txn::default() };
        let reply = group.txn(read).await.unwrap();
        let [OpReply::Range(now), OpReply::Txn(nested)] = &reply.ops[..] else { panic!("{reply:?}") };
        let OpReply::Range(past) = &nested.ops[1] else { panic!("{nested:?}") };
        assert_eq!((only(&now.kvs), only(&past.kvs)), (&value(newest), &value(revision)));
    }
    for prev_kv in [true, false] {
        let from = Revision(oldest);
        let request = WatchRequest { start: "k".into(), end: Bytes::new(), from, prev_kv };
        let mut watch = group.watch(request).await.unwrap();
        let mut next = oldest;
        while next <= newest {
            for event in watch.next().await.unwrap().unwrap().events {
                assert_eq!((event.kind, &event.kv.value), (EventKind::Put, &value(next)));
                let prev = (prev_kv && next > 2).then(|| value(next - 1));
                assert_eq!(event.prev_kv.map(|prev| prev.value), prev);
                next += 1;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn superseded_values_are_in_the_log_and_read_as_before() {
    let dir = TempDir::new().unwrap();
    let group = Group::open(config(&dir, 0)).await.unwrap();
    write(&group, 2..=40).await;
    let hash = group.hash();
    settled(&group, (0, 38 * LEN as u64)).await;
    reads_the_past(&group, 2, 40).await;
    assert_eq!(group.hash(), hash);
    // A transaction that writes may read the past, too.
    let both = Txn { success: vec![Op::put("k", value(41)), Op::Range(at(7))], ..Txn::default() };
    let reply = group.txn(both).await.unwrap();
    let OpReply::Range(past) = &reply.ops[1] else { panic!("{reply:?}") };
    assert_eq!((reply.revision, only(&past.kvs)), (Revision(41), &value(7)));
    settled(&group, (0, 39 * LEN as u64)).await;
    // A snapshot has what is in the log, and makes the log before it unneeded for anything else.
    group.snapshot().await.unwrap();
    wait(|| group.handle.wal.ends().0.is_some_and(|purged| purged.index >= 40)).await;
    reads_the_past(&group, 2, 41).await;
    group.shutdown().await;
    drop(group);

    let group = Group::open(config(&dir, 0)).await.unwrap();
    assert_eq!(in_memory_and_log(&group), (39 * LEN as u64, 0), "what came with a snapshot is in memory");
    reads_the_past(&group, 2, 41).await;
    write(&group, 42..=50).await;
    // The value of revision 41 came with the snapshot.
    settled(&group, (40 * LEN as u64, 8 * LEN as u64)).await;
    reads_the_past(&group, 2, 50).await;
    group.compact(Revision(45)).await.unwrap();
    // What 45 and later ones superseded: 44 to 49.
    settled(&group, (0, 6 * LEN as u64)).await;
    reads_the_past(&group, 45, 50).await;
    assert!(matches!(group.range(at(44)).await, Err(StoreError::Compacted { .. })));
    group.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_newest_superseded_values_stay_warm() {
    let dir = TempDir::new().unwrap();
    let group = Group::open(config(&dir, 5 * LEN as u64)).await.unwrap();
    write(&group, 2..=40).await;
    settled(&group, (5 * LEN as u64, 33 * LEN as u64)).await;
    reads_the_past(&group, 2, 40).await;
    // Short ones stay where they are, and take none of the window.
    for n in 0..20 {
        group.txn(Txn { success: vec![Op::put("short", n.to_string())], ..Txn::default() }).await.unwrap();
    }
    group.txn(Txn { success: vec![Op::delete("k")], ..Txn::default() }).await.unwrap();
    let short = 1 + 10 + 9 * 2;
    settled(&group, (5 * LEN as u64 + short, 34 * LEN as u64)).await;
    group.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_read_is_an_error_to_who_asks_for_it() {
    let dir = TempDir::new().unwrap();
    let group = Group::open(config(&dir, 0)).await.unwrap();
    write(&group, 2..=10).await;
    settled(&group, (0, 8 * LEN as u64)).await;
    let path = dir.path().join("wal").join(format!("{:016x}.wal", 1));
    let bytes = std::fs::read(&path).unwrap();
    let damaged = bytes.windows(LEN).position(|window| window == value(5)).unwrap();
    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    file.write_all_at(b"!", damaged as u64 + 77).unwrap();
    for revision in 2..=10 {
        match group.range(at(revision)).await {
            Ok(reply) => assert_eq!((only(&reply.kvs), revision == 5), (&value(revision), false)),
            Err(StoreError::Unreadable(what)) => assert!(revision == 5 && what.contains("checksum"), "{what}"),
            Err(error) => panic!("{error}"),
        }
    }
    let both = Txn { success: vec![Op::put("k", value(11)), Op::Range(at(5))], ..Txn::default() };
    let Err(StoreError::Unknown(what)) = group.txn(both).await else { panic!("it has no answer") };
    assert!(what.contains("done by revision 11"), "{what}");
    assert_eq!(only(&group.range(RangeRequest::key("k")).await.unwrap().kvs), &value(11));
    let request = |from| WatchRequest { start: "k".into(), end: Bytes::new(), from: Revision(from), prev_kv: true };
    let mut watch = group.watch(request(3)).await.unwrap();
    assert!(matches!(watch.next().await, Some(Err(StoreError::Unreadable(_)))));
    assert!(watch.next().await.is_none());
    let mut watch = group.watch(request(7)).await.unwrap();
    assert_eq!(watch.next().await.unwrap().unwrap().events[0].kv.value, value(7));
    group.shutdown().await;
}
