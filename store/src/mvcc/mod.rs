//! The state machine: keys, their versions, and the commits that made them. `apply` is the only way to change it.
//!
//! Pure: no clock, no I/O, no randomness. Every member that applies the same entries holds the same state and the same
//! hash. Cloning is cheap (persistent trees), so a reader keeps a clone and never sees a change.

mod alarm;
mod apply;
mod away;
mod caps;
mod chain;
mod history;
mod late;
mod lease;
mod read;
mod retain;
#[cfg(test)]
mod tests;
mod transfer;
mod txn;
mod version;

use crate::api::{LeaseId, Revision, StoreError, Txn, TxnReply};
use crate::archive::ArchiveRef;
use history::History;
use imbl::{OrdMap, OrdSet, Vector};
use std::borrow::Borrow;
use std::sync::Arc;

pub use alarm::{Alarm, AlarmKind};
pub use apply::apply;
pub use away::{Due, Place, Superseded, Swap, Warm, Window};
pub use caps::{Caps, surplus};
pub use late::{Late, Ranged, fill};
pub use lease::Lease;
#[cfg(test)]
pub use read::Span;
pub use retain::{Lag, MARK_KEPT_MS, MAX_TTL_MS, Retention, compaction, expired, lag};
pub use transfer::{Base, Builder};
pub use version::Version;

/// What one log entry carries: transactions that share one durability round, each with a reply of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// The proposing leader's store time: milliseconds that leaders have led so far. Never goes back once applied.
    pub time_ms: u64,
    pub commands: Vec<Command>,
}

impl Entry {
    pub fn compacts(&self) -> bool {
        self.commands.iter().any(|command| matches!(command, Command::Compact(_)))
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    Txn(Txn),
    Compact(Compact),
    Grant {
        id: LeaseId,
        ttl_s: i64,
    },
    /// Deletes the lease's keys, too.
    Revoke {
        id: LeaseId,
    },
    /// Says who the group is, once and for all: the first one counts.
    Found(Identity),
    /// Raises an alarm, or clears it.
    Alarm {
        alarm: Alarm,
        raise: bool,
    },
}

/// Which group of which cluster a state belongs to. It is no part of the hash chain: it says nothing about the content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Random, never 0.
    pub cluster: u64,
    pub group: String,
}

/// Forgets what only readers before `revision` could see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compact {
    pub revision: Revision,
    /// The hash chain's value at a revision that the proposer had; a member that differs, or does not have it, stops. The
    /// leader puts in its own.
    pub check: Option<(Revision, u64)>,
}

/// The outcome of one command.
#[derive(Clone, Debug)]
pub enum Reply {
    Txn(TxnReply),
    /// What has no other answer than that it is done; with the revision then.
    Done(Revision),
    Refused(StoreError),
}

impl Reply {
    pub fn into_txn(self) -> Result<TxnReply, StoreError> {
        match self {
            Self::Txn(reply) => Ok(reply),
            Self::Refused(error) => Err(error),
            Self::Done(_) => Err(StoreError::Unknown("the reply is another command's".into())),
        }
    }

    pub fn into_done(self) -> Result<Revision, StoreError> {
        match self {
            Self::Done(revision) => Ok(revision),
            Self::Refused(error) => Err(error),
            Self::Txn(_) => Err(StoreError::Unknown("the reply is another command's".into())),
        }
    }
}

/// The outcome of one entry. Its events are in the history, from the revision before it up to `revision`.
#[derive(Clone, Debug, Default)]
pub struct Applied {
    #[allow(dead_code, reason = "part of what apply says; the tests hold members against each other by it")]
    pub revision: Revision,
    pub replies: Vec<Reply>,
    /// What the replies lack, and to which of them it belongs.
    pub late: Vec<(usize, Late)>,
    /// Who has that; from whoever keeps the state.
    pub archive: Option<ArchiveRef>,
}

/// The members' states have come apart, or an entry is not one that any proposer makes. Going on would corrupt.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "this member's state at revision {revision} differs from the leader's (hash {ours:016x}, leader {theirs:016x})"
)]
pub struct Diverged {
    pub revision: Revision,
    pub ours: u64,
    pub theirs: u64,
}

/// Everything that one revision changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Commit {
    changes: Changes,
    /// The hash chain after this revision.
    pub hash: u64,
}

/// Most revisions change one key; those need no allocation of their own.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Changes {
    One(Change),
    Many(Arc<[Change]>),
}

