//! A reader: many watches of one stream, and what each of them is told next. Watches that are in step share the reader's place
//! in the history and take what comes to its post; watches that began in the past go through the history together until
//! they are in step. A reader that did not keep up goes through the history as well.
//!
//! It decides order and batches. It never waits; who holds it waits for [`Reader::news`] when there is nothing to do.

use super::Hub;
use super::index::{Index, Reach};
use super::post::{Found, Post};
use super::round::{Fetch, Fetched, Hit, News, Round};
use crate::api::{Revision, StoreError, WatchBatch, WatchRequest};
use crate::mvcc::Commit;
use crate::plant::{Plant, planted};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// How a watch's events are chosen, and what its owner notes about it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    pub prev_kv: bool,
    pub no_put: bool,
    pub no_delete: bool,
    /// The owner's.
    pub fragment: bool,
    pub progress: bool,
}

/// What one watch is told.
#[derive(Debug)]
pub struct Delivery {
    pub id: i64,
    pub options: Options,
    /// An error has ended the watch.
    pub batch: Result<WatchBatch, StoreError>,
}

#[derive(Debug)]
pub enum Step {
    Delivery(Delivery),
    /// Values that are to be told are in the log: nothing comes before [`Reader::fetched`] has them.
    Fetch(Fetch),
    /// Nothing yet; ask again after letting others work.
    Busy,
    /// Every watch has been told everything.
    Idle,
}

struct Record {
    reach: Reach,
    id: i64,
    /// Nothing before this revision is told.
    next: u64,
    options: Options,
    /// Not in step: in `Reader::past`.
    past: bool,
}

pub struct Reader {
    hub: Arc<Hub>,
    post: Arc<Post>,
    number: u32,
    slots: Vec<Option<Record>>,
    free: Vec<u32>,
    ids: BTreeMap<i64, u32>,
    index: Index<u32>,
    /// Watches in step have been told of everything up to here, but for the round.
    at: u64,
    /// Watches out of step, with the revision up to which only the history can tell them.
    past: BTreeMap<u32, u64>,
    /// Watches of revisions that did not exist yet: the first that each wants, and its slot.
    future: BTreeSet<(u64, u32)>,
    round: Round,
    ended: VecDeque<Delivery>,
    past_turn: bool,
}

impl Reader {
    pub fn new(hub: &Arc<Hub>) -> Self {
        let post = Arc::new(Post::new(hub.bounds.post));
        let (number, at) = hub.enter(post.clone());
        Self {
            hub: hub.clone(),
            post,
            number,
            slots: Vec::new(),
            free: Vec::new(),
            ids: BTreeMap::new(),
            index: Index::default(),
            at,
            past: BTreeMap::new(),
            future: BTreeSet::new(),
            round: Round::default(),
            ended: VecDeque::new(),
            past_turn: false,
        }
    }

