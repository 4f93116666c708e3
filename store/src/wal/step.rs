//! A log without a thread of its own: whoever holds the stepper says when the next group is written. For simulations.

use super::open::{OpenError, Reserving};
use super::writer::Writer;
use super::{Job, Owner, Shared, Wal, WalConfig, open};
use crate::disk::DiskRef;
use crate::raft::types;
use parking_lot::Mutex;
use std::path::Path;
use std::sync::Arc;

pub struct Stepper {
    shared: Arc<Shared>,
    writer: Writer,
}

/// The record of what is committed, and the end behind the last record.
const MARGIN: usize = 128;

/// What a job takes in the log, or a little more.
fn most_bytes(job: &Job) -> usize {
    match job {
        Job::State { .. } => 64,
        Job::Release => 0,
        Job::Append { entries, .. } => {
            let mut out = Vec::new();
            entries.iter().for_each(|entry| types::put_entry(&mut out, entry));
            out.len() + entries.len() * 24
        }
    }
}

impl Wal {
    pub fn open_stepped(disk: DiskRef, dir: &Path, config: WalConfig) -> Result<(Self, Stepper), OpenError> {
        let (writer, index) = open::open(disk, dir, config, Reserving::Inline)?;
        let shared = Shared::new(&writer, index);
        let wal = Self { owner: Arc::new(Owner { shared: shared.clone(), writer: Mutex::new(None) }) };
        Ok((wal, Stepper { shared, writer }))
    }
}

impl Stepper {
    /// Waits for jobs; `false`: the log is closed and there will be no more.
    pub async fn arrived(&self) -> bool {
        loop {
            let (waiting, stop) = {
                let queue = self.shared.queue.lock();
                (!queue.jobs.is_empty(), queue.stop)
            };
            if waiting || stop {
                return waiting;
            }
            self.shared.arrived.notified().await;
        }
    }

    /// Whether jobs wait.
    pub fn waits(&self) -> bool {
        !self.shared.queue.lock().jobs.is_empty()
    }

    /// Whether the log was last found to be out of space.
    pub fn is_short(&self) -> bool {
        self.writer.reserve.is_short()
    }

    /// Looks whether the disk has room for what has gathered.
    pub fn has_room(&self) -> bool {
        let queue = self.shared.queue.lock();
        let bytes: usize = queue.jobs.iter().map(most_bytes).sum();
        let end = self.writer.segment.at + (bytes + MARGIN) as u64;
        self.writer.reserve.make_ahead(end, self.writer.config.segment_bytes)
    }

    /// Writes what has gathered as one group, makes it durable and says so.
    pub fn step(&mut self) {
        let jobs: Vec<_> = std::mem::take(&mut self.shared.queue.lock().jobs).into();
        self.writer.round(&self.shared, jobs);
    }
}
