//! The one history of a run, and the words of the store's client in the words of the checker. It decides what an error
//! means: certainly nothing, perhaps something, or that the store itself says that something is wrong.

use bytes::Bytes;
use gantry_history::{Batch, Condition, Event, History, KeyValue, Op, Outcome, Reply, Span, Target, Txn};
use gantry_store as api;
use gantry_store::{Compare, RangeRequest, Revision, StoreError, WatchBatch};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::time::Instant;

/// What a heavy value carries after its name, so that disks fill.
const BALLAST: usize = 32 << 10;
pub const HEAVY: &str = "h";

/// What everybody who asks or watches writes down.
pub struct Record {
    begun: Instant,
    history: Mutex<History>,
    strange: Mutex<Vec<String>>,
    over: AtomicBool,
    heavy: AtomicBool,
}

impl Record {
    pub fn new() -> Self {
        Self {
            begun: Instant::now(),
            history: Mutex::default(),
            strange: Mutex::default(),
            over: AtomicBool::new(false),
            heavy: AtomicBool::new(false),
        }
    }

    /// Nanoseconds since the run began; one clock for all.
    pub fn moment(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    pub fn write<T>(&self, write: impl FnOnce(&mut History) -> T) -> T {
        write(&mut self.history.lock().expect("no holder of the lock panics"))
    }

    pub fn over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    pub fn end(&self) {
        self.over.store(true, Ordering::Relaxed);
    }

    /// Whether values should be large now.
    pub fn set_heavy(&self, heavy: bool) {
        self.heavy.store(heavy, Ordering::Relaxed);
    }

    pub fn is_heavy(&self) -> bool {
        self.heavy.load(Ordering::Relaxed)
    }

    /// Errors that no fault of this suite explains.
    pub fn strange(&self) -> Vec<String> {
        self.strange.lock().expect("no holder of the lock panics").clone()
    }

    pub fn outcome_of(&self, error: &StoreError) -> Outcome {
        match error {
            StoreError::Compacted { oldest, .. } => Outcome::Compacted { oldest: oldest.0 },
            StoreError::Unavailable(_) | StoreError::Future { .. } | StoreError::DiskFull { .. } => Outcome::Refused,
            StoreError::Unknown(_) | StoreError::Slow => Outcome::Unknown,
            error => {
                self.strange.lock().expect("no holder of the lock panics").push(error.to_string());
                Outcome::Unknown
            }
        }
    }
}

fn to_value(name: &str) -> Bytes {
    let mut bytes = name.as_bytes().to_vec();
    if name.ends_with(HEAVY) {
        bytes.resize(bytes.len() + BALLAST, b'x');
    }
    bytes.into()
}

/// A heavy value that lost a part of its ballast is another value.
fn from_value(bytes: &Bytes) -> String {
    let text = text(bytes);
    let name = text.trim_end_matches('x');
    if to_value(name) == *bytes { name.to_owned() } else { text }
}

fn text(bytes: &Bytes) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

pub fn to_txn(txn: &Txn) -> api::Txn {
    let compare = |condition: &Condition| match &condition.target {
        Target::Modified(revision) => Compare::unchanged(condition.key.clone(), Revision(*revision)),
        Target::Value(value) => Compare::has_value(condition.key.clone(), to_value(value)),
    };
    let op = |op: &Op| match op {
        Op::Put { key, value, .. } => api::Op::put(key.clone(), to_value(value)),
        Op::Delete(span) => {
            let RangeRequest { start, end, .. } = to_range(span);
            api::Op::Delete(api::Delete { start, end, prev_kv: false })
        }
        Op::Get(span) => api::Op::Range(to_range(span)),
    };
    api::Txn {
        compare: txn.conditions.iter().map(compare).collect(),
        success: txn.then.iter().map(op).collect(),
        failure: txn.otherwise.iter().map(op).collect(),
    }
}

pub fn to_range(span: &Span) -> RangeRequest {
    let end = span.end.clone().unwrap_or_default().into();
    RangeRequest { start: span.start.clone().into(), end, ..RangeRequest::default() }
}

pub fn from_reply(reply: api::OpReply) -> Reply {
    match reply {
        api::OpReply::Put { .. } => Reply::Put,
        api::OpReply::Delete { deleted, .. } => Reply::Deleted(deleted),
        api::OpReply::Range(range) => from_range(&range),
        api::OpReply::Txn(_) => unreachable!("no client nests"),
    }
}

pub fn from_range(range: &api::RangeReply) -> Reply {
    Reply::Got(range.kvs.iter().map(from_kv).collect())
}

fn from_kv(kv: &api::KeyValue) -> KeyValue {
    KeyValue {
        key: text(&kv.key),
        value: from_value(&kv.value),
        created: kv.create_revision.0,
        modified: kv.mod_revision.0,
        version: kv.version,
        lease: kv.lease.0.cast_unsigned(),
    }
}

pub fn from_batch(batch: &WatchBatch, received: u64) -> Batch {
    let event = |event: &api::Event| Event {
        revision: event.kv.mod_revision.0,
        key: text(&event.kv.key),
        now: (event.kind == api::EventKind::Put).then(|| from_kv(&event.kv)),
        prev: event.prev_kv.as_ref().map(from_kv),
    };
    Batch { received, revision: batch.revision.0, events: batch.events.iter().map(event).collect() }
}
