//! Writes that a follower passes on: one stream to the leader, an answer to each by its number. It decides what the stream's
//! end means: the fate of what was sent is unknown, what still waited was not done. It sends nothing twice.

use super::line::Answers;
use super::{ForwardError, Peers, wire};
use crate::mvcc::{Entry, Reply};
use crate::proto::Frame;
use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{FutureExt, Stream, StreamExt};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tonic::Status;

/// Batches that wait to be sent. A full queue makes callers wait.
const QUEUE: usize = 64;
/// How long the leader may take over a batch before its stream is given up: longer than it takes itself to give up one that
/// finds no majority, which shall not end the stream of the others.
const PATIENCE: Duration = Duration::from_secs(12);

type Outcome = Result<Vec<Reply>, ForwardError>;

/// A batch that was not sent yet. Whoever drops it tells so: its answer's other end hears nothing.
struct Waiting {
    number: u64,
    body: Bytes,
    answer: oneshot::Sender<Outcome>,
}

/// One stream to a leader, of one term.
#[derive(Clone)]
pub struct Way {
    leader: u64,
    term: u64,
    queue: mpsc::Sender<Waiting>,
    end: CancellationToken,
}

impl Way {
    /// Waits for the leader no longer: what was sent is unknown, what waits is not sent.
    pub fn end(&self) {
        self.end.cancel();
    }
}

/// Keeps one stream to the last leader that it was told of.
pub struct Forwarder {
    peers: Peers,
    next: AtomicU64,
    stream: Mutex<Option<Way>>,
}

impl Forwarder {
    pub fn new(peers: Peers) -> Self {
        Self { peers, next: AtomicU64::new(0), stream: Mutex::new(None) }
    }

    pub async fn propose(&self, way: &Way, entry: &Entry) -> Outcome {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let (answer, outcome) = oneshot::channel();
        let waiting = Waiting { number, body: wire::put_forward(number, entry).into(), answer };
        let not_sent = || ForwardError::Unreachable("the stream to the leader ended before this was sent".into());
        way.queue.send(waiting).await.map_err(|_| not_sent())?;
        outcome.await.unwrap_or_else(|_| Err(not_sent()))
    }

    /// The stream to `leader`, begun anew if that ended. One to another member, or of another term, ends with what it has.
    pub fn way(&self, leader: u64, term: u64) -> Way {
        let mut stream = self.stream.lock();
        if let Some(way) = &*stream
            && (way.leader, way.term) == (leader, term)
            && !way.queue.is_closed()
        {
            return way.clone();
        }
        let (queue, waiting) = mpsc::channel(QUEUE);
        let way = Way { leader, term, queue, end: CancellationToken::new() };
        *stream = Some(way.clone());
        // If nobody knows where it is, what waits is dropped.
        if let Some(line) = self.peers.line(leader) {
            let open = |batches| line.propose_stream(batches).boxed();
            tokio::spawn(run(self.peers.clone(), leader, waiting, way.end.clone(), open));
        }
        way
    }
}

/// What was sent and not answered. Its end is unknown if nobody tells it.
struct Pending {
    since: Instant,
    answer: Option<oneshot::Sender<Outcome>>,
}

impl Drop for Pending {
    fn drop(&mut self) {
        if let Some(answer) = self.answer.take() {
            let unknown = ForwardError::Unknown("the stream to the leader ended before it answered".into());
            // Whoever asked may have gone.
            let _ = answer.send(Err(unknown));
        }
    }
}

struct Open {
    waiting: mpsc::Receiver<Waiting>,
    pending: BTreeMap<u64, Pending>,
}

/// What a stream holds; `None` once it has ended, and then nothing is sent any more.
#[derive(Clone)]
struct Sent(Arc<Mutex<Option<Open>>>);

impl Sent {
    /// The next batch to send, which is pending from now on.
    fn poll_next(&self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let mut open = self.0.lock();
        let Some(open) = &mut *open else { return Poll::Ready(None) };
        let next = ready!(open.waiting.poll_recv(cx));
        Poll::Ready(next.map(|Waiting { number, body, answer }| {
            open.pending.insert(number, Pending { since: Instant::now(), answer: Some(answer) });
            body
        }))
    }

    fn answer(&self, number: u64, outcome: Outcome) {
        let pending = self.0.lock().as_mut().and_then(|open| open.pending.remove(&number));
        if let Some(answer) = pending.and_then(|mut pending| pending.answer.take()) {
            // Whoever asked may have gone.
            let _ = answer.send(outcome);
        }
    }

