//! Requests that begin at fixed times, whatever became of those before: production that comes while a burst is under way, and
//! what comes and goes beside a measurement.

use crate::apibench::Identity;
use crate::apibench::servers::ADDRESS;
use crate::apibench::wire::{Call, Link};
use crate::storebench::load::runtime;
use anyhow::Context;
use http::StatusCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

/// Until it is stopped.
pub struct Paced {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<anyhow::Result<Vec<Instant>>>,
}

impl Paced {
    /// Each turn sends its calls one after the other. What is not there may be deleted.
    pub fn start(identity: Identity, every: Duration, calls: impl Fn(u64) -> Vec<Call> + Send + 'static) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = std::thread::spawn(move || runtime()?.block_on(run(&identity, every, calls, &stopped)));
        Self { stop, thread }
    }

    /// When each turn was due. Waits for the answers that are still owed; an error is the first that was answered.
    pub fn stop(self) -> anyhow::Result<Vec<Instant>> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().ok().context("a generator thread does not panic")?
    }
}

async fn run(
    identity: &Identity,
    every: Duration,
    calls: impl Fn(u64) -> Vec<Call>,
    stop: &AtomicBool,
) -> anyhow::Result<Vec<Instant>> {
    let link = Link::connect(ADDRESS, identity).await?;
    let mut due = Vec::new();
    let mut turns = JoinSet::new();
    let mut clock = tokio::time::interval(every);
    loop {
        let at = clock.tick().await;
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let (link, calls) = (link.clone(), calls(due.len() as u64));
        due.push(at.into_std());
        turns.spawn(async move {
            for call in calls {
                let answer = link.ask(&call).await?;
                let fine = answer.status.is_success() || answer.status == StatusCode::NOT_FOUND;
                let said = || String::from_utf8_lossy(&answer.body[..answer.body.len().min(300)]).into_owned();
                anyhow::ensure!(fine, "{} {}: {}: {}", call.method, call.path, answer.status, said());
            }
            anyhow::Ok(())
        });
    }
    while let Some(turn) = turns.join_next().await {
        turn??;
    }
    Ok(due)
}
