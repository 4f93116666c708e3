//! Many watches: what they take of memory, and how the events of a steady load reach them. Watches share gRPC streams, a
//! thousand on each, as etcd's clients do it.

#![expect(clippy::disallowed_methods, reason = "a benchmark reads real time")]

use super::Ledger;
use super::fill::{fill, settle};
use crate::storebench::figures::{Figures, Goal};
use crate::storebench::latency::Latencies;
use crate::storebench::load::{key, links, runtime, share};
use crate::storebench::servers::{Layout, Servers, Usage};
use crate::storebench::wire::{Link, Target, pb};
use crate::storebench::{Lab, Peer};
use anyhow::Context;
use bytes::Bytes;
use futures::SinkExt;
use futures::channel::mpsc;
use pb::watch_request::RequestUnion;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};
use tokio::sync::watch;

pub const ROW: &str = "watches";

const WRITES_PER_S: f64 = 1_000.0;
const VALUE_BYTES: usize = 256;
/// How long creating all of them may take.
const CREATE: Duration = Duration::from_secs(240);
/// Events that are later than this after the last acknowledged write are a backlog.
const LATE: Duration = Duration::from_secs(1);
/// Between two looks at the counters.
const LOOK: Duration = Duration::from_millis(50);

/// Counters of all streams, and the moment that the stamps in values count from.
struct Shared {
    base: Instant,
    created: AtomicU64,
    received: AtomicU64,
}

pub fn run(lab: &Lab, peer: &Peer, figures: &mut Figures) -> anyhow::Result<()> {
    let servers = Servers::start(lab, peer, Layout::THREE)?;
    let (keys, streams) = (lab.sizes.watched_keys, lab.sizes.watches_per_key);
    fill(lab, &servers, 0..keys, VALUE_BYTES)?;
    let before: f64 = settle(&servers)?.iter().sum();
    let shared = Arc::new(Shared { base: Instant::now(), created: AtomicU64::new(0), received: AtomicU64::new(0) });
    let (stop, stopped) = watch::channel(false);
    let mut ledger = Ledger { row: ROW, peer: peer.name(), figures };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..lab.threads)
            .map(|thread| {
                let own = share(streams as usize, thread, lab.threads);
                let part =
                    follow(servers.target("state"), thread, lab.threads, own, keys, shared.clone(), stopped.clone());
                scope.spawn(move || runtime()?.block_on(part))
            })
            .collect();
        let mut measured = || -> anyhow::Result<Delivered> {
            wait_created(&shared, keys * streams, || threads.iter().any(|thread| thread.is_finished()))?;
            let after: f64 = settle(&servers)?.iter().sum();
            let what = format!("{} watches: memory of all members", keys * streams);
            ledger.add(format!("{what}, growth"), "MB", Goal::RatioAtMost(1.0 / 3.0), after - before);
            ledger.add(format!("{what}, in all"), "MB", Goal::Free, after);
            lab.block_on(deliver(lab, &servers, &shared))
        };
        let measured = measured();
        // Every thread ends, also when nothing could be measured.
        let _ = stop.send(true);
        let mut latencies = Latencies::default();
        for thread in threads {
            latencies.extend(thread.join().expect("a generator thread does not panic")?);
        }
        note(&mut ledger, keys, streams, measured?, latencies)
    })
}

/// What happened while writes were sent.
struct Delivered {
    per_s: f64,
    events: f64,
    backlog: f64,
    acknowledged_per_s: f64,
    failed: f64,
    used: Usage,
}

fn note(ledger: &mut Ledger, keys: u64, streams: u64, seen: Delivered, mut latencies: Latencies) -> anyhow::Result<()> {
    let what = format!("{keys} keys watched by {streams} each, 1,000 writes/s");
    ledger.add(format!("{what}: deliveries"), "/s", Goal::Free, seen.per_s);
    ledger.add(format!("{what}: writes acknowledged"), "/s", Goal::Free, seen.acknowledged_per_s);
    ledger.add(format!("{what}: writes that failed"), "", Goal::AtMost(0.0), seen.failed);
    ledger.add(format!("{what}: events missing {LATE:?} after the last write"), "", Goal::AtMost(0.0), seen.backlog);
    let p99 = latencies.percentile_ms(0.99).context("no event came")?;
    ledger.add(format!("{what}: write to event, p99"), "ms", Goal::AtMost(100.0), p99);
    let each = seen.used.cpu_s * 1e6 / seen.events;
    ledger.add(format!("{what}: CPU of all members"), "µs a delivery", Goal::Free, each);
    ledger.figures.add_curve(ledger.peer, ROW, &format!("{what}: write to event"), latencies.curve_ms());
    Ok(())
}