impl Commit {
    fn new(mut changes: Vec<Change>, hash: u64) -> Self {
        let changes = match (changes.pop(), changes.is_empty()) {
            (Some(only), true) => Changes::One(only),
            (last, _) => Changes::Many(changes.into_iter().chain(last).collect()),
        };
        Self { changes, hash }
    }

    /// In the order in which they were made.
    pub fn changes(&self) -> &[Change] {
        match &self.changes {
            Changes::One(change) => std::slice::from_ref(change),
            Changes::Many(changes) => changes,
        }
    }

    /// What goes when the history of this revision does, as if all of it were in memory.
    fn superseded_bytes(&self) -> u64 {
        self.changes().iter().map(Change::superseded_bytes).sum()
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// For a delete: an empty value and the deleting revision.
    pub kv: Version,
    pub prev: Option<Version>,
}

impl Change {
    pub fn deleted(&self) -> bool {
        self.kv.is_delete()
    }

    /// Whether the version before is one of an earlier revision: what a transaction made and replaced itself was never there for
    /// who reads the past.
    fn undoes(&self) -> bool {
        self.prev.as_ref().is_some_and(|prev| prev.mod_revision() < self.kv.mod_revision())
    }

    fn superseded_bytes(&self) -> u64 {
        // This change itself, in its commit and as an undo record.
        let own = 2 * size_of::<Self>() + if self.deleted() { version::OVERHEAD + self.kv.len() } else { 0 };
        (own + self.prev.as_ref().map_or(0, |prev| version::OVERHEAD + prev.len())) as u64
    }
}

/// A live key, ordered by its name.
#[derive(Clone, Debug)]
struct Live(Version);

impl Borrow<[u8]> for Live {
    fn borrow(&self) -> &[u8] {
        self.0.key()
    }
}
impl PartialEq for Live {
    fn eq(&self, other: &Self) -> bool {
        self.0.key() == other.0.key()
    }
}
impl Eq for Live {}
impl PartialOrd for Live {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Live {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.key().cmp(other.0.key())
    }
}

/// What a key was before a change, ordered by the key and the revision that changed it.
#[derive(Clone, Debug)]
struct Undo {
    prev: Version,
    /// The revision that replaced it.
    until: u64,
}

impl Undo {
    /// A creation has none, nor has what a transaction replaces of its own.
    fn of(change: &Change) -> Option<Self> {
        change.undoes().then_some(())?;
        Some(Self { prev: change.prev.clone()?, until: change.kv.mod_revision().0 })
    }
    fn key(&self) -> &[u8] {
        self.prev.key()
    }
    /// The place before every undo record of `key`.
    fn first(key: &[u8]) -> Self {
        Self { prev: Version::deleted(key, Revision(0)), until: 0 }
    }
}
impl PartialEq for Undo {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}
impl Eq for Undo {}
impl PartialOrd for Undo {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Undo {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key().cmp(other.key()).then_with(|| self.until.cmp(&other.until))
    }
}

/// Marks are at least this far apart.
const MARK_EVERY_MS: u64 = 1_000;

/// The first revision written at a store time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    pub time_ms: u64,
    pub revision: u64,
}

#[derive(Clone, Debug)]
pub struct Mvcc {
    revision: u64,
    /// Reads below this are refused; 0 = nothing was ever compacted.
    compacted: u64,
    live: OrdSet<Live>,
    /// For the revisions in `history`. A key's creation has none: what it says stands in the version that was created.
    past: OrdSet<Undo>,
    /// One commit per revision, the last is `revision`'s. Starts at `compacted`.
    history: History,
    leases: OrdMap<LeaseId, Lease>,
    /// Leases granted so far, by this member's count.
    grants: u64,
    superseded_bytes: u64,
    /// Bytes of superseded values, and how many of them are in the log and not in memory: each member's own affair.
    superseded_values: u64,
    away_bytes: u64,
    /// Keys and values of the live keys.
    live_bytes: u64,
    alarms: OrdSet<Alarm>,
    identity: Option<Arc<Identity>>,
    hash: u64,
    time_ms: u64,
    /// Sparse, at most one a second, newest last.
    marks: Vector<Mark>,
}

impl Default for Mvcc {
    /// The empty store, at revision 1.
    fn default() -> Self {
        Self {
            revision: 1,
            compacted: 0,
            live: OrdSet::new(),
            past: OrdSet::new(),
            history: History::default(),
            leases: OrdMap::new(),
            grants: 0,
            superseded_bytes: 0,
            superseded_values: 0,
            away_bytes: 0,
            live_bytes: 0,
            alarms: OrdSet::new(),
            identity: None,
            hash: 0,
            time_ms: 0,
            marks: Vector::new(),
        }
    }
}

