//! The contract that every control loop keeps: workers over one queue, back-off on failure, a jittered resync, and
//! the same numbers from all. Never decides what a key needs: the handler compares wish and actual.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;
use std::future::Future;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::gauge::ConstGauge;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use crate::backoff::{entropy, jittered};
use crate::error::{ApiError, chain};
use crate::metrics::{LoopLabel, Metrics};
use crate::workqueue::WorkQueue;

/// How often every key is looked at again, without any event.
pub const RESYNC: Duration = Duration::from_secs(300);

/// What a handler wants after it succeeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Nothing until something changes.
    Done,
    /// The same key again after this long.
    After(Duration),
    /// The key is left alone for `rest`, whatever changes; and it comes again `after` that long, if at all.
    Rest { rest: Duration, after: Option<Duration> },
}

/// A failure puts the key back with back-off; conflicts and the like need no special care.
pub type HandlerError = Box<dyn Error + Send + Sync>;

/// All keys there are now; the resync goes through them.
pub type Resync<K> = Arc<dyn Fn() -> Vec<K> + Send + Sync>;

/// How many objects have had a generation ahead of what is observed for more than a minute.
pub type StaleCount = Arc<dyn Fn() -> u64 + Send + Sync>;

/// What a loop is made of.
pub struct LoopSpec<K> {
    pub name: &'static str,
    pub queue: WorkQueue<K>,
    /// Keys handled at the same time, at least one.
    pub workers: usize,
    /// `None`: no resync.
    pub resync: Option<Resync<K>>,
    /// Asked when the numbers are read, never otherwise.
    pub stale: Option<StaleCount>,
    pub metrics: Metrics,
    pub cancel: CancellationToken,
}

impl<K: Clone + Eq + Hash> LoopSpec<K> {
    /// One worker, no resync.
    pub fn new(name: &'static str, queue: WorkQueue<K>, metrics: Metrics, cancel: CancellationToken) -> Self {
        LoopSpec { name, queue, workers: 1, resync: None, stale: None, metrics, cancel }
    }

    #[must_use]
    pub fn workers(mut self, workers: usize) -> Self {
        self.workers = workers;
        self
    }

    #[must_use]
    pub fn resync(mut self, keys: impl Fn() -> Vec<K> + Send + Sync + 'static) -> Self {
        self.resync = Some(Arc::new(keys));
        self
    }

    #[must_use]
    pub fn stale(mut self, count: impl Fn() -> u64 + Send + Sync + 'static) -> Self {
        self.stale = Some(Arc::new(count));
        self
    }
}

type Handler<K> = Arc<dyn Fn(K) -> BoxFuture<'static, Result<Next, HandlerError>> + Send + Sync>;

/// Runs the loop until it is cancelled; keys in work are finished first. Dropped, it drops the handlers too.
pub async fn run<K, H, F>(spec: LoopSpec<K>, handler: H)
where
    K: Clone + Eq + Hash + fmt::Debug + Send + Sync + 'static,
    H: Fn(K) -> F + Send + Sync + 'static,
    F: Future<Output = Result<Next, HandlerError>> + Send + 'static,
{
    run_erased(spec, Arc::new(move |key| handler(key).boxed())).await;
}

