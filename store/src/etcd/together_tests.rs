//! Which transactions go together, with calls that the test answers.

use super::*;
use crate::api::{Op, Revision};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// A call on its way: the keys that it writes, and its answer.
type Call = (Vec<String>, oneshot::Sender<Result<u64, StoreError>>);

struct Bench {
    together: Arc<Together>,
    calls: mpsc::UnboundedReceiver<Call>,
    sender: mpsc::UnboundedSender<Call>,
}

impl Bench {
    fn new() -> Self {
        let (sender, calls) = mpsc::unbounded_channel();
        Self { together: Arc::default(), calls, sender }
    }

    /// Asks for a write of `bytes`; waits until it is in the queue, or on its way.
    async fn ask(&self, key: &str, bytes: usize) -> JoinHandle<Outcome> {
        let txn = Txn { success: vec![Op::put(key.to_owned(), vec![7; bytes])], ..Txn::default() };
        let (together, sender) = (self.together.clone(), self.sender.clone());
        let asked = tokio::spawn(async move { together.txn(txn, move |txns| answer(sender.clone(), txns)).await });
        // The test's runtime has one thread: everything that can go on does so.
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
        asked
    }

    /// The next call; none where everything waits.
    async fn call(&mut self) -> Option<Call> {
        tokio::time::timeout(Duration::from_millis(1), self.calls.recv()).await.ok().flatten()
    }
}

/// Tells the test of a call, and answers every transaction of it as the test says: a revision, counted on, or the error.
async fn answer(sender: mpsc::UnboundedSender<Call>, txns: Vec<Txn>) -> Vec<Outcome> {
    let key = |txn: &Txn| match &txn.success[0] {
        Op::Put(put) => String::from_utf8(put.key.to_vec()).unwrap(),
        _ => unreachable!("only puts are asked for"),
    };
    let (tell, told) = oneshot::channel();
    sender.send((txns.iter().map(key).collect(), tell)).unwrap();
    let first = told.await.unwrap();
    let reply = |at: usize| {
        let revision = Revision(first.clone()? + at as u64);
        Ok(TxnReply { succeeded: true, revision, ops: vec![] })
    };
    (0..txns.len()).map(reply).collect()
}

#[tokio::test(start_paused = true)]
async fn what_comes_while_calls_are_on_their_way_goes_together() {
    let mut bench = Bench::new();
    let mut asked = Vec::new();
    for key in ["a", "b", "c", "d", "e"] {
        asked.push(bench.ask(key, 1).await);
    }
    let (keys, first) = bench.call().await.unwrap();
    assert_eq!(keys, ["a"], "nobody waits for company");
    let (keys, second) = bench.call().await.unwrap();
    assert_eq!(keys, ["b"]);
    assert!(bench.call().await.is_none());
    second.send(Ok(10)).unwrap();
    let (keys, third) = bench.call().await.unwrap();
    assert_eq!(keys, ["c", "d", "e"]);
    third.send(Ok(20)).unwrap();
    first.send(Ok(30)).unwrap();
    for (asked, expect) in asked.into_iter().zip([30, 10, 20, 21, 22]) {
        assert_eq!(asked.await.unwrap().unwrap().revision, Revision(expect));
    }
    assert_eq!(bench.together.queue.lock().calls, 0);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_fails_fails_its_own_only() {
    let mut bench = Bench::new();
    let (a, b) = (bench.ask("a", 1).await, bench.ask("b", 1).await);
    let (c, d) = (bench.ask("c", 1).await, bench.ask("d", 1).await);
    let (_, first) = bench.call().await.unwrap();
    let (_, second) = bench.call().await.unwrap();
    first.send(Err(StoreError::Unknown("lost".into()))).unwrap();
    let (_, third) = bench.call().await.unwrap();
    // One that ends without an answer, as when the process ends.
    drop(third);
    second.send(Ok(1)).unwrap();
    assert!(matches!(a.await.unwrap(), Err(StoreError::Unknown(why)) if why == "lost"));
    assert!(b.await.unwrap().is_ok());
    for asked in [c, d] {
        assert!(matches!(asked.await.unwrap(), Err(StoreError::Unknown(_))));
    }
    // Others are not kept waiting by it.
    assert_eq!(bench.together.queue.lock().calls, 0);
    let e = bench.ask("e", 1).await;
    let (keys, call) = bench.call().await.unwrap();
    assert_eq!(keys, ["e"]);
    call.send(Ok(2)).unwrap();
    assert!(e.await.unwrap().is_ok());
}

#[tokio::test(start_paused = true)]
async fn who_left_is_not_asked_for() {
    let mut bench = Bench::new();
    let (_a, _b) = (bench.ask("a", 1).await, bench.ask("b", 1).await);
    let (c, d) = (bench.ask("c", 1).await, bench.ask("d", 1).await);
    let (_, first) = bench.call().await.unwrap();
    c.abort();
    first.send(Ok(1)).unwrap();
    let (_, second) = bench.call().await.unwrap();
    let (keys, third) = bench.call().await.unwrap();
    assert_eq!(keys, ["d"]);
    third.send(Ok(2)).unwrap();
    assert!(d.await.unwrap().is_ok());
    drop(second);
}

#[tokio::test(start_paused = true)]
async fn a_call_is_no_larger_than_a_batch() {
    let mut bench = Bench::new();
    let (_a, _b) = (bench.ask("a", 1).await, bench.ask("b", 1).await);
    for at in 0..12 {
        bench.ask(&format!("large-{at}"), 1 << 20).await;
    }
    let (_, first) = bench.call().await.unwrap();
    let _second = bench.call().await.unwrap();
    first.send(Ok(1)).unwrap();
    let (keys, third) = bench.call().await.unwrap();
    assert_eq!(keys.len(), 8);
    third.send(Ok(2)).unwrap();
    assert_eq!(bench.call().await.unwrap().0.len(), 4);
}
