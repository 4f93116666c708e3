//! The edge: watches the API, feeds the engine, and carries out what it wants. Acts on every event as it comes; there is no
//! tick. Decides nothing.

mod effects;
mod explanations;
mod feed;
mod numbers;
mod profiles;
mod volumes;
mod workers;

use std::collections::HashMap;
use std::time::Duration;

use gantry_apimachinery::clock::{Clock, SystemClock};
use gantry_client::leader::Timing;
use gantry_client::{Client, EventRecorder, Metrics, backoff, leader};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use crate::class::Profile;
use crate::engine::{Effect, Engine, Event};
use effects::Effects;
use feed::Feed;
use numbers::Numbers;
pub use profiles::Profiles;
use workers::Threads;

/// Pods decided between two looks at the watches.
const TURN: usize = 256;
/// After a failure everything is read again this much later.
const AGAIN: Duration = Duration::from_secs(2);

/// What a scheduler is started with.
#[derive(Clone)]
pub struct Config {
    /// Names the lease and the source of events.
    pub scheduler_name: String,
    /// Pods that name one of these in `spec.schedulerName` are ours, and are placed as it says.
    pub profiles: HashMap<String, Profile>,
    /// How many threads propose at once.
    pub workers: usize,
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
            profiles: HashMap::from([("default-scheduler".to_owned(), Profile::default())]),
            workers: workers::fitting(),
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
    let (leads, mut told) = watch::channel(!config.leader_election);
    // In a task of its own: a long turn of decisions must not cost the lease.
    let elector = tokio::spawn(elect(config.clone(), client.clone(), leads, cancel.clone()));
    let scheduling = async {
        loop {
            match follow(&config, &numbers, &client, &mut told, &cancel).await {
                // What was assumed may not come true: everything is read again.
                Ok(()) => tracing::info!("follows as a standby"),
                // Its watches end as it does.
                Err(_) if cancel.is_cancelled() => return Ok(()),
                Err(error) if !config.leader_election => return Err(error),
                Err(error) => {
                    tracing::error!(%error, "the scheduler begins again");
                    tokio::time::sleep(AGAIN).await;
                }
            }
        }
    };
    let scheduling = cancel.run_until_cancelled(scheduling);
    let (elected, result) = tokio::join!(elector, scheduling);
    if let Err(panic) = elected.map_err(tokio::task::JoinError::try_into_panic)
        && let Ok(panic) = panic
    {
        std::panic::resume_unwind(panic);
    }
    result.unwrap_or(Ok(()))
}

/// Says who leads, for as long as this process runs. One scheduler alone always does.
async fn elect(config: Config, client: Client, leads: watch::Sender<bool>, cancel: CancellationToken) {
    if !config.leader_election {
        return;
    }
    let lease = ("kube-system", lease_name(&config.scheduler_name));
    let leads = &leads;
    let task = |token: CancellationToken| async move {
        leads.send_replace(true);
        token.cancelled().await;
        leads.send_replace(false);
    };
    leader::run(client, lease, &config.identity, Timing::FAST, cancel, task).await;
}

/// Follows the API, and decides while it leads. Returns when it led and does not any more.
async fn follow(
    config: &Config,
    numbers: &Numbers,
    client: &Client,
    leads: &mut watch::Receiver<bool>,
    cancel: &CancellationToken,
) -> Result<(), Error> {
    let (feed, events) = Feed::start(client, &config.metrics, cancel).await?;
    let recorder = EventRecorder::with_metrics(client.clone(), &config.scheduler_name, "", config.metrics.clone());
    // Answers are bounded by what was asked: one per effect under way.
    let (answers, answered) = mpsc::unbounded_channel();
    let effects = Effects::new(client.clone(), recorder, answers);
    let engine = Engine::with_profiles(config.profiles.clone());
    let workers = Threads::new(config.workers);
    let mut following = Following { engine, effects, workers, numbers, clock: SystemClock };
    following.hear(events);
    following.run(feed, answered, leads).await
}

/// The loop that owns the engine. A standby hears everything and decides nothing, so that it can lead at once.
struct Following<'a> {
    engine: Engine,
    effects: Effects,
    workers: Threads,
    numbers: &'a Numbers,
    clock: SystemClock,
}

impl Following<'_> {
    async fn run(
        &mut self,
        mut feed: Feed,
        mut answered: mpsc::UnboundedReceiver<Event>,
        leads: &mut watch::Receiver<bool>,
    ) -> Result<(), Error> {
        let mut events = Vec::new();
        let mut led = false;
        loop {
            while let Ok(answer) = answered.try_recv() {
                events.push(answer);
            }
            feed.take(&mut events);
            self.hear(std::mem::take(&mut events));
            let leading = *leads.borrow_and_update();
            if leading {
                self.decide();
            } else if led {
                return Ok(());
            } else {
                self.engine.stand_by();
            }
            self.effects.flush();
            led = leading;
            if leading && self.engine.has_ready() {
                tokio::task::yield_now().await;
                continue;
            }
            let now_ms = self.clock.boottime_ms();
            let next = self.engine.next_due_ms().filter(|_| leading);
            let wait = next.map(|due| Duration::from_millis(due.saturating_sub(now_ms)));
            let due = async {
                match wait {
                    Some(wait) => tokio::time::sleep(wait).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                told = feed.next() => events.extend(told?),
                Some(event) = answered.recv() => events.push(event),
                // Without an elector nothing changes any more.
                Ok(()) = leads.changed() => {}
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
        for effect in self.engine.decide(self.clock.boottime_ms(), seed, TURN, &self.workers) {
            self.begin(effect);
        }
        self.numbers.depths(&self.engine);
    }

    fn begin(&mut self, effect: Effect) {
        self.numbers.count(&effect);
        self.effects.begin(effect);
    }
}
