//! Reads whose values may be in the log, and how a state comes to have them there. What is asked of the past is found in the
//! state; what that lacks is fetched beside the tasks that must not wait, from a log in which nothing goes meanwhile.

use super::Hub;
use crate::api::{Op, RangeReply, RangeRequest, Revision, StoreError, Txn, TxnReply};
use crate::archive::{ArchiveRef, Unreadable};
use crate::codec;
use crate::mvcc::{Applied, Due, Entry, Late, Mvcc, Ranged, Reply, Superseded, Swap, Warm, Window, fill};
use crate::offload::offload;
use crate::sink::{Spot, Spots};
use std::collections::VecDeque;
use std::sync::Arc;

/// The log entry that is applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    pub index: u64,
    /// Where its content begins in its bytes.
    pub content_at: usize,
    /// Values that are shorter are of no interest.
    pub least: usize,
}

/// Which log entries made which revisions, as far as they wrote values that may be looked for in the log.
#[derive(Debug, Default)]
pub struct Origins {
    /// The first revision of each, and its index; in order.
    entries: VecDeque<(u64, u64)>,
}

impl Origins {
    /// The entry that wrote a version that has a note.
    fn index(&self, revision: u64) -> Option<u64> {
        let after = self.entries.partition_point(|(first, _)| *first <= revision);
        Some(self.entries.get(after.checked_sub(1)?)?.1)
    }

    fn forget_before(&mut self, index: u64) {
        let gone = self.entries.partition_point(|(_, at)| *at < index);
        self.entries.drain(..gone);
        if self.entries.len() < self.entries.capacity() / 4 {
            self.entries.shrink_to(self.entries.len() * 2);
        }
    }
}

/// How far a value may be from where its predecessor was found among an entry's values: puts that change no value, and
/// branches that are not taken, lie between.
const REACH: usize = 256;

/// Notes in each version after revision `after` where `entry` has its value. Whether there is any.
fn note(state: &Mvcc, after: u64, entry: &Entry, origin: &Origin) -> bool {
    let mut spots = Spots { at: origin.content_at, least: origin.least.max(1), ..Spots::default() };
    codec::put_entry(&mut spots, entry);
    let mut rest = &spots.found[..];
    let mut any = false;
    for commit in (after + 1..=state.revision().0).filter_map(|revision| state.commit(revision)) {
        for version in commit.changes().iter().map(|change| &change.kv) {
            // What is written and what is put come in the same order. A wrong guess is found out when the bytes are compared.
            let is = |spot: &Spot| spot.len == version.value_len() && spot.key == version.key();
            if version.value_len() < spots.least {
                continue;
            }
            let Some(at) = rest.iter().take(REACH).position(is) else { continue };
            if let Ok(offset) = u32::try_from(rest[at].at) {
                version.note(offset);
                any = true;
            }
            rest = &rest[at + 1..];
        }
    }
    any
}

/// A superseded value, and what is known of where the log has it.
#[derive(Clone, Debug)]
pub struct Traced {
    pub what: Superseded,
    pub index: u64,
    /// In the entry's bytes.
    pub at: u32,
}

impl Hub {
    pub(super) fn note_origin(&self, state: &Mvcc, after: u64, entry: &Entry, origin: &Origin) {
        if state.revision().0 > after && note(state, after, entry, origin) {
            self.origins.lock().entries.push_back((after + 1, origin.index));
        }
    }

    /// What may go to the log now. Never what a reader has not been handed yet: that is told from memory.
    pub fn due(&self, window: &mut Window, warm: &Warm, most: usize) -> (Vec<Traced>, bool) {
        let told = Revision(self.told());
        let Due { values, more } = self.look(|state| window.due(state, told, warm, most));
        let origins = self.origins.lock();
        let trace = |what: Superseded| {
            let at = what.version.noted()?;
            let index = origins.index(what.version.mod_revision().0)?;
            Some(Traced { what, index, at })
        };
        (values.into_iter().filter_map(trace).collect(), more)
    }

    /// Forgets where revisions came from that the log before `index` had.
    pub fn forget_origins(&self, index: u64) {
        self.origins.lock().forget_before(index);
    }

