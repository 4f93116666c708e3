//! One store group's feed: lists the store once, then applies one watch to all of the group's resources.
//!
//! Decides how far the cache has come (`applied`) and when it must start over; never what an object means.

use super::object::{EventType, Object};
use super::resource::{HistoryLimits, Resource};
use super::timeline::{Timeline, Unknown};
use crate::kinds::Selectable;
use crate::quota::{frees, is_uncounted};
use gantry_apimachinery::clock::Clock;
use gantry_apimachinery::kinds::{KINDS, Kind, POD, RESOURCE_QUOTA, StoreGroup};
use gantry_apimachinery::time::Timestamp;
use gantry_store::{
    EventKind, KeyValue, RangeRequest, Revision, Store, StoreError, WatchBatch, WatchRequest, prefix_end,
};
use parking_lot::RwLock;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::{Mutex, Notify, mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;

const ROOT: &str = "/registry/";
const PAGE: usize = 5_000;
/// A consistent read asks the store for progress when the cache has not caught up by then.
const ASK_AFTER: Duration = Duration::from_millis(50);
const GIVE_UP_AFTER: Duration = Duration::from_secs(3);
/// For asking the store whether a revision that did not come is there at all.
const CHECK_WITHIN: Duration = Duration::from_secs(1);

/// The cache did not reach the wanted revision in time. The caller answers 504 and the client retries.
#[derive(Debug, thiserror::Error)]
#[error("the cache is at revision {at} and did not reach {wanted} in time")]
pub struct Behind {
    pub at: u64,
    pub wanted: u64,
}

/// A custom resource on its way into the cache, and whom to tell.
struct Arrival {
    resource: Arc<Resource>,
    taken: oneshot::Sender<()>,
}

/// The caches of all resources that one store holds.
pub struct Group {
    pub which: StoreGroup,
    pub store: Arc<dyn Store>,
    built_in: HashMap<String, Arc<Resource>>,
    custom: RwLock<HashMap<String, Arc<Resource>>>,
    /// Custom resources that wait for the feed to take them in.
    arriving: mpsc::UnboundedSender<Arrival>,
    arrivals: Mutex<mpsc::UnboundedReceiver<Arrival>>,
    limits: HistoryLimits,
    applied: Arc<AtomicU64>,
    reached: watch::Sender<u64>,
    wanted: Notify,
    /// The watch does not tell what the store has: its member may be cut off.
    stuck: Notify,
    clock: Arc<dyn Clock>,
    timeline: parking_lot::Mutex<Timeline>,
    /// Namespaces in which something ended since somebody last asked.
    freed: parking_lot::Mutex<BTreeMap<Box<str>, bool>>,
    freed_now: Notify,
}

impl Group {
    pub fn new(which: StoreGroup, store: Arc<dyn Store>, limits: HistoryLimits, clock: Arc<dyn Clock>) -> Self {
        let applied = Arc::new(AtomicU64::new(0));
        let built_in = KINDS
            .iter()
            .copied()
            .filter(|kind| kind.store == which && kind.is_stored() && kind.stored_as() == *kind)
            .map(|kind| (kind.resource(), Arc::new(Resource::new(kind, limits, applied.clone()))))
            .collect();
        let (arriving, arrivals) = mpsc::unbounded_channel();
        Self {
            which,
            store,
            built_in,
            custom: RwLock::default(),
            arriving,
            arrivals: Mutex::new(arrivals),
            limits,
            applied,
            reached: watch::Sender::new(0),
            wanted: Notify::new(),
            stuck: Notify::new(),
            clock,
            timeline: parking_lot::Mutex::default(),
            freed: parking_lot::Mutex::default(),
            freed_now: Notify::new(),
        }
    }

    /// The objects of a kind of the table.
    pub fn built_in(&self, kind: &Kind) -> Option<&Arc<Resource>> {
        self.built_in.get(&kind.resource())
    }

    /// Begins to keep the objects of a custom resource, in place of those that were kept under its name before. Answers once they
    /// are all here.
    pub async fn add_custom(&self, kind: &'static Kind, selectable: Vec<Selectable>) -> Option<Arc<Resource>> {
        let resource = Arc::new(Resource::selectable_by(kind, selectable, self.limits, self.applied.clone()));
        let (taken, ready) = oneshot::channel();
        self.arriving.send(Arrival { resource: resource.clone(), taken }).ok()?;
        ready.await.ok().map(|()| resource)
    }

    /// Keeps the objects of a custom resource no longer.
    pub fn remove_custom(&self, kind: &Kind) {
        self.custom.write().remove(&kind.resource());
    }

    /// Waits until quotas have to be counted in a namespace, soon or some time.
    pub async fn freed(&self) {
        self.freed_now.notified().await;
    }

    /// The namespaces whose quotas have to be counted, and whether soon.
    pub fn take_freed(&self) -> BTreeMap<Box<str>, bool> {
        std::mem::take(&mut *self.freed.lock())
    }

    pub fn note_freed(&self, namespace: Box<str>) {
        self.note_uncounted(namespace, true);
    }

    fn note_uncounted(&self, namespace: Box<str>, soon: bool) {
        *self.freed.lock().entry(namespace).or_default() |= soon;
        self.freed_now.notify_one();
    }

    fn note(&self, resource: &Resource, path: &str, deleted: bool, object: Option<&Object>) {
        let phase = object.filter(|_| resource.kind == &POD).and_then(|pod| {
            let at = resource.selectable.iter().position(|field| field.path == "status.phase")?;
            pod.fields.get(at).map(|phase| &**phase)
        });
        // A charge writes the quota too. What was charged may never be stored: it is counted some time, not for every charge.
        let quota = object.filter(|_| resource.kind == &RESOURCE_QUOTA);
        let soon = quota.is_some_and(|quota| *quota.derived(is_uncounted)) || frees(resource.kind, deleted, phase);
        if !(soon || quota.is_some()) || self.built_in(&RESOURCE_QUOTA).is_none_or(|quotas| quotas.is_empty()) {
            return;
        }
        if let Some((namespace, _)) = path.split_once('/') {
            self.note_uncounted(namespace.into(), soon);
        }
    }

    pub fn applied(&self) -> u64 {
        self.applied.load(Ordering::Acquire)
    }

    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Which revision the group was at.
    pub fn revision_at(&self, when: Timestamp) -> Result<u64, Unknown> {
        self.timeline.lock().at(when, self.now())
    }

    /// Whether the first list is in.
    pub fn ready(&self) -> bool {
        self.applied() > 0
    }

    pub async fn wait_ready(&self) {
        let mut reached = self.reached.subscribe();
        // The sender lives in `self`, so it cannot be gone.
        let _ = reached.wait_for(|at| *at > 0).await;
    }

    /// Waits until everything up to `revision` is in the cache.
    pub async fn wait_for(&self, revision: u64) -> Result<(), Behind> {
        if self.applied() >= revision {
            return Ok(());
        }
        let mut reached = self.reached.subscribe();
        let arrived = async { reached.wait_for(|at| *at >= revision).await.is_ok() };
        tokio::pin!(arrived);
        if let Ok(true) = tokio::time::timeout(ASK_AFTER, &mut arrived).await {
            return Ok(());
        }
        self.wanted.notify_one();
        match tokio::time::timeout(GIVE_UP_AFTER, arrived).await {
            Ok(true) => Ok(()),
            _ => {
                self.check_watch(revision).await;
                Err(Behind { at: self.applied(), wanted: revision })
            }
        }
    }

    /// Has the watch begun anew when the store has a revision that the watch did not bring. One that the store does not have either
    /// is its client's invention.
    async fn check_watch(&self, missing: u64) {
        let now = tokio::time::timeout(CHECK_WITHIN, self.store.read_revision()).await;
        if now.is_ok_and(|now| now.is_ok_and(|now| now.0 >= missing)) && self.applied() < missing {
            self.stuck.notify_waiters();
        }
    }

    /// Runs until cancelled. Any trouble with the store is retried with back-off; readers meanwhile see an old, consistent state.
    pub async fn run(&self, cancel: CancellationToken) {
        let mut backoff = Duration::from_millis(50);
        let mut resume: Option<u64> = None;
        while !cancel.is_cancelled() {
            let outcome = tokio::select! {
                () = cancel.cancelled() => return,
                outcome = self.follow(&mut resume) => outcome,
            };
            match outcome {
                Err(StoreError::Slow) => {}
                Err(StoreError::Compacted { .. } | StoreError::Future { .. }) => resume = None,
                Err(error) => tracing::warn!(group = ?self.which, %error, "the watch cache lost its feed"),
                Ok(()) => backoff = Duration::from_millis(50),
            }
            tokio::select! {
                () = cancel.cancelled() => return,
                () = tokio::time::sleep(backoff) => backoff = (backoff * 2).min(Duration::from_secs(2)),
            }
        }
    }

    async fn follow(&self, resume: &mut Option<u64>) -> Result<(), StoreError> {
        let from = match *resume {
            Some(revision) => revision,
            None => self.list().await?,
        };
        *resume = Some(from);
        let mut watch = self
            .store
            .watch(WatchRequest {
                start: ROOT.into(),
                end: prefix_end(ROOT.as_bytes()),
                from: Revision(from + 1),
                prev_kv: false,
            })
            .await?;
        loop {
            tokio::select! {
                batch = watch.next() => match batch {
                    Some(Ok(batch)) => {
                        let revision = batch.revision.0;
                        self.apply(batch);
                        *resume = Some(revision.max(resume.unwrap_or(0)));
                    }
                    Some(Err(error)) => return Err(error),
                    None => return Ok(()),
                },
                Some(arrival) = async { self.arrivals.lock().await.recv().await } => self.take_in(arrival).await?,
                () = self.wanted.notified() => watch.request_progress(),
                // The next watch goes to the member that answered last, from where this one came to.
                () = self.stuck.notified() => {
                    tracing::warn!(group = ?self.which, "the watch cache's feed is stuck and begins anew");
                    return Ok(());
                }
            }
        }
    }

    /// Reads the objects of a resource as they are at the feed's own revision, so that what the watch brings next follows them.
    async fn take_in(&self, arrival: Arrival) -> Result<(), StoreError> {
        let resource = &arrival.resource;
        let at = self.applied();
        let mut request = RangeRequest {
            limit: PAGE,
            revision: Some(Revision(at)),
            ..RangeRequest::prefix(resource.kind.key_prefix(""))
        };
        let mut objects = Vec::new();
        loop {
            let reply = match self.store.range(request.clone()).await {
                Ok(reply) => reply,
                Err(error) => {
                    // The feed begins anew, and takes it in then.
                    let _ = self.arriving.send(arrival);
                    return Err(error);
                }
            };
            if let Some(last) = reply.kvs.last() {
                request.start = [&last.key[..], b"\0"].concat().into();
            }
            objects.extend(reply.kvs.iter().filter_map(|kv| parse(resource, kv)));
            if !reply.more {
                break;
            }
        }
        resource.reset(objects, at);
        self.custom.write().insert(resource.kind.resource(), resource.clone());
        // Who asked may be gone.
        let _ = arrival.taken.send(());
        Ok(())
    }

    /// Reads everything at one revision.
    async fn list(&self) -> Result<u64, StoreError> {
        let mut found: HashMap<String, Vec<Object>> = HashMap::new();
        let mut request = RangeRequest { limit: PAGE, ..RangeRequest::prefix(ROOT) };
        let mut at = None;
        loop {
            let reply = self.store.range(request.clone()).await?;
            let revision = *at.get_or_insert(reply.revision);
            request.revision = Some(revision);
            if let Some(last) = reply.kvs.last() {
                request.start = [&last.key[..], b"\0"].concat().into();
            }
            for kv in reply.kvs {
                let Some((resource, _)) = self.locate(&kv.key) else { continue };
                if let Some(object) = parse(&resource, &kv) {
                    found.entry(resource.kind.resource()).or_default().push(object);
                }
            }
            if !reply.more {
                break;
            }
        }
        let revision = at.map_or(0, |at| at.0);
        let custom: Vec<_> =
            self.custom.read().iter().map(|(name, resource)| (name.clone(), resource.clone())).collect();
        let built_in = self.built_in.iter().map(|(name, resource)| (name.clone(), resource.clone()));
        for (name, resource) in built_in.chain(custom) {
            resource.reset(found.remove(name.as_str()).unwrap_or_default(), revision);
        }
        self.publish(revision);
        Ok(revision)
    }

    /// The resource that a key belongs to, and the object's path in it.
    fn locate<'k>(&self, key: &'k [u8]) -> Option<(Arc<Resource>, &'k str)> {
        let rest = std::str::from_utf8(key).ok()?.strip_prefix(ROOT)?;
        let (segment, path) = rest.split_once('/')?;
        let resource = match self.built_in.get(segment) {
            Some(resource) => resource.clone(),
            None => self.custom.read().get(segment)?.clone(),
        };
        Some((resource, path))
    }

    fn apply(&self, batch: WatchBatch) {
        let now_ms = self.clock.boottime_ms();
        let shared = shared(&batch.events);
        for (event, shared) in batch.events.into_iter().zip(shared) {
            let Some((resource, path)) = self.locate(&event.kv.key) else { continue };
            let revision = event.kv.mod_revision.0;
            match event.kind {
                EventKind::Delete => {
                    resource.delete(path, revision, shared, now_ms);
                    self.note(&resource, path, true, None);
                }
                EventKind::Put => {
                    let born = if event.kv.version == 1 { EventType::Added } else { EventType::Modified };
                    match Object::parse(&event.kv.value, revision, born, &resource.selectable) {
                        Ok(object) => {
                            let noted = resource.put(path, object, shared, now_ms);
                            self.note(&resource, path, false, Some(&noted));
                        }
                        Err(error) => tracing::error!(%path, %error, "skipping a stored object"),
                    }
                }
            }
        }
        self.publish(batch.revision.0);
    }

    fn publish(&self, revision: u64) {
        self.timeline.lock().note(self.now(), revision);
        self.applied.fetch_max(revision, Ordering::AcqRel);
        self.reached.send_if_modified(|at| {
            let newer = revision > *at;
            *at = revision.max(*at);
            newer
        });
    }
}

