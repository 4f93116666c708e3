//! Closed loops: so many clients that each send one request after the other until so many were answered. A client that is told
//! to come back later does so. What the processes used is read before and after, when the server has seen all of it.

#![expect(clippy::disallowed_methods, reason = "a benchmark reads real time")]

use super::Identity;
use super::servers::{ADDRESS, Api, Cpu};
use super::wire::{Call, Link};
use crate::storebench::latency::Latencies;
use crate::storebench::load::runtime;
use anyhow::Context;
use futures::future::try_join_all;
use http::StatusCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A request that takes longer has failed.
const REQUEST: Duration = Duration::from_secs(120);
/// After "too many requests", as its `Retry-After` says.
const RETRY_AFTER: Duration = Duration::from_secs(1);
/// How often a long load says how far it is.
const REPORT: Duration = Duration::from_secs(5);

/// Who sends, and how much.
pub struct Shape<'a> {
    /// Each has a connection of its own; client `n` uses the connection `n` modulo their number.
    pub identities: &'a [Identity],
    pub clients: usize,
    pub count: u64,
    /// What is read at the end, so that the work of the caches is counted too.
    pub collection: &'a str,
}

#[derive(Debug, Default)]
pub struct Outcome {
    pub done: u64,
    pub seconds: f64,
    pub latencies: Latencies,
    /// Times that a request was told to come back later.
    pub refused: u64,
    pub cpu: Cpu,
}

impl Outcome {
    pub fn per_s(&self) -> f64 {
        self.done as f64 / self.seconds
    }

    /// Microseconds of each operation.
    pub fn each(&self, seconds: f64) -> f64 {
        seconds * 1e6 / self.done as f64
    }
}

/// Runs the load. `call` makes the request with this number for the client with that number.
pub fn run(
    api: &Api,
    what: &str,
    shape: &Shape,
    call: impl Fn(usize, u64) -> Call + Send + Sync,
) -> anyhow::Result<Outcome> {
    let next = AtomicU64::new(0);
    let before = api.cpu()?;
    let began = Instant::now();
    let mut outcome = std::thread::scope(|scope| {
        let (next, call) = (&next, &call);
        let load = scope.spawn(move || runtime()?.block_on(all(shape, next, call)));
        let mut said = Instant::now();
        while !load.is_finished() {
            std::thread::sleep(Duration::from_millis(5));
            if said.elapsed() >= REPORT {
                said = Instant::now();
                let done = next.load(Ordering::Relaxed).min(shape.count);
                let rate = done as f64 / began.elapsed().as_secs_f64();
                eprintln!("      {what}: {done} of {}, {rate:.0}/s", shape.count);
            }
        }
        load.join().expect("a generator thread does not panic")
    })
    .with_context(|| what.to_owned())?;
    api.settle(shape.collection)?;
    outcome.cpu = api.cpu()?.since(before);
    Ok(outcome)
}

async fn all(
    shape: &Shape<'_>,
    next: &AtomicU64,
    call: &(impl Fn(usize, u64) -> Call + Send + Sync),
) -> anyhow::Result<Outcome> {
    let links = try_join_all(shape.identities.iter().map(|identity| Link::connect(ADDRESS, identity))).await?;
    let began = Instant::now();
    let clients = (0..shape.clients).map(|number| {
        let link = &links[number % links.len()];
        async move {
            let mut outcome = Outcome::default();
            loop {
                let turn = next.fetch_add(1, Ordering::Relaxed);
                if turn >= shape.count {
                    return anyhow::Ok(outcome);
                }
                one(link, &call(number, turn), &mut outcome).await?;
            }
        }
    });
    // Each client wakes alone: a joined list is asked only where something happened.
    let parts = try_join_all(clients).await?;
    let mut all = Outcome { seconds: began.elapsed().as_secs_f64(), ..Outcome::default() };
    for part in parts {
        all.done += part.done;
        all.refused += part.refused;
        all.latencies.extend(part.latencies);
    }
    Ok(all)
}

/// Until it is answered; the latency counts from the first try.
async fn one(link: &Link, call: &Call, outcome: &mut Outcome) -> anyhow::Result<()> {
    let began = Instant::now();
    loop {
        let answer = tokio::time::timeout(REQUEST, link.ask(call)).await;
        let answer = answer.with_context(|| format!("no answer to {} in {REQUEST:?}", call.path))??;
        if answer.status == StatusCode::TOO_MANY_REQUESTS {
            outcome.refused += 1;
            tokio::time::sleep(RETRY_AFTER).await;
            continue;
        }
        let said = || String::from_utf8_lossy(&answer.body[..answer.body.len().min(500)]).into_owned();
        anyhow::ensure!(answer.status.is_success(), "{} {}: {}: {}", call.method, call.path, answer.status, said());
        outcome.done += 1;
        outcome.latencies.add(began.elapsed());
        return Ok(());
    }
}
