//! Reads: the live keys, the keys as of a retained revision, and the history that watches follow. It changes nothing.

use super::late::{LateRange, arrange};
use super::{Change, Mvcc, Ranged, Undo, Version};
use crate::api::{Event, EventKind, KeyValue, Only, RangeReply, RangeRequest, Revision, SortBy, StoreError};
use bytes::Bytes;
use std::ops::Bound;

/// Values of one answer: a range stops after the key that reaches this, long before the answer is too large to be sent.
const RANGE_BYTES: usize = 8 << 20;

/// `[start, end)`; an empty end means the one key, `\0` means to the end of the key space.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    start: Bytes,
    end: Bytes,
}

impl Span {
    pub fn new(start: Bytes, end: Bytes) -> Self {
        Self { start, end }
    }

    pub fn contains(&self, key: &[u8]) -> bool {
        match &self.end[..] {
            [] => key == self.start,
            [0] => key >= &self.start[..],
            end => key >= &self.start[..] && key < end,
        }
    }

    pub(super) fn bounds(&self) -> (Bound<&[u8]>, Bound<&[u8]>) {
        let start = &self.start[..];
        match &self.end[..] {
            [] => (Bound::Included(start), Bound::Included(start)),
            [0] => (Bound::Included(start), Bound::Unbounded),
            end if end <= start => (Bound::Included(start), Bound::Excluded(start)),
            end => (Bound::Included(start), Bound::Excluded(end)),
        }
    }
}

impl Mvcc {
    pub fn range(&self, request: &RangeRequest) -> Result<Ranged, StoreError> {
        self.range_at(request, self.revision())
    }

    /// `now` is the revision that the live keys are at: the next one while a transaction that has written is under way.
    pub(super) fn range_at(&self, request: &RangeRequest, now: Revision) -> Result<Ranged, StoreError> {
        let span = Span::new(request.start.clone(), request.end.clone());
        let mut found = Found::new(request);
        match request.revision {
            Some(revision) if revision != now => {
                self.check_readable(revision)?;
                self.each_at(&span, revision.0, |kv| found.add(kv));
            }
            _ => self.span(&span).for_each(|kv| found.add(kv)),
        }
        Ok(found.reply(now))
    }

    pub(super) fn check_readable(&self, requested: Revision) -> Result<(), StoreError> {
        if requested > self.revision() {
            return Err(StoreError::Future { requested, current: self.revision() });
        }
        if requested < self.oldest() {
            return Err(StoreError::Compacted { requested, oldest: self.oldest() });
        }
        Ok(())
    }

    /// Whether every event from `from` on is still there (or yet to come).
    pub fn check_watchable(&self, from: Revision) -> Result<(), StoreError> {
        if from.0 < self.compacted {
            return Err(StoreError::Compacted { requested: from, oldest: self.oldest() });
        }
        Ok(())
    }

    /// Visits, in key order, the keys of `span` as they were right after `revision`.
    ///
    /// A key's state then is what its oldest undo record after `revision` says, and the live version if there is none; but
    /// a version that is itself newer was created since, and the key was absent.
    pub(super) fn each_at(&self, span: &Span, revision: u64, mut visit: impl FnMut(&Version)) {
        let mut visit = |kv: &Version| {
            if kv.mod_revision().0 <= revision {
                visit(kv);
            }
        };
        let mut live = self.live.range::<_, [u8]>(span.bounds()).map(|live| &live.0).peekable();
        let mut past = self.past_from(span).filter(|undo| undo.until > revision).peekable();
        while let Some(undo) = past.next() {
            while let Some(kv) = live.next_if(|kv| kv.key() < undo.key()) {
                visit(kv);
            }
            live.next_if(|kv| kv.key() == undo.key());
            while past.next_if(|later| later.key() == undo.key()).is_some() {}
            visit(&undo.prev);
        }
        live.for_each(visit);
    }

    fn past_from<'a>(&'a self, span: &'a Span) -> impl Iterator<Item = &'a Undo> + 'a {
        self.past.range(Undo::first(&span.start)..).take_while(|undo| span.contains(undo.key()))
    }

    /// The events in `span` of one retained revision.
    #[cfg(test)]
    pub fn events(&self, span: &Span, revision: u64, archive: &dyn crate::archive::Archive, into: &mut Vec<Event>) {
        let whole = |version: &Version| crate::archive::bring_back(version, archive).unwrap();
        let Some(commit) = self.commit(revision) else { return };
        for change in commit.changes().iter().filter(|change| span.contains(change.kv.key())) {
            let whole = Change { kv: whole(&change.kv), prev: change.prev.as_ref().map(whole) };
            into.push(whole.event(true));
        }
    }
}

impl Change {
    /// What a watch is told of it. The values that it is told are in memory.
    pub fn event(&self, prev_kv: bool) -> Event {
        Event {
            kind: if self.deleted() { EventKind::Delete } else { EventKind::Put },
            kv: self.kv.key_value(),
            prev_kv: self.prev.as_ref().filter(|_| prev_kv).map(Version::key_value),
        }
    }
}

/// Collects what a range asked for.
struct Found<'a> {
    request: &'a RangeRequest,
    kvs: Vec<KeyValue>,
    /// Keys whose values are to be fetched.
    lacking: Vec<(usize, Version)>,
    count: usize,
    /// Keys and values collected so far.
    bytes: usize,
    /// Keys that were asked for and are left out.
    left: bool,
}

impl<'a> Found<'a> {
    fn new(request: &'a RangeRequest) -> Self {
        Self { request, kvs: Vec::new(), lacking: Vec::new(), count: 0, bytes: 0, left: false }
    }

    fn add(&mut self, kv: &Version) {
        self.count += 1;
        if self.request.count_only || !admits(&self.request.only, kv) {
            return;
        }
        // What is sorted is cut when all of it is there.
        let full = self.request.limit > 0 && self.kvs.len() >= self.request.limit && self.request.order.is_none();
        if full || (self.bytes >= RANGE_BYTES && !self.request.whole) {
            self.left = true;
            return;
        }
        if self.request.keys_only && !matches!(self.request.order, Some((SortBy::Value, _))) {
            self.kvs.push(kv.key_only());
        } else {
            self.bytes += kv.len();
            if kv.away().is_some() {
                self.lacking.push((self.kvs.len(), kv.clone()));
                self.kvs.push(kv.key_only());
            } else {
                self.kvs.push(kv.key_value());
            }
        }
    }

    fn reply(self, revision: Revision) -> Ranged {
        let mut reply = RangeReply { kvs: self.kvs, revision, count: self.count, more: self.left };
        if self.lacking.is_empty() {
            arrange(self.request, &mut reply);
            Ranged::Whole(reply)
        } else {
            Ranged::Late(LateRange { request: self.request.clone(), reply, lacking: self.lacking })
        }
    }
}

fn admits(only: &Only, kv: &Version) -> bool {
    let within =
        |revision: Revision, min: Revision, max: Revision| revision >= min && (max == Revision(0) || revision <= max);
    within(kv.mod_revision(), only.min_mod, only.max_mod)
        && within(kv.create_revision(), only.min_create, only.max_create)
}
