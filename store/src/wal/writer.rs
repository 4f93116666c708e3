//! The one thread that writes the log. It takes whatever has gathered, writes it with one call, makes it durable with one
//! fdatasync and only then says so. After an I/O error it refuses everything: what is on disk is no
//! longer known. A full disk is no such error: it is met before anything is written (`reserve`), and waited out.

use super::index::Location;
use super::record::{self, Kind, State};
use super::reserve::{Reserve, is_full};
use super::{Job, Shared, WalConfig};
use crate::disk::{Disk, DiskFile, DiskRef, FileRef};
use crate::plant::{Plant, planted};
use crate::raft::types::{self, LogId, RaftEntry, TypeConfig};
use openraft::storage::IOFlushed;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::sync::oneshot;

/// One page. Larger writes make the kernel keep larger pieces of the file, and it writes a whole piece to the disk for each
/// record that is put into it (measured: 24 KB for 300 B).
static ZEROS: [u8; 4096] = [0; 4096];

pub struct Writer {
    pub disk: DiskRef,
    pub dir: PathBuf,
    pub config: WalConfig,
    pub segment: Segment,
    /// Full segments and the last entry up to each, oldest first.
    pub full: Vec<(u64, u64)>,
    pub last_index: u64,
    /// The committed log id that is written already.
    pub committed: Option<LogId>,
    /// Records of `segment` that are not written yet, and the entries among them.
    pub pending: Vec<u8>,
    pub pending_entries: Vec<(u64, Range<usize>)>,
    pub reserve: Arc<Reserve>,
    pub reserving: Option<std::thread::JoinHandle<()>>,
    /// What the first write that failed met: nothing is written after it.
    pub failed: Option<io::Error>,
    /// Held so that no other process opens the log.
    pub _lock: FileRef,
}

/// The segment that takes records.
pub struct Segment {
    pub sequence: u64,
    pub file: FileRef,
    /// Where the next record goes.
    pub at: u64,
    /// Everything before this is on disk for good; 0 = not even the header.
    pub durable: u64,
}

enum Work {
    Entries(Vec<RaftEntry>),
    State(State),
    Release,
}

/// Who is told when a group is durable.
#[derive(Default)]
struct Waiting {
    appends: Vec<IOFlushed<TypeConfig>>,
    states: Vec<oneshot::Sender<io::Result<()>>>,
}

impl Writer {
    pub fn run(mut self, shared: &Shared) {
        while let Some(jobs) = next_jobs(shared, &self.config) {
            self.round(shared, jobs);
        }
        self.reserve.stop();
        if self.reserving.take().is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the thread that makes room for the log panicked");
        }
    }

    /// Makes a group durable and says so.
    pub fn round(&mut self, shared: &Shared, jobs: Vec<Job>) {
        let (work, waiting) = split(jobs);
        if self.failed.is_none()
            && let Err(error) = self.write_group(shared, work)
        {
            tracing::error!(dir = %self.dir.display(), %error, "the log cannot be written; this member stops writing");
            self.failed = Some(error);
        }
        waiting.tell(self.failed.as_ref());
    }

    fn write_group(&mut self, shared: &Shared, work: Vec<Work>) -> io::Result<()> {
        let mut purged = None;
        if matches!(work[..], [Work::Release]) {
            // Nothing is written for that.
            self.release(shared);
            return Ok(());
        }
        let mut release = false;
        for work in work {
            match work {
                Work::Release => release = true,
                Work::Entries(entries) => {
                    for entry in &entries {
                        self.put_entry(shared, entry)?;
                    }
                }
                Work::State(state) => {
                    self.put_state(shared, &state)?;
                    match state {
                        State::Truncate(last) => {
                            self.flush(shared)?;
                            self.last_index = last.map_or(0, |id| id.index);
                            shared.index.lock().unwrite_after(last.map(|id| id.index));
                        }
                        State::Purge(upto) => purged = purged.max(Some(upto)),
                        State::Vote(_) | State::Committed(_) => {}
                    }
                }
            }
        }
        let committed = shared.index.lock().committed;
        if committed != self.committed {
            self.put_state(shared, &State::Committed(committed))?;
            self.committed = committed;
        }
        self.flush(shared)?;
        self.sync()?;
        shared.index.lock().evict(self.last_index, self.config.cache_bytes);
        if let Some(upto) = purged {
            shared.index.lock().purge(upto);
        }
        if release || purged.is_some() {
            self.release(shared);
        }
        Ok(())
    }

    fn put_entry(&mut self, shared: &Shared, entry: &RaftEntry) -> io::Result<()> {
        self.make_room(shared)?;
        let at = self.put(Kind::Entry, |out| types::put_entry(out, entry));
        self.pending_entries.push((entry.log_id.index, at));
        self.last_index = entry.log_id.index;
        Ok(())
    }

    fn put_state(&mut self, shared: &Shared, state: &State) -> io::Result<()> {
        self.make_room(shared)?;
        self.put(state.kind(), |out| out.extend(state.encode()));
        Ok(())
    }

    fn put(&mut self, kind: Kind, payload: impl FnOnce(&mut Vec<u8>)) -> Range<usize> {
        record::put(&mut self.pending, self.segment.sequence, self.segment.durable as u32, kind, payload)
    }

    /// Starts the next segment if this one is full.
    fn make_room(&mut self, shared: &Shared) -> io::Result<()> {
        if self.segment.at + (self.pending.len() as u64) < self.config.segment_bytes {
            return Ok(());
        }
        self.flush(shared)?;
        // A segment is never followed by another before all of it is durable, so only the last can have a torn tail.
        self.sync()?;
        self.full.push((self.segment.sequence, self.last_index));
        let file = self.reserve.take_next()?;
        let at = record::SEGMENT_HEADER as u64;
        self.segment = Segment { sequence: self.segment.sequence + 1, file, at, durable: 0 };
        let (vote, purged, committed) = {
            let mut index = shared.index.lock();
            index.segments.insert(self.segment.sequence, self.segment.file.clone());
            (index.vote, index.purged, self.committed)
        };
        let states = [vote.map(State::Vote), purged.map(State::Purge), committed.map(|id| State::Committed(Some(id)))];
        for state in states.into_iter().flatten() {
            self.put(state.kind(), |out| out.extend(state.encode()));
        }
        Ok(())
    }

    /// Writes what is pending, and the end of the log after it. Waits for space if there is none: nothing of it was said to
    /// be durable yet.
    fn flush(&mut self, shared: &Shared) -> io::Result<()> {
        if self.pending.is_empty() {
            return Ok(());
        }
        let segment = &mut self.segment;
        let end = segment.at + self.pending.len() as u64;
        self.pending.resize(self.pending.len() + record::RECORD_HEADER, 0);
        self.reserve.ensure(segment.at + self.pending.len() as u64)?;
        while let Err(error) = segment.file.write_all_at(&self.pending, segment.at) {
            if !is_full(&error) {
                return Err(error);
            }
            self.reserve.pause()?;
        }
        if end > self.config.segment_bytes / 2 {
            self.reserve.want_next();
        }
        let mut index = shared.index.lock();
        for (entry, at) in self.pending_entries.drain(..) {
            let place = segment.at + at.start as u64;
            index.wrote(entry, Location { segment: segment.sequence, at: place as u32, len: at.len() as u32 });
        }
        segment.at = end;
        self.pending.clear();
        self.pending.shrink_to(1 << 20);
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        if planted(Plant::EarlyFsync) {
            self.segment.durable = self.segment.at;
            return Ok(());
        }
        let began = tokio::time::Instant::now();
        self.segment.file.sync_data()?;
        self.config.counts.fsync.note(began.elapsed());
        if self.segment.durable == 0 {
            self.disk.sync_dir(&self.dir)?;
        }
        self.segment.durable = self.segment.at;
        Ok(())
    }

    /// Gives the segments back that hold nothing but purged entries that nobody refers to.
    fn release(&mut self, shared: &Shared) {
        let mut index = shared.index.lock();
        let purged = index.purged.map_or(0, |purged| purged.index);
        let keep = index.keep.filter(|_| !planted(Plant::EarlyRelease)).unwrap_or(u64::MAX);
        let is_gone = |(sequence, last): &&(u64, u64)| *last <= purged && *sequence < keep;
        let gone = self.full.iter().take_while(is_gone).count();
        if let Some((_, last)) = self.full[..gone].last() {
            index.forget_written(*last);
        }
        for (sequence, _) in self.full.drain(..gone) {
            // Somebody who found an entry in it just now may still read it: then it must stay as it is.
            let file = index.segments.remove(&sequence).filter(|file| Arc::strong_count(file) == 1);
            for sequence in self.reserve.recycle(sequence, file) {
                let path = self.dir.join(segment_name(sequence));
                if let Err(error) = self.disk.remove(&path) {
                    tracing::warn!(path = %path.display(), %error, "a log segment that is no longer needed cannot be removed");
                }
            }
        }
    }
}

