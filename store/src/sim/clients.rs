//! What clients and watchers do, and what they write down about it. A client that gives up waiting writes "unknown".

use super::world::World;
use super::{dice, moment, trace};
use crate::api;
use crate::api::{Compare, RangeRequest, Revision, Store, StoreError, WatchBatch, WatchRequest};
use bytes::Bytes;
use gantry_history::{
    Batch, Condition, End, Event, KeyValue, Op, Operation, Outcome, Reply, Request, Session, Span, Target, Txn, Watch,
};
use std::sync::Arc;
use std::time::Duration;

const KEYS: u64 = 6;
/// How long a client waits for an answer.
const PATIENCE: Duration = Duration::from_secs(4);

fn key() -> String {
    format!("k{}", dice::below(KEYS))
}

fn everything() -> Span {
    Span { start: "k".into(), end: Some("l".into()) }
}

fn some_span() -> Span {
    if dice::percent(60) {
        return Span::key(key());
    }
    let (a, b) = (dice::below(KEYS), dice::below(KEYS));
    Span { start: format!("k{}", a.min(b)), end: Some(format!("k{}", a.max(b) + 1)) }
}

/// One client: it asks, waits and asks again, of any member.
pub struct Client {
    pub world: Arc<World>,
    pub number: usize,
    written: u64,
    /// A key's newest version as this client knows it: its revision and value.
    known: std::collections::BTreeMap<String, (u64, String)>,
    newest: u64,
}

impl Client {
    pub fn new(world: Arc<World>, number: usize) -> Self {
        Self { world, number, written: 0, known: std::collections::BTreeMap::new(), newest: 1 }
    }

    pub async fn run(mut self) {
        while !self.world.over() {
            tokio::time::sleep(Duration::from_micros(dice::between(1_000, 150_000))).await;
            if dice::percent(2) {
                self.compact().await;
            } else {
                let request = self.request();
                self.ask(dice::between(1, 4), request).await;
            }
        }
    }

    fn value(&mut self) -> String {
        self.written += 1;
        format!("{}.{}", self.number, self.written)
    }

    fn put(&mut self, key: String) -> Op {
        Op::Put { key, value: self.value() }
    }

    fn condition(&self) -> Condition {
        let key = key();
        let target = match self.known.get(&key) {
            Some((_, value)) if dice::percent(40) => Target::Value(value.clone()),
            Some((modified, _)) => Target::Modified(*modified),
            None => Target::Modified(0),
        };
        Condition { key, target }
    }

    fn request(&mut self) -> Request {
        let read = |span, at, serializable| Request::Read { span, at, serializable };
        let mut txn = Txn::default();
        match dice::below(100) {
            0..30 => txn.then.push(self.put(key())),
            30..38 => txn.then.push(Op::Delete(some_span())),
            38..55 => {
                let condition = self.condition();
                txn.then.push(self.put(condition.key.clone()));
                txn.otherwise.push(Op::Get(Span::key(condition.key.clone())));
                txn.conditions.push(condition);
            }
            55..67 => {
                txn.conditions = (0..dice::below(3)).map(|_| self.condition()).collect();
                let first = dice::below(KEYS - 1);
                txn.then =
                    vec![self.put(format!("k{first}")), Op::Get(everything()), self.put(format!("k{}", first + 1))];
                txn.otherwise = vec![Op::Delete(Span::key(key())), Op::Get(everything())];
            }
            67..85 => return read(some_span(), None, false),
            85..93 => return read(everything(), None, true),
            _ => return read(everything(), Some(dice::between(1, self.newest + 1)), false),
        }
        Request::Txn(txn)
    }

    /// Asks a member and writes down what came of it.
    pub async fn ask(&mut self, member: u64, request: Request) {
        let Some((group, alive)) = self.world.group(member) else { return };
        let sent = moment();
        let call = async {
            match &request {
                Request::Txn(txn) => group.txn(to_txn(txn)).await.map(|reply| {
                    let replies = reply.ops.into_iter().map(from_reply).collect();
                    (reply.revision.0, reply.succeeded, replies)
                }),
                Request::Read { span, at, serializable } => {
                    let range =
                        RangeRequest { revision: at.map(Revision), serializable: *serializable, ..to_range(span) };
                    let read = group.range(range).await;
                    read.map(|reply| (reply.revision.0, true, vec![from_range(reply)]))
                }
            }
        };
        let outcome = tokio::select! {
            biased;
            () = alive.cancelled() => Outcome::Unknown,
            answer = tokio::time::timeout(PATIENCE, call) => match answer {
                Err(_) => Outcome::Unknown,
                Ok(Ok((revision, succeeded, replies))) => Outcome::Done { revision, succeeded, replies },
                Ok(Err(StoreError::Compacted { oldest, .. })) => Outcome::Compacted { oldest: oldest.0 },
                Ok(Err(StoreError::Unavailable(_) | StoreError::Future { .. })) => Outcome::Refused,
                Ok(Err(_)) => Outcome::Unknown,
            },
        };
        drop(group);
        let ended = moment();
        self.learn(&request, &outcome);
        trace(ended ^ member << 50);
        let operation = Operation { client: self.number, member, sent, ended, request, outcome };
        self.world.history.lock().operations.push(operation);
    }

