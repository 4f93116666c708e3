//! Room ahead of the log: bytes that the segment which takes records already has on disk, and the segment after it. A
//! thread of its own makes both before they are needed, so that no write waits for it, and so that a full disk is met
//! here, where nothing is lost: it tries again until there is space. Segments that are no longer needed become the next.

use super::WalConfig;
use super::record;
use super::writer::{segment_name, write_zeros};
use crate::disk::{DiskRef, FileRef};
#[cfg(test)]
use crate::plant::{Plant, planted};
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Between two tries to get space.
const PAUSE: Duration = Duration::from_millis(250);
/// Segments kept to become the next ones.
const USED: usize = 2;
/// The next segment until it takes records.
const SPARE: &str = "spare";

/// Whether a write failed because there is no room, which may change.
pub fn is_full(error: &io::Error) -> bool {
    use rustix::io::Errno;
    [Errno::NOSPC, Errno::DQUOT].iter().any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}

/// What a disk has left, for tests to run out of.
#[derive(Clone, Debug, Default)]
pub struct Space {
    #[cfg(test)]
    pub used_up: Arc<std::sync::atomic::AtomicBool>,
}

impl Space {
    pub fn take(&self) -> io::Result<()> {
        #[cfg(test)]
        if self.used_up.load(std::sync::atomic::Ordering::SeqCst) {
            return Err(rustix::io::Errno::NOSPC.into());
        }
        Ok(())
    }
}

/// Shared by the writer, who uses the room, and the thread that makes it.
pub struct Reserve {
    disk: DiskRef,
    dir: PathBuf,
    /// There is no thread: whoever needs room makes it.
    inline: bool,
    space: Space,
    /// How much is made at a time.
    chunk: u64,
    state: Mutex<State>,
    /// There is something to make, or nothing any more.
    wanted: Condvar,
    made: Condvar,
}

struct State {
    sequence: u64,
    /// The length of `sequence`'s file. All of it is there to be written.
    reserved: u64,
    /// How long it should be.
    target: u64,
    /// Whether the next segment should be there, and whether it is.
    next_wanted: bool,
    next: Option<Spare>,
    /// Segments that were purged, oldest first; they keep their names until they become the next.
    used: VecDeque<(u64, FileRef)>,
    /// The last try found no space.
    short: bool,
    /// Nobody waits for space any more.
    closing: bool,
    stop: bool,
    failed: Option<io::Error>,
}

struct Spare {
    file: FileRef,
    reserved: u64,
}

enum Job {
    Extend { sequence: u64, from: u64, to: u64 },
    Next { sequence: u64, used: Option<(u64, FileRef)> },
}

impl Reserve {
    /// For a log whose segment `sequence` has `reserved` bytes.
    pub fn new(
        (disk, dir): (DiskRef, &Path),
        config: &WalConfig,
        sequence: u64,
        reserved: u64,
        inline: bool,
    ) -> Arc<Self> {
        let state = State {
            sequence,
            reserved,
            target: reserved,
            next_wanted: false,
            next: None,
            used: VecDeque::new(),
            short: false,
            closing: false,
            stop: false,
            failed: None,
        };
        let state = Mutex::new(state);
        let (dir, space, chunk) = (dir.to_owned(), config.space.clone(), config.zero_ahead_bytes);
        Arc::new(Self { disk, dir, inline, space, chunk, state, wanted: Condvar::new(), made: Condvar::new() })
    }

    /// Whether there was no space for more when it was last tried.
    pub fn is_short(&self) -> bool {
        self.state.lock().short
    }

    /// From now on nobody waits for space.
    pub fn close(&self) {
        self.state.lock().closing = true;
        self.made.notify_all();
    }

    /// Waits until the current segment has room up to `end`. Asks for more in good time.
    pub fn ensure(&self, end: u64) -> io::Result<()> {
        let mut state = self.state.lock();
        let wanted = end + self.chunk / 2;
        if state.reserved < wanted {
            state.target = wanted.next_multiple_of(self.chunk);
            self.wanted.notify_one();
        }
        while state.reserved < end {
            self.wait(&mut state)?;
        }
        Ok(())
    }

    /// A write into room that was made found no space all the same (a file system that never writes in place).
    pub fn pause(&self) -> io::Result<()> {
        let mut state = self.state.lock();
        state.become_short(&self.dir);
        self.made.wait_for(&mut state, PAUSE);
        if state.closing { Err(closed()) } else { Ok(()) }
    }

    /// Asks for the next segment.
    pub fn want_next(&self) {
        let mut state = self.state.lock();
        if !state.next_wanted {
            state.next_wanted = true;
            self.wanted.notify_one();
        }
    }

    /// Waits for the next segment and makes it the current one under its name, which is durable with its first group.
    pub fn take_next(&self) -> io::Result<FileRef> {
        let mut state = self.state.lock();
        state.next_wanted = true;
        self.wanted.notify_one();
        let spare = loop {
            match state.next.take() {
                Some(spare) => break spare,
                None => self.wait(&mut state)?,
            }
        };
        let sequence = state.sequence + 1;
        self.disk.rename(&self.dir.join(SPARE), &self.dir.join(segment_name(sequence)))?;
        state.sequence = sequence;
        state.reserved = spare.reserved;
        state.target = spare.reserved;
        state.next_wanted = false;
        Ok(spare.file)
    }

