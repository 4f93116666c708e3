//! What wakes which key: tasks that turn informers' changes into queue entries. Decides nothing about the keys.

use std::collections::BTreeSet;

use futures::FutureExt;
use gantry_apimachinery::kinds::Kind;
use gantry_apimachinery::meta::{Object, ObjectMeta, Uid};
use gantry_client::{Change, Informer, WorkQueue};
use serde::de::DeserializeOwned;
use tokio::task::JoinSet;

use super::Key;
use super::informers::HeaderSink;

/// What a follower of headers is told.
pub enum Seen<'a> {
    There(&'a ObjectMeta),
    Gone(&'a ObjectMeta),
    /// Changes were lost: of this kind these and no others exist.
    Exactly(BTreeSet<Uid>),
}

/// The feeds of one loop. They end when this is dropped.
pub struct Feeds {
    queue: WorkQueue<Key>,
    tasks: JoinSet<()>,
}

impl Feeds {
    pub fn new(queue: WorkQueue<Key>) -> Self {
        Feeds { queue, tasks: JoinSet::new() }
    }

    /// For feeds that are not an informer's.
    pub fn queue(&self) -> WorkQueue<Key> {
        self.queue.clone()
    }

    /// Every change of an object wakes the keys that it maps to, before and after the change.
    pub fn on<T>(&mut self, informer: &Informer<T>, keys: impl Fn(&T) -> Vec<Key> + Send + 'static)
    where
        T: Object + DeserializeOwned + Send + Sync + 'static,
    {
        self.on_change(informer, move |old, new| {
            let mut all: Vec<Key> = old.map(&keys).unwrap_or_default();
            all.extend(new.map(&keys).unwrap_or_default());
            all
        });
    }

    /// Like [`Feeds::on`], with both states at hand, so that changes that do not matter can be left out. A state that is
    /// `None` was not there before, or is not there now. After a resync every object comes as new.
    pub fn on_change<T>(
        &mut self,
        informer: &Informer<T>,
        keys: impl Fn(Option<&T>, Option<&T>) -> Vec<Key> + Send + 'static,
    ) where
        T: Object + DeserializeOwned + Send + Sync + 'static,
    {
        let (informer, queue) = (informer.clone(), self.queue.clone());
        self.spawn(async move {
            let add = |keys: Vec<Key>| keys.into_iter().for_each(|key| queue.add(key));
            let (state, mut changes) = informer.subscribe_with_state();
            state.iter().for_each(|object| add(keys(None, Some(object))));
            drop(state);
            while let Some(change) = changes.recv().await {
                match change {
                    Change::Applied { old, new } => add(keys(old.as_deref(), Some(&new))),
                    Change::Deleted(last) => add(keys(Some(&last), None)),
                    Change::Resync => informer.list().iter().for_each(|object| add(keys(None, Some(object)))),
                }
            }
        });
    }

    /// Hands every object's header on.
    pub(super) fn headers<T>(&mut self, informer: &Informer<T>, kind: &'static Kind, sink: impl HeaderSink)
    where
        T: Object + DeserializeOwned + Send + Sync + 'static,
    {
        self.spawn(forward(informer.clone(), kind, sink));
    }

    /// Any other feed.
    pub fn spawn(&mut self, feed: impl Future<Output = ()> + Send + 'static) {
        // Behind a pointer, so that every feed uses the same task code.
        self.tasks.spawn(feed.boxed());
    }

    /// Wakes a key again and again.
    pub fn every(&mut self, period: std::time::Duration, key: Key) {
        let queue = self.queue.clone();
        self.spawn(async move {
            let mut ticks = tokio::time::interval(period);
            ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
            loop {
                ticks.tick().await;
                queue.add(key.clone());
            }
        });
    }
}

/// Hands every object's header on, for as long as the informer runs.
pub(super) async fn forward<T>(informer: Informer<T>, kind: &'static Kind, sink: impl HeaderSink)
where
    T: Object + DeserializeOwned + Send + Sync + 'static,
{
    let (state, mut changes) = informer.subscribe_with_state();
    state.iter().for_each(|object| sink(kind, Seen::There(object.meta())));
    drop(state);
    while let Some(change) = changes.recv().await {
        match change {
            Change::Applied { new, .. } => sink(kind, Seen::There(new.meta())),
            Change::Deleted(last) => sink(kind, Seen::Gone(last.meta())),
            Change::Resync => {
                let now = informer.list();
                now.iter().for_each(|object| sink(kind, Seen::There(object.meta())));
                sink(kind, Seen::Exactly(now.iter().map(|object| object.uid().clone()).collect()));
            }
        }
    }
}
