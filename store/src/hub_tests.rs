//! Watches over a published state: order, completeness, progress, compaction and slow readers.

use super::*;
use crate::api::{Op, Txn};
use crate::mvcc::{Command, Compact, Entry, apply};
use bytes::Bytes;

fn put(mvcc: &mut Mvcc, hub: &Hub, key: &str) {
    let op = Op::put(Bytes::copy_from_slice(key.as_bytes()), "v");
    let txn = Txn { success: vec![op], ..Txn::default() };
    apply(mvcc, &Entry { time_ms: 0, commands: vec![Command::Txn(txn)] }).unwrap();
    hub.publish(mvcc);
}

fn request(from: u64) -> WatchRequest {
    WatchRequest { start: "a".into(), end: "b".into(), from: Revision(from), prev_kv: false }
}

#[tokio::test]
async fn past_and_present_events_arrive_once_in_order() {
    let mut mvcc = Mvcc::default();
    let hub = Hub::new(Mvcc::default());
    for key in ["a1", "x", "a2"] {
        put(&mut mvcc, &hub, key);
    }
    let mut watch = hub.watch(request(2)).unwrap();
    let mut seen = Vec::new();
    while seen.len() < 2 {
        seen.extend(watch.next().await.unwrap().unwrap().events);
    }
    put(&mut mvcc, &hub, "a3");
    seen.extend(watch.next().await.unwrap().unwrap().events);
    let seen: Vec<_> = seen.iter().map(|e| (&e.kv.key[..], e.kv.mod_revision.0)).collect();
    assert_eq!(seen, [(&b"a1"[..], 2), (b"a2", 4), (b"a3", 5)]);
}

#[tokio::test]
async fn progress_reports_the_current_revision() {
    let mut mvcc = Mvcc::default();
    let hub = Hub::new(Mvcc::default());
    let mut watch = hub.watch(request(0)).unwrap();
    put(&mut mvcc, &hub, "x");
    watch.request_progress();
    let mut last = WatchBatch { revision: Revision(0), events: vec![] };
    while last.revision < Revision(2) {
        last = watch.next().await.unwrap().unwrap();
        assert_eq!(last.events, []);
        watch.request_progress();
    }
    assert_eq!(last.revision, Revision(2));
}

#[tokio::test]
async fn compacted_history_refuses_watches() {
    let mut mvcc = Mvcc::default();
    let hub = Hub::new(Mvcc::default());
    for key in ["a1", "a2", "a3"] {
        put(&mut mvcc, &hub, key);
    }
    let compact = Command::Compact(Compact { revision: Revision(3), check: None });
    apply(&mut mvcc, &Entry { time_ms: 0, commands: vec![compact] }).unwrap();
    hub.publish(&mvcc);
    assert!(matches!(hub.watch(request(2)), Err(StoreError::Compacted { oldest: Revision(3), .. })));
    let mut watch = hub.watch(request(3)).unwrap();
    let batch = watch.next().await.unwrap().unwrap();
    assert_eq!((batch.revision, batch.events.len()), (Revision(4), 2));
}

#[tokio::test]
async fn a_reader_that_never_reads_is_cut_off_but_gets_what_was_queued() {
    let mut mvcc = Mvcc::default();
    let hub = Hub::with_lag(Mvcc::default(), 10);
    let mut watch = hub.watch(request(0)).unwrap();
    for _ in 0..200 {
        put(&mut mvcc, &hub, "a");
        tokio::task::yield_now().await;
    }
    let mut next = 2;
    let end = loop {
        match watch.next().await.unwrap() {
            Ok(batch) => {
                for event in batch.events {
                    assert_eq!(event.kv.mod_revision, Revision(next));
                    next += 1;
                }
            }
            Err(error) => break error,
        }
    };
    assert!(matches!(end, StoreError::Slow), "{end:?}");
    assert!(watch.next().await.is_none());
}
