//! A watch channel that wakes those who wait in the order in which they came. Tokio's picks at random, from the machine.

use openraft::async_runtime::watch::{RecvError, SendError, Watch, WatchReceiver, WatchSender};
use openraft::{OptionalSend, OptionalSync};
use parking_lot::{RwLock, RwLockReadGuard};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use tokio::sync::Notify;

struct Shared<T> {
    value: RwLock<T>,
    version: AtomicU64,
    senders: AtomicUsize,
    changed: Notify,
}

pub struct Sender<T>(Arc<Shared<T>>);

pub struct Receiver<T> {
    shared: Arc<Shared<T>>,
    seen: u64,
}

pub type Ref<'a, T> = RwLockReadGuard<'a, T>;

impl<T> Sender<T> {
    pub fn new(value: T) -> Self {
        let (version, senders) = (AtomicU64::new(0), AtomicUsize::new(1));
        Self(Arc::new(Shared { value: RwLock::new(value), version, senders, changed: Notify::new() }))
    }

    pub fn subscribe(&self) -> Receiver<T> {
        Receiver { shared: self.0.clone(), seen: self.0.version.load(Ordering::SeqCst) }
    }

    pub fn borrow(&self) -> Ref<'_, T> {
        self.0.value.read()
    }

    pub fn send_if_modified(&self, modify: impl FnOnce(&mut T) -> bool) -> bool {
        let modified = modify(&mut self.0.value.write());
        if modified {
            self.0.version.fetch_add(1, Ordering::SeqCst);
            self.0.changed.notify_waiters();
        }
        modified
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        self.0.senders.fetch_add(1, Ordering::SeqCst);
        Self(self.0.clone())
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        if self.0.senders.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.0.changed.notify_waiters();
        }
    }
}

impl<T> Clone for Receiver<T> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone(), seen: self.seen }
    }
}

impl<T> Receiver<T> {
    pub fn borrow(&self) -> Ref<'_, T> {
        self.shared.value.read()
    }

    pub fn borrow_and_update(&mut self) -> Ref<'_, T> {
        self.seen = self.shared.version.load(Ordering::SeqCst);
        self.shared.value.read()
    }

    pub async fn changed(&mut self) -> Result<(), RecvError> {
        loop {
            let mut notified = std::pin::pin!(self.shared.changed.notified());
            notified.as_mut().enable();
            let version = self.shared.version.load(Ordering::SeqCst);
            if version != self.seen {
                self.seen = version;
                return Ok(());
            }
            if self.shared.senders.load(Ordering::SeqCst) == 0 {
                return Err(RecvError(()));
            }
            notified.await;
        }
    }

    pub async fn wait_for(&mut self, mut condition: impl FnMut(&T) -> bool) -> Result<(), RecvError> {
        while !condition(&self.borrow_and_update()) {
            self.changed().await?;
        }
        Ok(())
    }
}

/// The channel as openraft knows it.
pub struct InOrder;

impl Watch for InOrder {
    type Sender<T: OptionalSend + OptionalSync> = Sender<T>;
    type Receiver<T: OptionalSend + OptionalSync> = Receiver<T>;
    type Ref<'a, T: OptionalSend + 'a> = Ref<'a, T>;

    fn channel<T: OptionalSend + OptionalSync>(init: T) -> (Sender<T>, Receiver<T>) {
        let sender = Sender::new(init);
        let receiver = sender.subscribe();
        (sender, receiver)
    }
}

impl<T: OptionalSend + OptionalSync> WatchSender<InOrder, T> for Sender<T> {
    fn send(&self, value: T) -> Result<(), SendError<T>> {
        self.send_if_modified(|current| {
            *current = value;
            true
        });
        Ok(())
    }

    fn send_if_modified<F>(&self, modify: F) -> bool
    where
        F: FnOnce(&mut T) -> bool,
    {
        Sender::send_if_modified(self, modify)
    }

    fn borrow_watched(&self) -> Ref<'_, T> {
        self.borrow()
    }

    fn subscribe(&self) -> Receiver<T> {
        Sender::subscribe(self)
    }
}

impl<T: OptionalSend + OptionalSync> WatchReceiver<InOrder, T> for Receiver<T> {
    async fn changed(&mut self) -> Result<(), RecvError> {
        Receiver::changed(self).await
    }

    fn borrow_watched(&self) -> Ref<'_, T> {
        self.borrow()
    }

    fn borrow_and_update(&mut self) -> Ref<'_, T> {
        Receiver::borrow_and_update(self)
    }
}
