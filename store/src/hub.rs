//! What readers share: the newest applied state, and the news that it changed. Watches follow the history in that state,
//! each at its own pace, so no event is lost or doubled however slow the reader is, and nothing is buffered for it.
//!
//! It never changes the state; whoever applies entries publishes here.

use crate::api::{RangeReply, RangeRequest, Revision, StoreError, Watch, WatchBatch, WatchRequest};
use crate::mvcc::{Mvcc, Span};
use arc_swap::ArcSwap;
use std::sync::Arc;
use tokio::sync::{Notify, mpsc, watch};

/// Batches that wait in a watch's channel.
const CHANNEL: usize = 16;
/// Events after which a batch ends (with the revision that crosses it).
const BATCH_EVENTS: usize = 1_024;
/// Bytes of keys and values after which a batch ends.
const BATCH_BYTES: usize = 4 << 20;
/// A reader whose channel is full and who is this many revisions behind is cut off.
const LAG_REVISIONS: u64 = 200_000;

pub struct Hub {
    view: ArcSwap<Mvcc>,
    applied: watch::Sender<Revision>,
    lag: u64,
}

impl Hub {
    pub fn new(mvcc: Mvcc) -> Arc<Self> {
        Self::with_lag(mvcc, LAG_REVISIONS)
    }

    fn with_lag(mvcc: Mvcc, lag: u64) -> Arc<Self> {
        let applied = watch::Sender::new(mvcc.revision());
        Arc::new(Self { view: ArcSwap::from_pointee(mvcc), applied, lag })
    }

    /// The newest published state. Cheap; it never changes under the caller.
    pub fn view(&self) -> Arc<Mvcc> {
        self.view.load_full()
    }

    pub fn publish(&self, mvcc: &Mvcc) {
        self.view.store(Arc::new(mvcc.clone()));
        self.applied.send_if_modified(|revision| std::mem::replace(revision, mvcc.revision()) != mvcc.revision());
    }

    pub fn range(&self, request: &RangeRequest) -> Result<RangeReply, StoreError> {
        self.view().range(request)
    }

    /// Waits until `revision` is applied here.
    pub async fn reached(&self, revision: Revision) {
        let mut applied = self.applied.subscribe();
        // The sender lives in `self`, so waiting cannot fail.
        let _ = applied.wait_for(|now| *now >= revision).await;
    }

    /// Starts a watch. `from` 0 means everything after now.
    pub fn watch(self: &Arc<Self>, request: WatchRequest) -> Result<Watch, StoreError> {
        let view = self.view();
        let from = if request.from.0 == 0 { view.revision().0 + 1 } else { request.from.0 };
        view.check_watchable(Revision(from))?;
        let (sender, receiver) = mpsc::channel(CHANNEL);
        let asked = Arc::new(Notify::new());
        let follower = Follower {
            applied: self.applied.subscribe(),
            hub: self.clone(),
            span: Span::new(request.start, request.end),
            prev_kv: request.prev_kv,
            next: from,
            asked: asked.clone(),
            sender,
        };
        tokio::spawn(follower.run());
        Ok(Watch::new(receiver, Some(Box::new(move || asked.notify_one()))))
    }
}

/// One watch: where it is, and where its batches go.
struct Follower {
    hub: Arc<Hub>,
    applied: watch::Receiver<Revision>,
    span: Span,
    prev_kv: bool,
    /// The first revision not delivered yet.
    next: u64,
    asked: Arc<Notify>,
    sender: mpsc::Sender<Result<WatchBatch, StoreError>>,
}

impl Follower {
    async fn run(mut self) {
        let mut progress = false;
        loop {
            if let Err(end) = self.catch_up(&mut progress).await {
                // The last word goes out of band of a full channel: the reader sees it after what is queued.
                if let Some(error) = end {
                    let _ = self.sender.send(Err(error)).await;
                }
                return;
            }
            let asked = self.asked.clone();
            tokio::select! {
                changed = self.applied.changed() => if changed.is_err() { return },
                () = asked.notified() => progress = true,
                () = self.sender.closed() => return,
            }
        }
    }

    /// Delivers everything up to the newest state, and a progress batch if one was asked for.
    async fn catch_up(&mut self, progress: &mut bool) -> Result<(), Option<StoreError>> {
        loop {
            self.applied.borrow_and_update();
            let view = self.hub.view();
            let newest = view.revision().0;
            if self.next > newest {
                // A watch from a future revision has nothing to report before it.
                if *progress && self.next == newest + 1 {
                    *progress = false;
                    self.send(WatchBatch { revision: Revision(newest), events: Vec::new() }).await?;
                }
                return Ok(());
            }
            view.check_watchable(Revision(self.next)).map_err(Some)?;
            let batch = self.collect(&view, newest);
            drop(view);
            let revision = batch.revision;
            if !batch.events.is_empty() {
                self.send(batch).await?;
            }
            self.next = revision.0 + 1;
        }
    }

    fn collect(&self, view: &Mvcc, newest: u64) -> WatchBatch {
        let mut events = Vec::new();
        let mut bytes = 0;
        let mut revision = self.next;
        loop {
            let seen = events.len();
            view.events(&self.span, revision, self.prev_kv, &mut events);
            bytes += events[seen..].iter().map(|event| event.kv.key.len() + event.kv.value.len()).sum::<usize>();
            if revision == newest || events.len() >= BATCH_EVENTS || bytes >= BATCH_BYTES {
                return WatchBatch { revision: Revision(revision), events };
            }
            revision += 1;
        }
    }

    /// Waits for room in the channel, but not beyond the permitted lag.
    async fn send(&mut self, batch: WatchBatch) -> Result<(), Option<StoreError>> {
        let limit = Revision(self.next.saturating_add(self.hub.lag));
        let permit = tokio::select! {
            biased;
            permit = self.sender.reserve() => permit.map_err(|_| None)?,
            _ = self.applied.wait_for(|now| *now > limit) => return Err(Some(StoreError::Slow)),
        };
        permit.send(Ok(batch));
        Ok(())
    }
}

#[cfg(test)]
#[path = "hub_tests.rs"]
mod tests;
