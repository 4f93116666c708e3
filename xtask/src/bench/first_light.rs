//! The section of the first light: one machine's cluster, from its start to many pods at once.

use super::Wanted;
use super::spread::{Spread, shown};
use serde::Deserialize;
use std::fmt::Write as _;
use std::path::Path;

/// One figure as `gantry-bench` prints it.
#[derive(Deserialize)]
struct Figure {
    name: String,
    unit: String,
    goal: String,
    /// One value a run.
    samples: Vec<f64>,
}

#[derive(Deserialize)]
struct Report {
    machine: String,
    fdatasync_us: Vec<f64>,
    figures: Vec<Figure>,
}

/// Builds, measures `runs` times and rewrites the section.
pub fn run(root: &Path, wanted: &Wanted) -> anyhow::Result<()> {
    anyhow::ensure!(wanted.runs >= 5, "medians need at least 5 runs");
    super::build(root, wanted, &["--bin", "gantry-bench", "--example", "cri_starts"])?;
    let measured = super::measure(root, "gantry-bench", wanted, &["first-light"])?;
    let report: Report = serde_json::from_slice(&measured)?;
    let text = markdown(&report, wanted.runs);
    print!("{text}");
    super::publish(root, "first-light", &text)
}

fn markdown(report: &Report, runs: usize) -> String {
    let mut text = String::from("## First light\n\n");
    let sync = Spread::of(&report.fdatasync_us);
    let _ = writeln!(text, "Machine: {}.", report.machine);
    let _ = writeln!(
        text,
        "Disk: fdatasync of 4 KiB takes {} µs (median of {}; {} to {}).",
        shown(sync.median()),
        sync.count(),
        shown(sync.min()),
        shown(sync.max())
    );
    let _ = writeln!(
        text,
        "Command: `cargo xtask bench first-light --runs {runs}`. Medians of {runs} runs with the spread.\n"
    );
    let _ = writeln!(text, "| figure | median | min | max | goal |\n|---|---:|---:|---:|---:|");
    for figure in &report.figures {
        let spread = Spread::of(&figure.samples);
        let (min, median, max) = (shown(spread.min()), shown(spread.median()), shown(spread.max()));
        let Figure { name, unit, goal, .. } = figure;
        let _ = writeln!(text, "| {name} | {median} {unit} | {min} | {max} | {goal} |");
    }
    text
}
