//! The log on disk: segments, one writer thread that makes each group of records durable with one fdatasync, and recent
//! entries in memory. It decides when bytes are durable; what they mean is Raft's.

mod archive;
#[cfg(test)]
mod archive_tests;
mod index;
mod open;
pub mod record;
mod reserve;
#[cfg(test)]
mod step;
#[cfg(test)]
mod tests;
mod writer;

use crate::counts::Counts;
use crate::disk::{DiskRef, RealDisk};
use crate::raft::types::{LogId, RaftEntry, TypeConfig, Vote};
use index::Index;
use open::Reserving;
use openraft::storage::IOFlushed;
use parking_lot::{Condvar, Mutex};
use record::State;
use reserve::Reserve;
use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::oneshot;

pub use open::{OpenError, REBUILD};
pub use reserve::{Space, is_full};
#[cfg(test)]
pub use step::Stepper;

/// How a log lies on disk and how long it waits for company.
#[derive(Clone, Debug)]
pub struct WalConfig {
    /// How long the first record of a group waits for more before the fdatasync. Votes do not wait.
    pub linger: Duration,
    /// A segment takes no more records once it is this long.
    pub segment_bytes: u64,
    /// How much is zeroed ahead, so that an fdatasync seldom has to write metadata, and so that what Raft has to write on a
    /// full disk still has a place.
    pub zero_ahead_bytes: u64,
    /// Entries kept in memory for applying and for followers that keep up; others are read from the segments.
    pub cache_bytes: usize,
    pub space: Space,
    pub counts: Arc<Counts>,
}

impl Default for WalConfig {
    fn default() -> Self {
        Self {
            linger: Duration::ZERO,
            segment_bytes: 64 << 20,
            zero_ahead_bytes: 4 << 20,
            cache_bytes: 4 << 20,
            space: Space::default(),
            counts: Arc::default(),
        }
    }
}

/// A handle on one open log. Clones share it; the writer thread ends when the last is dropped.
#[derive(Clone)]
pub struct Wal {
    owner: Arc<Owner>,
}

struct Owner {
    shared: Arc<Shared>,
    writer: Mutex<Option<std::thread::JoinHandle<()>>>,
}

struct Shared {
    reserve: Arc<Reserve>,
    index: Mutex<Index>,
    /// Every answer to a client names it, so it is read without the index.
    term: AtomicU64,
    queue: Mutex<Queue>,
    wake: Condvar,
    /// Tells a stepper that there are jobs.
    #[cfg(test)]
    arrived: tokio::sync::Notify,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    /// The writer waits for a first job (and must be woken for one).
    idle: bool,
    /// Something in the queue does not linger.
    urgent: bool,
    stop: bool,
}

enum Job {
    Append {
        entries: Vec<RaftEntry>,
        flushed: IOFlushed<TypeConfig>,
    },
    State {
        state: State,
        flushed: oneshot::Sender<io::Result<()>>,
    },
    /// Segments that nobody refers to any more may go.
    Release,
}

/// Makes the names in a directory durable.
pub fn sync_dir(dir: &Path) -> io::Result<()> {
    std::fs::File::open(dir)?.sync_all()
}

impl Wal {
    /// Opens or creates the log in `dir`, cutting off a torn tail. Blocks.
    pub fn open(dir: &Path, config: WalConfig) -> Result<Self, OpenError> {
        Self::open_on(RealDisk::shared(), dir, config)
    }

    pub fn open_on(disk: DiskRef, dir: &Path, config: WalConfig) -> Result<Self, OpenError> {
        let (writer, index) = open::open(disk, dir, config, Reserving::Thread)?;
        let shared = Shared::new(&writer, index);
        let thread = {
            let shared = shared.clone();
            std::thread::Builder::new()
                .name("wal".into())
                .spawn(move || writer.run(&shared))
                .map_err(OpenError::Thread)?
        };
        Ok(Self { owner: Arc::new(Owner { shared, writer: Mutex::new(Some(thread)) }) })
    }

    /// Whether the disk has no space for more than what was reserved before. What is appended nevertheless waits for it.
    pub fn is_full(&self) -> bool {
        self.shared().reserve.is_short()
    }

    /// From now on nothing waits for space on the disk; it fails instead.
    pub fn give_up_waiting(&self) {
        self.shared().reserve.close();
    }

    /// Writes what was appended and closes the files; later writes fail. Blocks.
    pub fn close(&self) {
        self.owner.close();
    }

    fn shared(&self) -> &Shared {
        &self.owner.shared
    }

