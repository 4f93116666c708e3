//! Shared informers: a local copy of one kind, in a form that holds only what its users read, kept up to date by a
//! list and a watch. Never writes, and never polls: an idle informer costs one open stream.

mod cache;
mod lines;
mod reflector;

use std::sync::Arc;

use gantry_apimachinery::kinds::Kind;
use gantry_apimachinery::meta::Object;
use parking_lot::RwLock;
use serde::de::DeserializeOwned;
use tokio::sync::{broadcast, watch};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::client::Client;
use crate::metrics::Metrics;
use cache::Cache;

/// Changes that a slow subscriber may lag behind before it is told to read everything again.
const FAN_OUT: usize = 1024;

/// Which objects to follow.
#[derive(Clone, Default)]
pub struct InformerOptions {
    /// Empty: all namespaces.
    pub namespace: String,
    pub label_selector: String,
    pub field_selector: String,
    /// Ask for `metadata` alone; the projection must read nothing else.
    pub metadata_only: bool,
    /// Where to count lists, failures and stalls.
    pub metrics: Option<Metrics>,
}

impl InformerOptions {
    /// Everything of the kind.
    pub fn all() -> Self {
        Self::default()
    }

    /// Only objects whose fields match, such as `spec.nodeName=x`.
    pub fn fields(selector: impl Into<String>) -> Self {
        InformerOptions { field_selector: selector.into(), ..Self::default() }
    }
}

/// What happened to one object.
#[derive(Debug)]
pub enum Change<T> {
    /// It is there, or is different from `old`.
    Applied { old: Option<Arc<T>>, new: Arc<T> },
    /// It is gone; this was its last state.
    Deleted(Arc<T>),
    /// Changes were lost because this subscriber was too slow: read the whole copy.
    Resync,
}

impl<T> Clone for Change<T> {
    fn clone(&self) -> Self {
        match self {
            Change::Applied { old, new } => Change::Applied { old: old.clone(), new: new.clone() },
            Change::Deleted(last) => Change::Deleted(last.clone()),
            Change::Resync => Change::Resync,
        }
    }
}

/// A cheap handle; the watch ends with the last one, or with the token that `start` was given.
pub struct Informer<T> {
    shared: Arc<Shared<T>>,
    _running: Arc<DropGuard>,
}

impl<T> Clone for Informer<T> {
    fn clone(&self) -> Self {
        Informer { shared: self.shared.clone(), _running: self._running.clone() }
    }
}

struct Shared<T> {
    kind: &'static Kind,
    cache: RwLock<Cache<T>>,
    /// Made with the first subscriber. Sent to only under the cache's write lock.
    changes: RwLock<Option<broadcast::Sender<Change<T>>>>,
    progress: watch::Sender<Progress>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Progress {
    revision: u64,
    synced: bool,
}

impl<T: Object + DeserializeOwned + Send + Sync + 'static> Informer<T> {
    /// Starts to follow `kind` in a task of its own.
    pub fn start(
        client: Client,
        kind: &'static Kind,
        options: InformerOptions,
        cancel: CancellationToken,
    ) -> Informer<T> {
        let shared = Arc::new(Shared {
            kind,
            cache: RwLock::default(),
            changes: RwLock::new(None),
            progress: watch::Sender::new(Progress::default()),
        });
        let running = cancel.child_token();
        tokio::spawn(reflector::run(client, options, shared.clone(), running.clone()));
        Informer { shared, _running: Arc::new(running.drop_guard()) }
    }

    pub fn get(&self, ns: &str, name: &str) -> Option<Arc<T>> {
        self.shared.cache.read().get(ns, name)
    }

    /// All objects, by namespace and name.
    pub fn list(&self) -> Vec<Arc<T>> {
        self.shared.cache.read().list()
    }

    pub fn list_namespace(&self, ns: &str) -> Vec<Arc<T>> {
        self.shared.cache.read().list_namespace(ns)
    }

