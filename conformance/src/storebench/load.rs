//! The load: clients that each do one thing after the other (closed), or requests that begin at times fixed beforehand
//! (open; their latency counts from when they should have begun). The same code for every peer.
//!
//! Every generator thread has a runtime, connections and clients of its own, so that nothing is shared between them.

#![expect(clippy::disallowed_methods, reason = "a benchmark reads real time")]

use super::latency::Latencies;
use super::servers::{Servers, Usage};
use super::wire::{Link, Target, pb};
use crate::readings;
use anyhow::Context;
use bytes::Bytes;
use pb::kv_client::KvClient;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;

/// Connections to each member, as several API servers would have.
const CONNECTIONS: usize = 8;
/// Keys that clients write and read in turn.
pub const KEYS: u64 = 100_000;
/// A request that takes longer has failed.
const REQUEST: Duration = Duration::from_secs(20);
/// How long an open load waits for its last answers.
const GRACE: Duration = Duration::from_secs(10);
/// Clients of an open load, which is how many requests may wait at once.
const OPEN_CLIENTS: usize = 8_000;
/// A long load says this often how it goes.
const REPORT: Duration = Duration::from_secs(15);
/// After a failure a client pauses, so that a dead link does not spin.
const PAUSE: Duration = Duration::from_millis(20);

/// What one client does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Writes a value of so many bytes to any key.
    Put { bytes: usize },
    /// Reads any key, linearizably.
    Get,
    /// Writes a value to the client's own key if nobody else did since.
    Conditional { bytes: usize },
}

#[derive(Clone, Copy, Debug)]
pub enum Pace {
    Closed { clients: usize },
    Open { per_s: f64 },
}

#[derive(Clone)]
pub struct Load {
    pub target: Target,
    pub work: Work,
    /// What the names of the clients' own keys begin with; different for every load on one cluster.
    pub own_keys: &'static str,
    pub pace: Pace,
    /// Not measured.
    pub warm: Duration,
    pub measure: Duration,
    pub threads: usize,
}

/// What was seen between the end of the warm-up and the end.
#[derive(Debug, Default)]
pub struct Outcome {
    pub per_s: f64,
    pub done: f64,
    pub latencies: Latencies,
    pub errors: u64,
    pub first_error: Option<String>,
    pub servers: Usage,
    pub generator_cpu_s: f64,
}

impl Outcome {
    /// Too many failures make a rate meaningless.
    pub fn sound(self) -> anyhow::Result<Self> {
        let text = self.first_error.as_deref().unwrap_or_default();
        anyhow::ensure!(self.done > 0.0, "nothing was answered; {} failures, the first: {text}", self.errors);
        let share = self.errors as f64 / self.done;
        anyhow::ensure!(share <= 0.01, "{:.1} % of requests failed; the first: {text}", share * 100.0);
        Ok(self)
    }

    /// Takes over what a client saw since it was last asked.
    fn take(&mut self, client: &mut Client) {
        self.latencies.append(&mut client.latencies);
        self.done += std::mem::take(&mut client.done) as f64;
        self.errors += std::mem::take(&mut client.errors);
        self.first_error = self.first_error.take().or(client.first_error.take());
    }
}

/// The measured part of a load.
#[derive(Clone, Copy)]
pub struct Window {
    pub from: Instant,
    pub to: Instant,
}

impl Window {
    pub fn after(warm: Duration, measure: Duration) -> Self {
        let from = Instant::now() + warm;
        Self { from, to: from + measure }
    }

    pub fn holds(&self, at: Instant) -> bool {
        at >= self.from && at < self.to
    }
}

/// Runs a part of the load on each thread, reading what `servers` use in the window.
pub fn on_threads<F, Part>(servers: &Servers, threads: usize, window: Window, part: F) -> anyhow::Result<Outcome>
where
    F: Fn(usize) -> Part + Sync,
    Part: Future<Output = anyhow::Result<Outcome>>,
{
    let (mut outcome, used) = std::thread::scope(|scope| {
        let part = &part;
        let threads: Vec<_> =
            (0..threads).map(|thread| scope.spawn(move || runtime()?.block_on(part(thread)))).collect();
        let used = used(servers, window);
        let mut all = Outcome::default();
        for thread in threads {
            let part = thread.join().expect("a generator thread does not panic")?;
            all.latencies.extend(part.latencies);
            all.done += part.done;
            all.errors += part.errors;
            all.first_error = all.first_error.or(part.first_error);
        }
        anyhow::Ok((all, used?))
    })?;
    (outcome.servers, outcome.generator_cpu_s) = used;
    outcome.per_s = outcome.done / (window.to - window.from).as_secs_f64();
    Ok(outcome)
}