    /// Takes entries, which follow the last one, into the log. They can be read at once; `flushed` is called when they
    /// are durable.
    pub fn append(&self, entries: Vec<RaftEntry>, flushed: IOFlushed<TypeConfig>) {
        self.shared().index.lock().stage(&entries);
        self.shared().push(Job::Append { entries, flushed }, false);
    }

    /// Returns once the vote is durable.
    pub async fn save_vote(&self, vote: Vote) -> io::Result<()> {
        self.shared().index.lock().vote = Some(vote);
        self.shared().term.store(vote.leader_id.term, Ordering::Relaxed);
        self.push_state(State::Vote(vote)).await
    }

    /// Remembers the committed log id with the next group; nobody waits for it.
    pub fn save_committed(&self, committed: Option<LogId>) {
        self.shared().index.lock().committed = committed;
    }

    /// Voids the entries after `last`; returns once that is durable.
    pub async fn truncate_after(&self, last: Option<LogId>) -> io::Result<()> {
        // What is referred to was applied, and what was applied is committed: Raft never takes that back.
        let referred = self.shared().index.lock().referred;
        assert!(
            last.map_or(0, |id| id.index) >= referred,
            "entry {referred} was applied, and the log is cut before it"
        );
        self.shared().index.lock().unstage_after(last.map(|id| id.index));
        self.push_state(State::Truncate(last)).await
    }

    /// Forgets the entries up to `upto`, which a durable snapshot holds; returns once that is durable.
    pub async fn purge(&self, upto: LogId) -> io::Result<()> {
        self.push_state(State::Purge(upto)).await
    }

    async fn push_state(&self, state: State) -> io::Result<()> {
        let (flushed, done) = oneshot::channel();
        self.shared().push(Job::State { state, flushed }, true);
        done.await.map_err(|_| io::Error::other("the log's writer has stopped"))?
    }

    pub fn vote(&self) -> Option<Vote> {
        self.shared().index.lock().vote
    }

    /// The term of the last vote; 0 before the first.
    pub fn term(&self) -> u64 {
        self.shared().term.load(Ordering::Relaxed)
    }

    pub fn committed(&self) -> Option<LogId> {
        self.shared().index.lock().committed
    }

    /// The last purged and the last log id.
    pub fn ends(&self) -> (Option<LogId>, Option<LogId>) {
        let index = self.shared().index.lock();
        (index.purged, index.last.or(index.purged))
    }

    /// The entries of `range` that exist, at least one if any, and no more than about `most_bytes`.
    pub fn read(&self, range: Range<u64>, most_bytes: usize) -> io::Result<Vec<RaftEntry>> {
        let mut entries = Vec::new();
        let mut bytes = 0;
        for at in range {
            let source = self.shared().index.lock().source(at);
            let Some((entry, len)) = source.map(index::Source::load).transpose()? else { break };
            bytes += len;
            if bytes > most_bytes && !entries.is_empty() {
                break;
            }
            entries.push(entry);
        }
        Ok(entries)
    }

    /// The bytes of the entries after `index`: what a restart would have to apply again.
    pub fn bytes_after(&self, index: u64) -> u64 {
        self.shared().index.lock().bytes_after(index)
    }
}

impl Shared {
    fn new(writer: &writer::Writer, index: Index) -> Arc<Self> {
        Arc::new(Self {
            reserve: writer.reserve.clone(),
            term: AtomicU64::new(index.vote.map_or(0, |vote| vote.leader_id.term)),
            index: Mutex::new(index),
            queue: Mutex::default(),
            wake: Condvar::new(),
            #[cfg(test)]
            arrived: tokio::sync::Notify::new(),
        })
    }

    fn push(&self, job: Job, urgent: bool) {
        let mut queue = self.queue.lock();
        if queue.stop {
            drop(queue);
            job.refuse();
            return;
        }
        queue.jobs.push_back(job);
        queue.urgent |= urgent;
        #[cfg(test)]
        self.arrived.notify_one();
        if queue.idle || urgent {
            self.wake.notify_one();
        }
    }
}

impl Job {
    fn refuse(self) {
        let closed = || Err(io::Error::other("the log is closed"));
        match self {
            Self::Append { flushed, .. } => flushed.io_completed(closed()),
            // Whoever asked may have gone.
            Self::State { flushed, .. } => drop(flushed.send(closed())),
            Self::Release => {}
        }
    }
}

impl Owner {
    fn close(&self) {
        self.shared.reserve.close();
        self.shared.queue.lock().stop = true;
        self.shared.wake.notify_one();
        #[cfg(test)]
        self.shared.arrived.notify_one();
        // What was appended is written before the thread ends, and the directory can be opened again after this.
        if let Some(writer) = self.writer.lock().take()
            && writer.join().is_err()
        {
            tracing::error!("the log's writer thread panicked");
        }
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.close();
    }
}
