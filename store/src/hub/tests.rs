//! Watches over a published state: order, completeness, progress, compaction and slow readers.

use super::*;
use crate::api::{Op, Txn, WatchBatch, prefix_end};
use crate::mvcc::{Command, Compact, Entry, apply};
use bytes::Bytes;

fn put(mvcc: &mut Mvcc, hub: &Hub, key: &str) {
    let op = Op::put(Bytes::copy_from_slice(key.as_bytes()), "v");
    let txn = Txn { success: vec![op], ..Txn::default() };
    apply(mvcc, &Entry { time_ms: 0, commands: vec![Command::Txn(txn)] }).unwrap();
    hub.replace(mvcc.clone());
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

#[test]
fn a_view_is_made_once_between_two_changes_and_stays_what_it_was() {
    let hub = Hub::new(Mvcc::default());
    let txn = |key: &'static str| Command::Txn(Txn { success: vec![Op::put(key, "v")], ..Txn::default() });
    let write = |key| {
        let entry = Entry { time_ms: 0, commands: vec![txn(key)] };
        hub.apply(&entry, None).unwrap();
    };
    write("a1");
    assert!(hub.view.load().is_none(), "nobody asked for a clone");
    let view = hub.view();
    assert!(Arc::ptr_eq(&view, &hub.view()));
    write("a2");
    assert_eq!((view.revision(), view.keys()), (Revision(2), 1));
    assert_eq!((hub.revision(), hub.look(Mvcc::keys), hub.view().keys()), (Revision(3), 2, 2));
    assert_eq!(*hub.applied.borrow(), Revision(1), "nobody was told yet");
    hub.announce();
    assert_eq!(*hub.applied.borrow(), Revision(3));
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
    hub.replace(mvcc.clone());
    assert!(matches!(hub.watch(request(2)), Err(StoreError::Compacted { oldest: Revision(3), .. })));
    let mut watch = hub.watch(request(3)).unwrap();
    let batch = watch.next().await.unwrap().unwrap();
    assert_eq!((batch.revision, batch.events.len()), (Revision(4), 2));
}

#[tokio::test]
async fn a_reader_that_never_reads_is_cut_off_but_gets_what_was_queued() {
    let mut mvcc = Mvcc::default();
    let hub = Hub::with_bounds(Mvcc::default(), Arc::new(Nothing), Bounds { lag: 10, ..BOUNDS });
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

fn open(reader: &mut Reader, id: i64, start: &str, end: &[u8]) {
    let request = WatchRequest {
        start: Bytes::copy_from_slice(start.as_bytes()),
        end: Bytes::copy_from_slice(end),
        from: Revision(0),
        prev_kv: false,
    };
    reader.open(id, &request, Options::default()).unwrap();
}

fn told(reader: &mut Reader) -> Vec<(i64, Vec<u64>)> {
    let mut all = Vec::new();
    loop {
        match reader.step() {
            Step::Delivery(Delivery { id, batch, .. }) => {
                all.push((id, batch.unwrap().events.iter().map(|event| event.kv.mod_revision.0).collect()));
            }
            Step::Fetch(fetch) => reader.fetched(fetch.run()),
            Step::Busy => {}
            Step::Idle => return all,
        }
    }
}

/// Nothing runs here but what the test calls: the hub's own task waits for a runtime that is never driven.
fn still() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().build().unwrap()
}

#[test]
fn a_commit_does_not_touch_the_watches_of_other_keys() {
    let runtime = still();
    let _entered = runtime.enter();
    let mut mvcc = Mvcc::default();
    let hub = Hub::new(Mvcc::default());
    let mut readers: Vec<_> = (0..1_000).map(|_| Reader::new(&hub)).collect();
    for (number, reader) in readers.iter_mut().enumerate() {
        for id in 0..10 {
            let prefix = format!("/pods/{number:04}/{id}/");
            open(reader, 2 * id, &format!("{prefix}one"), b"");
            open(reader, 2 * id + 1, &prefix, &prefix_end(prefix.as_bytes()));
        }
    }
    assert_eq!(hub.stats(), HubStats { watches: 20_000, streams: 1_000, behind: 0, touched: 0 });
    put(&mut mvcc, &hub, "/pods/0500/7/one");
    put(&mut mvcc, &hub, "/nodes/one");
    assert_eq!(hub.stats().behind, 2, "nobody has been told yet");
    assert_eq!(hub.dispatch(), 1, "one reader is concerned");
    let stats = hub.stats();
    assert_eq!(stats.behind, 2, "and has not read");
    assert!(stats.touched < 200, "{} of 20,000 entries were looked at", stats.touched);
    for (number, reader) in readers.iter_mut().enumerate() {
        let expect = if number == 500 { vec![(14, vec![2]), (15, vec![2])] } else { vec![] };
        assert_eq!(told(reader), expect);
    }
    assert_eq!(hub.stats().behind, 0);
    drop(readers);
    let stats = hub.stats();
    assert_eq!((stats.watches, stats.streams), (0, 0));
    assert!(hub.desk.lock().index.is_empty());
}

#[test]
fn a_compaction_does_not_overtake_a_reader_that_keeps_up() {
    let runtime = still();
    let _entered = runtime.enter();
    let mut mvcc = Mvcc::default();
    let hub = Hub::new(Mvcc::default());
    let mut reader = Reader::new(&hub);
    open(&mut reader, 7, "a", b"");
    for _ in 0..3 {
        put(&mut mvcc, &hub, "a");
    }
    let compact = Command::Compact(Compact { revision: Revision(4), check: None });
    apply(&mut mvcc, &Entry { time_ms: 0, commands: vec![compact] }).unwrap();
    hub.replace(mvcc.clone());
    assert_eq!(told(&mut reader), [(7, vec![2, 3, 4])]);
}
