//! Shared informers: a local copy of one kind, in a form that holds only what its users read, kept up to date by a
//! list and a watch. Never writes, and never polls: an idle informer costs one open stream.

mod cache;
mod follow;
mod held;
mod items;
mod lines;
mod reflector;
mod told;

use std::marker::PhantomData;
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
pub use follow::{Follow, Told};
use held::{Decode, Entry, Held, typed, typed_change, typed_ref};
use reflector::Sink;

/// Changes that a slow subscriber may lag behind before it is told to read everything again.
const FAN_OUT: usize = 1024;

/// Which objects to follow.
#[derive(Clone, Default)]
pub struct InformerOptions {
    /// Empty: all namespaces.
    pub namespace: String,
    pub label_selector: String,
    pub field_selector: String,
    /// One more parameter of lists, as name and value.
    pub list_parameter: Option<(&'static str, &'static str)>,
    /// Ask for `metadata` alone; the projection must read nothing else.
    pub metadata_only: bool,
    /// How far a subscriber may lag behind; `None` is for a kind's whole collection. Memory for so many changes is taken at once.
    pub fan_out: Option<usize>,
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
pub enum Change<T: ?Sized> {
    /// It is there, or is different from `old`.
    Applied { old: Option<Arc<T>>, new: Arc<T> },
    /// It is gone; this was its last state.
    Deleted(Arc<T>),
    /// Changes were lost because this subscriber was too slow: read the whole copy.
    Resync,
}

impl<T: ?Sized> Clone for Change<T> {
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
    shared: Arc<Shared>,
    _running: Arc<DropGuard>,
    holds: PhantomData<fn() -> T>,
}

impl<T> Clone for Informer<T> {
    fn clone(&self) -> Self {
        Informer { shared: self.shared.clone(), _running: self._running.clone(), holds: PhantomData }
    }
}

struct Shared {
    kind: &'static Kind,
    decode: held::Decode,
    cache: RwLock<Cache>,
    /// Made with the first subscriber. Sent to only under the cache's write lock.
    changes: RwLock<Option<broadcast::Sender<Change<dyn Held>>>>,
    fan_out: usize,
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
            decode: held::decode::<T>,
            cache: RwLock::default(),
            changes: RwLock::new(None),
            fan_out: options.fan_out.unwrap_or(FAN_OUT),
            progress: watch::Sender::new(Progress::default()),
        });
        let running = cancel.child_token();
        tokio::spawn(reflector::run(client, options, Copy(shared.clone()), running.clone()));
        Informer { shared, _running: Arc::new(running.drop_guard()), holds: PhantomData }
    }

    pub fn get(&self, ns: &str, name: &str) -> Option<Arc<T>> {
        self.shared.cache.read().get(ns, name).map(typed)
    }

    /// All objects, by namespace and name.
    pub fn list(&self) -> Vec<Arc<T>> {
        list(&self.shared.cache.read())
    }

    pub fn list_namespace(&self, ns: &str) -> Vec<Arc<T>> {
        let mut found = Vec::new();
        self.shared.cache.read().each_in_namespace(ns, &mut |object| found.push(typed(object.clone())));
        found
    }

    pub fn len(&self) -> usize {
        self.shared.cache.read().len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Keeps the objects also by the values that `key` gives each.
    pub fn add_index(&self, name: &'static str, key: impl Fn(&T) -> Vec<String> + Send + Sync + 'static) {
        self.shared.cache.write().add_index(name, Arc::new(move |object| key(typed_ref(object))));
    }

    /// Keeps something of the caller's own in step with the copy: `change` is told of every object that is there and then of
    /// each one's state before and after a change, before anybody can see the change. It runs under the copy's lock, so it must be
    /// quick, must not read the informer, and what it locks must never be held by somebody who reads the informer.
    pub fn add_view(&self, change: impl Fn(Option<&Arc<T>>, Option<&Arc<T>>) + Send + Sync + 'static) {
        let typed = |entry: Option<&Entry>| entry.map(|entry| typed::<T>(entry.clone()));
        let view = move |old: Option<&Entry>, new: Option<&Entry>| change(typed(old).as_ref(), typed(new).as_ref());
        self.shared.cache.write().add_view(Arc::new(view));
    }

    /// The objects that have this value in the index.
    pub fn by_index(&self, name: &str, value: &str) -> Vec<Arc<T>> {
        let mut found = Vec::new();
        self.shared.cache.read().each_by_index(name, value, &mut |object| found.push(typed(object.clone())));
        found
    }

    /// All changes before this revision are in the copy and were sent to the subscribers, and one of this revision: a transaction
    /// that wrote several objects tells each with the same one.
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
        (list(&cache), self.subscribe_locked())
    }

    fn subscribe_locked(&self) -> Receiver<T> {
        let mut changes = self.shared.changes.write();
        let changes = changes.get_or_insert_with(|| broadcast::Sender::new(self.shared.fan_out));
        Receiver { changes: changes.subscribe(), holds: PhantomData }
    }
}

