//! What clients and watchers do, and what they write down about it. A client that gives up waiting writes "unknown".

use super::dice::Fate;
use super::words::{Numbers, from_batch, from_error, from_range, from_reply, to_range, to_txn};
use super::world::World;
use super::{dice, moment, trace};
use crate::api::{RangeRequest, Revision, Store, StoreError, WatchRequest};
use crate::group::Group;
use crate::mvcc::Command;
use gantry_history::{Asker, Dice, End, LeaseRequest, Operation, Outcome, Request, SECOND, Session, Watch, everything};
use std::sync::Arc;
use std::time::Duration;

/// How long a client waits for an answer.
const PATIENCE: Duration = Duration::from_secs(4);
/// Seconds; some end while a member is cut off.
const TTL_S: (u64, u64) = (2, 5);

/// One client: it asks, waits and asks again, of any member.
pub struct Client {
    world: Arc<World>,
    number: usize,
    asker: Asker,
    numbers: Numbers,
}

impl Client {
    pub fn new(world: Arc<World>, number: usize) -> Self {
        Self { world, number, asker: Asker::new(number, Some(TTL_S)), numbers: Numbers::default() }
    }

    pub async fn run(mut self) {
        while !self.world.over() {
            tokio::time::sleep(Duration::from_micros(dice::between(1_000, 150_000))).await;
            if dice::percent(2) {
                self.compact().await;
            } else {
                let request = self.asker.request(&mut Fate);
                self.ask(self.world.some_member(), request).await;
            }
        }
    }

    /// Asks a member and writes down what came of it.
    pub async fn ask(&mut self, member: u64, request: Request) -> Option<Outcome> {
        let (group, alive) = self.world.group(member)?;
        self.numbers.ask(&request);
        let sent = moment();
        let outcome = tokio::select! {
            biased;
            () = alive.cancelled() => Outcome::Unknown,
            answer = tokio::time::timeout(PATIENCE, ask(&group, &request, &self.numbers)) => match answer {
                Err(_) => Outcome::Unknown,
                Ok(answer) => answer.unwrap_or_else(|error| {
                    self.world.hear(member, &error);
                    from_error(&error)
                }),
            },
        };
        drop(group);
        let ended = moment();
        self.asker.learn(&request, &outcome);
        self.numbers.learn(&request, &outcome);
        if let Outcome::Done { revision, .. } = outcome {
            trace(revision);
        }
        trace(ended ^ member << 50);
        let operation = Operation { client: self.number, member, sent, ended, request, outcome: outcome.clone() };
        self.world.history.lock().operations.push(operation);
        Some(outcome)
    }

    /// Whether a member takes a write.
    pub async fn writes(&mut self, member: u64) -> Result<(), String> {
        let request = self.asker.write();
        match self.ask(member, request).await {
            Some(Outcome::Done { .. }) => Ok(()),
            other => Err(format!("member {member} answers a write with {other:?}")),
        }
    }

    async fn compact(&mut self) {
        let Some((group, _)) = self.world.group(self.world.some_member()) else { return };
        let revision = self.asker.compaction(12, &mut Fate);
        {
            let mut history = self.world.history.lock();
            history.compacted_to = history.compacted_to.max(revision);
        }
        // Whether it is done shows in what is refused later.
        let _ = tokio::time::timeout(PATIENCE, group.compact(Revision(revision))).await;
    }
}

async fn ask(group: &Group, request: &Request, numbers: &Numbers) -> Result<Outcome, StoreError> {
    let done = |revision: Revision, succeeded, replies| Outcome::Done { revision: revision.0, succeeded, replies };
    Ok(match request {
        Request::Txn(txn) => {
            let reply = group.txn(to_txn(txn, numbers)).await?;
            done(reply.revision, reply.succeeded, reply.ops.into_iter().map(from_reply).collect())
        }
        Request::Read { span, at, serializable } => {
            let range = RangeRequest { revision: at.map(Revision), serializable: *serializable, ..to_range(span) };
            let read = group.range(range).await?;
            done(read.revision, true, vec![from_range(&read)])
        }
        Request::Lease(LeaseRequest::Grant { lease: number, ttl }) => {
            let grant = Command::Grant { id: numbers.lease(*number), ttl_s: ttl.div_ceil(SECOND).cast_signed() };
            done(group.command(grant).await?, true, vec![])
        }
        Request::Lease(LeaseRequest::Revoke { lease: number }) => {
            done(group.command(Command::Revoke { id: numbers.lease(*number) }).await?, true, vec![])
        }
        Request::Lease(LeaseRequest::Renew { lease: number }) => {
            let standing = group.handle().lease(numbers.lease(*number), true).await?;
            if standing.left_s > 0 { Outcome::Renewed } else { Outcome::NoLease }
        }
    })
}

/// One watcher: it follows a span over every disconnection, and sometimes begins anew somewhere in the past.
pub async fn watch(world: Arc<World>) {
    while !world.over() {
        let number = {
            let mut history = world.history.lock();
            let span = if dice::percent(70) { everything() } else { Fate.span() };
            history.watches.push(Watch { span, prev: dice::percent(50), sessions: Vec::new() });
            history.watches.len() - 1
        };
        let mut next = dice::between(1, world.newest() + 2);
        for _ in 0..dice::between(2, 12) {
            tokio::time::sleep(Duration::from_millis(dice::between(1, 400))).await;
            next = session(&world, number, next).await;
        }
    }
}

/// Watches at one member until that ends; answers where to go on.
async fn session(world: &World, number: usize, from: u64) -> u64 {
    let member = world.some_member();
    let Some((group, alive)) = world.group(member) else { return from };
    let (span, prev) = {
        let history = world.history.lock();
        (history.watches[number].span.clone(), history.watches[number].prev)
    };
    let range = to_range(&span);
    let asked = WatchRequest { start: range.start, end: range.end, from: Revision(from), prev_kv: prev };
    let mut session = Session { member, from, batches: Vec::new(), end: End::Broken };
    let mut next = from;
    let leave = tokio::time::Instant::now() + Duration::from_millis(dice::between(50, 4_000));
    let end = match group.watch(asked).await {
        Err(error) => Some(error),
        Ok(mut watch) => loop {
            if dice::percent(20) {
                watch.request_progress();
            }
            tokio::select! {
                biased;
                () = alive.cancelled() => break None,
                () = tokio::time::sleep_until(leave) => break None,
                batch = watch.next() => match batch {
                    Some(Ok(batch)) => {
                        next = next.max(batch.revision.0 + 1);
                        trace(batch.revision.0 << 8 ^ batch.events.len() as u64);
                        session.batches.push(from_batch(&batch, prev));
                    }
                    Some(Err(error)) => break Some(error),
                    None => break None,
                },
            }
        },
    };
    if let Some(error) = &end {
        world.hear(member, error);
    }
    if let Some(StoreError::Compacted { oldest, .. }) = end {
        session.end = End::Compacted { oldest: oldest.0 };
        next = oldest.0;
    }
    world.history.lock().watches[number].sessions.push(session);
    next
}