    /// Takes places for values. Readers of older views see what was there.
    pub fn put_away(&self, swaps: &[Swap]) {
        self.change(|state| state.put_away(swaps));
    }

    /// The newest state, and an archive that has everything that it lacks for as long as it is kept.
    pub fn pinned_view(&self) -> (Arc<Mvcc>, ArchiveRef) {
        let state = self.state.read();
        // While the state is locked, everything that it refers to is kept.
        (self.view_of(&state), self.archive.pin())
    }

    pub async fn range(&self, request: &RangeRequest) -> Result<RangeReply, StoreError> {
        if request.revision.is_none() && !request.end.is_empty() {
            return whole(self.view().range(request)?, None).await;
        }
        if request.end.is_empty() {
            let (ranged, archive) = self.look(|state| {
                let ranged = state.range(request)?;
                let archive = matches!(ranged, Ranged::Late(_)).then(|| self.archive.pin());
                Ok::<_, StoreError>((ranged, archive))
            })?;
            return whole(ranged, archive).await;
        }
        let (view, archive) = self.pinned_view();
        whole(view.range(request)?, Some(archive)).await
    }

    /// What a transaction that writes nothing answers.
    pub async fn read(&self, txn: &Txn) -> Result<TxnReply, StoreError> {
        if !asks_of_the_past(txn) {
            return Ok(self.view().read(txn)?.0);
        }
        let (view, archive) = self.pinned_view();
        let (mut reply, late) = view.read(txn)?;
        if late.is_empty() {
            return Ok(reply);
        }
        fetch(move || late.into_iter().try_for_each(|late| fill(&mut reply, late, &*archive)).map(|()| reply)).await
    }

    pub(super) fn pin_for(&self, applied: Applied) -> Applied {
        let archive = (!applied.late.is_empty()).then(|| self.archive.pin());
        Applied { archive, ..applied }
    }
}

fn asks_of_the_past(txn: &Txn) -> bool {
    txn.success.iter().chain(&txn.failure).any(|op| match op {
        Op::Range(range) => range.revision.is_some(),
        Op::Txn(txn) => asks_of_the_past(txn),
        Op::Put(_) | Op::Delete(_) => false,
    })
}

/// Runs what reads the log, away from the tasks that must not wait.
async fn fetch<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Unreadable> + Send + 'static,
) -> Result<T, StoreError> {
    let done = offload(work).await.map_err(|error| Unreadable::Interrupted(error.to_string()))?;
    Ok(done?)
}

async fn whole(ranged: Ranged, archive: Option<ArchiveRef>) -> Result<RangeReply, StoreError> {
    match (ranged, archive) {
        (Ranged::Whole(reply), _) => Ok(reply),
        (late, Some(archive)) => fetch(move || late.fetch(&*archive)).await,
        (late, None) => late.fetch(&crate::archive::Nothing).map_err(StoreError::from),
    }
}

/// An entry's replies, with what they lack.
pub async fn replies(applied: Applied) -> Vec<Reply> {
    let Applied { mut replies, late, archive: Some(archive), .. } = applied else { return applied.replies };
    let fill_all = move || {
        for (at, late) in late {
            fill_reply(&mut replies[at], late, &archive);
        }
        replies
    };
    offload(fill_all).await.unwrap_or_default()
}

/// A transaction whose reply cannot be had is done all the same.
fn fill_reply(reply: &mut Reply, late: Late, archive: &ArchiveRef) {
    if let Reply::Txn(txn) = reply
        && let Err(error) = fill(txn, late, &**archive)
    {
        let revision = txn.revision;
        let error = StoreError::from(error);
        *reply = Reply::Refused(StoreError::Unknown(format!("it was done by revision {revision}, but {error}")));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_revision_is_of_the_entry_that_began_last_before_it() {
        let mut origins = Origins::default();
        assert_eq!(origins.index(7), None);
        origins.entries.extend([(5, 50), (6, 51), (9, 60)]);
        let found: Vec<_> = (4..=10).map(|revision| origins.index(revision)).collect();
        assert_eq!(found, [None, Some(50), Some(51), Some(51), Some(51), Some(60), Some(60)]);
        origins.forget_before(51);
        assert_eq!((origins.index(5), origins.index(6)), (None, Some(51)));
    }
}
