//! Many watches over one stream, as an etcd client sees them.

use super::*;
use crate::api::{Op, Store, Txn};
use crate::etcd::tests::DEADLINE;
use crate::group::{Group, GroupConfig};
use crate::proto::etcd::watch_client::WatchClient;
use crate::proto::etcd::{Event, KeyValue, WatchCancelRequest, WatchProgressRequest};
use std::collections::BTreeMap;
use std::net::TcpListener;
use tempfile::TempDir;
use tokio::sync::mpsc;

#[test]
fn a_fragment_is_not_larger_than_needed_and_no_event_is_lost() {
    let event = |bytes: usize| {
        let kv = KeyValue { value: vec![0; bytes].into(), ..KeyValue::default() };
        Event { kv: Some(kv), ..Event::default() }
    };
    let cut = |sizes: &[usize]| -> Vec<usize> {
        fragments(sizes.iter().map(|size| event(*size)).collect()).iter().map(Vec::len).collect()
    };
    assert_eq!(cut(&[1, 1, 1]), [3]);
    assert_eq!(cut(&[1 << 20, 1 << 19, 1 << 20, 3 << 20, 1]), [2, 1, 1, 1]);
}

/// A member and a client's stream to it.
struct Place {
    group: Group,
    requests: mpsc::Sender<WatchRequest>,
    answers: Streaming<WatchResponse>,
    #[expect(dead_code, reason = "held for its drop, which removes the directory")]
    dir: TempDir,
}

impl Place {
    async fn open() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let dir = TempDir::new().unwrap();
        let members = BTreeMap::from([(1, address.clone())]);
        let config = GroupConfig { members, listener: Some(listener), ..GroupConfig::single("state", dir.path()) };
        let group = Group::open(config).await.unwrap();
        let mut client = WatchClient::new(crate::peer::channel(&address, None).unwrap());
        let (requests, receiver) = mpsc::channel(16);
        let stream = tokio_stream::wrappers::ReceiverStream::new(receiver);
        let answers = client.watch(stream).await.unwrap().into_inner();
        Self { group, requests, answers, dir }
    }

    async fn ask(&self, union: RequestUnion) {
        self.requests.send(WatchRequest { request_union: Some(union) }).await.unwrap();
    }

    async fn create(&mut self, create: WatchCreateRequest) -> WatchResponse {
        self.ask(RequestUnion::CreateRequest(create)).await;
        self.answer().await
    }

    async fn answer(&mut self) -> WatchResponse {
        self.answers.message().await.unwrap().expect("the stream goes on")
    }

    async fn put(&self, key: &str) -> Revision {
        let txn = Txn { success: vec![Op::put(key.to_owned(), "v")], ..Txn::default() };
        self.group.txn(txn).await.unwrap().revision
    }
}

fn of(start: &str, end: &str) -> WatchCreateRequest {
    WatchCreateRequest { key: start.to_owned().into(), range_end: end.to_owned().into(), ..Default::default() }
}

fn told(answer: &WatchResponse) -> (i64, Vec<i64>) {
    (answer.watch_id, answer.events.iter().map(|event| event.kv.as_ref().unwrap().mod_revision).collect())
}