impl Segment {
    /// Makes a segment that is durable with its first group.
    pub fn create(disk: &dyn Disk, dir: &Path, sequence: u64) -> io::Result<Self> {
        let path = dir.join(segment_name(sequence));
        let file = disk.create(&path)?;
        record::write_head(&*file, sequence)?;
        Ok(Self { sequence, file, at: record::SEGMENT_HEADER as u64, durable: 0 })
    }
}

pub fn segment_name(sequence: u64) -> String {
    format!("{sequence:016x}.wal")
}

pub fn write_zeros(file: &dyn DiskFile, from: u64, to: u64) -> io::Result<()> {
    let mut at = from;
    while at < to {
        // Up to the next page's beginning.
        let n = (ZEROS.len() as u64 - at % ZEROS.len() as u64).min(to - at);
        file.write_all_at(&ZEROS[..n as usize], at)?;
        at += n;
    }
    Ok(())
}

/// Waits for jobs and takes all of them; `None` when the log is closed and everything is written.
fn next_jobs(shared: &Shared, config: &WalConfig) -> Option<Vec<Job>> {
    let mut queue = shared.queue.lock();
    while queue.jobs.is_empty() {
        if queue.stop {
            return None;
        }
        queue.idle = true;
        shared.wake.wait(&mut queue);
        queue.idle = false;
    }
    if !config.linger.is_zero() && !queue.urgent && !queue.stop {
        // Only a job that does not linger wakes it; waking early is harmless.
        shared.wake.wait_for(&mut queue, config.linger);
    }
    queue.urgent = false;
    Some(std::mem::take(&mut queue.jobs).into())
}

fn split(jobs: Vec<Job>) -> (Vec<Work>, Waiting) {
    let mut waiting = Waiting::default();
    let work = jobs.into_iter().map(|job| match job {
        Job::Append { entries, flushed } => {
            waiting.appends.push(flushed);
            Work::Entries(entries)
        }
        Job::State { state, flushed } => {
            waiting.states.push(flushed);
            Work::State(state)
        }
        Job::Release => Work::Release,
    });
    (work.collect(), waiting)
}

impl Waiting {
    fn tell(self, failed: Option<&io::Error>) {
        let result = || failed.map_or(Ok(()), |error| Err(io::Error::new(error.kind(), error.to_string())));
        self.appends.into_iter().for_each(|flushed| flushed.io_completed(result()));
        for flushed in self.states {
            // Whoever asked may have gone; the record is durable all the same.
            let _ = flushed.send(result());
        }
    }
}