    /// Starts a watch; `id` must be free. `from` 0 means everything after now; the revision that it then begins after
    /// comes back.
    pub fn open(&mut self, id: i64, request: &WatchRequest, options: Options) -> Result<Revision, StoreError> {
        assert!(!self.has(id), "the owner gives each watch a number of its own");
        let next = self.hub.look(|state| {
            let next = if request.from.0 == 0 { state.revision().0 + 1 } else { request.from.0 };
            let next = if planted(Plant::SkippedGap) { next.max(state.oldest().0) } else { next };
            state.check_watchable(Revision(next)).map(|()| next)
        })?;
        let reach = Reach::new(&request.start, &request.end);
        let (reach, told) = self.hub.add(self.number, &self.index.get(&reach).unwrap_or(reach));
        // A reader that looks for itself may be ahead of what was dispatched.
        let told = told.max(self.at);
        let past = next <= told;
        let record = Record { reach: reach.clone(), id, next, options, past };
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            u32::try_from(self.slots.len() - 1).expect("four billion watches do not fit into memory")
        });
        self.slots[slot as usize] = Some(record);
        self.ids.insert(id, slot);
        self.index.insert(&reach, slot);
        if past {
            self.past.insert(slot, told);
        } else if next > told + 1 {
            self.future.insert((next, slot));
        }
        self.note();
        Ok(Revision(next - 1))
    }

    /// Ends a watch; nothing more is told of it. `false`: there is none.
    pub fn close(&mut self, id: i64) -> bool {
        if let Some(slot) = self.ids.remove(&id) {
            self.forget(slot);
            return true;
        }
        let ended = self.ended.iter().position(|ended| ended.id == id);
        ended.and_then(|at| self.ended.remove(at)).is_some()
    }

    fn forget(&mut self, slot: u32) -> Option<Record> {
        let record = self.slots[slot as usize].take()?;
        self.free.push(slot);
        self.index.remove(&record.reach, slot);
        self.past.remove(&slot);
        self.future.remove(&(record.next, slot));
        // The slot may be another watch's before the round is over.
        let rest = &self.round.hits[self.round.told..];
        let first = self.round.told + rest.partition_point(|hit| hit.slot < slot);
        let last = self.round.told + rest.partition_point(|hit| hit.slot <= slot);
        self.round.hits.drain(first..last);
        let gone = self.index.get(&record.reach).is_none().then_some(&record.reach);
        self.hub.remove(self.number, 1, gone);
        Some(record)
    }

    pub fn has(&self, id: i64) -> bool {
        self.ids.contains_key(&id) || self.ended.iter().any(|ended| ended.id == id)
    }

    /// What one watch has been told up to, if it has come to its first revision and nothing is on the way to it.
    pub fn position(&self, id: i64) -> Option<Revision> {
        let record = self.slots[*self.ids.get(&id)? as usize].as_ref()?;
        let at = if record.past { record.next - 1 } else { self.at };
        (self.round.is_over() && record.next <= at + 1).then_some(Revision(at))
    }

    /// Where the watches in step are; before the round that is being told.
    pub fn base(&self) -> Revision {
        Revision(if self.round.is_over() { self.at } else { self.round.base })
    }

    /// The newest revision. When [`Reader::reached`] holds for it, every watch has been told everything before.
    pub fn mark(&self) -> Revision {
        self.hub.dispatch();
        Revision(self.hub.dispatched())
    }

    /// Whether every watch has been told of everything up to `revision`. A watch that has not begun by then has not.
    pub fn reached(&self, revision: Revision) -> bool {
        self.round.is_over()
            && self.ended.is_empty()
            && self.past.is_empty()
            && self.at >= revision.0
            && self.future.last().is_none_or(|(next, _)| *next <= revision.0 + 1)
    }

    /// Waits until there may be something to do. Cancelling it loses nothing.
    pub async fn news(&self) {
        self.post.rung().await;
    }

    pub fn step(&mut self) -> Step {
        loop {
            if let Some(ended) = self.ended.pop_front() {
                return Step::Delivery(ended);
            }
            if let Some(fetch) = self.round.lacking() {
                return Step::Fetch(fetch);
            }
            if let Some(delivery) = self.tell() {
                return Step::Delivery(delivery);
            }
            let turn = self.turn();
            self.note();
            match turn {
                Turn::Idle => return Step::Idle,
                Turn::Worked if self.round.is_over() && self.ended.is_empty() => return Step::Busy,
                Turn::Worked => {}
            }
        }
    }

    /// Takes what was fetched into the round. If that failed, the watches that it is for end.
    pub fn fetched(&mut self, fetched: Fetched) {
        match fetched {
            Fetched(Ok(found)) => self.round.take(found),
            Fetched(Err(error)) => {
                let error = StoreError::from(error);
                let slots: BTreeSet<u32> = self.round.hits.iter().map(|hit| hit.slot).collect();
                for slot in slots {
                    let Some(record) = self.forget(slot) else { continue };
                    self.ids.remove(&record.id);
                    let batch = Err(error.clone());
                    self.ended.push_back(Delivery { id: record.id, options: record.options, batch });
                }
                self.round = Round::default();
            }
        }
    }

    /// The next watch's part of the round.
    fn tell(&mut self) -> Option<Delivery> {
        let rest = &self.round.hits[self.round.told..];
        let slot = rest.first()?.slot;
        let hits = &rest[..rest.partition_point(|hit| hit.slot <= slot)];
        let record = self.slots[slot as usize].as_ref().expect("what is forgotten leaves the round");
        let (id, options) = (record.id, record.options);
        let news = &mut self.round.news;
        let events = hits.iter().map(|hit| news[hit.news as usize].event(options.prev_kv)).collect();
        let batch = WatchBatch { revision: Revision(self.round.end), events };
        let delivery = Delivery { id, options, batch: Ok(batch) };
        self.round.told += hits.len();
        if self.round.is_over() {
            // A reader that waits keeps nothing.
            self.round = Round::default();
        }
        Some(delivery)
    }

    /// Looks for the next round, by turns for the watches in step and for those that are not.
    fn turn(&mut self) -> Turn {
        self.past_turn = !self.past_turn;
        let one = if self.past_turn { self.past() } else { self.present() };
        let worked = one || if self.past_turn { self.present() } else { self.past() };
        if worked { Turn::Worked } else { Turn::Idle }
    }

    /// Tells the hub's figures how far this reader is.
    fn note(&self) {
        let past = self.past.keys().filter_map(|slot| self.slots[*slot as usize].as_ref()).map(|record| record.next);
        let round = (!self.round.is_over()).then_some(self.round.base + 1);
        self.post.set_unread(past.chain(round).min());
    }
}

enum Turn {
    Worked,
    Idle,
}

