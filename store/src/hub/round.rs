//! What a reader tells next: the changes of some revisions, which of its watches hear of which, and the values that have to be
//! fetched from the log first.

use crate::api::Event;
use crate::archive::{ArchiveRef, Unreadable, bring_back};
use crate::mvcc::{Change, Version};
use crate::offload::offload;

/// Bytes of keys and values after which a round ends.
const ROUND_BYTES: usize = 4 << 20;

/// One change, and its event once somebody has been told of it: those who are told share the bytes.
pub struct News {
    change: Change,
    /// Somebody is told what was before.
    prev: bool,
    event: Option<Event>,
}

impl News {
    pub fn new(change: &Change, prev: bool) -> Self {
        Self { change: change.clone(), prev, event: None }
    }

    /// The versions that are told.
    fn told(&mut self) -> impl Iterator<Item = &mut Version> {
        let prev = self.change.prev.as_mut().filter(|_| self.prev);
        std::iter::once(&mut self.change.kv).chain(prev)
    }

    pub fn event(&mut self, prev_kv: bool) -> Event {
        if prev_kv {
            return self.change.event(true);
        }
        self.event.get_or_insert_with(|| self.change.event(false)).clone()
    }
}

/// What one watch is to be told of.
pub struct Hit {
    pub slot: u32,
    pub news: u32,
}

/// What is being told, and to whom, watch by watch.
#[derive(Default)]
pub struct Round {
    pub news: Vec<News>,
    pub bytes: usize,
    pub hits: Vec<Hit>,
    pub told: usize,
    /// The revision before the round, and its last.
    pub base: u64,
    pub end: u64,
    /// Who has the values that are in the log, if the round went through the history.
    pub archive: Option<ArchiveRef>,
}

impl Round {
    pub fn is_full(&self, events: usize) -> bool {
        self.hits.len() >= events || self.bytes >= ROUND_BYTES
    }

    pub fn is_over(&self) -> bool {
        self.told == self.hits.len()
    }

    pub fn add(&mut self, mut news: News) {
        self.bytes += news.told().map(|version| version.len()).sum::<usize>();
        self.news.push(news);
    }

    /// What is to be fetched before anything of the round is told.
    pub fn lacking(&mut self) -> Option<Fetch> {
        // What came by post is in memory.
        let archive = self.archive.as_ref()?;
        let versions = self.news.iter_mut().flat_map(News::told).filter(|version| version.away().is_some());
        let versions: Vec<_> = versions.map(|version| version.clone()).collect();
        if versions.is_empty() || self.is_over() {
            self.archive = None;
            return None;
        }
        Some(Fetch { versions, archive: archive.clone() })
    }

    /// Takes the versions that were lacking, in the same order.
    pub fn take(&mut self, found: Vec<Version>) {
        let lacking = self.news.iter_mut().flat_map(News::told).filter(|version| version.away().is_some());
        lacking.zip(found).for_each(|(version, found)| *version = found);
    }
}

/// Values to be read from the log for a reader.
#[derive(Debug)]
pub struct Fetch {
    versions: Vec<Version>,
    archive: ArchiveRef,
}

pub struct Fetched(pub Result<Vec<Version>, Unreadable>);

impl Fetch {
    /// Blocks.
    pub fn run(self) -> Fetched {
        Fetched(self.versions.iter().map(|version| bring_back(version, &*self.archive)).collect())
    }

    /// Reads away from the tasks that must not wait.
    pub async fn run_beside(self) -> Fetched {
        let lost = |error: tokio::task::JoinError| Fetched(Err(Unreadable::Interrupted(error.to_string())));
        offload(move || self.run()).await.unwrap_or_else(lost)
    }
}
