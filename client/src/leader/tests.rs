//! Electing against a server that the test plays, with conditional writes as the real one does them.

use std::sync::atomic::{AtomicU32, Ordering};

use gantry_apimachinery::clock::FakeClock;
use gantry_apimachinery::time::Timestamp;
use parking_lot::Mutex;
use serde_json::Value;

use super::*;
use crate::mock::{self, Answer, failure};

/// One lease, and whether the server answers at all.
#[derive(Default)]
struct Server {
    lease: Option<Value>,
    version: u64,
    away: bool,
}

impl Server {
    fn answer(&mut self, request: &mock::Seen) -> Answer {
        if self.away {
            return Answer::Never;
        }
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
                self.version += 1;
                let mut lease = request.body.clone();
                lease["metadata"]["resourceVersion"] = json!(self.version.to_string());
                self.lease = Some(lease.clone());
                Answer::Json(200, lease)
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
