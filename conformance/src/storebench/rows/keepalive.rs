//! How many leases are kept alive a second: a thousand streams, each renewing its leases one after the other.

use super::Ledger;
use super::rates::cost;
use crate::storebench::figures::{Figures, Goal};
use crate::storebench::load::{Outcome, Window, links, on_threads};
use crate::storebench::servers::{Layout, Servers};
use crate::storebench::wire::{Link, Target, pb};
use crate::storebench::{Lab, Peer};
use anyhow::Context;
use futures::channel::mpsc;
use futures::{SinkExt, StreamExt, TryStreamExt, stream};

pub const ROW: &str = "keepalive";

const LAYOUT: Layout = Layout { members: 3, groups: &["leases"] };
const STREAMS: u64 = 1_000;
const TTL_S: i64 = 3_600;
/// Grants in flight.
const GRANTS: usize = 200;

pub fn run(lab: &Lab, peer: &Peer, figures: &mut Figures) -> anyhow::Result<()> {
    let servers = Servers::start(lab, peer, LAYOUT)?;
    grant(lab, &servers)?;
    let mut ledger = Ledger { row: ROW, peer: peer.name(), figures };
    let target = servers.target("leases");
    // A member of an etcd that does not lead passes every renewal on in a request of its own: to be fair, its best case, too.
    let leader = target.only(servers.leader()?);
    for (target, whom) in [(target, "all members"), (leader, "the leader alone")] {
        let outcome = measure(lab, &servers, &target)?;
        let what = format!("LeaseKeepAlive, {} leases, {STREAMS} streams to {whom}", lab.sizes.leases);
        ledger.add(&what, "/s", Goal::RatioAtLeast(2.0), outcome.per_s);
        cost(&mut ledger, &what, &outcome, false);
    }
    Ok(())
}

fn measure(lab: &Lab, servers: &Servers, target: &Target) -> anyhow::Result<Outcome> {
    let window = Window::after(lab.sizes.warm, lab.sizes.measure);
    let (threads, leases) = (lab.threads, lab.sizes.leases);
    let outcome = on_threads(servers, threads, window, |thread| async move {
        let links = links(target, thread, threads).await?;
        let own = (0..STREAMS).filter(|stream| *stream as usize % threads == thread);
        let tasks: Vec<_> = own
            .map(|stream| {
                let link = links[stream as usize / threads % links.len()].clone();
                let ids = (stream + 1..=leases).step_by(STREAMS as usize).map(u64::cast_signed).collect();
                tokio::spawn(renew(link, ids, window))
            })
            .collect();
        let mut outcome = Outcome::default();
        for task in tasks {
            outcome.done += task.await.context("a stream")?? as f64;
        }
        Ok(outcome)
    });
    outcome?.sound()
}

/// Leases with the numbers from 1.
fn grant(lab: &Lab, servers: &Servers) -> anyhow::Result<()> {
    let target = servers.target("leases");
    lab.block_on(async {
        let links = links(&target, 0, 1).await?;
        let grants = (1..=lab.sizes.leases).map(|id| {
            let mut client = links[id as usize % links.len()].lease();
            async move { client.lease_grant(pb::LeaseGrantRequest { ttl: TTL_S, id: id.cast_signed() }).await.map(drop) }
        });
        stream::iter(grants).buffer_unordered(GRANTS).try_collect::<()>().await.context("granting leases")
    })
}

/// Renews its leases in turns until the window ends. How many answers came in it.
async fn renew(link: Link, ids: Vec<i64>, window: Window) -> anyhow::Result<u64> {
    let (mut ask, asked) = mpsc::channel(1);
    let mut ids = ids.into_iter().cycle();
    let mut next = move || pb::LeaseKeepAliveRequest { id: ids.next().unwrap_or(1) };
    // An etcd begins to answer only after the first question.
    ask.send(next()).await?;
    let mut answers = link.lease().lease_keep_alive(asked).await?.into_inner();
    let mut done = 0;
    loop {
        let answer = answers.message().await?.context("the stream of keep-alives ended")?;
        anyhow::ensure!(answer.ttl > 0, "lease {} is gone", answer.id);
        let now = crate::storebench::load::now();
        done += u64::from(window.holds(now));
        if now >= window.to {
            return Ok(done);
        }
        ask.send(next()).await?;
    }
}
