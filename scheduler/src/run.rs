//! The edge: watches the API, feeds the engine, and carries out what it wants. Acts on every event as it comes; there is no
//! tick. Decides nothing.

#[path = "run/effects.rs"]
mod effects;
#[path = "run/feed.rs"]
mod feed;

use std::time::Duration;

use gantry_apimachinery::clock::{Clock, SystemClock};
use gantry_client::{Client, EventRecorder, Metrics, backoff, leader};
use prometheus_client::metrics::{counter::Counter, gauge::Gauge};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::engine::{Effect, Engine, Event};
use effects::Effects;
use feed::Feed;

/// Pods decided between two looks at the watches.
const TURN: usize = 256;

/// What a scheduler is started with.
#[derive(Clone)]
pub struct Config {
    /// Pods with this `spec.schedulerName` are ours.
    pub scheduler_name: String,
    /// Several schedulers of one name compete for a lease; one alone needs none.
    pub leader_election: bool,
    /// Who holds the lease.
    pub identity: String,
    pub metrics: Metrics,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            scheduler_name: "default-scheduler".to_owned(),
            leader_election: false,
            identity: "gantry-scheduler".to_owned(),
            metrics: Metrics::new(),
        }
    }
}

/// Why a scheduler could not go on. Nobody retries: the process that runs it decides.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A watch ended although nobody cancelled it.
    #[error("the watch of {0} ended")]
    WatchEnded(&'static str),
}

/// Runs until cancelled.
///
/// Boxed, so that this crate compiles its own futures once instead of every program that runs them.
pub fn run(
    config: Config,
    client: Client,
    cancel: CancellationToken,
) -> futures::future::BoxFuture<'static, Result<(), Error>> {
    Box::pin(run_here(config, client, cancel))
}

/// As Kubernetes names the lease of its own scheduler; another one has its own.
fn lease_name(scheduler: &str) -> &str {
    if scheduler == "default-scheduler" { "kube-scheduler" } else { scheduler }
}

async fn run_here(config: Config, client: Client, cancel: CancellationToken) -> Result<(), Error> {
    let numbers = Numbers::register(&config.metrics);
    if !config.leader_election {
        return lead(&config, &numbers, client, cancel).await;
    }
    let lease = ("kube-system", lease_name(&config.scheduler_name));
    let (config, numbers) = (&config, &numbers);
    let task = |token: CancellationToken| {
        let client = client.clone();
        async move {
            if let Err(error) = lead(config, numbers, client, token).await {
                tracing::error!(%error, "the scheduler stopped");
            }
        }
    };
    leader::run(client.clone(), lease.0, lease.1, &config.identity, cancel, task).await;
    Ok(())
}

#[derive(Clone, Default)]
struct Numbers {
    bound: Counter,
    unschedulable: Counter,
    conflicts: Counter,
    pending: Gauge,
}

impl Numbers {
    fn register(metrics: &Metrics) -> Self {
        let numbers = Numbers::default();
        metrics.with_registry(|registry| {
            registry.register("scheduler_bound", "Pods bound", numbers.bound.clone());
            registry.register("scheduler_unschedulable", "Explanations given", numbers.unschedulable.clone());
            registry.register("scheduler_conflicts", "Binds decided again", numbers.conflicts.clone());
            registry.register("scheduler_pending", "Pods without a machine", numbers.pending.clone());
        });
        numbers
    }

    fn count(&self, effect: &Effect) {
        match effect {
            Effect::Scheduled { .. } => drop(self.bound.inc()),
            Effect::Explain { .. } => drop(self.unschedulable.inc()),
            Effect::ReadAllocation(_) => drop(self.conflicts.inc()),
            _ => {}
        }
    }
}

async fn lead(config: &Config, numbers: &Numbers, client: Client, cancel: CancellationToken) -> Result<(), Error> {
    let started = Feed::start(&client, &config.metrics, &cancel);
    let Some(mut feed) = cancel.run_until_cancelled(started).await else { return Ok(()) };
    let recorder = EventRecorder::with_metrics(client.clone(), &config.scheduler_name, "", config.metrics.clone());
    // Answers are bounded by what was asked: one per effect under way.
    let (answers, mut answered) = mpsc::unbounded_channel();
    let mut effects = Effects::new(client, recorder, answers);
    let mut engine = Engine::new(&config.scheduler_name);
    let clock = SystemClock;
    loop {
        while let Some(event) = feed.next_now().or_else(|| answered.try_recv().ok()) {
            for effect in engine.step(clock.boottime_ms(), event) {
                numbers.count(&effect);
                effects.begin(effect);
            }
        }
        let decide = Event::Decide { seed: backoff::entropy(), most: TURN };
        for effect in engine.step(clock.boottime_ms(), decide) {
            numbers.count(&effect);
            effects.begin(effect);
        }
        effects.flush();
        numbers.pending.set(i64::try_from(engine.pending()).unwrap_or(i64::MAX));
        if engine.has_ready() {
            tokio::task::yield_now().await;
            continue;
        }
        let wait = engine.next_due_ms().map(|due| Duration::from_millis(due.saturating_sub(clock.boottime_ms())));
        let due = async {
            match wait {
                Some(wait) => tokio::time::sleep(wait).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = cancel.cancelled() => return Ok(()),
            result = feed.changed() => match result {
                Err(_) if cancel.is_cancelled() => return Ok(()),
                result => result?,
            },
            Some(event) = answered.recv() => {
                for effect in engine.step(clock.boottime_ms(), event) {
                    numbers.count(&effect);
                    effects.begin(effect);
                }
            }
            () = due => {}
        }
    }
}