/// The reflector's side of an informer.
struct Copy(Arc<Shared>);

impl Sink for Copy {
    fn kind(&self) -> &'static Kind {
        self.0.kind
    }

    fn decode(&self) -> Decode {
        self.0.decode
    }

    fn replace(&mut self, all: Vec<Entry>) {
        self.0.change(|cache| cache.replace(all));
    }

    fn apply(&mut self, object: Entry) {
        self.0.change(|cache| cache.apply(object));
    }

    fn remove(&mut self, ns: &str, name: &str, last: Option<Entry>) -> bool {
        self.0.change(|cache| cache.remove(ns, name, last));
        true
    }

    fn reached(&mut self, revision: u64, _: bool, synced: bool) {
        self.0.advance(revision, synced);
    }

    /// A slow subscriber reads the copy again; nobody waits for it.
    async fn flush(&mut self) {}
}

fn list<T: Send + Sync + 'static>(cache: &Cache) -> Vec<Arc<T>> {
    let mut all = Vec::with_capacity(cache.len());
    cache.each(&mut |object: &Entry| all.push(typed(object.clone())));
    all
}

impl Shared {
    /// Changes the copy and tells the subscribers, in this order and as one step.
    fn change(&self, make: impl FnOnce(&mut Cache) -> Vec<Change<dyn Held>>) {
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
pub struct Receiver<T> {
    changes: broadcast::Receiver<Change<dyn Held>>,
    holds: PhantomData<fn() -> T>,
}

impl<T: Send + Sync + 'static> Receiver<T> {
    /// The next change; `None` once the informer has ended.
    pub async fn recv(&mut self) -> Option<Change<T>> {
        next(&mut self.changes).await.map(typed_change)
    }

    /// The next change if there is one already.
    pub fn try_recv(&mut self) -> Option<Change<T>> {
        let change = match self.changes.try_recv() {
            Ok(change) => change,
            Err(broadcast::error::TryRecvError::Lagged(_)) => skip(&mut self.changes),
            Err(broadcast::error::TryRecvError::Empty | broadcast::error::TryRecvError::Closed) => return None,
        };
        Some(typed_change(change))
    }
}

async fn next(changes: &mut broadcast::Receiver<Change<dyn Held>>) -> Option<Change<dyn Held>> {
    match changes.recv().await {
        Ok(change) => Some(change),
        Err(broadcast::error::RecvError::Lagged(_)) => Some(skip(changes)),
        Err(broadcast::error::RecvError::Closed) => None,
    }
}

/// What is still queued is older than the copy that the subscriber will read.
fn skip(changes: &mut broadcast::Receiver<Change<dyn Held>>) -> Change<dyn Held> {
    *changes = changes.resubscribe();
    Change::Resync
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
