//! The `Store` trait and its vocabulary: multi-key transactions, ranges and watches over one revision line.
//!
//! It decides what every store must promise; it never decides how one keeps that promise. Semantics are etcd v3's
//! (<https://etcd.io/docs/v3.5/learning/api/>): one revision per committed writing transaction, `mod_revision` of every key
//! that the transaction wrote equals it, and a transaction that writes nothing leaves the revision alone.

use crate::group::Reading;
use bytes::Bytes;
use std::fmt;

/// A point on a store's single line of history. Starts at 1 (the empty store) and grows by one per writing transaction.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, serde::Serialize, serde::Deserialize)]
#[serde(transparent)]
pub struct Revision(pub u64);

impl fmt::Debug for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "r{}", self.0)
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// A lease's number. 0 is no lease.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct LeaseId(pub i64);

impl LeaseId {
    pub const NONE: Self = Self(0);
}

/// One version of one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyValue {
    pub key: Bytes,
    pub value: Bytes,
    /// The revision of the transaction that created the key (its latest creation).
    pub create_revision: Revision,
    /// The revision of the transaction that wrote this version.
    pub mod_revision: Revision,
    /// 1 for the creating write, one more for each write after it.
    pub version: u64,
    /// The key goes with this lease.
    pub lease: LeaseId,
}

/// A condition on every key in `[start, end)` (as in [`RangeRequest`]). A missing key compares as revision 0, version 0
/// and no lease; nothing holds of a missing key's value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compare {
    pub start: Bytes,
    pub end: Bytes,
    pub relation: Relation,
    pub target: CompareTarget,
}

/// How the stored side stands to the given one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    Equal,
    NotEqual,
    Greater,
    Less,
}

/// What is compared, and with what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CompareTarget {
    Version(u64),
    CreateRevision(Revision),
    ModRevision(Revision),
    Value(Bytes),
    Lease(LeaseId),
}

impl Compare {
    fn key(key: impl Into<Bytes>, relation: Relation, target: CompareTarget) -> Self {
        Self { start: key.into(), end: Bytes::new(), relation, target }
    }
    pub fn absent(key: impl Into<Bytes>) -> Self {
        Self::unchanged(key, Revision(0))
    }
    /// Revision 0: the key is absent.
    pub fn unchanged(key: impl Into<Bytes>, revision: Revision) -> Self {
        Self::key(key, Relation::Equal, CompareTarget::ModRevision(revision))
    }
    pub fn exists(key: impl Into<Bytes>) -> Self {
        Self::key(key, Relation::Greater, CompareTarget::Version(0))
    }
    pub fn has_value(key: impl Into<Bytes>, value: impl Into<Bytes>) -> Self {
        Self::key(key, Relation::Equal, CompareTarget::Value(value.into()))
    }
}

/// One operation inside a transaction. Each sees what the operations before it did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    Put(Put),
    Delete(Delete),
    Range(RangeRequest),
    /// All comparisons, also those of nested transactions, are made before the first operation (etcd's rule).
    Txn(Box<Txn>),
}

impl Op {
    pub fn put(key: impl Into<Bytes>, value: impl Into<Bytes>) -> Self {
        Self::Put(Put { key: key.into(), value: value.into(), ..Put::default() })
    }
    pub fn delete(key: impl Into<Bytes>) -> Self {
        Self::Delete(Delete { start: key.into(), ..Delete::default() })
    }
    pub fn get(key: impl Into<Bytes>) -> Self {
        Self::Range(RangeRequest::key(key))
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Put {
    pub key: Bytes,
    pub value: Bytes,
    /// The key goes when this lease does. The lease must exist.
    pub lease: LeaseId,
    /// Answer what the key was before.
    pub prev_kv: bool,
    /// Keep the value or the lease as it is; the key must exist.
    pub keep_value: bool,
    pub keep_lease: bool,
}

/// Deletes the keys in `[start, end)`, as in [`RangeRequest`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Delete {
    pub start: Bytes,
    pub end: Bytes,
    /// Answer what the keys were.
    pub prev_kv: bool,
}

/// All of `compare` holds → `success` is applied, otherwise `failure`; atomically either way.
/// Limits: 2,048 comparisons, as many operations a branch, nested ones included (`limits`). No key may be put twice by one
/// transaction, or put and deleted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Txn {
    pub compare: Vec<Compare>,
    pub success: Vec<Op>,
    pub failure: Vec<Op>,
}

