//! The section of the store against etcd: which goals are met, what it cost, and two plots. Samples are kept beside it, so
//! that one row can be measured again without the others; the section names such rows.

use super::plot::{self, Bar, Line, Panel};
use super::spread::{Spread, short, shown};
use anyhow::Context;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

const SAMPLES: &str = "docs/benchmarks/store.json";
const RATIOS: &str = "docs/benchmarks/store-ratios.svg";
const LATENCIES: &str = "docs/benchmarks/store-latencies.svg";
const OURS: &str = "gantry";

/// What `gantry-bench-store` prints.
#[derive(Serialize, Deserialize)]
struct Report {
    machine: String,
    fdatasync_us: Vec<f64>,
    quick: bool,
    peers: Vec<String>,
    /// The shares at which curves have points.
    curve: Vec<f64>,
    results: Results,
    /// Rows that were measured in runs of their own.
    #[serde(default)]
    apart: BTreeSet<String>,
}

#[derive(Serialize, Deserialize)]
struct Results {
    figures: Vec<Figure>,
    curves: Vec<Curve>,
    failures: Vec<Failure>,
}

#[derive(Clone, Serialize, Deserialize)]
struct Figure {
    row: String,
    figure: String,
    unit: String,
    goal: Goal,
    samples: BTreeMap<String, Vec<f64>>,
}

#[derive(Serialize, Deserialize)]
struct Curve {
    row: String,
    figure: String,
    rounds: BTreeMap<String, Vec<Vec<f64>>>,
}

#[derive(Serialize, Deserialize)]
struct Failure {
    row: String,
    peer: String,
    round: usize,
    reason: String,
}

#[derive(Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", content = "value", rename_all = "snake_case")]
enum Goal {
    RatioAtLeast(f64),
    RatioAtMost(f64),
    AtLeast(f64),
    AtMost(f64),
    WorstAtMost(f64),
    Free,
}

/// Builds, measures and rewrites the section; a quick look is only printed.
pub fn run(root: &Path, runs: usize, further: &[String]) -> anyhow::Result<()> {
    super::build(root, &["--bin", "gantry-bench-store"])?;
    let mut arguments = vec!["--runs".to_owned(), runs.to_string()];
    arguments.extend_from_slice(further);
    let measured = super::measure(root, "gantry-bench-store", &arguments)?;
    let mut report: Report = serde_json::from_slice(&measured).context("gantry-bench-store's report")?;
    let partial = further.iter().any(|word| word.starts_with("--only"));
    if !report.quick {
        let path = root.join(SAMPLES);
        std::fs::create_dir_all(path.parent().context("a folder")?)?;
        if partial && let Ok(before) = std::fs::read(&path) {
            let before = serde_json::from_slice(&before).with_context(|| path.display().to_string())?;
            report = merged(before, report);
        }
        std::fs::write(&path, serde_json::to_vec(&report)?)?;
        std::fs::write(root.join(RATIOS), ratios(&report))?;
        std::fs::write(root.join(LATENCIES), latencies(&report))?;
    }
    let command = ["cargo xtask bench store --runs", &runs.to_string()].join(" ");
    let command = if further.is_empty() { command } else { format!("{command} -- {}", further.join(" ")) };
    let text = markdown(&report, &command);
    print!("{text}");
    if !report.quick {
        super::publish(root, "store", &text)?;
    }
    let failed: Vec<_> = report.results.failures.iter().map(|failure| failure.row.as_str()).collect();
    anyhow::ensure!(failed.is_empty(), "rows that failed: {}", failed.join(", "));
    Ok(())
}

/// What was measured now takes the place of the same rows of before.
fn merged(before: Report, now: Report) -> Report {
    let rows = |results: &Results| -> BTreeSet<String> {
        let measured = results.figures.iter().map(|figure| figure.row.clone());
        measured.chain(results.failures.iter().map(|failure| failure.row.clone())).collect()
    };
    let again = rows(&now.results);
    let mut report = now;
    let Results { figures, curves, failures } = before.results;
    let new = std::mem::take(&mut report.results.figures);
    report.results.figures = figures.into_iter().filter(|figure| !again.contains(&figure.row)).chain(new).collect();
    report.results.curves.extend(curves.into_iter().filter(|curve| !again.contains(&curve.row)));
    report.results.failures.extend(failures.into_iter().filter(|failure| !again.contains(&failure.row)));
    report.apart = before.apart;
    report.apart.extend(again);
    report
}

impl Figure {
    fn spread(&self, peer: &str) -> Spread {
        Spread::of(self.samples.get(peer).map_or(&[], Vec::as_slice))
    }

    fn ratio(&self, rival: Option<&str>) -> Option<f64> {
        let (ours, theirs) = (self.spread(OURS).median()?, self.spread(rival?).median()?);
        (theirs != 0.0).then_some(ours / theirs)
    }

    /// Nothing to judge: none.
    fn met(&self, rival: Option<&str>) -> Option<bool> {
        let ours = self.spread(OURS);
        match self.goal {
            Goal::RatioAtLeast(goal) => Some(self.ratio(rival)? >= goal),
            Goal::RatioAtMost(goal) => Some(self.ratio(rival)? <= goal),
            Goal::AtLeast(goal) => Some(ours.median()? >= goal),
            Goal::AtMost(goal) => Some(ours.median()? <= goal),
            Goal::WorstAtMost(goal) => Some(ours.max()? <= goal),
            Goal::Free => None,
        }
    }
}

