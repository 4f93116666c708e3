//! Electing against a server that the test plays, with conditional writes as the real one does them.

use std::sync::atomic::{AtomicU32, Ordering};

use gantry_apimachinery::clock::FakeClock;
use gantry_apimachinery::time::Timestamp;
use parking_lot::Mutex;
use serde_json::Value;

use super::*;
use crate::mock::{self, Answer, failure};

/// One lease, and how the server answers.
#[derive(Default)]
struct Server {
    lease: Option<Value>,
    version: u64,
    away: bool,
    /// Writes are carried out, but nobody hears of it.
    mute: bool,
    /// Whole writes take so long.
    slow: Option<(FakeClock, u64)>,
    /// A renewal that was under way comes through just before the next patch.
    renewal_under_way: bool,
}

impl Server {
    fn answer(&mut self, request: &mock::Seen) -> Answer {
        if self.away {
            return Answer::Never;
        }
        if request.method == "PATCH" && std::mem::take(&mut self.renewal_under_way) {
            self.stamp();
        }
        let answer = self.carry_out(request);
        if let (Some((clock, ms)), "PUT" | "POST") = (&self.slow, request.method.as_str()) {
            clock.advance_ms(*ms);
        }
        if self.mute && request.method != "GET" { Answer::Never } else { answer }
    }

    fn stamp(&mut self) {
        self.version += 1;
        if let Some(lease) = &mut self.lease {
            lease["metadata"]["resourceVersion"] = json!(self.version.to_string());
        }
    }

    fn carry_out(&mut self, request: &mock::Seen) -> Answer {
        let sent = request.body["metadata"]["resourceVersion"].as_str();
        match (request.method.as_str(), &mut self.lease) {
            ("GET", Some(lease)) => Answer::Json(200, lease.clone()),
            ("GET" | "PUT" | "PATCH", None) => failure(404, "NotFound"),
            ("POST", Some(_)) => failure(409, "AlreadyExists"),
            (_, Some(lease)) if lease["metadata"]["resourceVersion"].as_str() != sent => failure(409, "Conflict"),
            ("PATCH", Some(lease)) => {
                lease["spec"]["holderIdentity"] = request.body["spec"]["holderIdentity"].clone();
                Answer::Json(200, lease.clone())
            }
            _ => {
                self.lease = Some(request.body.clone());
                self.stamp();
                Answer::Json(200, self.lease.clone().unwrap_or_default())
            }
        }
    }
}

struct Fixture {
    server: Arc<Mutex<Server>>,
    clock: FakeClock,
}

impl Fixture {
    fn new() -> Self {
        Fixture { server: Arc::default(), clock: FakeClock::new(Timestamp::from_secs(1_700_000_000)) }
    }

    fn elector(&self, identity: &str) -> Elector {
        let server = self.server.clone();
        Elector {
            client: mock::client(move |request| server.lock().answer(&request)),
            ns: "kube-system".into(),
            name: "l".into(),
            election: Election::new(identity, Timing::USUAL),
            clock: Arc::new(self.clock.clone()),
        }
    }