impl Mvcc {
    pub fn revision(&self) -> Revision {
        Revision(self.revision)
    }

    /// The oldest revision that can be read, and that a watch can start from.
    pub fn oldest(&self) -> Revision {
        Revision(self.compacted.max(1))
    }

    /// The revision that history starts after: the one before the oldest that can be read.
    fn floor(&self) -> u64 {
        self.compacted.max(2) - 1
    }

    /// The hash chain over everything applied so far.
    pub fn hash(&self) -> u64 {
        self.hash
    }

    /// Known once the first leader has said it.
    pub fn identity(&self) -> Option<&Identity> {
        self.identity.as_deref()
    }

    pub fn time_ms(&self) -> u64 {
        self.time_ms
    }

    pub fn keys(&self) -> usize {
        self.live.len()
    }

    /// What history holds beside the live keys, in memory or in the log; the same on every member.
    pub fn superseded_bytes(&self) -> u64 {
        self.superseded_bytes
    }

    /// Keys and values of the live keys.
    pub fn live_bytes(&self) -> u64 {
        self.live_bytes
    }

    /// What a quota counts: the live keys and the history, the same on every member.
    pub fn stored_bytes(&self) -> u64 {
        self.live_bytes + self.superseded_bytes
    }

    /// The commit of one retained revision.
    pub fn commit(&self, revision: u64) -> Option<&Commit> {
        self.history.get(usize::try_from(revision.checked_sub(self.first_commit())?).ok()?)
    }

    /// The commits from revision `from` on, at most `most`; none if that one is not retained.
    pub fn commits_from(&self, from: u64, most: usize) -> Vec<Commit> {
        (from..).take(most).map_while(|revision| self.commit(revision).cloned()).collect()
    }

    /// The revision of the oldest commit.
    fn first_commit(&self) -> u64 {
        self.revision + 1 - self.history.len() as u64
    }

    fn get(&self, key: &[u8]) -> Option<&Version> {
        self.live.get(key).map(|live| &live.0)
    }

    /// Panics if the parts contradict each other. For tests, after every step.
    #[cfg(test)]
    pub fn validate(&self) {
        assert!(self.compacted <= self.revision);
        let first = self.first_commit();
        assert_eq!(first, self.floor() + 1, "history starts with the compacted revision");
        let mut bytes = 0;
        let mut undo = 0;
        let mut away = 0;
        for (at, commit) in self.history.iter().enumerate() {
            assert!(!commit.changes().is_empty());
            assert!(commit.changes().iter().all(|change| change.kv.mod_revision().0 == first + at as u64));
            bytes += commit.superseded_bytes();
            for record in commit.changes().iter().filter_map(Undo::of) {
                undo += 1;
                away += record.prev.away().map_or(0, |place| u64::from(place.len));
                // What stands for one version is one version.
                let of_key = |change: &&Change| change.kv.key() == record.key();
                let mut created = self.commit(record.prev.mod_revision().0).into_iter().flat_map(Commit::changes);
                let known = record.prev.mod_revision().0 >= first;
                assert!(!known || created.any(|change| of_key(&change) && change.kv.is_same(&record.prev)));
                assert!(self.past.get(&record).unwrap().prev.is_same(&record.prev));
            }
        }
        assert_eq!(bytes, self.superseded_bytes);
        assert_eq!(away, self.away_bytes);
        assert_eq!(undo, self.past.len());
        let live_bytes: u64 = self.live.iter().map(|live| apply::size(&live.0)).sum();
        assert_eq!(live_bytes, self.live_bytes);
        for live in &self.live {
            let kv = &live.0;
            assert!(kv.mod_revision().0 <= self.revision && kv.create_revision() <= kv.mod_revision());
            assert!(!kv.is_delete() && kv.away().is_none());
        }
        for (id, lease) in &self.leases {
            let attached = self.live.iter().filter(|live| live.0.lease() == *id).map(|live| live.0.key());
            assert!(lease.keys.iter().eq(attached), "lease {id:?} holds exactly the keys that name it");
        }
        assert!(
            self.marks
                .iter()
                .zip(self.marks.iter().skip(1))
                .all(|(a, b)| a.time_ms < b.time_ms && a.revision <= b.revision)
        );
    }
}
