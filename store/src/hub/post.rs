//! A reader's letter box: the commits that concern it, put there by the hub and taken out at the reader's own pace. It holds
//! little; what does not fit is left in the history, where the reader looks for itself.

use crate::mvcc::Commit;
use parking_lot::Mutex;
use std::collections::VecDeque;
use tokio::sync::Notify;

/// Bytes of keys and values that waiting commits may keep beyond a compaction.
const MOST_BYTES: usize = 1 << 20;
/// Room for commits that a reader without any keeps.
const KEPT: usize = 8;

/// Bytes of keys and values, near enough to bound batches with.
pub fn weight(commit: &Commit) -> usize {
    commit.changes().iter().map(|change| change.kv.len()).sum()
}

pub struct Post {
    /// Commits that wait at most.
    most: usize,
    inbox: Mutex<Inbox>,
    bell: Notify,
}

#[derive(Default)]
struct Inbox {
    /// In order, each once.
    waiting: VecDeque<(u64, Commit)>,
    bytes: usize,
    /// Everything before this revision was put here; from it on the reader must look into the history.
    missed: Option<u64>,
    /// The first revision that some watch of the reader still has to be told of, if the reader is not through.
    unread: Option<u64>,
}

/// What a reader finds.
pub enum Found {
    Commit(u64, Commit),
    Missed(u64),
    Nothing,
}

impl Post {
    pub fn new(most: usize) -> Self {
        Self { most, inbox: Mutex::default(), bell: Notify::new() }
    }

    /// Whether it was taken in; the same commit is taken once.
    pub fn put(&self, revision: u64, commit: &Commit, bytes: usize) -> bool {
        let mut inbox = self.inbox.lock();
        let last = inbox.waiting.back().map(|(last, _)| *last);
        if inbox.missed.is_some() || last == Some(revision) {
            return false;
        }
        if inbox.waiting.len() >= self.most || (!inbox.waiting.is_empty() && inbox.bytes + bytes > MOST_BYTES) {
            inbox.missed = Some(revision);
        } else {
            inbox.bytes += bytes;
            inbox.waiting.push_back((revision, commit.clone()));
        }
        drop(inbox);
        self.bell.notify_one();
        true
    }

    /// The history was cut: the reader must see itself what is left from `revision` on.
    pub fn miss(&self, revision: u64) {
        self.inbox.lock().missed.get_or_insert(revision);
        self.bell.notify_one();
    }

    pub fn take(&self) -> Found {
        let mut inbox = self.inbox.lock();
        match inbox.waiting.pop_front() {
            Some((revision, commit)) => {
                inbox.bytes -= weight(&commit);
                if inbox.waiting.is_empty() && inbox.waiting.capacity() > KEPT {
                    // A reader that hears of something once an hour does not keep a burst's room.
                    inbox.waiting = VecDeque::new();
                }
                Found::Commit(revision, commit)
            }
            None => inbox.missed.map_or(Found::Nothing, Found::Missed),
        }
    }

    /// Takes commits again; only while the hub puts none.
    pub fn resume(&self) {
        self.inbox.lock().missed = None;
    }

    pub fn set_unread(&self, revision: Option<u64>) {
        self.inbox.lock().unread = revision;
    }

    /// The first revision that the reader may not have delivered; `None`: it has delivered all that it was told of.
    pub fn behind_from(&self) -> Option<u64> {
        let inbox = self.inbox.lock();
        let waiting = inbox.waiting.front().map(|(revision, _)| *revision);
        [waiting, inbox.missed, inbox.unread].into_iter().flatten().min()
    }

    pub async fn rung(&self) {
        self.bell.notified().await;
    }
}