    /// Both clocks move together, in steps that let every task run.
    async fn pass(&self, seconds: u64) {
        for _ in 0..seconds * 10 {
            self.clock.advance_ms(100);
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    fn holder(&self) -> String {
        self.server.lock().lease.as_ref().unwrap()["spec"]["holderIdentity"].as_str().unwrap().to_owned()
    }
}

/// Counts how many run at once; runs until cancelled.
fn task(running: &Arc<AtomicU32>) -> impl FnMut(CancellationToken) -> futures::future::BoxFuture<'static, ()> + use<> {
    let running = running.clone();
    move |token| {
        let running = running.clone();
        Box::pin(async move {
            running.fetch_add(1, Ordering::SeqCst);
            token.cancelled().await;
            running.fetch_sub(1, Ordering::SeqCst);
        })
    }
}

#[tokio::test(start_paused = true)]
async fn one_leads_and_hands_over_at_once_when_stopped() {
    let fixture = Fixture::new();
    let running: Arc<AtomicU32> = Arc::default();
    let (stop_a, stop_b) = (CancellationToken::new(), CancellationToken::new());
    let a = tokio::spawn(fixture.elector("a").run(stop_a.clone(), task(&running)));
    fixture.pass(1).await;
    let _b = tokio::spawn(fixture.elector("b").run(stop_b.clone(), task(&running)));
    fixture.pass(60).await;
    assert_eq!((fixture.holder().as_str(), running.load(Ordering::SeqCst)), ("a", 1));
    stop_a.cancel();
    a.await.unwrap();
    assert_eq!(fixture.holder(), "");
    fixture.pass(4).await;
    assert_eq!((fixture.holder().as_str(), running.load(Ordering::SeqCst)), ("b", 1));
    assert_eq!(fixture.server.lock().lease.as_ref().unwrap()["spec"]["leaseTransitions"], 1);
    stop_b.cancel();
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_cannot_renew_stops_before_another_may_start() {
    let fixture = Fixture::new();
    let (of_a, of_b): (Arc<AtomicU32>, Arc<AtomicU32>) = Default::default();
    let (stop_a, stop) = (CancellationToken::new(), CancellationToken::new());
    tokio::spawn(fixture.elector("a").run(stop_a.clone(), task(&of_a)));
    fixture.pass(1).await;
    assert_eq!(of_a.load(Ordering::SeqCst), 1);
    fixture.server.lock().away = true;
    fixture.pass(11).await;
    assert_eq!(of_a.load(Ordering::SeqCst), 0, "ten seconds after the last renewal was sent");
    // It would compete again, and may: the lease is still in its name. Here it has had enough.
    stop_a.cancel();
    fixture.server.lock().away = false;
    tokio::spawn(fixture.elector("b").run(stop.clone(), task(&of_b)));
    fixture.pass(10).await;
    assert_eq!(of_b.load(Ordering::SeqCst), 0, "it has seen the lease for less than its duration");
    fixture.pass(10).await;
    assert_eq!(of_b.load(Ordering::SeqCst), 1);
    stop.cancel();
}

#[tokio::test(start_paused = true)]
async fn a_lease_whose_writing_was_not_answered_is_given_back() {
    let fixture = Fixture::new();
    let (running, stop): (Arc<AtomicU32>, _) = (Arc::default(), CancellationToken::new());
    fixture.server.lock().mute = true;
    let a = tokio::spawn(fixture.elector("a").run(stop.clone(), task(&running)));
    fixture.pass(1).await;
    assert_eq!((fixture.holder().as_str(), running.load(Ordering::SeqCst)), ("a", 0), "it does not know");
    fixture.server.lock().mute = false;
    stop.cancel();
    tokio::time::timeout(Duration::from_secs(5), a).await.expect("ends").unwrap();
    assert_eq!(fixture.holder(), "");
}

#[tokio::test(start_paused = true)]
async fn a_renewal_under_way_does_not_keep_the_lease() {
    let fixture = Fixture::new();
    let (running, stop): (Arc<AtomicU32>, _) = (Arc::default(), CancellationToken::new());
    let a = tokio::spawn(fixture.elector("a").run(stop.clone(), task(&running)));
    fixture.pass(1).await;
    fixture.server.lock().renewal_under_way = true;
    stop.cancel();
    a.await.unwrap();
    assert_eq!(fixture.holder(), "");
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_was_written_too_late_begins_nothing() {
    let fixture = Fixture::new();
    let (begun, stop): (Arc<AtomicU32>, _) = (Arc::default(), CancellationToken::new());
    fixture.server.lock().slow = Some((fixture.clock.clone(), 11_000));
    let count = begun.clone();
    tokio::spawn(fixture.elector("a").run(stop.clone(), move |token| {
        count.fetch_add(1, Ordering::SeqCst);
        async move { token.cancelled().await }
    }));
    fixture.pass(5).await;
    assert_eq!((fixture.holder().as_str(), begun.load(Ordering::SeqCst)), ("a", 0), "it is over when it is known");
    fixture.server.lock().slow = None;
    fixture.pass(5).await;
    assert_eq!(begun.load(Ordering::SeqCst), 1);
    stop.cancel();
}

#[tokio::test(start_paused = true)]
async fn work_that_does_not_end_is_cut_off_before_another_may_start() {
    let fixture = Fixture::new();
    let stop = CancellationToken::new();
    let work = Arc::new(());
    let held = Arc::downgrade(&work);
    let mut work = Some(work);
    tokio::spawn(fixture.elector("a").run(stop.clone(), move |_| {
        let held = work.take();
        async move {
            std::future::pending::<()>().await;
            drop(held);
        }
    }));
    fixture.pass(1).await;
    fixture.server.lock().away = true;
    fixture.pass(12).await;
    assert_eq!(held.strong_count(), 1, "it may end what it began");
    fixture.pass(3).await;
    assert_eq!(held.strong_count(), 0, "fifteen seconds after the last renewal was sent");
    stop.cancel();
}
