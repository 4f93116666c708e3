//! The edge: watches the API, feeds the engine, and carries out what it wants. Acts on every event as it comes; there is no
//! tick. Decides nothing.

mod effects;
mod feed;
mod numbers;

use std::collections::HashMap;
use std::time::Duration;

use gantry_apimachinery::clock::{Clock, SystemClock};
use gantry_client::{Client, EventRecorder, Metrics, backoff, leader};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::class::Profile;
use crate::engine::{Effect, Engine, Event, Inline};
use effects::Effects;
use feed::Feed;
use numbers::Numbers;

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

impl Config {
    fn profiles(&self) -> HashMap<String, Profile> {
        HashMap::from([(self.scheduler_name.clone(), Profile::default())])
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

async fn lead(config: &Config, numbers: &Numbers, client: Client, cancel: CancellationToken) -> Result<(), Error> {
    let started = Feed::start(&client, &config.metrics, &cancel);
    let Some(started) = cancel.run_until_cancelled(started).await else { return Ok(()) };
    let (feed, events) = started?;
    let recorder = EventRecorder::with_metrics(client.clone(), &config.scheduler_name, "", config.metrics.clone());
    // Answers are bounded by what was asked: one per effect under way.
    let (answers, answered) = mpsc::unbounded_channel();
    let effects = Effects::new(client, recorder, answers);
    let engine = Engine::with_profiles(config.profiles());
    let mut leading = Leading { engine, effects, numbers, clock: SystemClock };
    leading.hear(events);
    let led = leading.lead(feed, answered);
    cancel.run_until_cancelled(led).await.unwrap_or(Ok(()))
}

/// The loop that owns the engine.
struct Leading<'a> {
    engine: Engine,
    effects: Effects,
    numbers: &'a Numbers,
    clock: SystemClock,
}

impl Leading<'_> {
    async fn lead(&mut self, mut feed: Feed, mut answered: mpsc::UnboundedReceiver<Event>) -> Result<(), Error> {
        let mut events = Vec::new();
        loop {
            while let Ok(answer) = answered.try_recv() {
                events.push(answer);
            }
            feed.take(&mut events);
            self.hear(std::mem::take(&mut events));
            self.decide();
            if self.engine.has_ready() {
                tokio::task::yield_now().await;
                continue;
            }
            let now_ms = self.clock.boottime_ms();
            let wait = self.engine.next_due_ms().map(|due| Duration::from_millis(due.saturating_sub(now_ms)));
            let due = async {
                match wait {
                    Some(wait) => tokio::time::sleep(wait).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                told = feed.next() => events.extend(told?),
                Some(event) = answered.recv() => events.push(event),
                () = due => {}
            }
        }
    }

    fn hear(&mut self, events: Vec<Event>) {
        for event in events {
            for effect in self.engine.step(self.clock.boottime_ms(), event) {
                self.begin(effect);
            }
        }
    }

    fn decide(&mut self) {
        let seed = backoff::entropy();
        for effect in self.engine.decide(self.clock.boottime_ms(), seed, TURN, &Inline) {
            self.begin(effect);
        }
        self.effects.flush();
        self.numbers.depths(&self.engine);
    }

    fn begin(&mut self, effect: Effect) {
        self.numbers.count(&effect);
        self.effects.begin(effect);
    }
}
