//! How long writing pauses when the leader is killed: from the signal to the first acknowledgement of a write that began
//! after it.

#![expect(clippy::disallowed_methods, reason = "a benchmark reads real time")]

use super::Ledger;
use crate::storebench::figures::{Figures, Goal};
use crate::storebench::load::{key, value};
use crate::storebench::servers::{Layout, Servers};
use crate::storebench::wire::{Link, pb};
use crate::storebench::{Lab, Peer};
use anyhow::Context;
use futures::StreamExt;
use futures::future::try_join_all;
use futures::stream::FuturesUnordered;
use std::time::{Duration, Instant};

pub const ROW: &str = "failover";

/// A new write is tried this often at every member that is left; those before it go on.
const TRY: Duration = Duration::from_millis(50);
const PATIENCE: Duration = Duration::from_secs(30);

pub fn run(lab: &Lab, peer: &Peer, figures: &mut Figures) -> anyhow::Result<()> {
    let mut servers = Servers::start(lab, peer, Layout::THREE)?;
    let target = servers.target("state");
    for _ in 0..lab.sizes.kills {
        let leader = servers.leader()?;
        let links = lab.block_on(async {
            let left = (0..target.addresses.len()).filter(|place| *place != leader);
            let links = try_join_all(left.map(|place| target.connect(place))).await?;
            // Every connection is in use when the leader dies.
            try_join_all(links.iter().map(|link| write(link.clone(), 0))).await?;
            anyhow::Ok(links)
        })?;
        let killed = Instant::now();
        servers.kill(leader)?;
        let paused = lab.block_on(first_write(&links, killed)).with_context(|| servers.tails())?;
        let mut ledger = Ledger { row: ROW, peer: peer.name(), figures };
        ledger.add("leader killed to next acknowledged write", "s", Goal::WorstAtMost(2.0), paused.as_secs_f64());
        servers.start_again(leader)?;
        servers.wait_serves(&target, leader)?;
    }
    Ok(())
}

async fn write(link: Link, number: u64) -> Result<(), tonic::Status> {
    let put = pb::PutRequest { key: key(number), value: value(number, 256), ..Default::default() };
    link.kv().put(put).await.map(drop)
}

async fn first_write(links: &[Link], since: Instant) -> anyhow::Result<Duration> {
    let mut tries = FuturesUnordered::new();
    let mut tick = tokio::time::interval(TRY);
    let mut number = 0;
    let mut last = None;
    loop {
        tokio::select! {
            _ = tick.tick() => {
                tries.extend(links.iter().map(|link| write(link.clone(), number)));
                number += 1;
            }
            Some(done) = tries.next() => match done {
                Ok(()) => return Ok(since.elapsed()),
                Err(status) => last = Some(status),
            },
        }
        anyhow::ensure!(since.elapsed() < PATIENCE, "no write in {PATIENCE:?}; the last failure: {last:?}");
    }
}
