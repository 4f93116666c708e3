//! Runs: many seeds that must find nothing, one seed that must run the same twice, and planted bugs that must be found.

use super::world::{Calm, Finding, run};
use crate::plant::Plant;
use parking_lot::Mutex;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Runs before every change is taken in; a long run sets `GANTRY_SIM_SEEDS`, and `GANTRY_SIM_SEED` for the first. A build
/// without optimisations takes twenty times as long for each.
const SEEDS: u64 = if cfg!(debug_assertions) { 20 } else { 500 };
/// Enough for every kind of fault to have come.
const MANY: u64 = 60;
/// Between two words of a long run.
const TOLD_EVERY: u64 = 250;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name} is a number, not {text:?}")))
}

fn report(seed: u64, finding: &Finding) -> String {
    format!("seed {seed}: {finding:?}\nagain: cargo xtask sim --seed {seed} --seeds 1")
}

/// Runs `seeds`, each on one thread and as many at once as the machine has, until one finds something.
fn run_all(seeds: Range<u64>, plant: Option<Plant>) -> Result<Calm, (u64, Finding)> {
    let (next, stop) = (AtomicU64::new(seeds.start), AtomicBool::new(false));
    let sum = Mutex::new((0, Calm::default()));
    let runner = || -> Result<(), (u64, Finding)> {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds.end || stop.load(Ordering::Relaxed) {
                return Ok(());
            }
            let calm = run(seed, plant).map_err(|finding| {
                stop.store(true, Ordering::Relaxed);
                (seed, finding)
            })?;
            let mut sum = sum.lock();
            sum.0 += 1;
            sum.1.add(&calm);
            if sum.0 % TOLD_EVERY == 0 {
                println!("{} of {} seeds: {:?}", sum.0, seeds.end - seeds.start, sum.1);
            }
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let found = std::thread::scope(|scope| {
        let runners: Vec<_> = (0..threads).map(|_| scope.spawn(runner)).collect();
        // What was found is told in the order of the seeds.
        runners
            .into_iter()
            .filter_map(|runner| runner.join().expect("a run notes its panics").err())
            .min_by_key(|found| found.0)
    });
    found.map_or_else(|| Ok(sum.into_inner().1), Err)
}

#[test]
fn seeds_find_nothing() {
    let first = number("GANTRY_SIM_SEED").unwrap_or(1);
    let seeds = number("GANTRY_SIM_SEEDS").unwrap_or(SEEDS);
    let sum =
        run_all(first..first + seeds, None).unwrap_or_else(|(seed, finding)| panic!("{}", report(seed, &finding)));
    println!("{seeds} seeds from {first}: {sum:?}");
    if seeds >= MANY {
        assert!(sum.unknown_done > 0, "no run left the fate of a write open: the faults are too mild");
        assert!(sum.snapshots.opened > 0, "no member started from a snapshot: the faults are too mild");
        assert!(sum.snapshots.installed > 0, "no member was sent a snapshot: the faults are too mild");
        assert!(sum.full_disks > 0, "no log was out of space: the faults are too mild");
        assert!(sum.expired > 0, "no key went because its lease ran out: clients keep all of them alive");
        assert!(sum.put_away > 0, "no superseded value went to the log");
        assert!(sum.lost > 0, "no member lost its directory: the faults are too mild");
        assert!(sum.members > 0, "no member was added: the faults are too mild");
    }
}

#[test]
fn a_seed_is_one_run() {
    for seed in [3, 5] {
        assert_eq!(run(seed, None), run(seed, None));
    }
    assert_ne!(run(3, None).map(|calm| calm.trace), run(5, None).map(|calm| calm.trace));
}

/// How many seeds a planted bug may take to be found.
const WITHIN: u64 = 200;

#[test]
fn planted_bugs_are_found() {
    let all = [
        Plant::IndexWithoutEntry,
        Plant::ForgottenTail,
        Plant::SkippedGap,
        Plant::DeposedRead,
        Plant::EarlyFsync,
        Plant::OldSnapshot,
        Plant::ForgottenMembers,
        Plant::ReusedNumber,
        Plant::HalfRevoked,
        Plant::EternalLease,
        Plant::OldDeadlines,
        Plant::DeposedRenewal,
        Plant::KeptDeadline,
        Plant::LateRenewal,
        Plant::DeposedExpiry,
        Plant::FullDiskIgnored,
        Plant::FullDiskLeads,
        Plant::FullDiskForever,
        Plant::NextEntry,
        Plant::EarlyRelease,
        Plant::LostDirectory,
        Plant::ForgetfulWitness,
    ];
    let mut missed = Vec::new();
    for plant in all {
        match run_all(1..WITHIN + 1, Some(plant)) {
            Ok(_) => missed.push(plant),
            Err((seed, finding)) => println!("{plant:?}: seed {seed}: {finding:?}"),
        }
    }
    assert!(missed.is_empty(), "not found in {WITHIN} seeds: {missed:?}");
}
