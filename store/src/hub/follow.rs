//! A watch in this process: a reader of one watch, whose batches go into a channel. A reader that neither keeps up nor ends is
//! cut off at the permitted lag.

use super::Hub;
use super::reader::{Options, Reader, Step};
use crate::api::{Revision, StoreError, Watch, WatchBatch, WatchRequest};
use crate::signal as watch;
use std::sync::Arc;
use tokio::sync::{Notify, mpsc};

/// Batches that wait in a watch's channel.
const CHANNEL: usize = 16;

type Batch = Result<WatchBatch, StoreError>;

pub fn follow(hub: &Arc<Hub>, request: &WatchRequest) -> Result<Watch, StoreError> {
    let mut reader = Reader::new(hub);
    reader.open(0, request, Options { prev_kv: request.prev_kv, ..Options::default() })?;
    let (sender, receiver) = mpsc::channel(CHANNEL);
    let asked = Arc::new(Notify::new());
    let follower = Follower {
        reader,
        applied: hub.applied.subscribe(),
        lag: hub.bounds.lag,
        asked: asked.clone(),
        owed: None,
        sender,
    };
    tokio::spawn(follower.run());
    Ok(Watch::new(receiver, Some(Box::new(move || asked.notify_one()))))
}

struct Follower {
    reader: Reader,
    applied: watch::Receiver<Revision>,
    lag: u64,
    asked: Arc<Notify>,
    /// A progress batch is due once everything up to here was told.
    owed: Option<Revision>,
    sender: mpsc::Sender<Batch>,
}

impl Follower {
    async fn run(mut self) {
        while let Ok(()) = self.turn().await {}
    }

    /// An error ends the watch.
    async fn turn(&mut self) -> Result<(), ()> {
        match self.reader.step() {
            Step::Delivery(delivery) => self.send(delivery.batch).await,
            Step::Fetch(fetch) => {
                self.reader.fetched(fetch.run_beside().await);
                Ok(())
            }
            Step::Busy => {
                tokio::task::yield_now().await;
                Ok(())
            }
            Step::Idle => {
                if self.owed.is_some_and(|revision| self.reader.reached(revision)) {
                    self.owed = None;
                    return self.send(Ok(WatchBatch { revision: self.reader.base(), events: Vec::new() })).await;
                }
                tokio::select! {
                    biased;
                    () = self.reader.news() => {}
                    () = self.asked.notified() => self.owed = Some(self.reader.mark()),
                    () = self.sender.closed() => return Err(()),
                }
                Ok(())
            }
        }
    }

    /// Waits for room in the channel, but not beyond the permitted lag.
    async fn send(&mut self, batch: Batch) -> Result<(), ()> {
        let over = batch.is_err();
        let limit = Revision(self.reader.base().0.saturating_add(1 + self.lag));
        let permit = tokio::select! {
            biased;
            permit = self.sender.reserve() => Some(permit.map_err(drop)?),
            _ = self.applied.wait_for(|now| *now > limit), if !over => None,
        };
        match permit {
            Some(permit) => permit.send(batch),
            // The last word goes out of band of a full channel: the reader sees it after what is queued.
            None => {
                let _ = self.sender.send(Err(StoreError::Slow)).await;
                return Err(());
            }
        }
        if over { Err(()) } else { Ok(()) }
    }
}