/// Of each event, whether its transaction wrote more of the same resource.
fn shared(events: &[gantry_store::Event]) -> Vec<bool> {
    let mut all = Vec::with_capacity(events.len());
    for one in events.chunk_by(|a, b| a.kv.mod_revision == b.kv.mod_revision) {
        if one.len() == 1 {
            all.push(false);
            continue;
        }
        let mut counts: HashMap<&[u8], usize> = HashMap::new();
        one.iter().for_each(|event| *counts.entry(segment(&event.kv.key)).or_default() += 1);
        all.extend(one.iter().map(|event| counts[segment(&event.kv.key)] > 1));
    }
    all
}

/// What the keys of one resource begin with.
fn segment(key: &[u8]) -> &[u8] {
    let rest = key.strip_prefix(ROOT.as_bytes()).unwrap_or(key);
    rest.split(|byte| *byte == b'/').next().unwrap_or(rest)
}

fn parse(resource: &Resource, kv: &KeyValue) -> Option<Object> {
    let object = Object::parse(&kv.value, kv.mod_revision.0, EventType::Added, &resource.selectable);
    if let Err(error) = &object {
        tracing::error!(key = %String::from_utf8_lossy(&kv.key), %error, "skipping a stored object");
    }
    object.ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use gantry_apimachinery::clock::SystemClock;
    use gantry_apimachinery::kinds::CONFIG_MAP;
    use gantry_store::{MemStore, Op, RangeReply, Txn, TxnReply, Watch};
    use std::sync::atomic::AtomicUsize;

    /// A store whose first watch goes to a member that hears nothing any more.
    #[derive(Default)]
    struct CutOff {
        inner: MemStore,
        deaf: MemStore,
        from: parking_lot::Mutex<Vec<u64>>,
        lists: AtomicUsize,
    }

    #[async_trait::async_trait]
    impl Store for CutOff {
        async fn txn(&self, txn: Txn) -> Result<TxnReply, StoreError> {
            self.inner.txn(txn).await
        }
        async fn txn_batch(&self, txns: Vec<Txn>) -> Result<Vec<Result<TxnReply, StoreError>>, StoreError> {
            self.inner.txn_batch(txns).await
        }
        async fn range(&self, request: RangeRequest) -> Result<RangeReply, StoreError> {
            self.lists.fetch_add(1, Ordering::Relaxed);
            self.inner.range(request).await
        }
        async fn watch(&self, request: WatchRequest) -> Result<Watch, StoreError> {
            let first = self.from.lock().is_empty();
            self.from.lock().push(request.from.0);
            if first { self.deaf.watch(request).await } else { self.inner.watch(request).await }
        }
        async fn read_revision(&self) -> Result<Revision, StoreError> {
            self.inner.read_revision().await
        }
        async fn compact(&self, revision: Revision) -> Result<(), StoreError> {
            self.inner.compact(revision).await
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_feed_that_is_stuck_begins_anew_where_it_was() {
        let store = Arc::new(CutOff::default());
        let clock = Arc::new(SystemClock);
        let group = Arc::new(Group::new(
            StoreGroup::State,
            store.clone(),
            HistoryLimits { age_ms: 60_000, bytes: 1 << 20 },
            clock,
        ));
        let cancel = CancellationToken::new();
        let _stop = cancel.clone().drop_guard();
        let running = group.clone();
        tokio::spawn(async move { running.run(cancel).await });
        group.wait_ready().await;
        let value = r#"{"metadata":{"name":"a","namespace":"b"}}"#;
        let op = Op::put(CONFIG_MAP.key("b", "a"), value);
        let made = store.txn(Txn { success: vec![op], ..Txn::default() }).await.unwrap().revision.0;
        // A version that nobody has is no sign of a broken feed.
        assert!(group.wait_for(made + 100).await.is_err());
        assert_eq!(store.from.lock().len(), 1);
        assert_eq!(group.wait_for(made).await.unwrap_err().at, made - 1);
        group.wait_for(made).await.unwrap();
        assert_eq!(*store.from.lock(), [made, made], "the same revision again");
        assert_eq!(store.lists.load(Ordering::Relaxed), 1, "without another list");
    }
}
