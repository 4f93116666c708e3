//! Answers that lack values which are in the log: what they lack, and how they become whole. Sorting and cutting wait for the
//! values.
//!
//! It reads nothing itself.

use crate::api::{KeyValue, OpReply, RangeReply, RangeRequest, SortBy, TxnReply};
use crate::archive::{Archive, Unreadable, bring_back};
use crate::mvcc::Version;
use bytes::Bytes;

/// What a range found.
#[derive(Debug)]
pub enum Ranged {
    Whole(RangeReply),
    Late(LateRange),
}

/// A range of which some values are in the log.
#[derive(Clone, Debug)]
pub struct LateRange {
    pub(super) request: RangeRequest,
    /// Not sorted yet.
    pub(super) reply: RangeReply,
    /// Where in the reply's keys a value is missing, and whose.
    pub(super) lacking: Vec<(usize, Version)>,
}

/// A range inside a transaction's reply, by the operations that lead to it.
#[derive(Clone, Debug)]
pub struct Late {
    pub(super) path: Vec<usize>,
    pub(super) range: LateRange,
}

impl Ranged {
    /// The whole answer. Blocks if values have to be fetched.
    pub fn fetch(self, archive: &dyn Archive) -> Result<RangeReply, Unreadable> {
        match self {
            Self::Whole(reply) => Ok(reply),
            Self::Late(late) => late.fetch(archive),
        }
    }
}

impl LateRange {
    fn fetch(mut self, archive: &dyn Archive) -> Result<RangeReply, Unreadable> {
        for (at, version) in &self.lacking {
            self.reply.kvs[*at] = bring_back(version, archive)?.key_value();
        }
        arrange(&self.request, &mut self.reply);
        Ok(self.reply)
    }
}

/// Puts into a transaction's reply what it lacks. Blocks.
pub fn fill(reply: &mut TxnReply, late: Late, archive: &dyn Archive) -> Result<(), Unreadable> {
    let Late { path, range } = late;
    let whole = range.fetch(archive)?;
    let Some((last, way)) = path.split_last() else { return Ok(()) };
    let mut ops = &mut reply.ops;
    for at in way {
        let Some(OpReply::Txn(nested)) = ops.get_mut(*at) else { return Ok(()) };
        ops = &mut nested.ops;
    }
    ops[*last] = OpReply::Range(whole);
    Ok(())
}

/// Sorts and cuts what was found, as it was asked for.
pub(super) fn arrange(request: &RangeRequest, reply: &mut RangeReply) {
    let Some((by, descending)) = request.order else { return };
    reply.kvs.sort_by(|a, b| if descending { sort(by, b, a) } else { sort(by, a, b) });
    if request.limit > 0 && reply.kvs.len() > request.limit {
        reply.kvs.truncate(request.limit);
        reply.more = true;
    }
    if request.keys_only {
        reply.kvs.iter_mut().for_each(|kv| kv.value = Bytes::new());
    }
}

fn sort(by: SortBy, a: &KeyValue, b: &KeyValue) -> std::cmp::Ordering {
    match by {
        SortBy::Key => a.key.cmp(&b.key),
        SortBy::Version => a.version.cmp(&b.version),
        SortBy::CreateRevision => a.create_revision.cmp(&b.create_revision),
        SortBy::ModRevision => a.mod_revision.cmp(&b.mod_revision),
        SortBy::Value => a.value.cmp(&b.value),
    }
}
