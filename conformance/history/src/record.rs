//! The vocabulary of a history. It decides nothing.

/// Everything that was recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    pub operations: Vec<Operation>,
    pub watches: Vec<Watch>,
    /// The newest revision that anybody ever asked to compact to, whatever the answer was.
    pub compacted_to: u64,
}

/// One request and how it ended. Times are of any unit, from one clock for all clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation {
    pub client: usize,
    pub member: u64,
    pub sent: u64,
    pub ended: u64,
    pub request: Request,
    pub outcome: Outcome,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    Txn(Txn),
    Read {
        span: Span,
        /// As of this revision; `None` = now.
        at: Option<u64>,
        /// May be of any age.
        serializable: bool,
    },
    Lease(LeaseRequest),
}

/// What is asked of a lease. Nobody gives a number twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseRequest {
    Grant {
        lease: u64,
        /// In the unit of the times.
        ttl: u64,
    },
    Renew {
        lease: u64,
    },
    Revoke {
        lease: u64,
    },
}

impl LeaseRequest {
    pub fn lease(&self) -> u64 {
        match self {
            Self::Grant { lease, .. } | Self::Renew { lease } | Self::Revoke { lease } => *lease,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Done {
        /// The store's revision after it.
        revision: u64,
        succeeded: bool,
        replies: Vec<Reply>,
    },
    /// The lease has all of its time again.
    Renewed,
    /// There is no such lease, or it has no time left.
    NoLease,
    /// Certainly without effect.
    Refused,
    Compacted {
        oldest: u64,
    },
    /// Perhaps done, perhaps later.
    Unknown,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Txn {
    pub conditions: Vec<Condition>,
    pub then: Vec<Op>,
    pub otherwise: Vec<Op>,
}

/// That a key's property equals something; a missing key was modified at revision 0 and has no value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    pub key: String,
    pub target: Target,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    Modified(u64),
    Value(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    Put {
        key: String,
        value: String,
        /// The key goes when it does; 0 = none.
        lease: u64,
    },
    Delete(Span),
    Get(Span),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    Put,
    Deleted(u64),
    /// In key order.
    Got(Vec<KeyValue>),
}

/// The keys in `[start, end)`; without an end the one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    pub start: String,
    pub end: Option<String>,
}

impl Span {
    pub fn key(key: impl Into<String>) -> Self {
        Self { start: key.into(), end: None }
    }

    pub fn contains(&self, key: &str) -> bool {
        match &self.end {
            None => key == self.start,
            Some(end) => key >= self.start.as_str() && key < end.as_str(),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyValue {
    pub key: String,
    pub value: String,
    pub created: u64,
    pub modified: u64,
    pub version: u64,
    /// 0 = none.
    pub lease: u64,
}

/// Everything that one watcher was ever told, over all its connections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Watch {
    pub span: Span,
    /// Whether previous values were asked for.
    pub prev: bool,
    pub sessions: Vec<Session>,
}

/// One connection of a watcher.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    pub member: u64,
    /// The first revision asked for.
    pub from: u64,
    pub batches: Vec<Batch>,
    pub end: End,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It was still there, or it broke.
    Broken,
    Compacted {
        oldest: u64,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    pub received: u64,
    /// Everything up to this revision has been delivered. Without events it is a bookmark.
    pub revision: u64,
    pub events: Vec<Event>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    pub revision: u64,
    pub key: String,
    /// `None`: deleted.
    pub now: Option<KeyValue>,
    pub prev: Option<KeyValue>,
}