impl Txn {
    /// Whether it writes, whichever branches run.
    pub fn writes(&self) -> bool {
        self.success.iter().chain(&self.failure).any(|op| match op {
            Op::Put(_) | Op::Delete(_) => true,
            Op::Range(_) => false,
            Op::Txn(txn) => txn.writes(),
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TxnReply {
    pub succeeded: bool,
    /// The store's revision after this transaction: its own if it wrote, otherwise the current one.
    pub revision: Revision,
    /// One reply per operation of the branch that ran, in order.
    pub ops: Vec<OpReply>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OpReply {
    Put {
        /// Only if it was asked for.
        prev: Option<KeyValue>,
    },
    Delete {
        deleted: u64,
        /// Only if they were asked for.
        prev: Vec<KeyValue>,
    },
    Range(RangeReply),
    Txn(TxnReply),
}

impl OpReply {
    /// The key that an [`Op::get`] found.
    pub fn into_key_value(self) -> Option<KeyValue> {
        match self {
            Self::Range(reply) => reply.kvs.into_iter().next(),
            Self::Put { .. } | Self::Delete { .. } | Self::Txn(_) => None,
        }
    }
}

/// Keys in `[start, end)`; an empty `end` means the single key `start`, `\0` means to the end of the key space.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RangeRequest {
    pub start: Bytes,
    pub end: Bytes,
    /// 0 = no limit. A range of values ends after about 8 MiB in any case, with `more` set, unless `whole` is set.
    pub limit: usize,
    /// Read as of this revision; `None` = now.
    pub revision: Option<Revision>,
    /// `true`: answered from this member's applied state without a ReadIndex round, possibly stale.
    pub serializable: bool,
    pub keys_only: bool,
    pub count_only: bool,
    /// However large the answer is.
    pub whole: bool,
    /// By what, and whether the largest comes first; `None` = by key.
    pub order: Option<(SortBy, bool)>,
    pub only: Only,
}

/// What a range is sorted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SortBy {
    Key,
    Version,
    CreateRevision,
    ModRevision,
    Value,
}

/// Bounds on the revisions of what a range answers, both ends included; 0 = no bound. They do not change its `count`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Only {
    pub min_mod: Revision,
    pub max_mod: Revision,
    pub min_create: Revision,
    pub max_create: Revision,
}

impl RangeRequest {
    pub fn key(key: impl Into<Bytes>) -> Self {
        Self { start: key.into(), ..Self::default() }
    }
    /// Every key that starts with `prefix`.
    pub fn prefix(prefix: impl Into<Bytes>) -> Self {
        let start: Bytes = prefix.into();
        let end = prefix_end(&start);
        Self { start, end, ..Self::default() }
    }
}

/// The least key greater than every key with this prefix (etcd's `GetPrefixRangeEnd`). `\0` means "to the end".
pub fn prefix_end(prefix: &[u8]) -> Bytes {
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if last < 0xff {
            end.push(last + 1);
            return end.into();
        }
    }
    Bytes::from_static(b"\0")
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RangeReply {
    /// In key order.
    pub kvs: Vec<KeyValue>,
    /// The store's revision that this was read at (the current one, also when an older one was asked for).
    pub revision: Revision,
    /// Matching keys in all, whatever the limit.
    pub count: usize,
    pub more: bool,
}

/// A watch over `[start, end)` (as in [`RangeRequest`]) of everything with a revision ≥ `from`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchRequest {
    pub start: Bytes,
    pub end: Bytes,
    pub from: Revision,
    /// Deliver each event's previous value (needed to match DELETED events against selectors).
    pub prev_kv: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    pub kind: EventKind,
    /// For a delete: the key, an empty value, and the deleting transaction's revision as `mod_revision`.
    pub kv: KeyValue,
    pub prev_kv: Option<KeyValue>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    Put,
    Delete,
}

/// All events of one or more whole revisions, in order; never a part of a revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchBatch {
    /// Every event of this watch up to and including this revision has been delivered. An empty batch is progress only.
    pub revision: Revision,
    pub events: Vec<Event>,
}

/// A running watch. Dropping it ends it.
pub struct Watch {
    receiver: tokio::sync::mpsc::Receiver<Result<WatchBatch, StoreError>>,
    progress: Option<Box<dyn Fn() + Send + Sync>>,
}

impl Watch {
    /// `progress` asks for an empty batch at the store's current revision, when everything before it was delivered.
    pub fn new(
        receiver: tokio::sync::mpsc::Receiver<Result<WatchBatch, StoreError>>,
        progress: Option<Box<dyn Fn() + Send + Sync>>,
    ) -> Self {
        Self { receiver, progress }
    }