    /// Takes a segment that is no longer needed, with its file unless somebody reads it still. Answers those to remove,
    /// oldest first: what stays are the newest, so that the segments on disk always follow each other.
    pub fn recycle(&self, sequence: u64, file: Option<FileRef>) -> Vec<u64> {
        let mut state = self.state.lock();
        let Some(file) = file else {
            let older = std::mem::take(&mut state.used);
            return older.into_iter().map(|(older, _)| older).chain([sequence]).collect();
        };
        state.used.push_back((sequence, file));
        let surplus = state.used.len().saturating_sub(USED);
        state.used.drain(..surplus).map(|(oldest, _)| oldest).collect()
    }

    fn wait(&self, state: &mut parking_lot::MutexGuard<'_, State>) -> io::Result<()> {
        if let Some(error) = &state.failed {
            return Err(io::Error::new(error.kind(), error.to_string()));
        }
        if state.short && state.closing {
            return Err(closed());
        }
        if self.inline {
            return parking_lot::MutexGuard::unlocked(state, || self.make_due());
        }
        self.made.wait(state);
        Ok(())
    }

    pub fn stop(&self) {
        self.state.lock().stop = true;
        self.wanted.notify_one();
    }

    /// The thread: makes what is wanted until it is stopped.
    pub fn run(&self) {
        while let Some(job) = self.next_job() {
            if !self.carry_out(job) {
                let mut state = self.state.lock();
                if !state.stop {
                    self.wanted.wait_for(&mut state, PAUSE);
                }
            }
        }
    }

    /// Without a thread, which would make it ahead: whether a group that ends at `end` will have room. If not, the member is
    /// out of space until this finds some.
    #[cfg(test)]
    pub fn make_ahead(&self, end: u64, segment_bytes: u64) -> bool {
        let full = self.space.take().is_err();
        let mut state = self.state.lock();
        let grows = end + self.chunk / 2 > state.reserved || end >= segment_bytes;
        if full && grows {
            state.become_short(&self.dir);
        } else if !full && !planted(Plant::FullDiskForever) {
            state.short = false;
        }
        // Whoever closes the log does not wait, and is told so.
        !full || state.closing || (end <= state.reserved && end < segment_bytes)
    }

    /// The same without a thread: makes one thing that is wanted.
    fn make_due(&self) -> io::Result<()> {
        let due = self.state.lock().due(self.chunk).ok_or_else(|| io::Error::other("nothing is wanted"))?;
        if self.carry_out(due) { Ok(()) } else { Err(rustix::io::Errno::NOSPC.into()) }
    }

    /// `false`: there is no space.
    fn carry_out(&self, job: Job) -> bool {
        let done = self.make(&job);
        let mut state = self.state.lock();
        let mut room = true;
        match done {
            Ok(spare) => {
                if std::mem::take(&mut state.short) {
                    tracing::info!(dir = %self.dir.display(), "there is space for the log again");
                }
                match (job, spare) {
                    (Job::Extend { sequence, to, .. }, _) if sequence == state.sequence => {
                        state.reserved = state.reserved.max(to);
                    }
                    (Job::Next { .. }, spare) => state.next = spare,
                    (Job::Extend { .. }, _) => {}
                }
            }
            Err(error) if is_full(&error) => {
                state.become_short(&self.dir);
                room = false;
            }
            // The writer has gone on to another segment meanwhile.
            Err(_) if matches!(job, Job::Extend { sequence, .. } if sequence != state.sequence) => {}
            Err(error) => state.failed = Some(error),
        }
        self.made.notify_all();
        room
    }

    fn next_job(&self) -> Option<Job> {
        let mut state = self.state.lock();
        loop {
            if state.stop || state.failed.is_some() {
                return None;
            }
            if let Some(job) = state.due(self.chunk) {
                return Some(job);
            }
            self.wanted.wait(&mut state);
        }
    }

    /// Everything is on disk when it returns, so that whoever uses it has no metadata to wait for. It has a file of its
    /// own, so that an error of the disk that the writer has to hear of is not told here instead.
    fn make(&self, job: &Job) -> io::Result<Option<Spare>> {
        match job {
            Job::Extend { sequence, from, to } => {
                self.space.take()?;
                let file = self.disk.open(&self.dir.join(segment_name(*sequence)))?;
                write_zeros(&*file, *from, *to)?;
                file.sync_data()?;
                Ok(None)
            }
            Job::Next { sequence, used } => self.make_next(*sequence, used.as_ref()).map(Some),
        }
    }

    fn make_next(&self, sequence: u64, used: Option<&(u64, FileRef)>) -> io::Result<Spare> {
        let path = self.dir.join(SPARE);
        let file = match used {
            Some((old, _)) => {
                self.disk.rename(&self.dir.join(segment_name(*old)), &path)?;
                self.disk.open(&path)?
            }
            // What an earlier run left may hold records of this very sequence that never became durable.
            None => self.disk.create(&path)?,
        };
        let mut reserved = file.bytes()?;
        if reserved < self.chunk {
            self.space.take()?;
            write_zeros(&*file, reserved, self.chunk)?;
            reserved = self.chunk;
        }
        record::write_head(&*file, sequence)?;
        file.sync_all()?;
        Ok(Spare { file, reserved })
    }
}

impl State {
    fn due(&mut self, chunk: u64) -> Option<Job> {
        let sequence = self.sequence;
        if self.reserved < self.target {
            let from = self.reserved;
            return Some(Job::Extend { sequence, from, to: self.target.min(from + chunk) });
        }
        if self.next_wanted && self.next.is_none() {
            return Some(Job::Next { sequence: sequence + 1, used: self.used.pop_front() });
        }
        None
    }

    fn become_short(&mut self, dir: &Path) {
        if !std::mem::replace(&mut self.short, true) {
            tracing::error!(dir = %dir.display(), "no space is left for the log; this member takes no writes until there is");
        }
    }
}

fn closed() -> io::Error {
    io::Error::other("the log was closed while it waited for space")
}
