//! One store group's feed: lists the store once, then applies one watch to all of the group's resources.
//!
//! Decides how far the cache has come (`applied`) and when it must start over; never what an object means.

use super::object::{EventType, Object};
use super::resource::{HistoryLimits, Resource};
use gantry_apimachinery::clock::Clock;
use gantry_apimachinery::kinds::{KINDS, StoreGroup};
use gantry_apimachinery::time::Timestamp;
use gantry_store::{EventKind, RangeRequest, Revision, Store, StoreError, WatchBatch, WatchRequest, prefix_end};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

const ROOT: &str = "/registry/";
const PAGE: usize = 5_000;
/// A consistent read asks the store for progress when the cache has not caught up by then.
const ASK_AFTER: Duration = Duration::from_millis(50);
const GIVE_UP_AFTER: Duration = Duration::from_secs(3);

/// The cache did not reach the wanted revision in time. The caller answers 504 and the client retries.
#[derive(Debug, thiserror::Error)]
#[error("the cache is at revision {at} and did not reach {wanted} in time")]
pub struct Behind {
    pub at: u64,
    pub wanted: u64,
}

/// The caches of all resources that one store holds.
pub struct Group {
    pub which: StoreGroup,
    pub store: Arc<dyn Store>,
    resources: HashMap<String, Arc<Resource>>,
    applied: Arc<AtomicU64>,
    reached: watch::Sender<u64>,
    wanted: Notify,
    clock: Arc<dyn Clock>,
}

impl Group {
    pub fn new(which: StoreGroup, store: Arc<dyn Store>, limits: HistoryLimits, clock: Arc<dyn Clock>) -> Self {
        let applied = Arc::new(AtomicU64::new(0));
        let resources = KINDS
            .iter()
            .copied()
            .filter(|kind| kind.store == which && kind.is_stored())
            .map(|kind| (kind.resource(), Arc::new(Resource::new(kind, limits, applied.clone()))))
            .collect();
        Self { which, store, resources, applied, reached: watch::Sender::new(0), wanted: Notify::new(), clock }
    }

    pub fn resources(&self) -> impl Iterator<Item = &Arc<Resource>> {
        self.resources.values()
    }

    pub fn applied(&self) -> u64 {
        self.applied.load(Ordering::Acquire)
    }

    pub fn now(&self) -> Timestamp {
        self.clock.now()
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
            _ => Err(Behind { at: self.applied(), wanted: revision }),
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
                () = self.wanted.notified() => watch.request_progress(),
            }
        }
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
                match Object::parse(&kv.value, kv.mod_revision.0, EventType::Added, resource.selectable) {
                    Ok(object) => found.entry(resource.kind.resource()).or_default().push(object),
                    Err(error) => {
                        tracing::error!(key = %String::from_utf8_lossy(&kv.key), %error, "skipping a stored object")
                    }
                }
            }
            if !reply.more {
                break;
            }
        }
        let revision = at.map_or(0, |at| at.0);
        for (name, resource) in &self.resources {
            resource.reset(found.remove(name.as_str()).unwrap_or_default(), revision);
        }
        self.publish(revision);
        Ok(revision)
    }

    /// The resource that a key belongs to, and the object's path in it.
    fn locate<'k>(&self, key: &'k [u8]) -> Option<(&Arc<Resource>, &'k str)> {
        let rest = std::str::from_utf8(key).ok()?.strip_prefix(ROOT)?;
        let (segment, path) = rest.split_once('/')?;
        Some((self.resources.get(segment)?, path))
    }

    fn apply(&self, batch: WatchBatch) {
        let now_ms = self.clock.boottime_ms();
        for event in batch.events {
            let Some((resource, path)) = self.locate(&event.kv.key) else { continue };
            let revision = event.kv.mod_revision.0;
            match event.kind {
                EventKind::Delete => resource.delete(path, revision, now_ms),
                EventKind::Put => {
                    let born = if event.kv.version == 1 { EventType::Added } else { EventType::Modified };
                    match Object::parse(&event.kv.value, revision, born, resource.selectable) {
                        Ok(object) => resource.put(path, object, now_ms),
                        Err(error) => tracing::error!(%path, %error, "skipping a stored object"),
                    }
                }
            }
        }
        self.publish(batch.revision.0);
    }

    fn publish(&self, revision: u64) {
        self.applied.fetch_max(revision, Ordering::AcqRel);
        self.reached.send_if_modified(|at| {
            let newer = revision > *at;
            *at = revision.max(*at);
            newer
        });
    }
}