    fn learn(&mut self, request: &Request, outcome: &Outcome) {
        let Outcome::Done { revision, succeeded, replies } = outcome else { return };
        trace(*revision);
        self.newest = self.newest.max(*revision);
        for kv in
            replies.iter().filter_map(|reply| if let Reply::Got(kvs) = reply { Some(kvs) } else { None }).flatten()
        {
            self.known.insert(kv.key.clone(), (kv.modified, kv.value.clone()));
        }
        if let Request::Txn(Txn { then, .. }) = request
            && *succeeded
        {
            for op in then {
                if let Op::Put { key, value } = op {
                    self.known.insert(key.clone(), (*revision, value.clone()));
                }
            }
        }
    }

    async fn compact(&mut self) {
        let Some((group, _)) = self.world.group(dice::between(1, 4)) else { return };
        let revision = self.newest.saturating_sub(dice::below(12)).max(1);
        {
            let mut history = self.world.history.lock();
            history.compacted_to = history.compacted_to.max(revision);
        }
        // Whether it is done shows in what is refused later.
        let _ = tokio::time::timeout(PATIENCE, group.compact(Revision(revision))).await;
    }
}

fn to_txn(txn: &Txn) -> api::Txn {
    let compare = |condition: &Condition| match &condition.target {
        Target::Modified(revision) => Compare::unchanged(condition.key.clone(), Revision(*revision)),
        Target::Value(value) => Compare::has_value(condition.key.clone(), value.clone()),
    };
    let op = |op: &Op| match op {
        Op::Put { key, value } => api::Op::put(key.clone(), value.clone()),
        Op::Delete(span) => api::Op::Delete(api::Delete {
            start: span.start.clone().into(),
            end: span.end.clone().unwrap_or_default().into(),
            prev_kv: false,
        }),
        Op::Get(span) => api::Op::Range(to_range(span)),
    };
    api::Txn {
        compare: txn.conditions.iter().map(compare).collect(),
        success: txn.then.iter().map(op).collect(),
        failure: txn.otherwise.iter().map(op).collect(),
    }
}

fn to_range(span: &Span) -> RangeRequest {
    let end = span.end.clone().unwrap_or_default().into();
    RangeRequest { start: span.start.clone().into(), end, ..RangeRequest::default() }
}

fn from_reply(reply: api::OpReply) -> Reply {
    match reply {
        api::OpReply::Put { .. } => Reply::Put,
        api::OpReply::Delete { deleted, .. } => Reply::Deleted(deleted),
        api::OpReply::Range(range) => from_range(range),
        api::OpReply::Txn(_) => unreachable!("no client nests"),
    }
}

fn from_range(range: api::RangeReply) -> Reply {
    Reply::Got(range.kvs.iter().map(from_kv).collect())
}

fn text(bytes: &Bytes) -> String {
    String::from_utf8(bytes.to_vec()).expect("clients write text")
}

fn from_kv(kv: &api::KeyValue) -> KeyValue {
    KeyValue {
        key: text(&kv.key),
        value: text(&kv.value),
        created: kv.create_revision.0,
        modified: kv.mod_revision.0,
        version: kv.version,
    }
}

/// One watcher: it follows a span over every disconnection, and sometimes begins anew somewhere in the past.
pub async fn watch(world: Arc<World>) {
    while !world.over() {
        let number = {
            let mut history = world.history.lock();
            let span = if dice::percent(70) { everything() } else { some_span() };
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
    let member = dice::between(1, 4);
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
    if let Some(StoreError::Compacted { oldest, .. }) = end {
        session.end = End::Compacted { oldest: oldest.0 };
        next = oldest.0;
    }
    world.history.lock().watches[number].sessions.push(session);
    next
}

fn from_batch(batch: &WatchBatch, prev: bool) -> Batch {
    let event = |event: &api::Event| Event {
        revision: event.kv.mod_revision.0,
        key: text(&event.kv.key),
        now: (event.kind == api::EventKind::Put).then(|| from_kv(&event.kv)),
        prev: event.prev_kv.as_ref().filter(|_| prev).map(from_kv),
    };
    Batch { received: moment(), revision: batch.revision.0, events: batch.events.iter().map(event).collect() }
}
