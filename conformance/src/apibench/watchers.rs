//! Many watches over a few connections, on a thread of their own: it notes when each event came, and looks at nothing but where
//! events end.

#![expect(clippy::disallowed_methods, reason = "a benchmark reads real time")]

use super::Identity;
use super::servers::ADDRESS;
use super::wire::{Call, Link};
use crate::storebench::load::runtime;
use anyhow::Context;
use futures::future::try_join_all;
use futures::stream::{StreamExt, iter};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};
use tokio::sync::mpsc as async_mpsc;

/// Watches that begin at once.
const OPENING: usize = 64;
/// How long events may take.
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Default)]
struct Seen {
    /// When each event came, since somebody last looked.
    at: Vec<Instant>,
    bytes: u64,
    /// Watches that ended.
    ended: usize,
}

/// Dropping it ends the watches.
pub struct Watchers {
    seen: Arc<Mutex<Seen>>,
    orders: async_mpsc::UnboundedSender<(Vec<String>, mpsc::Sender<anyhow::Result<()>>)>,
    pub open: usize,
}

impl Watchers {
    pub fn start(identity: Identity, connections: usize) -> Self {
        let (orders, mut ordered) = async_mpsc::unbounded_channel::<(Vec<String>, mpsc::Sender<_>)>();
        let seen = Arc::new(Mutex::new(Seen::default()));
        let noted = seen.clone();
        std::thread::spawn(move || {
            let Ok(runtime) = runtime() else { return };
            runtime.block_on(async move {
                let mut links: Vec<Link> = Vec::new();
                while let Some((paths, done)) = ordered.recv().await {
                    let opened = open(&mut links, &identity, connections, paths, &noted).await;
                    let _ = done.send(opened);
                }
            });
        });
        Self { seen, orders, open: 0 }
    }

    /// Begins these watches, spread over the connections, and returns when all were accepted.
    pub fn add(&mut self, paths: Vec<String>) -> anyhow::Result<()> {
        let count = paths.len();
        let (done, opened) = mpsc::channel();
        self.orders.send((paths, done)).ok().context("the watchers' thread is gone")?;
        opened.recv().context("the watchers' thread is gone")??;
        self.open += count;
        Ok(())
    }

    /// Waits for so many events and takes them: when each came, and how many bytes they had.
    pub fn take(&self, count: usize) -> anyhow::Result<(Vec<Instant>, u64)> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let mut seen = self.seen.lock().expect("no holder of the lock panics");
            anyhow::ensure!(seen.ended == 0, "{} of {} watches ended", seen.ended, self.open);
            if seen.at.len() >= count {
                return Ok((std::mem::take(&mut seen.at), std::mem::take(&mut seen.bytes)));
            }
            let here = seen.at.len();
            drop(seen);
            anyhow::ensure!(Instant::now() < deadline, "{here} of {count} events came in {PATIENCE:?}");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

async fn open(
    links: &mut Vec<Link>,
    identity: &Identity,
    connections: usize,
    paths: Vec<String>,
    seen: &Arc<Mutex<Seen>>,
) -> anyhow::Result<()> {
    if links.is_empty() {
        *links = try_join_all((0..connections).map(|_| Link::connect(ADDRESS, identity))).await?;
    }
    let links = &links[..];
    let begin = |(number, path): (usize, String)| async move {
        let response = links[number % links.len()].send(&Call::get(&path)).await?;
        anyhow::ensure!(response.status().is_success(), "{path}: {}", response.status());
        anyhow::Ok(response.into_body())
    };
    let mut opened = iter(paths.into_iter().enumerate()).map(begin).buffer_unordered(OPENING);
    while let Some(body) = opened.next().await {
        tokio::spawn(follow(body?, seen.clone()));
    }
    Ok(())
}

/// Every event is a line.
async fn follow(mut body: Incoming, seen: Arc<Mutex<Seen>>) {
    while let Some(Ok(frame)) = body.frame().await {
        let Some(data) = frame.data_ref() else { continue };
        let mut seen = seen.lock().expect("no holder of the lock panics");
        seen.bytes += data.len() as u64;
        if data.ends_with(b"\n") {
            seen.at.push(Instant::now());
        }
    }
    seen.lock().expect("no holder of the lock panics").ended += 1;
}