/// Handlers and their futures are behind pointers, so that all loops of a program share this code.
async fn run_erased<K>(spec: LoopSpec<K>, handler: Handler<K>)
where
    K: Clone + Eq + Hash + fmt::Debug + Send + Sync + 'static,
{
    let label = LoopLabel { r#loop: spec.name.to_owned() };
    let queue = spec.queue.clone();
    let depth: StaleCount = Arc::new(move || u64::try_from(queue.len()).unwrap_or(u64::MAX));
    spec.metrics.loops().collector.insert(spec.name, depth, spec.stale.clone());
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..spec.workers.max(1) {
        let worker = Worker {
            name: spec.name,
            queue: spec.queue.clone(),
            handler: handler.clone(),
            latency_s: spec.metrics.loops().latency_s.get_or_create(&label).clone(),
            handled: spec.metrics.loops().handled.get_or_create(&label).clone(),
            errors: spec.metrics.loops().errors.get_or_create(&label).clone(),
        };
        tasks.spawn(worker.run().boxed());
    }
    match spec.resync {
        Some(keys) => drop(spec.cancel.run_until_cancelled(resync(&spec.queue, keys)).await),
        None => spec.cancel.cancelled().await,
    }
    spec.queue.close();
    while let Some(result) = tasks.join_next().await {
        if let Err(error) = result
            && error.is_panic()
        {
            tracing::error!(name = spec.name, "a worker of this loop panicked");
        }
    }
}

/// Every five minutes, more or less, all keys, spread over the tenth part of that.
async fn resync<K: Clone + Eq + Hash>(queue: &WorkQueue<K>, keys: Resync<K>) {
    loop {
        tokio::time::sleep(jittered(RESYNC * 9 / 10, RESYNC / 5, entropy())).await;
        for key in keys() {
            queue.add_after(key, jittered(Duration::ZERO, RESYNC / 10, entropy()));
        }
    }
}

struct Worker<K> {
    name: &'static str,
    queue: WorkQueue<K>,
    handler: Handler<K>,
    latency_s: prometheus_client::metrics::histogram::Histogram,
    handled: prometheus_client::metrics::counter::Counter,
    errors: prometheus_client::metrics::counter::Counter,
}

impl<K> Worker<K>
where
    K: Clone + Eq + Hash + fmt::Debug + Send + Sync + 'static,
{
    async fn run(self) {
        while let Some((key, since)) = self.queue.next_since().await {
            // A task of its own, so that a panic costs one attempt and not the worker. It does not outlive the worker.
            let result = AbortOnDropHandle::new(tokio::spawn((self.handler)(key.clone()))).await;
            self.latency_s.observe(Instant::now().saturating_duration_since(since).as_secs_f64());
            self.handled.inc();
            let mut rests = Duration::ZERO;
            match result {
                Ok(Ok(next)) => {
                    self.queue.forget(&key);
                    let after = match next {
                        Next::Done => None,
                        Next::After(delay) => Some(delay),
                        Next::Rest { rest, after } => {
                            rests = rest;
                            after
                        }
                    };
                    if let Some(delay) = after {
                        self.queue.add_after(key.clone(), delay);
                    }
                }
                Ok(Err(error)) => self.failed(&key, error.as_ref()),
                Err(error) => self.failed(&key, &error),
            }
            self.queue.done_after(&key, rests);
        }
    }

    fn failed(&self, key: &K, error: &(dyn Error + 'static)) {
        self.errors.inc();
        if is_expected(error) {
            tracing::debug!(name = self.name, ?key, error = chain(error), "will try again");
        } else {
            tracing::warn!(name = self.name, ?key, error = chain(error), "will try again");
        }
        self.queue.add_rate_limited(key.clone());
    }
}

/// Conflicts are how two writers meet; they are not worth a warning.
fn is_expected(error: &(dyn Error + 'static)) -> bool {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if error.downcast_ref::<ApiError>().is_some_and(ApiError::is_conflict) {
            return true;
        }
        cause = error.source();
    }
    false
}

/// Reads queue depths and stale generations when somebody asks for the numbers.
#[derive(Clone, Default)]
pub(crate) struct LoopCollector(Arc<Mutex<BTreeMap<&'static str, LoopGauges>>>);

#[derive(Clone)]
struct LoopGauges {
    depth: StaleCount,
    stale: Option<StaleCount>,
}

impl LoopCollector {
    fn insert(&self, name: &'static str, depth: StaleCount, stale: Option<StaleCount>) {
        self.0.lock().insert(name, LoopGauges { depth, stale });
    }
}

impl fmt::Debug for LoopCollector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.lock().keys()).finish()
    }
}

