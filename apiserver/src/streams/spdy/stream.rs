//! One SPDY stream as its user holds it: what comes in, and what goes out when the windows allow. Decides how long a sender waits.

use super::frame::MAX_DATA;
use super::headers::Headers;
use bytes::Bytes;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use tokio::sync::{Notify, mpsc, oneshot};

/// What every waiting part costs beside its bytes, so that many empty ones are bounded, too.
const PART_COST: usize = 64;

/// The connection is gone, or the stream was reset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the stream is gone")]
pub struct Gone;

/// What comes in on a stream, in its order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    Data(Bytes),
    /// The peer sends no more.
    Finished,
    /// The stream is gone, both ways.
    Reset(u32),
}

pub(super) enum Command {
    Open { headers: Headers, answer: oneshot::Sender<Result<Stream, Gone>> },
    Reply(u32),
    Data { id: u32, bytes: Bytes, fin: bool },
    Reset { id: u32, status: u32 },
}

/// What may be sent.
#[derive(Debug, Default)]
pub(super) struct Credit {
    left: AtomicI64,
    gone: AtomicBool,
    more: Notify,
}

impl Credit {
    pub fn new(left: i64) -> Self {
        Self { left: AtomicI64::new(left), ..Self::default() }
    }

    pub fn add(&self, delta: i64) {
        self.left.fetch_add(delta, Ordering::AcqRel);
        self.more.notify_waiters();
    }

    /// Nobody waits for it any more.
    pub fn close(&self) {
        self.gone.store(true, Ordering::Release);
        self.more.notify_waiters();
    }

    /// Takes at most `wanted`; less, or nothing, where less is left.
    fn take(&self, wanted: i64) -> i64 {
        let mut taken = 0;
        let _ = self.left.fetch_update(Ordering::AcqRel, Ordering::Acquire, |left| {
            taken = wanted.min(left).max(0);
            (taken > 0).then_some(left - taken)
        });
        taken
    }
}

/// What the connection's task and the users of its streams share.
#[derive(Debug, Default)]
pub(super) struct Shared {
    /// Bytes that came in and wait for their users.
    pub unread: AtomicUsize,
    /// What users took since the task last looked.
    pub taken: Mutex<Vec<(u32, u32)>>,
    pub wake: Notify,
    /// The peer keeps windows.
    pub bound: AtomicBool,
    /// Of the whole connection.
    pub credit: Credit,
}

pub struct Stream {
    /// As whoever opened it sent them.
    pub headers: Headers,
    pub sender: Sender,
    pub receiver: Receiver,
}

pub struct Sender {
    pub(super) id: u32,
    pub(super) commands: mpsc::Sender<Command>,
    pub(super) shared: Arc<Shared>,
    pub(super) credit: Arc<Credit>,
}

impl Sender {
    async fn command(&self, command: Command) -> Result<(), Gone> {
        self.commands.send(command).await.map_err(|_| Gone)
    }

    /// Tells the peer that its stream is taken.
    pub async fn reply(&self) -> Result<(), Gone> {
        self.command(Command::Reply(self.id)).await
    }

    /// Waits until all of it is on its way.
    pub async fn send(&self, mut bytes: Bytes) -> Result<(), Gone> {
        while !bytes.is_empty() {
            let length = self.allowed(bytes.len().min(MAX_DATA)).await?;
            let part = bytes.split_to(length);
            self.command(Command::Data { id: self.id, bytes: part, fin: false }).await?;
        }
        Ok(())
    }

    /// Sends no more.
    pub async fn finish(&self) -> Result<(), Gone> {
        self.command(Command::Data { id: self.id, bytes: Bytes::new(), fin: true }).await
    }

    pub async fn reset(&self, status: u32) -> Result<(), Gone> {
        self.command(Command::Reset { id: self.id, status }).await
    }

    /// How much of so much may be sent now: at least a byte.
    async fn allowed(&self, length: usize) -> Result<usize, Gone> {
        let wanted = i64::try_from(length).unwrap_or(i64::MAX);
        loop {
            let (mine, all) = (self.credit.more.notified(), self.shared.credit.more.notified());
            tokio::pin!(mine, all);
            mine.as_mut().enable();
            all.as_mut().enable();
            if self.credit.gone.load(Ordering::Acquire) {
                return Err(Gone);
            }
            if !self.shared.bound.load(Ordering::Acquire) {
                self.credit.left.fetch_sub(wanted, Ordering::AcqRel);
                self.shared.credit.left.fetch_sub(wanted, Ordering::AcqRel);
                return Ok(length);
            }
            let own = self.credit.take(wanted);
            let taken = self.shared.credit.take(own);
            self.credit.left.fetch_add(own - taken, Ordering::AcqRel);
            if taken > 0 {
                return Ok(usize::try_from(taken).unwrap_or(length).min(length));
            }
            tokio::select! {
                () = mine => {}
                () = all => {}
            }
        }
    }
}

pub struct Receiver {
    pub(super) id: u32,
    /// Bounded by [`Shared::unread`]: the connection is not read while too much waits.
    pub(super) parts: mpsc::UnboundedReceiver<Part>,
    pub(super) shared: Arc<Shared>,
}

impl Receiver {
    /// The next part; `None` when the connection ended before the stream did.
    pub async fn recv(&mut self) -> Option<Part> {
        let part = self.parts.recv().await?;
        if let Part::Data(bytes) = &part {
            self.took(bytes.len());
        }
        Some(part)
    }

    fn took(&self, length: usize) {
        self.shared.unread.fetch_sub(length + PART_COST, Ordering::AcqRel);
        self.shared.taken.lock().push((self.id, u32::try_from(length).unwrap_or(u32::MAX)));
        self.shared.wake.notify_one();
    }
}

impl Drop for Receiver {
    /// What nobody reads any more must not stop the others.
    fn drop(&mut self) {
        self.parts.close();
        while let Ok(part) = self.parts.try_recv() {
            if let Part::Data(bytes) = part {
                self.took(bytes.len());
            }
        }
    }
}

/// Whom to tell of a stream that the other side has not answered yet, and what it will consist of.
type Opening = (oneshot::Sender<Result<Stream, Gone>>, Headers, Receiver);

/// Where the connection's task puts what comes in.
pub(super) struct Inlet {
    pub parts: mpsc::UnboundedSender<Part>,
    pub credit: Arc<Credit>,
    /// Waits for the peer to take the stream.
    pub opening: Option<Opening>,
}

impl Inlet {
    /// False when nobody reads it.
    pub fn put(&self, bytes: Bytes, shared: &Shared) -> bool {
        let cost = bytes.len() + PART_COST;
        shared.unread.fetch_add(cost, Ordering::AcqRel);
        let put = self.parts.send(Part::Data(bytes)).is_ok();
        if !put {
            shared.unread.fetch_sub(cost, Ordering::AcqRel);
        }
        put
    }
}