fn goal(goal: Goal) -> String {
    match goal {
        Goal::RatioAtLeast(value) => format!("≥ {value} ×"),
        Goal::RatioAtMost(value) if value < 0.5 => format!("≤ 1/{:.0} of it", 1.0 / value),
        Goal::RatioAtMost(value) => format!("≤ {value} ×"),
        Goal::AtLeast(value) => format!("≥ {}", short(value)),
        Goal::AtMost(value) => format!("≤ {}", short(value)),
        Goal::WorstAtMost(value) => format!("each ≤ {}", short(value)),
        Goal::Free => String::new(),
    }
}

/// A median, and the spread where there is one.
fn cell(spread: &Spread) -> String {
    match (spread.min(), spread.max()) {
        (Some(min), Some(max)) if spread.count() > 1 => {
            format!("{} ({}–{})", shown(spread.median()), short(min), short(max))
        }
        _ => shown(spread.median()),
    }
}

fn markdown(report: &Report, command: &str) -> String {
    let mut text = String::from("## The store against etcd\n\n");
    let rivals: Vec<&str> = report.peers.iter().map(String::as_str).filter(|peer| *peer != OURS).collect();
    introduce(&mut text, report, command);
    let heads: String = rivals.iter().map(|rival| format!(" {rival} |")).collect();
    let rules: String = rivals.iter().map(|_| "---:|").collect();
    let _ = writeln!(text, "| | rounds | Gantry |{heads} ratio | goal | |\n|---|---:|---:|{rules}---:|---|---|");
    let (judged, free): (Vec<_>, Vec<_>) = report.results.figures.iter().partition(|figure| figure.goal != Goal::Free);
    for figure in judged {
        let word = figure.met(rivals.first().copied()).map_or("–", |met| if met { "met" } else { "**missed**" });
        let _ = writeln!(text, "{} {} | {word} |", line(figure, &rivals), goal(figure.goal));
    }
    for Failure { row, peer, round, reason } in &report.results.failures {
        let _ = writeln!(text, "\n**Failed**: {row}, {peer}, round {round}: {}", reason.replace('\n', " / "));
    }
    let _ = writeln!(text, "\n![How many times better than etcd](benchmarks/store-ratios.svg)\n");
    let _ = writeln!(text, "![Latencies by percentile](benchmarks/store-latencies.svg)\n");
    let _ = writeln!(text, "What it cost, and how it came about:\n");
    let _ = writeln!(text, "| | rounds | Gantry |{heads} ratio |\n|---|---:|---:|{rules}---:|");
    for figure in free {
        let _ = writeln!(text, "{}", line(figure, &rivals));
    }
    text
}

fn introduce(text: &mut String, report: &Report, command: &str) {
    let sync = Spread::of(&report.fdatasync_us);
    let (least, median, most) = (shown(sync.min()), shown(sync.median()), shown(sync.max()));
    let count = sync.count();
    let _ = writeln!(text, "Machine: {}.", report.machine);
    let _ = writeln!(text, "Disk: fdatasync of 4 KiB takes {median} µs (median of {count}; {least} to {most}).");
    let _ = writeln!(text, "Command: `{command}`.");
    let _ = writeln!(
        text,
        "Three members each with TLS and fsync on this one machine, beside one load generator that speaks etcd v3 to both over 24 \
         connections to all members; who is first alternates. Medians, in brackets the least and the most."
    );
    if !report.apart.is_empty() {
        let rows: Vec<_> = report.apart.iter().map(String::as_str).collect();
        let _ = writeln!(text, "Measured in runs of their own: {}.", rows.join(", "));
    }
    let _ = writeln!(text);
}

fn line(figure: &Figure, rivals: &[&str]) -> String {
    let Figure { figure: name, unit, .. } = figure;
    let unit = if unit.is_empty() { String::new() } else { format!(", {unit}") };
    let ours = figure.spread(OURS);
    let theirs: String = rivals.iter().map(|rival| format!(" {} |", cell(&figure.spread(rival)))).collect();
    let rounds = ours.count().max(rivals.first().map_or(0, |rival| figure.spread(rival).count()));
    let ratio = shown(figure.ratio(rivals.first().copied()));
    format!("| {name}{unit} | {rounds} | {} |{theirs} {ratio} |", cell(&ours))
}

/// One bar for every figure that is to be a multiple or a part of etcd's: how many times better ours is.
fn ratios(report: &Report) -> String {
    let rival = report.peers.iter().map(String::as_str).find(|peer| *peer != OURS);
    let bars: Vec<Bar> = (report.results.figures.iter())
        .filter_map(|figure| {
            let ratio = figure.ratio(rival)?;
            let (times, goal) = match figure.goal {
                Goal::RatioAtLeast(goal) => (ratio, goal),
                Goal::RatioAtMost(goal) => (1.0 / ratio, 1.0 / goal),
                _ => return None,
            };
            Some(Bar { label: figure.figure.clone(), value: times, goal })
        })
        .collect();
    plot::bars(&format!("Times better than {}", rival.unwrap_or("etcd")), &bars)
}

/// A panel for every curve; each point is the median of its rounds.
fn latencies(report: &Report) -> String {
    let panels: Vec<Panel> = (report.results.curves.iter())
        .map(|curve| Panel {
            title: curve.figure.clone(),
            lines: (curve.rounds.iter())
                .map(|(peer, rounds)| Line { label: peer.clone(), points: medians(rounds, report.curve.len()) })
                .collect(),
        })
        .collect();
    plot::lines("latency, ms", &report.curve, &panels)
}

fn medians(rounds: &[Vec<f64>], points: usize) -> Vec<f64> {
    let at = |point: usize| rounds.iter().filter_map(|round| round.get(point).copied()).collect::<Vec<_>>();
    (0..points).filter_map(|point| Spread::of(&at(point)).median()).collect()
}

#[cfg(test)]
mod tests;
