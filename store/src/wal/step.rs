//! A log without a thread of its own: whoever holds the stepper says when the next group is written. For simulations.

use super::open::{OpenError, Reserving};
use super::writer::Writer;
use super::{Owner, Shared, Wal, WalConfig, open};
use crate::disk::DiskRef;
use parking_lot::Mutex;
use std::path::Path;
use std::sync::Arc;

pub struct Stepper {
    shared: Arc<Shared>,
    writer: Writer,
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

    /// Writes what has gathered as one group, makes it durable and says so.
    pub fn step(&mut self) {
        let jobs: Vec<_> = std::mem::take(&mut self.shared.queue.lock().jobs).into();
        self.writer.round(&self.shared, jobs);
    }
}
