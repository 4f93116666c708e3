//! Decides whether a recorded history can be one of a revisioned map that keeps its promises: what clients asked and were
//! answered, what watches delivered, and what members say their state hashes to.
//!
//! It has a model of the map of its own and shares no code with the store. Pure: whoever records brings the times, which
//! only have to be ordered.

mod asker;
mod describe;
mod hashes;
mod leases;
mod model;
mod order;
mod record;
mod replay;
#[cfg(test)]
mod tests;
mod traces;
mod watches;

pub use asker::{Asker, Dice, SECOND, everything};
pub use describe::describe;
pub use hashes::{HashSample, check_hashes};
pub use model::{Model, Version};
pub use record::{
    Batch, Condition, End, Event, History, KeyValue, LeaseRequest, Op, Operation, Outcome, Reply, Request, Session,
    Span, Target, Txn, Watch,
};
pub use replay::{Explained, check};

/// What a history does that no correct store does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Violation {
    /// Two writes were acknowledged with one revision.
    RevisionTwice {
        revision: u64,
        operations: [usize; 2],
    },
    /// An operation began after another had ended, and stands before it in the order of revisions.
    BackInTime {
        operation: usize,
        revision: u64,
        seen_before: u64,
    },
    /// The answer is not what the model gives at that revision.
    WrongAnswer {
        operation: usize,
        expected: String,
        found: String,
    },
    /// A revision that nobody wrote: no acknowledged write has it and no write of unknown outcome explains it.
    Unexplained {
        revision: u64,
    },
    /// An old revision is refused although nobody asked to forget it.
    Forgotten {
        requested: u64,
        oldest: u64,
    },
    /// A lease's keys went before its time had passed since it was granted or renewed last, and nobody revoked it.
    RanOutEarly {
        lease: u64,
        revision: u64,
        seen: u64,
        until: u64,
    },
    /// A key is there although its lease was revoked.
    Survived {
        lease: u64,
        revision: u64,
        key: String,
    },
    /// Said not to exist although it was granted, had time left, and nobody revoked it.
    LeaseDenied {
        operation: usize,
        lease: u64,
        until: u64,
    },
    Watch {
        watch: usize,
        revision: u64,
        fault: WatchFault,
    },
    /// Two members hold different states at the same revision.
    Diverged {
        revision: u64,
        members: [u64; 2],
    },
    /// More writes of unknown outcome than could be tried.
    Undecided {
        steps: usize,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchFault {
    /// A revision after a later one.
    Order,
    /// A revision's events in more than one batch: doubled, or torn.
    Split,
    /// An event after a bookmark that promised there were none.
    Bookmark,
    /// Events before the revision that was asked for.
    Early,
    /// What was delivered for a revision is not what the revision did: lost, invented or changed.
    Content,
}
