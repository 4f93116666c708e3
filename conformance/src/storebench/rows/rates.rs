//! Durable writes and linearizable reads a second: closed loops, all members asked alike.

use super::Ledger;
use super::fill::fill;
use crate::storebench::figures::{Figures, Goal};
use crate::storebench::load::{KEYS, Load, Outcome, Pace, Work};
use crate::storebench::servers::{Layout, Servers};
use crate::storebench::{Lab, Peer};

pub const ROW: &str = "rates";

/// The clients of the most demanding cells.
pub const MANY: usize = 1_000;

pub fn run(lab: &Lab, peer: &Peer, figures: &mut Figures) -> anyhow::Result<()> {
    let servers = Servers::start(lab, peer, Layout::THREE)?;
    let mut ledger = Ledger { row: ROW, peer: peer.name(), figures };
    fill(lab, &servers, 0..KEYS, 256)?;
    let mut writes = |bytes, size, clients| -> anyhow::Result<()> {
        let outcome = closed(lab, &servers, "state", Work::Put { bytes }, clients)?;
        note(&mut ledger, &format!("writes of {size}, {clients} clients"), outcome, true);
        Ok(())
    };
    writes(256, "256 B", 64)?;
    writes(256, "256 B", MANY)?;
    // Whoever writes more has larger values after the next rows, so reads come before.
    let reads = closed(lab, &servers, "state", Work::Get, MANY)?;
    writes(4096, "4 KiB", 64)?;
    writes(4096, "4 KiB", MANY)?;
    note(&mut ledger, &format!("linearizable reads, {MANY} clients"), reads, false);
    Ok(())
}

/// A closed loop on one group.
pub fn closed(lab: &Lab, servers: &Servers, group: &str, work: Work, clients: usize) -> anyhow::Result<Outcome> {
    let load = Load {
        target: servers.target(group),
        work,
        own_keys: "closed",
        pace: Pace::Closed { clients },
        warm: lab.sizes.warm,
        measure: lab.sizes.measure,
        threads: lab.threads,
    };
    load.run(servers)?.sound()
}

fn note(ledger: &mut Ledger, what: &str, mut outcome: Outcome, writes: bool) {
    ledger.add(what, "/s", Goal::RatioAtLeast(2.0), outcome.per_s);
    if let Some(p99) = outcome.latencies.percentile_ms(0.99) {
        ledger.add(format!("{what}: p99"), "ms", Goal::Free, p99);
    }
    cost(ledger, what, &outcome, writes);
}

/// What an operation cost the servers and the generator.
pub fn cost(ledger: &mut Ledger, what: &str, outcome: &Outcome, writes: bool) {
    let each = |value: f64| value / outcome.done;
    ledger.add(format!("{what}: CPU of all members"), "µs each", Goal::Free, each(outcome.servers.cpu_s * 1e6));
    ledger.add(format!("{what}: CPU of the generator"), "µs each", Goal::Free, each(outcome.generator_cpu_s * 1e6));
    if writes {
        let written = each(outcome.servers.written_bytes);
        ledger.add(format!("{what}: written to disk by all members"), "B each", Goal::Free, written);
    }
}