/// One thread's part of so many.
pub fn share(all: usize, thread: usize, threads: usize) -> usize {
    all / threads + usize::from(thread < all % threads)
}

impl Load {
    /// Runs it, reading what `servers` use meanwhile.
    pub fn run(&self, servers: &Servers) -> anyhow::Result<Outcome> {
        let window = Window::after(self.warm, self.measure);
        on_threads(servers, self.threads, window, |thread| self.thread(thread, window))
    }

    async fn thread(&self, thread: usize, window: Window) -> anyhow::Result<Outcome> {
        let links = links(&self.target, thread, self.threads).await?;
        match self.pace {
            Pace::Closed { clients } => self.closed(&links, share(clients, thread, self.threads), thread, window).await,
            Pace::Open { per_s } => self.open(&links, per_s, thread, window).await,
        }
    }

    fn client(&self, links: &[Link], number: usize, thread: usize) -> Client {
        let number = number * self.threads + thread;
        Client::new(links[number / self.threads % links.len()].kv(), number as u64, self)
    }

    async fn closed(&self, links: &[Link], clients: usize, thread: usize, window: Window) -> anyhow::Result<Outcome> {
        let tasks: Vec<_> = (0..clients)
            .map(|number| {
                let mut client = self.client(links, number, thread);
                tokio::spawn(async move {
                    loop {
                        let began = Instant::now();
                        if began >= window.to {
                            return client;
                        }
                        client.once(began, window).await;
                    }
                })
            })
            .collect();
        let mut outcome = Outcome::default();
        for task in tasks {
            outcome.take(&mut task.await.context("a client")?);
        }
        Ok(outcome)
    }

    async fn open(&self, links: &[Link], per_s: f64, thread: usize, window: Window) -> anyhow::Result<Outcome> {
        let (back, mut free) = mpsc::unbounded_channel();
        let clients = share(OPEN_CLIENTS, thread, self.threads);
        for number in 0..clients {
            back.send(self.client(links, number, thread)).ok().context("nobody takes clients")?;
        }
        let begin = window.from - self.warm;
        let due = |number: u64| {
            begin + Duration::from_secs_f64((number as f64 * self.threads as f64 + thread as f64) / per_s)
        };
        let give_up = tokio::time::Instant::from(window.to + GRACE);
        let mut outcome = Outcome::default();
        let (mut number, mut home) = (0, 0);
        while due(number) < window.to {
            // Timers are as fine as a millisecond; what became due meanwhile is sent at once.
            tokio::time::sleep_until(due(number).into()).await;
            let Ok(client) = tokio::time::timeout_at(give_up, free.recv()).await else { break };
            let (mut client, back, due): (Client, _, _) = (client.context("a client")?, back.clone(), due(number));
            outcome.take(&mut client);
            tokio::spawn(async move {
                client.once(due, window).await;
                // After the end nobody takes it any more.
                let _ = back.send(client);
            });
            number += 1;
        }
        while home < clients
            && let Ok(Some(mut client)) = tokio::time::timeout_at(give_up, free.recv()).await
        {
            outcome.take(&mut client);
            home += 1;
        }
        // What was never answered took at least until now, and so did what was never sent.
        (home..clients).for_each(|_| outcome.latencies.add(GRACE));
        let end = Instant::now();
        while due(number) < window.to {
            outcome.latencies.add(end.saturating_duration_since(due(number)));
            number += 1;
        }
        Ok(outcome)
    }
}

/// What the servers and this program use in the window.
fn used(servers: &Servers, window: Window) -> anyhow::Result<(Usage, f64)> {
    let own = || anyhow::Ok(readings::cpu_ms(std::process::id())? / 1_000.0);
    std::thread::sleep(window.from.saturating_duration_since(Instant::now()));
    let before = (servers.usage()?, own()?);
    while let left = window.to.saturating_duration_since(Instant::now())
        && !left.is_zero()
    {
        std::thread::sleep(left.min(REPORT));
        if window.to - window.from > REPORT {
            let used = servers.usage()?.since(before.0);
            let past = window.from.elapsed().as_secs_f64();
            eprintln!(
                "      {past:.0} s: {:.1} cores, {:.0} MB/s to disk",
                used.cpu_s / past,
                used.written_bytes / past / 1e6
            );
        }
    }
    Ok((servers.usage()?.since(before.0), own()? - before.1))
}

/// The time, for windows.
pub fn now() -> Instant {
    Instant::now()
}

pub fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_current_thread().enable_all().build()?)
}

/// The connections of one thread, spread evenly over the members.
pub async fn links(target: &Target, thread: usize, threads: usize) -> anyhow::Result<Vec<Link>> {
    let count = share(target.addresses.len() * CONNECTIONS, thread, threads);
    futures::future::try_join_all((0..count).map(|number| target.connect(number * threads + thread))).await
}