    pub fn len(&self) -> usize {
        self.shared.cache.read().len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Keeps the objects also by the values that `key` gives each.
    pub fn add_index(&self, name: &'static str, key: impl Fn(&T) -> Vec<String> + Send + Sync + 'static) {
        self.shared.cache.write().add_index(name, Arc::new(key));
    }

    /// The objects that have this value in the index.
    pub fn by_index(&self, name: &str, value: &str) -> Vec<Arc<T>> {
        self.shared.cache.read().by_index(name, value)
    }

    /// All changes up to this revision are in the copy and were sent to the subscribers.
    pub fn revision(&self) -> u64 {
        self.shared.progress.borrow().revision
    }

    /// Waits until `revision` is at least this; false when the informer ended before.
    pub async fn wait_for_revision(&self, revision: u64) -> bool {
        self.shared.progress.subscribe().wait_for(|p| p.revision >= revision).await.is_ok()
    }

    /// Something that can be waited on for the revision to move on.
    pub fn progress(&self) -> RevisionWatch {
        RevisionWatch(self.shared.progress.subscribe())
    }

    pub fn is_synced(&self) -> bool {
        self.shared.progress.borrow().synced
    }

    /// Waits until the first list is in.
    pub async fn synced(&self) {
        // The sender lives in `self.shared`, so waiting cannot fail.
        drop(self.shared.progress.subscribe().wait_for(|p| p.synced).await);
    }

    /// Changes from now on. Read `list` after subscribing, or use [`Informer::subscribe_with_state`].
    pub fn subscribe(&self) -> Receiver<T> {
        let _no_change_meanwhile = self.shared.cache.write();
        self.subscribe_locked()
    }

    /// The copy as it is and every change from then on, none lost and none twice.
    pub fn subscribe_with_state(&self) -> (Vec<Arc<T>>, Receiver<T>) {
        let cache = self.shared.cache.write();
        (cache.list(), self.subscribe_locked())
    }

    fn subscribe_locked(&self) -> Receiver<T> {
        let mut changes = self.shared.changes.write();
        Receiver(changes.get_or_insert_with(|| broadcast::Sender::new(FAN_OUT)).subscribe())
    }
}

impl<T: Object> Shared<T> {
    /// Changes the copy and tells the subscribers, in this order and as one step.
    fn change(&self, make: impl FnOnce(&mut Cache<T>) -> Vec<Change<T>>) {
        let mut cache = self.cache.write();
        let changes = make(&mut cache);
        if let Some(sender) = self.changes.read().as_ref() {
            for change in changes {
                // Nobody listening is no error.
                drop(sender.send(change));
            }
        }
    }

    fn advance(&self, revision: u64, synced: bool) {
        self.progress.send_if_modified(|progress| {
            let next = Progress { revision: progress.revision.max(revision), synced: progress.synced || synced };
            std::mem::replace(progress, next) != next
        });
    }
}

/// Where a subscriber gets its changes.
pub struct Receiver<T>(broadcast::Receiver<Change<T>>);

impl<T> Receiver<T> {
    /// The next change; `None` once the informer has ended.
    pub async fn recv(&mut self) -> Option<Change<T>> {
        match self.0.recv().await {
            Ok(change) => Some(change),
            Err(broadcast::error::RecvError::Lagged(_)) => Some(self.skip()),
            Err(broadcast::error::RecvError::Closed) => None,
        }
    }

    /// The next change if there is one already.
    pub fn try_recv(&mut self) -> Option<Change<T>> {
        match self.0.try_recv() {
            Ok(change) => Some(change),
            Err(broadcast::error::TryRecvError::Lagged(_)) => Some(self.skip()),
            Err(broadcast::error::TryRecvError::Empty | broadcast::error::TryRecvError::Closed) => None,
        }
    }

    /// What is still queued is older than the copy that the subscriber will read.
    fn skip(&mut self) -> Change<T> {
        self.0 = self.0.resubscribe();
        Change::Resync
    }
}

/// Waits for an informer to move on.
pub struct RevisionWatch(watch::Receiver<Progress>);

impl RevisionWatch {
    /// The revision after it moved, or `None` once the informer has ended.
    pub async fn changed(&mut self) -> Option<u64> {
        self.0.changed().await.ok()?;
        Some(self.0.borrow_and_update().revision)
    }
}

#[cfg(test)]
mod tests;