    /// Until when the next answer has to come; a stream that owes none may be silent.
    fn deadline(&self) -> Instant {
        let sent = self.0.lock();
        let oldest = sent.as_ref().and_then(|open| open.pending.values().map(|pending| pending.since).min());
        oldest.unwrap_or_else(Instant::now) + PATIENCE
    }
}

/// What the connection takes from the queue, frame by frame.
pub struct Batches {
    peers: Peers,
    leader: u64,
    sent: Sent,
}

impl Stream for Batches {
    type Item = Frame;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Frame>> {
        let body = ready!(self.sent.poll_next(cx));
        Poll::Ready(body.map(|body| self.peers.frame(self.leader, body)))
    }
}

/// Sends what waits over one stream and hands out the answers until it ends.
async fn run(
    peers: Peers,
    leader: u64,
    waiting: mpsc::Receiver<Waiting>,
    ended: CancellationToken,
    open: impl FnOnce(Batches) -> BoxFuture<'static, Result<Answers, Status>>,
) {
    let sent = Sent(Arc::new(Mutex::new(Some(Open { waiting, pending: BTreeMap::new() }))));
    let batches = Batches { peers: peers.clone(), leader, sent: sent.clone() };
    let opened = async {
        match tokio::time::timeout(PATIENCE, open(batches)).await {
            Err(_) => "the leader did not answer in time".to_owned(),
            Ok(Err(status)) => status.to_string(),
            Ok(Ok(answers)) => hand_out(&peers, answers, &sent).await,
        }
    };
    let end = tokio::select! {
        biased;
        () = ended.cancelled() => "it leads no more".to_owned(),
        end = opened => end,
    };
    drop(sent.0.lock().take());
    tracing::debug!(leader, end, "the stream of writes to the leader ended");
}