fn wait_created(shared: &Shared, all: u64, ended: impl Fn() -> bool) -> anyhow::Result<()> {
    let start = Instant::now();
    let mut said = Duration::ZERO;
    loop {
        let created = shared.created.load(Relaxed);
        if created >= all {
            eprintln!("      {created} watches after {:.1} s", start.elapsed().as_secs_f64());
            return Ok(());
        }
        anyhow::ensure!(!ended(), "a stream of watches ended");
        anyhow::ensure!(start.elapsed() < CREATE, "{created} of {all} watches after {CREATE:?}");
        if start.elapsed() - said > Duration::from_secs(10) {
            said = start.elapsed();
            eprintln!("      {created} of {all} watches after {:.0} s", said.as_secs_f64());
        }
        std::thread::sleep(LOOK);
    }
}

/// Writes at a fixed rate and counts what arrives.
async fn deliver(lab: &Lab, servers: &Servers<'_>, shared: &Arc<Shared>) -> anyhow::Result<Delivered> {
    let links = links(&servers.target("state"), 0, 1).await?;
    let (before, received) = (servers.usage()?, shared.received.load(Relaxed));
    let start = tokio::time::Instant::now();
    let mut writes = tokio::task::JoinSet::new();
    let due = |number: u64| start + Duration::from_secs_f64(number as f64 / WRITES_PER_S);
    let end = start + lab.sizes.measure;
    let mut number = 0;
    while due(number) < end {
        tokio::time::sleep_until(due(number)).await;
        let mut value = vec![0; VALUE_BYTES];
        value[..8].copy_from_slice(&(shared.base.elapsed().as_micros() as u64).to_le_bytes());
        let put =
            pb::PutRequest { key: key(number % lab.sizes.watched_keys), value: value.into(), ..Default::default() };
        let mut kv = links[number as usize % links.len()].kv();
        writes.spawn(async move { kv.put(put).await });
        number += 1;
    }
    let in_time = (shared.received.load(Relaxed) - received) as f64;
    let (mut acknowledged, mut failed, mut first) = (0, 0, None);
    while let Some(write) = writes.join_next().await {
        match write? {
            Ok(_) => acknowledged += 1,
            Err(status) => {
                failed += 1;
                first.get_or_insert(status);
            }
        }
    }
    if let Some(status) = first {
        anyhow::ensure!(acknowledged > 0, "no write of a watched key was acknowledged: {status}");
        eprintln!("      {failed} writes failed, the first: {status}");
    }
    let seconds = start.elapsed().as_secs_f64();
    let expected = acknowledged * lab.sizes.watches_per_key;
    let late = Instant::now() + LATE;
    while shared.received.load(Relaxed) - received < expected && Instant::now() < late {
        tokio::time::sleep(LOOK).await;
    }
    let arrived = shared.received.load(Relaxed) - received;
    Ok(Delivered {
        per_s: in_time / lab.sizes.measure.as_secs_f64(),
        events: arrived as f64,
        backlog: expected.saturating_sub(arrived) as f64,
        acknowledged_per_s: acknowledged as f64 / seconds,
        failed: f64::from(failed),
        used: servers.usage()?.since(before),
    })
}

/// One thread's streams, until they are told to stop.
async fn follow(
    target: Target,
    thread: usize,
    threads: usize,
    streams: usize,
    keys: u64,
    shared: Arc<Shared>,
    stopped: watch::Receiver<bool>,
) -> anyhow::Result<Latencies> {
    let links = links(&target, thread, threads).await?;
    let tasks: Vec<_> = (0..streams)
        .map(|stream| {
            let link = links[stream % links.len()].clone();
            tokio::spawn(one_stream(link, keys, shared.clone(), stopped.clone()))
        })
        .collect();
    let mut latencies = Latencies::default();
    for task in tasks {
        latencies.extend(task.await??);
    }
    Ok(latencies)
}

/// A stream with one watch on every key.
async fn one_stream(
    link: Link,
    keys: u64,
    shared: Arc<Shared>,
    mut stopped: watch::Receiver<bool>,
) -> anyhow::Result<Latencies> {
    let (mut ask, asked) = mpsc::channel(64);
    let creator = tokio::spawn(async move {
        for number in 0..keys {
            let create = pb::WatchCreateRequest { key: key(number), ..Default::default() };
            // When the stream ends early, its reader says why.
            let _ = ask.send(pb::WatchRequest { request_union: Some(RequestUnion::CreateRequest(create)) }).await;
        }
        ask
    });
    let mut answers = link.watch().watch(asked).await?.into_inner();
    let mut latencies = Latencies::default();
    loop {
        let answer = tokio::select! {
            answer = answers.message() => answer?.context("a stream of watches ended")?,
            _ = stopped.wait_for(|stopped| *stopped) => break,
        };
        anyhow::ensure!(!answer.canceled, "a watch was cancelled: {}", answer.cancel_reason);
        shared.created.fetch_add(u64::from(answer.created), Relaxed);
        for event in &answer.events {
            let value = event.kv.as_ref().map_or(&Bytes::new(), |kv| &kv.value).clone();
            let stamp = value.first_chunk().copied().map_or(0, u64::from_le_bytes);
            latencies.add(shared.base.elapsed().saturating_sub(Duration::from_micros(stamp)));
        }
        shared.received.fetch_add(answer.events.len() as u64, Relaxed);
    }
    // The stream's other half is open until here.
    drop(creator.await?);
    Ok(latencies)
}