fn revision(answer: &WatchResponse) -> Revision {
    convert::header_revision(answer.header.as_ref())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watches_of_one_stream_are_told_each_its_own() {
    let mut place = Place::open().await;
    let first = place.put("a").await.0.cast_signed();
    assert_eq!(place.put("b").await.0.cast_signed(), first + 1);
    for (id, create) in [of("a", ""), of("b", "c"), of("a", "z")].into_iter().enumerate() {
        let created = place.create(create).await;
        assert!(created.created && !created.canceled);
        assert_eq!(created.watch_id, id as i64);
    }
    let taken = place.create(WatchCreateRequest { watch_id: 2, ..of("x", "") }).await;
    assert!(taken.created && taken.canceled && taken.cancel_reason.contains("duplicate watch ID"), "{taken:?}");
    let past = place.create(WatchCreateRequest { watch_id: 77, start_revision: first, ..of("a", "c") }).await;
    assert_eq!((past.watch_id, past.created), (77, true));
    assert_eq!(told(&place.answer().await), (77, vec![first, first + 1]));

    place.put("a").await;
    let mut answers = BTreeMap::new();
    for _ in 0..3 {
        answers.extend([told(&place.answer().await)]);
    }
    let news = vec![first + 2];
    assert_eq!(answers, BTreeMap::from([(0, news.clone()), (2, news.clone()), (77, news)]));

    for watch_id in [2, 77] {
        place.ask(RequestUnion::CancelRequest(WatchCancelRequest { watch_id })).await;
        let cancelled = place.answer().await;
        assert_eq!((cancelled.watch_id, cancelled.canceled), (watch_id, true));
    }
    place.put("b").await;
    assert_eq!(told(&place.answer().await), (1, vec![first + 3]));
    assert_eq!(place.group.watch_stats().watches, 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_asks_for_nothing_more_still_listens() {
    let mut place = Place::open().await;
    place.create(of("a", "")).await;
    let (closed, _) = mpsc::channel(1);
    drop(std::mem::replace(&mut place.requests, closed));
    for _ in 0..3 {
        let revision = place.put("a").await;
        let told_now = tokio::time::timeout(DEADLINE, place.answer()).await.unwrap();
        assert_eq!(told(&told_now), (0, vec![revision.0.cast_signed()]));
    }
    assert_eq!(place.group.watch_stats().watches, 1);
    // The watch goes with the client.
    drop(place.answers);
    let gone = async {
        while place.group.watch_stats().watches > 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(DEADLINE, gone).await.unwrap();
    place.group.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn progress_of_all_comes_after_every_event_before_it() {
    let mut place = Place::open().await;
    for _ in 0..20 {
        place.create(of("a", "")).await;
    }
    place.create(of("b", "")).await;
    place.put("a").await;
    let newest = place.put("x").await;
    place.ask(RequestUnion::ProgressRequest(WatchProgressRequest {})).await;
    let mut events = 0;
    let progress = loop {
        let answer = place.answer().await;
        if answer.watch_id == ALL {
            break answer;
        }
        events += answer.events.len();
    };
    assert_eq!((events, progress.events.len()), (20, 0));
    assert!(revision(&progress) >= newest, "{progress:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_compacted_is_refused_with_the_oldest_revision() {
    let mut place = Place::open().await;
    place.put("a").await;
    let newest = place.put("a").await;
    place.group.compact(newest).await.unwrap();
    let created = place.create(WatchCreateRequest { start_revision: 1, ..of("a", "") }).await;
    assert!(created.created && !created.canceled);
    let refused = place.answer().await;
    assert!(refused.canceled, "{refused:?}");
    assert_eq!(refused.compact_revision, newest.0.cast_signed());
    assert_eq!(refused.cancel_reason, "");
    // The stream goes on; the number stays taken until it is cancelled.
    let again = || WatchCreateRequest { watch_id: 9, start_revision: 1, ..of("a", "") };
    assert_eq!(place.create(again()).await.watch_id, 9);
    assert_eq!(place.answer().await.watch_id, 9);
    let taken = place.create(again()).await;
    let reason = "mvcc: duplicate watch ID provided on the WatchStream";
    assert_eq!((taken.watch_id, &taken.cancel_reason[..]), (ALL, reason));
    place.ask(RequestUnion::CancelRequest(WatchCancelRequest { watch_id: 9 })).await;
    assert!(place.answer().await.canceled);
    let free = place.create(WatchCreateRequest { start_revision: -5, ..again() }).await;
    assert!(free.created && !free.canceled);
    assert!(place.answer().await.canceled, "what is before the first revision is compacted, too");
    let negative = place.create(WatchCreateRequest { watch_id: -3, ..of("z", "") }).await;
    assert_eq!((negative.watch_id, negative.created, negative.canceled), (-3, true, false));
    let created = place.create(WatchCreateRequest { watch_id: refused.watch_id + 1, ..of("a", "") }).await;
    assert!(created.created && !created.canceled);
    let next = place.put("a").await;
    assert_eq!(told(&place.answer().await), (created.watch_id, vec![next.0.cast_signed()]));
}
