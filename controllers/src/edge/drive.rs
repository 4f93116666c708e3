//! The loop around every controller's core: wait for a key, observe, reconcile, carry the plan out, remember. Decides nothing
//! about objects.

use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use gantry_apimachinery::time::Timestamp;
use gantry_client::looprt::{self, HandlerError, LoopSpec, Next};
use gantry_client::{ApiError, EventRecorder, WorkQueue};
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use super::execute::{Report, execute};
use super::{Env, Feeds, Key, Memory};
use crate::plan::Plan;

/// How long a key waits to see its own writes before it gives its worker back.
const SEE_OWN_WRITES: Duration = Duration::from_millis(200);

/// A look at fewer objects costs nothing worth saving.
const SMALL: usize = 200;
const OBJECT_REST: Duration = Duration::from_micros(20);
const LONGEST_REST: Duration = Duration::from_secs(1);

/// One controller: what wakes it, what it looks at, what it decides.
pub trait Controller: Send + Sync + Sized + 'static {
    type Observed: Send + Sync;
    /// Names the loop in metrics and logs.
    const NAME: &'static str;
    /// Who speaks in events.
    const COMPONENT: &'static str;
    /// Keys handled at the same time.
    const WORKERS: usize = 4;

    fn new(env: &Arc<Env>) -> Self;

    /// Connects the informers to the queue.
    fn feed(&self, env: &Arc<Env>, feeds: &mut Feeds);

    /// All keys there are, for the resync.
    fn keys(env: &Env) -> Vec<Key>;

    /// Everything that the decision depends on; `None` when there is nothing to decide (any more).
    fn observe(
        &self,
        env: &Env,
        key: &Key,
        memory: &Memory,
    ) -> impl Future<Output = Result<Option<Self::Observed>, ApiError>> + Send;

    /// The decision.
    fn reconcile(observed: &Self::Observed, now: Timestamp) -> Plan;

    /// Told of each plan before any of it is sent, for what must be remembered even if no answer comes.
    fn sends(&self, _plan: &Plan) {}

    /// How long the key is left alone after this look, so that what happens meanwhile is handled together.
    fn rest(_observed: &Self::Observed) -> Duration {
        Duration::ZERO
    }

    /// Objects whose status lags behind their wish.
    fn stale(_env: &Env) -> u64 {
        0
    }
}

/// The [`Controller::rest`] of a look that visits this many objects: some ten times what it costs. Small ones never wait.
pub fn rest(objects: usize) -> Duration {
    if objects < SMALL {
        Duration::ZERO
    } else {
        (OBJECT_REST * u32::try_from(objects).unwrap_or(u32::MAX)).min(LONGEST_REST)
    }
}

struct Driver<C> {
    controller: C,
    env: Arc<Env>,
    recorder: EventRecorder,
    cancel: CancellationToken,
    memories: Mutex<HashMap<Key, Memory>>,
}

/// Runs one controller until it is cancelled: then it begins no further write.
pub async fn drive<C: Controller>(env: Arc<Env>, cancel: CancellationToken) {
    let queue = WorkQueue::new();
    let controller = C::new(&env);
    let mut feeds = Feeds::new(queue.clone());
    controller.feed(&env, &mut feeds);
    let metrics = env.config.metrics.clone();
    let recorder = EventRecorder::with_metrics(env.client.clone(), C::COMPONENT, "", metrics.clone());
    let memories = Mutex::default();
    let driver = Arc::new(Driver { controller, env: env.clone(), recorder, cancel: cancel.clone(), memories });
    let (resync, stale) = (env.clone(), env);
    let spec = LoopSpec::new(C::NAME, queue, metrics, cancel)
        .workers(C::WORKERS)
        .resync(move || C::keys(&resync))
        .stale(move || C::stale(&stale));
    looprt::run(spec, move |key| driver.clone().handle(key)).await;
}

impl<C: Controller> Driver<C> {
    async fn handle(self: Arc<Self>, key: Key) -> Result<Next, HandlerError> {
        let mut memory = self.memories.lock().get(&key).cloned().unwrap_or_default();
        if !self.sees_own_writes(&memory).await {
            return Ok(Next::After(SEE_OWN_WRITES));
        }
        memory.settle(|namespace, name| self.env.informers.pods.get(namespace, name));
        memory.written.clear();
        let Some(observed) = self.controller.observe(&self.env, &key, &memory).await? else {
            self.memories.lock().remove(&key);
            return Ok(Next::Done);
        };
        let plan = C::reconcile(&observed, self.env.clock.now());
        let rest = C::rest(&observed);
        drop(observed);
        self.controller.sends(&plan);
        let report = execute(&self.env.client, &self.recorder, &plan, &self.cancel).await;
        self.remember(&key, &mut memory, &plan, &report);
        match report.error {
            Some(error) => Err(Box::new(error)),
            None => Ok(Next::Rest { rest, after: report.retry_in.or(plan.requeue) }),
        }
    }

    /// Waits a moment for the copies to show what this loop wrote for the key.
    async fn sees_own_writes(&self, memory: &Memory) -> bool {
        let all = async {
            for (kind, revision) in memory.written.values() {
                self.env.informers.reached(kind, *revision).await;
            }
        };
        memory.written.is_empty() || tokio::time::timeout(SEE_OWN_WRITES, all).await.is_ok()
    }

    fn remember(&self, key: &Key, memory: &mut Memory, plan: &Plan, report: &Report) {
        memory.failure.clone_from(&report.failure);
        for (kind, revision) in &report.written {
            memory.wrote(kind, *revision);
        }
        for (uid, namespace, name) in &report.deleted {
            memory.deleted(uid.clone(), namespace, name);
        }
        if plan.writes().next().is_some() {
            memory.wrote_at_ms = Some(self.env.clock.boottime_ms());
        }
        self.memories.lock().insert(key.clone(), memory.clone());
    }
}
