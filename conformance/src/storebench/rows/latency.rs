//! Latency at the rate that etcd can just do: it is measured closed, then offered open to every peer.

use super::Ledger;
use super::rates::{MANY, closed};
use crate::storebench::figures::{Figures, Goal};
use crate::storebench::load::{Load, Pace, Work};
use crate::storebench::servers::{Layout, Servers};
use crate::storebench::{Lab, Peer};
use anyhow::Context;

pub const ROW: &str = "latency";

const WORK: Work = Work::Put { bytes: 256 };
const MAXIMUM: &str = "what etcd does at most, writes of 256 B";
const FIGURE: &str = "writes of 256 B, latency at etcd's maximum rate";

pub fn run(lab: &Lab, peer: &Peer, figures: &mut Figures) -> anyhow::Result<()> {
    let per_s = maximum(lab, figures)?;
    let servers = Servers::start(lab, peer, Layout::THREE)?;
    let load = Load {
        target: servers.target("state"),
        work: WORK,
        own_keys: "open",
        pace: Pace::Open { per_s },
        warm: lab.sizes.warm,
        measure: lab.sizes.measure,
        threads: lab.threads,
    };
    let mut outcome = load.run(&servers)?.sound()?;
    let mut ledger = Ledger { row: ROW, peer: peer.name(), figures };
    ledger.add(format!("{FIGURE}: p50"), "ms", Goal::Free, outcome.latencies.percentile_ms(0.5).context("latencies")?);
    let p99 = outcome.latencies.percentile_ms(0.99).context("latencies")?;
    ledger.add(format!("{FIGURE}: p99"), "ms", Goal::RatioAtMost(0.5), p99);
    ledger.add(format!("{FIGURE}: reached"), "/s", Goal::Free, outcome.per_s);
    figures.add_curve(peer.name(), ROW, FIGURE, outcome.latencies.curve_ms());
    Ok(())
}

/// Measured once in a run; every round offers the same.
fn maximum(lab: &Lab, figures: &mut Figures) -> anyhow::Result<f64> {
    let rival = lab.rival.as_ref().context("there is no etcd whose maximum rate could be offered")?;
    let closed_figure = format!("writes of 256 B, {MANY} clients");
    let known = figures
        .median(rival.name(), ROW, MAXIMUM)
        .or_else(|| figures.median(rival.name(), super::rates::ROW, &closed_figure));
    if let Some(known) = known {
        return Ok(known);
    }
    let servers = Servers::start(lab, rival, Layout::THREE)?;
    let outcome = closed(lab, &servers, "state", WORK, MANY)?;
    Ledger { row: ROW, peer: rival.name(), figures }.add(MAXIMUM, "/s", Goal::Free, outcome.per_s);
    Ok(outcome.per_s)
}
