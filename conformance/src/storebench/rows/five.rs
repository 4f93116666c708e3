//! A five-member group under a fixed load of 4 KiB writes over keys that exist, with automatic compaction, for minutes.

use super::Ledger;
use super::fill::fill;
use super::rates::cost;
use crate::storebench::figures::{Figures, Goal};
use crate::storebench::load::{KEYS, Load, Pace, Work};
use crate::storebench::servers::{Layout, Servers};
use crate::storebench::{Lab, Peer};
use anyhow::Context;

pub const ROW: &str = "five";

const LAYOUT: Layout = Layout { members: 5, groups: &["state"] };
const PER_S: f64 = 8_000.0;
/// Of what is offered; the rest is the edge of the window.
const REACHED: f64 = 0.995;

pub fn run(lab: &Lab, peer: &Peer, figures: &mut Figures) -> anyhow::Result<()> {
    let servers = Servers::start(lab, peer, LAYOUT)?;
    fill(lab, &servers, 0..KEYS, 4096)?;
    let load = Load {
        target: servers.target("state"),
        work: Work::Put { bytes: 4096 },
        own_keys: "five",
        pace: Pace::Open { per_s: PER_S },
        warm: lab.sizes.warm,
        measure: lab.sizes.five_members,
        threads: lab.threads,
    };
    let mut outcome = load.run(&servers)?.sound()?;
    let mut ledger = Ledger { row: ROW, peer: peer.name(), figures };
    let what = format!("five members, 8,000 writes/s of 4 KiB offered for {} s", lab.sizes.five_members.as_secs());
    ledger.add(format!("{what}: reached"), "/s", Goal::AtLeast(PER_S * REACHED), outcome.per_s);
    let p99 = outcome.latencies.percentile_ms(0.99).context("latencies")?;
    ledger.add(format!("{what}: p99"), "ms", Goal::AtMost(100.0), p99);
    cost(&mut ledger, &what, &outcome, true);
    let largest = servers.resident_mb()?.into_iter().fold(0.0, f64::max);
    ledger.add(format!("{what}: resident memory afterwards, largest member"), "MB", Goal::Free, largest);
    ledger.add(format!("{what}: on disk afterwards, all members"), "MB", Goal::Free, servers.disk_mb()?);
    figures.add_curve(peer.name(), ROW, &what, outcome.latencies.curve_ms());
    Ok(())
}
