//! What clients ask and watchers watch: puts, deletes, reads and transactions over a few keys, of one member or of whichever
//! answers. They decide nothing about whether an answer is right.

use crate::dice::Dice;
use crate::record::{HEAVY, Record, from_batch, from_range, from_reply, to_range, to_txn};
use gantry_history::{Asker, Dice as _, End, Operation, Outcome, Request, Session, Span, Watch, everything};
use gantry_store::{RangeRequest, RemoteStore, Revision, Store, StoreError, WatchRequest};
use std::sync::Arc;
use std::time::Duration;

/// How long a client waits for an answer.
const PATIENCE: Duration = Duration::from_secs(3);
/// How long a watcher hears nothing before it asks how far the member is.
const QUIET: Duration = Duration::from_millis(50);

/// Ways to the members: whichever answers first, then each alone.
#[derive(Clone)]
pub struct Ways {
    pub any: RemoteStore,
    pub each: Vec<RemoteStore>,
}

impl Ways {
    /// One of them, and its number; 0 is whichever answers.
    fn pick(&self, dice: &mut Dice) -> (RemoteStore, u64) {
        match dice.below(5) {
            0 | 1 => (self.any.clone(), 0),
            _ => {
                let at = dice.below(self.each.len() as u64);
                (self.each[at as usize].clone(), at + 1)
            }
        }
    }
}

/// One client: it asks, waits and asks again.
pub struct Client {
    record: Arc<Record>,
    ways: Ways,
    dice: Dice,
    number: usize,
    asker: Asker,
}

impl Client {
    pub fn new(record: Arc<Record>, ways: Ways, dice: Dice, number: usize) -> Self {
        Self { record, ways, dice, number, asker: Asker::new(number, None) }
    }

    pub async fn run(mut self) {
        while !self.record.over() {
            tokio::time::sleep(Duration::from_millis(self.dice.between(5, 60))).await;
            let (way, member) = self.ways.pick(&mut self.dice);
            if self.dice.percent(1) {
                self.compact(&way).await;
                continue;
            }
            self.asker.mark = if self.record.is_heavy() && self.dice.percent(60) { HEAVY } else { "" };
            let request = self.asker.request(&mut self.dice);
            if self.ask(&way, member, request).await == Outcome::Unknown {
                // Writes of unknown outcome are what the checker has to search for.
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
        }
    }

    async fn ask(&mut self, way: &RemoteStore, member: u64, request: Request) -> Outcome {
        let outcome = ask(&self.record, way, (self.number, member), request.clone()).await;
        self.asker.learn(&request, &outcome);
        outcome
    }

    async fn compact(&mut self, way: &RemoteStore) {
        let revision = self.asker.compaction(60, &mut self.dice);
        self.record.write(|history| history.compacted_to = history.compacted_to.max(revision));
        // Whether it is done shows in what is refused later.
        let _ = tokio::time::timeout(PATIENCE, way.compact(Revision(revision))).await;
    }
}

/// Asks and writes down what came of it.
pub async fn ask(record: &Record, way: &RemoteStore, (client, member): (usize, u64), request: Request) -> Outcome {
    let sent = record.moment();
    let call = async {
        match &request {
            Request::Txn(txn) => way.txn(to_txn(txn)).await.map(|reply| {
                let replies = reply.ops.into_iter().map(from_reply).collect();
                (reply.revision.0, reply.succeeded, replies)
            }),
            Request::Lease(_) => unreachable!("no client here has leases"),
            Request::Read { span, at, serializable } => {
                let revision = at.map(Revision);
                let range = RangeRequest { revision, serializable: *serializable, ..to_range(span) };
                way.range(range).await.map(|reply| (reply.revision.0, true, vec![from_range(&reply)]))
            }
        }
    };
    let outcome = match tokio::time::timeout(PATIENCE, call).await {
        Err(_) => Outcome::Unknown,
        Ok(Ok((revision, succeeded, replies))) => Outcome::Done { revision, succeeded, replies },
        Ok(Err(error)) => record.outcome_of(&error),
    };
    let ended = record.moment();
    let operation = Operation { client, member, sent, ended, request, outcome: outcome.clone() };
    record.write(|history| history.operations.push(operation));
    outcome
}

/// One watcher of one way: it follows a span over every disconnection, and sometimes begins anew somewhere in the past.
pub async fn watch(record: Arc<Record>, (way, member): (RemoteStore, u64), mut dice: Dice) {
    let mut newest = 1;
    while !record.over() {
        let span = if dice.percent(70) { everything() } else { dice.span() };
        let asked = (span, dice.percent(50));
        let number = begin(&record, &asked);
        let mut next = dice.between(newest / 2 + 1, newest + 2);
        for _ in 0..dice.between(2, 8) {
            let stay = Duration::from_millis(dice.between(50, 5_000));
            let progress = dice.percent(50);
            next = session(&record, &way, (number, member), &asked, next, Until::Time(stay, progress)).await;
            newest = newest.max(next);
            tokio::time::sleep(Duration::from_millis(dice.between(1, 300))).await;
            if record.over() {
                return;
            }
        }
    }
}

fn begin(record: &Record, (span, prev): &(Span, bool)) -> usize {
    record.write(|history| {
        history.watches.push(Watch { span: span.clone(), prev: *prev, sessions: Vec::new() });
        history.watches.len() - 1
    })
}

/// When a watcher leaves by itself.
#[derive(Clone, Copy)]
enum Until {
    /// After this time; it asks for progress on the way or not.
    Time(Duration, bool),
    /// When everything up to this revision was delivered.
    Revision(u64),
}

/// Watches everything from one member from `from` until it has been told of `until`. Answers how far it came.
pub async fn watch_whole(record: &Record, (way, member): (&RemoteStore, u64), from: u64, until: u64) -> u64 {
    let asked = (everything(), true);
    let number = begin(record, &asked);
    session(record, way, (number, member), &asked, from, Until::Revision(until)).await.saturating_sub(1)
}

/// Watches until that ends; answers where to go on.
async fn session(
    record: &Record,
    way: &RemoteStore,
    (number, member): (usize, u64),
    (span, prev): &(Span, bool),
    from: u64,
    until: Until,
) -> u64 {
    let range = to_range(span);
    let request = WatchRequest { start: range.start, end: range.end, from: Revision(from), prev_kv: *prev };
    let mut session = Session { member, from, batches: Vec::new(), end: End::Broken };
    let mut next = from;
    let (stay, progress) = match until {
        Until::Time(stay, progress) => (stay, progress),
        Until::Revision(_) => (PATIENCE * 3, true),
    };
    let leave = tokio::time::Instant::now() + stay;
    let watching = tokio::time::timeout_at(leave, way.watch(request)).await;
    let end = match watching {
        Err(_) => None,
        Ok(Err(error)) => Some(error),
        Ok(Ok(mut watch)) => loop {
            if matches!(until, Until::Revision(last) if next > last) || tokio::time::Instant::now() >= leave {
                break None;
            }
            match tokio::time::timeout(QUIET, watch.next()).await {
                Ok(Some(Ok(batch))) => {
                    next = next.max(batch.revision.0 + 1);
                    session.batches.push(from_batch(&batch, record.moment()));
                }
                Ok(Some(Err(error))) => break Some(error),
                Ok(None) => break None,
                Err(_) if progress => watch.request_progress(),
                Err(_) => {}
            }
        },
    };
    if let Some(StoreError::Compacted { oldest, .. }) = end {
        session.end = End::Compacted { oldest: oldest.0 };
        next = oldest.0;
    }
    record.write(|history| history.watches[number].sessions.push(session));
    next
}