async fn hand_out(peers: &Peers, mut answers: Answers, sent: &Sent) -> String {
    loop {
        let deadline = sent.deadline();
        let frame = match tokio::time::timeout_at(deadline, answers.next()).await {
            // What was sent since has its own deadline.
            Err(_) if sent.deadline() > deadline => continue,
            Err(_) => return "the leader did not answer in time".to_owned(),
            Ok(None) => return "the leader ended it".to_owned(),
            Ok(Some(Err(status))) => return status.to_string(),
            Ok(Some(Ok(frame))) => frame,
        };
        match peers.check(frame).map(wire::forwarded) {
            Ok(Ok((number, outcome))) => sent.answer(number, outcome),
            Ok(Err(error)) => return format!("the leader's answer cannot be decoded: {error}"),
            Err(refusal) => return refusal.to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::{Revision, StoreError};
    use crate::group::ProposeError;
    use crate::hub::Hub;
    use crate::mvcc::Mvcc;
    use crate::raft::roster::Roster;

    fn peers(member: u64) -> Peers {
        Peers::new("state", member, Hub::new(Mvcc::default()), None, Roster::new(&BTreeMap::new()))
    }

    /// A leader that a test speaks for.
    struct Leader {
        peers: Peers,
        frames: Batches,
        answers: mpsc::Sender<Result<Frame, Status>>,
    }

    impl Leader {
        /// The number of the next batch that comes.
        async fn hear(&mut self) -> Option<u64> {
            let frame = self.frames.next().await?;
            Some(wire::forward(self.peers.check(frame).unwrap()).unwrap().0)
        }

        async fn say(&self, number: u64, outcome: Result<Vec<Reply>, ProposeError>) {
            let frame = self.peers.frame(0, wire::put_forwarded(number, &outcome));
            self.answers.send(Ok(frame)).await.unwrap();
        }
    }

    /// A queue whose stream's other end the test holds, and the stream's end.
    async fn begin() -> (mpsc::Sender<Waiting>, Leader, tokio::task::JoinHandle<()>) {
        begin_until(CancellationToken::new()).await
    }

    async fn begin_until(end: CancellationToken) -> (mpsc::Sender<Waiting>, Leader, tokio::task::JoinHandle<()>) {
        let (queue, waiting) = mpsc::channel(QUEUE);
        let (opened, frames) = oneshot::channel();
        let (answers, told) = mpsc::channel(QUEUE);
        let ended = tokio::spawn(async move {
            let open = |frames| {
                assert!(opened.send(frames).is_ok());
                let answers: Answers = tokio_stream::wrappers::ReceiverStream::new(told).boxed();
                async move { Ok(answers) }.boxed()
            };
            run(peers(1), 2, waiting, end, open).await
        });
        (queue, Leader { peers: peers(2), frames: frames.await.unwrap(), answers }, ended)
    }

    async fn put(queue: &mpsc::Sender<Waiting>, number: u64) -> oneshot::Receiver<Outcome> {
        let entry = Entry { time_ms: 0, commands: Vec::new() };
        let (answer, outcome) = oneshot::channel();
        let waiting = Waiting { number, body: wire::put_forward(number, &entry).into(), answer };
        queue.send(waiting).await.unwrap_or_else(|_| panic!("the stream goes on"));
        outcome
    }

    fn done(revision: u64) -> Result<Vec<Reply>, ProposeError> {
        Ok(vec![Reply::Done(Revision(revision))])
    }

    #[tokio::test]
    async fn each_is_answered_by_its_number() {
        let (queue, mut leader, _) = begin().await;
        let (one, two, three) = (put(&queue, 1).await, put(&queue, 2).await, put(&queue, 3).await);
        for number in 1..=3 {
            assert_eq!(leader.hear().await, Some(number), "nobody waits for an answer before sending the next");
        }
        leader.say(2, done(7)).await;
        leader.say(3, Err(ProposeError::NotLeader(Some(4)))).await;
        leader.say(1, Err(ProposeError::Store(StoreError::NoSpace))).await;
        assert!(matches!(two.await.unwrap().unwrap()[..], [Reply::Done(Revision(7))]));
        assert!(matches!(three.await.unwrap(), Err(ForwardError::NotLeader)));
        assert!(matches!(one.await.unwrap(), Err(ForwardError::Store(StoreError::NoSpace))));
    }

    #[tokio::test]
    async fn what_was_on_a_broken_stream_is_unknown_and_what_waited_was_not_done() {
        let (queue, mut leader, ended) = begin().await;
        let (sent, waiting) = (put(&queue, 1).await, put(&queue, 2).await);
        assert_eq!(leader.hear().await, Some(1));
        leader.answers.send(Err(Status::unavailable("broken"))).await.unwrap();
        ended.await.unwrap();
        assert!(matches!(sent.await.unwrap(), Err(ForwardError::Unknown(_))));
        assert!(waiting.await.is_err(), "nobody sent it");
        assert!(queue.is_closed());
        assert_eq!(leader.hear().await, None, "nothing is sent after the end");
    }

    #[tokio::test]
    async fn what_a_deposed_leader_has_is_unknown_at_once_and_what_waited_was_not_done() {
        let end = CancellationToken::new();
        let (queue, mut leader, ended) = begin_until(end.clone()).await;
        let (sent, waiting) = (put(&queue, 1).await, put(&queue, 2).await);
        assert_eq!(leader.hear().await, Some(1));
        end.cancel();
        ended.await.unwrap();
        assert!(matches!(sent.await.unwrap(), Err(ForwardError::Unknown(_))));
        assert!(waiting.await.is_err(), "nobody sent it");
        assert_eq!(leader.hear().await, None, "nothing is sent after the end");
    }

    #[tokio::test(start_paused = true)]
    async fn a_leader_that_does_not_answer_is_given_up_but_one_that_is_owed_nothing_may_be_silent() {
        let (queue, mut leader, ended) = begin().await;
        tokio::time::sleep(PATIENCE * 3).await;
        let first = put(&queue, 1).await;
        assert_eq!(leader.hear().await, Some(1));
        tokio::time::sleep(PATIENCE / 2).await;
        leader.say(1, done(2)).await;
        first.await.unwrap().unwrap();
        let second = put(&queue, 2).await;
        assert_eq!(leader.hear().await, Some(2));
        let heard = Instant::now();
        assert!(matches!(second.await.unwrap(), Err(ForwardError::Unknown(_))));
        assert_eq!(heard.elapsed().as_secs(), PATIENCE.as_secs());
        ended.await.unwrap();
    }

    #[tokio::test]
    async fn nothing_was_sent_to_a_member_that_cannot_be_reached() {
        let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
        let roster = Roster::new(&BTreeMap::from([(2, closed)]));
        let forwarder = Forwarder::new(Peers::new("state", 1, Hub::new(Mvcc::default()), None, roster));
        let entry = Entry { time_ms: 0, commands: Vec::new() };
        for (leader, what) in [(2, "nobody listens"), (3, "nobody knows its address")] {
            let outcome = forwarder.propose(&forwarder.way(leader, 1), &entry).await;
            assert!(matches!(outcome, Err(ForwardError::Unreachable(_))), "{what}: {outcome:?}");
        }
    }
}