    /// The next batch. `None` or an error ends the watch; the reader starts again from the last revision + 1.
    pub async fn next(&mut self) -> Option<Result<WatchBatch, StoreError>> {
        self.receiver.recv().await
    }

    /// Asks for a progress batch; it arrives through `next`.
    pub fn request_progress(&self) {
        if let Some(progress) = &self.progress {
            progress();
        }
    }
}

/// Why a store did not answer. Expected outcomes (a failed compare) are not errors.
#[derive(Debug, Clone, thiserror::Error)]
pub enum StoreError {
    /// The revision's history is gone. The caller lists again.
    #[error("revision {requested} has been compacted; the oldest readable revision is {oldest}")]
    Compacted { requested: Revision, oldest: Revision },
    /// The caller asked for a revision that does not exist yet. The caller waits or lists again.
    #[error("revision {requested} is in the future; the current revision is {current}")]
    Future { requested: Revision, current: Revision },
    /// Over a limit of `Txn`. Nobody retries.
    #[error("the request is too large: {what} is {size} bytes, the limit is {limit}")]
    TooLarge { what: &'static str, size: usize, limit: usize },
    /// Malformed request. Nobody retries.
    #[error("invalid store request: {0}")]
    Invalid(String),
    /// More operations than a transaction may have. Nobody retries.
    #[error("the transaction has more than {limit} operations")]
    TooManyOps { limit: usize },
    /// A key is written twice by one transaction. Nobody retries.
    #[error("duplicate key in one transaction: {}", .0.escape_ascii())]
    DuplicateKey(Bytes),
    /// A put that keeps the value or the lease of a key that is not there.
    #[error("the key does not exist: {}", .0.escape_ascii())]
    NoKey(Bytes),
    /// The lease was never granted, was revoked, or has run out. The caller grants another.
    #[error("lease {:x} does not exist", .0.0)]
    NoLease(LeaseId),
    /// Somebody else granted a lease of this number.
    #[error("lease {:x} already exists", .0.0)]
    LeaseExists(LeaseId),
    /// No leader, no quorum or shutting down, and the write was certainly not applied. The caller retries with back-off.
    #[error("the store is unavailable: {0}")]
    Unavailable(String),
    /// The outcome of the write is not known. The caller reads before it retries.
    #[error("the outcome of the write is unknown: {0}")]
    Unknown(String),
    /// The store has reached its quota: nothing may be put until something was deleted and compacted. A person acts.
    #[error("the store has reached its size quota: delete keys, or raise the quota")]
    NoSpace,
    /// The leader's disk is full; certainly not applied. The caller retries with back-off, a person makes room.
    #[error("no space is left on the disk of store member {member}")]
    DiskFull { member: u64 },
    /// A superseded value cannot be read from this member's log; what is newest can. Another member may answer; a person looks at
    /// this one's disk.
    #[error("the history on this store member cannot be read: {0}")]
    Unreadable(String),
    /// The watcher fell too far behind and was cut off. It starts again from its last revision + 1.
    #[error("the watcher fell behind and was cut off")]
    Slow,
    /// Data on disk is damaged in a way that must not be papered over. A person acts.
    #[error("the store's data is corrupt: {0}")]
    Corrupt(String),
}

/// One revisioned map: embedded in this process, or remote. One `Store` per group (`state`, `leases`, `events`).
#[async_trait::async_trait]
pub trait Store: Send + Sync + 'static {
    /// Linearizable. Returns after the transaction is durable on a quorum and applied here.
    async fn txn(&self, txn: Txn) -> Result<TxnReply, StoreError>;

    /// Independent transactions proposed as one Raft entry batch: one durability round for all, one reply each, in order.
    async fn txn_batch(&self, txns: Vec<Txn>) -> Result<Vec<Result<TxnReply, StoreError>>, StoreError>;

    /// Linearizable unless `serializable`.
    async fn range(&self, request: RangeRequest) -> Result<RangeReply, StoreError>;

    /// In revision order, none lost, none twice.
    async fn watch(&self, request: WatchRequest) -> Result<Watch, StoreError>;

    /// A revision at least as new as every write that was acknowledged before the call (ReadIndex).
    async fn read_revision(&self) -> Result<Revision, StoreError>;

    /// Forgets history before `revision`. Superseded versions and older watches answer `Compacted`.
    async fn compact(&self, revision: Revision) -> Result<(), StoreError>;

    /// What this store's member measures, if it is in this process; others are asked themselves.
    fn reading(&self) -> Option<Reading> {
        None
    }
}