/// One client, and what it saw.
struct Client {
    kv: KvClient<Link>,
    work: Work,
    own: Bytes,
    random: u64,
    /// Where its own key stands.
    revision: i64,
    latencies: Latencies,
    done: u64,
    errors: u64,
    first_error: Option<String>,
}

impl Client {
    fn new(kv: KvClient<Link>, number: u64, load: &Load) -> Self {
        let random = number.wrapping_mul(7_919).wrapping_add(1);
        let own = Bytes::from(format!("{}/{number:08}", load.own_keys));
        Self {
            kv,
            work: load.work,
            own,
            random,
            revision: 0,
            latencies: Latencies::default(),
            done: 0,
            errors: 0,
            first_error: None,
        }
    }

    /// Does its work once. The latency counts from `since`, if that lies in the window; the answer counts if it came in it.
    async fn once(&mut self, since: Instant, window: Window) {
        let result = tokio::time::timeout(REQUEST, self.work()).await;
        let now = Instant::now();
        let error = match result {
            Ok(Ok(())) => None,
            Ok(Err(status)) => Some(status.to_string()),
            Err(_) => Some(format!("no answer in {REQUEST:?}")),
        };
        if since >= window.from {
            self.latencies.add(now.saturating_duration_since(since));
        }
        match error {
            None => self.done += u64::from(window.holds(now)),
            Some(error) => {
                self.errors += 1;
                self.first_error.get_or_insert(error);
                tokio::time::sleep(PAUSE).await;
            }
        }
    }

    async fn work(&mut self) -> Result<(), tonic::Status> {
        match self.work {
            Work::Put { bytes } => {
                let (key, value) = (self.any_key(), value(self.random, bytes));
                self.kv.put(pb::PutRequest { key, value, ..Default::default() }).await?;
            }
            Work::Get => {
                let key = self.any_key();
                self.kv.range(pb::RangeRequest { key, ..Default::default() }).await?;
            }
            Work::Conditional { bytes } => self.conditional(bytes).await?,
        }
        Ok(())
    }

    fn any_key(&mut self) -> Bytes {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        key((self.random >> 33) % KEYS)
    }

    async fn conditional(&mut self, bytes: usize) -> Result<(), tonic::Status> {
        self.random = self.random.wrapping_add(4_096);
        let key = self.own.clone();
        let compare = pb::Compare {
            result: pb::compare::CompareResult::Equal.into(),
            target: pb::compare::CompareTarget::Mod.into(),
            key: key.clone(),
            target_union: Some(pb::compare::TargetUnion::ModRevision(self.revision)),
            ..Default::default()
        };
        let answer = self.kv.txn(pb::TxnRequest {
            compare: vec![compare],
            success: vec![put_op(key.clone(), value(self.random, bytes))],
            failure: vec![pb::RequestOp {
                request: Some(pb::request_op::Request::RequestRange(pb::RangeRequest { key, ..Default::default() })),
            }],
        });
        let answer = answer.await?.into_inner();
        if answer.succeeded {
            self.revision = answer.header.map_or(0, |header| header.revision);
            return Ok(());
        }
        // Only after an earlier load, or after a write of its own whose answer was lost.
        self.revision = mod_revision(&answer).unwrap_or(0);
        Err(tonic::Status::failed_precondition("the key was written by somebody else"))
    }
}

fn mod_revision(answer: &pb::TxnResponse) -> Option<i64> {
    match answer.responses.first()?.response.as_ref()? {
        pb::response_op::Response::ResponseRange(range) => Some(range.kvs.first()?.mod_revision),
        _ => None,
    }
}

pub fn put_op(key: Bytes, value: Bytes) -> pb::RequestOp {
    let put = pb::PutRequest { key, value, ..Default::default() };
    pb::RequestOp { request: Some(pb::request_op::Request::RequestPut(put)) }
}

/// The key with this number; 14 bytes.
pub fn key(number: u64) -> Bytes {
    Bytes::from(format!("bench/{number:08}"))
}

/// Bytes that do not compress, different for every seed.
pub fn value(seed: u64, bytes: usize) -> Bytes {
    static NOISE: std::sync::LazyLock<Bytes> = std::sync::LazyLock::new(|| {
        let mut state = 88_172_645_463_325_252_u64;
        let mut noise = Vec::with_capacity(1 << 20);
        while noise.len() < 1 << 20 {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            noise.extend_from_slice(&state.to_le_bytes());
        }
        noise.into()
    });
    let at = (seed >> 20) as usize % (NOISE.len() - bytes);
    NOISE.slice(at..at + bytes)
}
