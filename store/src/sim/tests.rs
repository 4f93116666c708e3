//! Runs: many seeds that must find nothing, one seed that must run the same twice, and planted bugs that must be found.

use super::world::{Calm, Finding, run};
use crate::plant::Plant;

/// Runs before every change is taken in; a long run sets `GANTRY_SIM_SEEDS`, and `GANTRY_SIM_SEED` for the first.
const SEEDS: u64 = 60;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name} is a number, not {text:?}")))
}

fn report(seed: u64, finding: &Finding) -> String {
    format!("seed {seed}: {finding:?}\nagain: cargo xtask sim --seed {seed} --seeds 1")
}

#[test]
fn seeds_find_nothing() {
    let first = number("GANTRY_SIM_SEED").unwrap_or(1);
    let last = first + number("GANTRY_SIM_SEEDS").unwrap_or(SEEDS);
    let mut sum = Calm::default();
    for seed in first..last {
        let calm = run(seed, None).unwrap_or_else(|finding| panic!("{}", report(seed, &finding)));
        sum.operations += calm.operations;
        sum.revision += calm.revision;
        sum.unknown_done += calm.unknown_done;
        sum.snapshots.opened += calm.snapshots.opened;
        sum.snapshots.installed += calm.snapshots.installed;
    }
    println!("{} seeds from {first}: {sum:?}", last - first);
    if last - first >= SEEDS {
        assert!(sum.unknown_done > 0, "no run left the fate of a write open: the faults are too mild");
        assert!(sum.snapshots.opened > 0, "no member started from a snapshot: the faults are too mild");
        assert!(sum.snapshots.installed > 0, "no member was sent a snapshot: the faults are too mild");
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
const WITHIN: u64 = 40;

#[test]
fn planted_bugs_are_found() {
    let all = [
        Plant::IndexWithoutEntry,
        Plant::ForgottenTail,
        Plant::SkippedGap,
        Plant::DeposedRead,
        Plant::EarlyFsync,
        Plant::OldSnapshot,
    ];
    for plant in all {
        let found = (1..=WITHIN).find_map(|seed| run(seed, Some(plant)).err().map(|finding| (seed, finding)));
        let (seed, finding) = found.unwrap_or_else(|| panic!("{plant:?} was not found in {WITHIN} seeds"));
        println!("{plant:?}: seed {seed}: {finding:?}");
    }
}
