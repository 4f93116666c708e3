//! Conditional writes as heartbeats make them: their rate on the `leases` group, and their latency while the `state` group
//! beside it takes all the writes it can. An etcd has one group for both.

use super::Ledger;
use super::rates::{MANY, closed, cost};
use crate::storebench::figures::{Figures, Goal};
use crate::storebench::load::{Load, Pace, Work};
use crate::storebench::servers::{Layout, Servers};
use crate::storebench::{Lab, Peer};
use anyhow::Context;

pub const ROW: &str = "conditional";

const LAYOUT: Layout = Layout { members: 3, groups: &["state", "leases"] };
const WORK: Work = Work::Conditional { bytes: 300 };
const HEARTBEATS_PER_S: f64 = 1_000.0;

pub fn run(lab: &Lab, peer: &Peer, figures: &mut Figures) -> anyhow::Result<()> {
    let servers = Servers::start(lab, peer, LAYOUT)?;
    let mut ledger = Ledger { row: ROW, peer: peer.name(), figures };
    let what = format!("conditional writes of 300 B to `leases`, {MANY} clients");
    let outcome = closed(lab, &servers, "leases", WORK, MANY)?;
    ledger.add(&what, "/s", Goal::RatioAtLeast(2.0), outcome.per_s);
    cost(&mut ledger, &what, &outcome, true);

    let beats = Load {
        target: servers.target("leases"),
        work: WORK,
        own_keys: "open",
        pace: Pace::Open { per_s: HEARTBEATS_PER_S },
        warm: lab.sizes.warm,
        measure: lab.sizes.measure,
        threads: 1,
    };
    let (beats, state) = std::thread::scope(|scope| {
        let state = scope.spawn(|| closed(lab, &servers, "state", Work::Put { bytes: 256 }, MANY));
        let beats = beats.run(&servers)?.sound()?;
        anyhow::Ok((beats, state.join().expect("a load does not panic")?))
    })?;
    let mut latencies = beats.latencies;
    let what = "1,000 conditional writes/s to `leases` while `state` takes its maximum";
    let p99 = latencies.percentile_ms(0.99).context("latencies")?;
    ledger.add(format!("{what}: p99"), "ms", Goal::AtMost(50.0), p99);
    ledger.add(format!("{what}: reached"), "/s", Goal::Free, beats.per_s);
    ledger.add(format!("{what}: writes to `state`"), "/s", Goal::Free, state.per_s);
    figures.add_curve(peer.name(), ROW, what, latencies.curve_ms());
    Ok(())
}
