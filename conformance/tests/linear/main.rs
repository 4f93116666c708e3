//! The suite of a group under faults: three real members in network namespaces, clients and watchers that write down
//! everything they are told, and a nemesis that kills, freezes, cuts off, loses packets, tears the ends of logs, replaces
//! members and fills a disk. In the end the whole record must have one explanation (`gantry-history`).
//!
//! `GANTRY_LINEAR_SEED` repeats a run's questions and faults, as far as threads and disks let it. `GANTRY_LINEAR_SECONDS` is
//! the time of the faults. `GANTRY_LINEAR_PLANT=1` changes one recorded answer: the run must then fail, and say which.
//!
//! It needs root, nft, and etcdctl. It runs in a mount namespace of its own, where the small disk lies over `/mnt`.

mod clients;
mod dice;
mod group;
mod nemesis;
mod record;
mod verdict;

use anyhow::{Context, ensure};
use clients::{Client, Ways, watch};
use dice::Dice;
use gantry_conformance::{case, namespace, runner};
use group::{Group, MEMBERS};
use record::Record;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::time::Duration;
use verdict::Verdict;

const CLIENTS: usize = 20;
const SECONDS: u64 = 24;
/// The store compacts by itself what is older than this.
const OWN_COMPACTION: u64 = 60;
/// The mount namespace that this one must not be.
const OUTSIDE: &str = "GANTRY_LINEAR_OUTSIDE";

fn main() -> anyhow::Result<ExitCode> {
    enter_mounts()?;
    namespace::enter()?;
    let seed = number("GANTRY_LINEAR_SEED")?.unwrap_or_else(|| u64::from(std::process::id()));
    let seconds = number("GANTRY_LINEAR_SECONDS")?.unwrap_or(SECONDS);
    println!("GANTRY_LINEAR_SEED={seed} GANTRY_LINEAR_SECONDS={seconds}");
    let mut verdict = run(seed, seconds).with_context(|| format!("seed {seed}"))?;
    if seconds >= OWN_COMPACTION {
        verdict.history.compacted_to = u64::MAX;
    }
    if number("GANTRY_LINEAR_PLANT")? == Some(1) {
        verdict::plant_answer(&mut verdict.history)?;
    }
    let cases = [
        case!(verdict::answers_and_watches_have_one_explanation),
        case!(verdict::members_have_one_state),
        case!(verdict::no_error_is_strange),
        case!(verdict::a_changed_record_is_refused),
    ];
    let passed = runner::run(&verdict, &cases, |verdict| eprintln!("GANTRY_LINEAR_SEED={}", verdict.seed));
    Ok(if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn number(variable: &str) -> anyhow::Result<Option<u64>> {
    let text = std::env::var(variable).ok();
    text.map(|text| text.parse().with_context(|| format!("{variable}={text}"))).transpose()
}

/// Runs this same program again where its mounts are its own.
fn enter_mounts() -> anyhow::Result<()> {
    let here = std::fs::read_link("/proc/self/ns/mnt")?;
    if let Some(outside) = std::env::var_os(OUTSIDE) {
        ensure!(here.as_os_str() != outside, "{OUTSIDE} is set, but there is no mount namespace of its own");
        return Ok(());
    }
    let own = std::env::current_exe().context("the path of this program")?;
    let arguments = std::env::args_os().skip(1);
    let error = Command::new("unshare").arg("--mount").arg(own).args(arguments).env(OUTSIDE, here).exec();
    Err(error).context("unshare (package util-linux) did not start")
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn run(seed: u64, seconds: u64) -> anyhow::Result<Verdict> {
    let mut group = Group::start()?;
    let each = (0..MEMBERS).map(|at| group.store(&[at])).collect::<Result<Vec<_>, _>>()?;
    let ways = Ways { any: group.store(&[0, 1, 2])?, each };
    let record = Arc::new(Record::new());
    let mut running = Vec::new();
    for number in 0..CLIENTS {
        // Each has connections of its own.
        let each = (0..MEMBERS).map(|at| group.store(&[at])).collect::<Result<Vec<_>, _>>()?;
        let ways = Ways { any: group.store(&[number % 3, (number + 1) % 3, (number + 2) % 3])?, each };
        let dice = Dice::new(seed, number as u64 + 1);
        running.push(tokio::spawn(Client::new(record.clone(), ways, dice, number).run()));
    }
    let places = ways.each.iter().chain([&ways.any]).cloned().zip([1, 2, 3, 0]);
    for (number, place) in places.enumerate() {
        running.push(tokio::spawn(watch(record.clone(), place, Dice::new(seed, 100 + number as u64))));
    }
    let mut dice = Dice::new(seed, 0);
    let made = nemesis::run(&mut group, &record, &mut dice, Duration::from_secs(seconds)).await;
    made.with_context(|| group.tails())?;
    record.end();
    for task in running {
        task.await.context("a client")?;
    }
    println!("{:6.2} s: at rest", record.moment() as f64 / 1e9);
    Verdict::gather(&mut group, &record, &ways, seed).await
}
