//! Runs a benchmark of the built binary and turns its samples into `docs/benchmarks.md`. The measuring itself is done by
//! the black-box `gantry-bench` program of `conformance`; here live only the medians, the spread and the words.

use anyhow::Context;
use serde::Deserialize;
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

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

/// Builds, measures `runs` times and rewrites the report.
pub fn run(root: &Path, name: &str, runs: usize) -> anyhow::Result<()> {
    anyhow::ensure!(name == "first-light", "unknown benchmark {name:?}; there is: first-light");
    anyhow::ensure!(runs >= 5, "medians need at least 5 runs");
    crate::run(
        Command::new("cargo")
            .args(["build", "--release", "--workspace", "--bin", "gantry", "--bin", "gantry-bench"])
            .args(["--example", "cri_starts"])
            .current_dir(root),
    )?;
    let target = std::env::var("CARGO_TARGET_DIR").map_or_else(|_| root.join("target"), Into::into);
    let output = Command::new(target.join("release/gantry-bench"))
        .args([name, "--runs", &runs.to_string()])
        .current_dir(root)
        .stderr(std::process::Stdio::inherit())
        .output()
        .context("gantry-bench did not start")?;
    anyhow::ensure!(output.status.success(), "gantry-bench failed: {}", output.status);
    let report: Report = serde_json::from_slice(&output.stdout).context("gantry-bench's report")?;
    let text = markdown(&report, runs);
    print!("{text}");
    let path = root.join("docs/benchmarks.md");
    std::fs::write(&path, text).with_context(|| path.display().to_string())
}

fn markdown(report: &Report, runs: usize) -> String {
    let mut text = String::from("# Benchmarks\n\n");
    let sync = spread(&report.fdatasync_us);
    let _ = writeln!(text, "Machine: {}.", report.machine);
    let _ = writeln!(
        text,
        "Disk: fdatasync of 4 KiB takes {} µs (median of {}; {} to {}).",
        sync.1, sync.3, sync.0, sync.2
    );
    let _ = writeln!(
        text,
        "Command: `cargo xtask bench first-light --runs {runs}`. Medians of {runs} runs with the spread.\n"
    );
    let _ = writeln!(text, "| figure | median | min | max | goal |\n|---|---:|---:|---:|---:|");
    for figure in &report.figures {
        let (min, median, max, _) = spread(&figure.samples);
        let Figure { name, unit, goal, .. } = figure;
        let _ = writeln!(text, "| {name} | {median} {unit} | {min} | {max} | {goal} |");
    }
    text
}

/// (minimum, median, maximum, count), printed with as many digits as mean something.
fn spread(samples: &[f64]) -> (String, String, String, usize) {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = |index: usize| sorted.get(index).copied().map_or_else(|| "–".to_owned(), short);
    (at(0), at(sorted.len() / 2), at(sorted.len().saturating_sub(1)), sorted.len())
}

fn short(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::spread;

    #[test]
    fn median_and_spread() {
        let expect = ("1.00".to_owned(), "3.00".to_owned(), "250".to_owned(), 5);
        assert_eq!(spread(&[4.0, 1.0, 3.0, 250.0, 2.0]), expect);
        assert_eq!(spread(&[]).1, "–");
    }
}
