//! Resident memory with many keys, and the restart of a large state.

#![expect(clippy::disallowed_methods, reason = "a benchmark reads real time")]

use super::Ledger;
use super::fill::{KEY_BYTES, compact, fill, settle};
use crate::storebench::figures::{Figures, Goal};
use crate::storebench::servers::{Layout, Servers};
use crate::storebench::{Lab, Peer};
use std::time::Instant;

pub const SMALL: &str = "memory-256";
pub const LARGE: &str = "memory-4k-restart";

/// What a member may take without any key.
const FIXED_MB: f64 = 40.0;
/// What a key may take beside itself and its value.
const PER_KEY_BYTES: f64 = 120.0;

pub fn small(lab: &Lab, peer: &Peer, figures: &mut Figures) -> anyhow::Result<()> {
    let servers = Servers::start(lab, peer, Layout::THREE)?;
    let mut ledger = Ledger { row: SMALL, peer: peer.name(), figures };
    measure(lab, &servers, &mut ledger, lab.sizes.small_keys, 256)
}

pub fn large_and_restart(lab: &Lab, peer: &Peer, figures: &mut Figures) -> anyhow::Result<()> {
    let mut servers = Servers::start(lab, peer, Layout::THREE)?;
    let mut ledger = Ledger { row: LARGE, peer: peer.name(), figures };
    measure(lab, &servers, &mut ledger, lab.sizes.large_keys, 4096)?;
    fill(lab, &servers, lab.sizes.large_keys..lab.sizes.restart_keys, 4096)?;
    restart(&mut servers, &mut ledger, lab.sizes.restart_keys)
}

fn measure(lab: &Lab, servers: &Servers, ledger: &mut Ledger, keys: u64, bytes: usize) -> anyhow::Result<()> {
    fill(lab, servers, 0..keys, bytes)?;
    compact(lab, servers)?;
    let resident = settle(servers)?;
    let leader = resident[servers.leader()?];
    let mean = |each: &[f64]| each.iter().sum::<f64>() / each.len() as f64;
    let largest = resident.iter().copied().fold(0.0, f64::max);
    let over = (largest - FIXED_MB) * 1e6 / keys as f64 - KEY_BYTES - bytes as f64;
    let what = format!("resident memory of a member, {keys} keys of {bytes} B");
    ledger.add(&what, "MB", Goal::RatioAtMost(0.5), mean(&resident));
    ledger.add(format!("{what}: the largest member"), "MB", Goal::Free, largest);
    ledger.add(format!("{what}: the leader"), "MB", Goal::Free, leader);
    ledger.add(format!("{what}: the part that belongs to no file"), "MB", Goal::Free, mean(&servers.anonymous_mb()?));
    let beside = format!("{what}: beside key, value and {FIXED_MB} MB, the largest member");
    ledger.add(beside, "B a key", Goal::AtMost(PER_KEY_BYTES), over);
    Ok(())
}

/// One follower, killed and started again while the others go on; then all of them.
fn restart(servers: &mut Servers, ledger: &mut Ledger, keys: u64) -> anyhow::Result<()> {
    let target = servers.target("state");
    let follower = (servers.leader()? + 1) % target.addresses.len();
    let what = format!("restart with {keys} keys of 4 KiB to a linearizable read");
    servers.kill(follower)?;
    let start = Instant::now();
    servers.start_again(follower)?;
    servers.wait_serves(&target, follower)?;
    ledger.add(format!("{what}: one member"), "s", Goal::AtMost(10.0), start.elapsed().as_secs_f64());
    let members = 0..target.addresses.len();
    members.clone().try_for_each(|place| servers.kill(place))?;
    let start = Instant::now();
    members.clone().try_for_each(|place| servers.start_again(place))?;
    servers.wait_any_serves(&target)?;
    ledger.add(format!("{what}: all at once, the first"), "s", Goal::AtMost(10.0), start.elapsed().as_secs_f64());
    members.clone().try_for_each(|place| servers.wait_serves(&target, place))?;
    ledger.add(format!("{what}: all at once, the last"), "s", Goal::Free, start.elapsed().as_secs_f64());
    Ok(())
}