impl Collector for LoopCollector {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), fmt::Error> {
        let loops = self.0.lock().clone();
        let mut write = |metric: &str, help: &str, values: Vec<(&'static str, u64)>| -> Result<(), fmt::Error> {
            let gauge = ConstGauge::new(0_u64);
            let mut family = encoder.encode_descriptor(metric, help, None, gauge.metric_type())?;
            for (name, value) in values {
                let label = LoopLabel { r#loop: name.to_owned() };
                ConstGauge::new(value).encode(family.encode_family(&label)?)?;
            }
            Ok(())
        };
        let depths = loops.iter().map(|(name, gauges)| (*name, (gauges.depth)())).collect();
        write("loop_queue_depth", "Keys that wait to be handled", depths)?;
        let stale = loops.iter().filter_map(|(name, g)| g.stale.as_ref().map(|count| (*name, count()))).collect();
        write("loop_stale_generations", "Objects whose generation is ahead for over a minute", stale)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(queue: &WorkQueue<u32>, metrics: &Metrics, cancel: &CancellationToken) -> LoopSpec<u32> {
        LoopSpec::new("test", queue.clone(), metrics.clone(), cancel.clone())
    }

    #[tokio::test(start_paused = true)]
    async fn failures_and_panics_come_again_and_are_counted() {
        let (queue, metrics, cancel) = (WorkQueue::new(), Metrics::new(), CancellationToken::new());
        let (sender, mut seen) = tokio::sync::mpsc::unbounded_channel();
        let attempts = Arc::new(Mutex::new(0));
        let task = tokio::spawn(run(spec(&queue, &metrics, &cancel).stale(|| 3), move |key| {
            let (sender, attempts) = (sender.clone(), attempts.clone());
            async move {
                *attempts.lock() += 1;
                let attempt = *attempts.lock();
                sender.send(key).unwrap();
                match attempt {
                    1 => Err("not yet".into()),
                    2 => panic!("a bug"),
                    3 => Ok(Next::After(Duration::from_secs(9))),
                    _ => Ok(Next::Done),
                }
            }
        }));
        queue.add(4);
        for _ in 0..4 {
            assert_eq!(seen.recv().await, Some(4));
        }
        cancel.cancel();
        task.await.unwrap();
        let text = metrics.encode();
        for line in [
            r#"gantry_loop_errors_total{loop="test"} 2"#,
            r#"gantry_loop_handled_total{loop="test"} 4"#,
            r#"gantry_loop_queue_depth{loop="test"} 0"#,
            r#"gantry_loop_stale_generations{loop="test"} 3"#,
        ] {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn every_key_is_looked_at_again_within_the_resync() {
        let (queue, metrics, cancel) = (WorkQueue::new(), Metrics::new(), CancellationToken::new());
        let (sender, mut seen) = tokio::sync::mpsc::unbounded_channel();
        let start = Instant::now();
        tokio::spawn(run(spec(&queue, &metrics, &cancel).resync(|| vec![1, 2]), move |key| {
            let sender = sender.clone();
            async move {
                sender.send(key).unwrap();
                Ok(Next::Done)
            }
        }));
        let mut keys = vec![seen.recv().await.unwrap(), seen.recv().await.unwrap()];
        keys.sort_unstable();
        assert_eq!(keys, [1, 2]);
        assert!(start.elapsed() >= RESYNC * 9 / 10 && start.elapsed() <= RESYNC * 6 / 5, "{:?}", start.elapsed());
        cancel.cancel();
    }

    #[tokio::test(start_paused = true)]
    async fn a_loop_that_is_dropped_leaves_no_handler_behind() {
        let (queue, metrics, cancel) = (WorkQueue::new(), Metrics::new(), CancellationToken::new());
        let (sender, mut seen) = tokio::sync::mpsc::unbounded_channel();
        let task = tokio::spawn(run(spec(&queue, &metrics, &cancel), move |key| {
            let sender = sender.clone();
            async move {
                sender.send(key).unwrap();
                std::future::pending().await
            }
        }));
        queue.add(4);
        assert_eq!(seen.recv().await, Some(4));
        task.abort();
        let all_gone = tokio::time::timeout(Duration::from_secs(1), seen.recv()).await;
        assert_eq!(all_gone.expect("the handler is gone too"), None);
    }
}