/// The search for the next round.
impl Reader {
    fn present(&mut self) -> bool {
        // Read first: what is in the post afterwards is everything up to here, and perhaps more.
        let told = self.hub.dispatched();
        let before = self.at;
        let mut round = Round { base: before, ..Round::default() };
        let worked = loop {
            match self.post.take() {
                Found::Commit(revision, _) if revision <= self.at => {}
                Found::Commit(revision, commit) => {
                    self.at = revision;
                    self.collect(&mut round, revision, &commit, false);
                    if round.is_full(self.hub.bounds.round) {
                        break true;
                    }
                }
                Found::Nothing => {
                    self.at = self.at.max(told);
                    break !round.hits.is_empty();
                }
                // First what came by post.
                Found::Missed(_) if !round.hits.is_empty() => break true,
                Found::Missed(revision) => {
                    self.at = self.at.max(revision - 1);
                    self.look(&mut round);
                    break true;
                }
            }
        };
        self.begin(round, self.at);
        while self.future.first().is_some_and(|(next, _)| *next <= self.at + 1) {
            self.future.pop_first();
        }
        worked
    }

    /// Goes on through the history, for the watches in step.
    fn look(&mut self, round: &mut Round) {
        let (view, archive) = self.hub.pinned_view();
        round.archive = Some(archive);
        if view.check_watchable(Revision(self.at + 1)).is_err() {
            let oldest = view.oldest().0;
            self.lose(oldest, |record| !record.past && record.next < oldest);
            self.at = oldest - 1;
        }
        let newest = view.revision().0;
        for revision in self.at + 1..=newest.min(self.at + self.hub.bounds.look) {
            // The first revision of all is nobody's.
            if let Some(commit) = view.commit(revision) {
                self.collect(round, revision, commit, false);
            }
            self.at = revision;
            if round.is_full(self.hub.bounds.round) {
                return;
            }
        }
        if self.at >= newest {
            // If more was dispatched meanwhile, the next turn goes on from here.
            self.hub.resume(&self.post, self.at);
        }
    }

    /// Goes on through the history, for the watches that are not in step, all at once.
    fn past(&mut self) -> bool {
        let records = self.past.keys().filter_map(|slot| self.slots[*slot as usize].as_ref());
        let Some(first) = records.map(|record| record.next).min() else { return false };
        let (view, archive) = self.hub.pinned_view();
        if view.check_watchable(Revision(first)).is_err() {
            let oldest = view.oldest().0;
            self.lose(oldest, |record| record.past && record.next < oldest);
            return true;
        }
        let last = self.past.values().copied().fold(self.at, u64::max);
        let mut round = Round { base: first - 1, archive: Some(archive), ..Round::default() };
        let mut end = first - 1;
        for revision in first..=last.min(first + self.hub.bounds.look) {
            if let Some(commit) = view.commit(revision) {
                self.collect(&mut round, revision, commit, true);
            }
            end = revision;
            if round.is_full(self.hub.bounds.round) {
                break;
            }
        }
        self.begin(round, end);
        let (slots, at) = (&mut self.slots, self.at);
        self.past.retain(|slot, told| {
            let Some(record) = &mut slots[*slot as usize] else { return false };
            record.next = record.next.max(end + 1);
            record.past = record.next <= at.max(*told);
            record.past
        });
        true
    }

    /// Ends the watches whose next revisions are compacted.
    fn lose(&mut self, oldest: u64, lost: impl Fn(&Record) -> bool) {
        let slots = (0_u32..).zip(&self.slots);
        let slots: Vec<u32> =
            slots.filter(|(_, record)| record.as_ref().is_some_and(&lost)).map(|(at, _)| at).collect();
        for slot in slots {
            let Some(record) = self.forget(slot) else { continue };
            self.ids.remove(&record.id);
            let requested = Revision(if record.past { record.next } else { record.next.max(self.at + 1) });
            let error = StoreError::Compacted { requested, oldest: Revision(oldest) };
            self.ended.push_back(Delivery { id: record.id, options: record.options, batch: Err(error) });
        }
    }

    /// Adds what the watches in step, or those that are not, are to be told of `commit`.
    fn collect(&self, round: &mut Round, revision: u64, commit: &Commit, past: bool) {
        for change in commit.changes() {
            let before = round.hits.len();
            let mut prev = false;
            let news = u32::try_from(round.news.len()).expect("a round's changes are bounded");
            self.index.visit(change.kv.key(), |slot| {
                let record = self.slots[slot as usize].as_ref().expect("what is forgotten leaves the index");
                let filtered = if change.deleted() { record.options.no_delete } else { record.options.no_put };
                if record.past == past && record.next <= revision && !filtered {
                    round.hits.push(Hit { slot, news });
                    prev |= record.options.prev_kv;
                }
            });
            if round.hits.len() > before {
                round.add(News::new(change, prev));
            }
        }
    }

    fn begin(&mut self, mut round: Round, end: u64) {
        round.end = end;
        // Stable: each watch keeps the order of history.
        round.hits.sort_by_key(|hit| hit.slot);
        self.round = round;
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let records: Vec<_> = self.slots.iter().flatten().collect();
        // In portions, because dispatching waits meanwhile.
        for some in records.chunks(256) {
            self.hub.remove(self.number, some.len(), some.iter().map(|record| &record.reach));
        }
        self.hub.leave(self.number);
    }
}
