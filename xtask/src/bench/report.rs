//! What a measuring program reports: samples by figure, with goals. Samples are kept beside the document, so that one row can be
//! measured again without the others. It judges goals; the words around them belong to each section.

use super::Wanted;
use super::plot::{self, Along, Line, Panel};
use super::spread::{Spread, short, shown};
use anyhow::Context;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

pub const OURS: &str = "gantry";

/// What the program prints.
#[derive(Serialize, Deserialize)]
pub struct Report {
    pub machine: String,
    pub fdatasync_us: Vec<f64>,
    pub quick: bool,
    pub peers: Vec<String>,
    /// The shares at which curves have points.
    pub curve: Vec<f64>,
    pub results: Results,
    /// Rows that were measured in runs of their own.
    #[serde(default)]
    pub apart: BTreeSet<String>,
}

#[derive(Serialize, Deserialize)]
pub struct Results {
    pub figures: Vec<Figure>,
    pub curves: Vec<Curve>,
    pub failures: Vec<Failure>,
}

#[derive(Clone, Serialize, Deserialize)]
pub struct Figure {
    pub row: String,
    pub figure: String,
    pub unit: String,
    pub goal: Goal,
    pub samples: BTreeMap<String, Vec<f64>>,
}

#[derive(Serialize, Deserialize)]
pub struct Curve {
    pub row: String,
    pub figure: String,
    pub rounds: BTreeMap<String, Vec<Vec<f64>>>,
}

#[derive(Serialize, Deserialize)]
pub struct Failure {
    pub row: String,
    pub peer: String,
    pub round: usize,
    pub reason: String,
}

#[derive(Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", content = "value", rename_all = "snake_case")]
pub enum Goal {
    RatioAtLeast(f64),
    RatioAtMost(f64),
    AtLeast(f64),
    AtMost(f64),
    WorstAtMost(f64),
    Free,
}

/// A measuring program and its section's name.
pub struct Program {
    pub name: &'static str,
    pub binary: &'static str,
}

impl Program {
    /// Builds and measures. Returns what is known now and the command for it; unless it is a quick look, the samples are kept.
    pub fn run(&self, root: &Path, wanted: &Wanted) -> anyhow::Result<(Report, String)> {
        let report = self.measure(root, wanted)?;
        self.keep(root, wanted, report)
    }

    /// Builds and runs the program.
    pub fn measure(&self, root: &Path, wanted: &Wanted) -> anyhow::Result<Report> {
        let binary = self.binary;
        super::build(root, wanted, &["--bin", binary])?;
        let measured = super::measure(root, binary, wanted, &[])?;
        serde_json::from_slice(&measured).with_context(|| format!("{binary}'s report"))
    }

    /// Keeps the samples; those of rows that were not measured now stay as they were.
    pub fn keep(&self, root: &Path, wanted: &Wanted, mut report: Report) -> anyhow::Result<(Report, String)> {
        let name = self.name;
        let Wanted { runs, further, .. } = wanted;
        let partial = further.iter().any(|word| word.starts_with("--only"));
        if !report.quick {
            let path = root.join(format!("docs/benchmarks/{name}.json"));
            std::fs::create_dir_all(path.parent().context("a folder")?)?;
            if partial && let Ok(before) = std::fs::read(&path) {
                let before = serde_json::from_slice(&before).with_context(|| path.display().to_string())?;
                report = merged(before, report);
            }
            std::fs::write(&path, serde_json::to_vec(&report)?)?;
        }
        let command = ["cargo xtask bench", name, "--runs", &runs.to_string()].join(" ");
        let command = if further.is_empty() { command } else { format!("{command} -- {}", further.join(" ")) };
        Ok((report, command))
    }
}

impl Report {
    /// Prints the section, publishes it unless it is a quick look, and fails for what could not be measured.
    pub fn close(&self, root: &Path, section: &str, text: &str) -> anyhow::Result<()> {
        print!("{text}");
        if !self.quick {
            super::publish(root, section, text)?;
        }
        let failed: Vec<_> = self.results.failures.iter().map(|failure| failure.row.as_str()).collect();
        anyhow::ensure!(failed.is_empty(), "rows that failed: {}", failed.join(", "));
        Ok(())
    }

    pub fn introduce(&self, text: &mut String, command: &str) {
        let sync = Spread::of(&self.fdatasync_us);
        let (least, median, most) = (shown(sync.min()), shown(sync.median()), shown(sync.max()));
        let count = sync.count();
        let _ = writeln!(text, "Machine: {}.", self.machine);
        let _ = writeln!(text, "Disk: fdatasync of 4 KiB takes {median} µs (median of {count}; {least} to {most}).");
        let _ = writeln!(text, "Command: `{command}`.");
    }

    pub fn tell_apart(&self, text: &mut String) {
        if !self.apart.is_empty() {
            let rows: Vec<_> = self.apart.iter().map(String::as_str).collect();
            let _ = writeln!(text, "Measured in runs of their own: {}.", rows.join(", "));
        }
    }

    pub fn tell_failures(&self, text: &mut String) {
        for Failure { row, peer, round, reason } in &self.results.failures {
            let _ = writeln!(text, "\n**Failed**: {row}, {peer}, round {round}: {}", reason.replace('\n', " / "));
        }
    }

    /// A panel for every curve; each point is the median of its rounds.
    pub fn latencies(&self) -> String {
        let panels: Vec<Panel> = (self.results.curves.iter())
            .map(|curve| Panel {
                title: curve.figure.clone(),
                lines: (curve.rounds.iter())
                    .map(|(peer, rounds)| Line { label: peer.clone(), points: medians(rounds, self.curve.len()) })
                    .collect(),
            })
            .collect();
        plot::lines("latency, ms", &Along::percentiles(&self.curve), &panels)
    }
}

fn medians(rounds: &[Vec<f64>], points: usize) -> Vec<f64> {
    let at = |point: usize| rounds.iter().filter_map(|round| round.get(point).copied()).collect::<Vec<_>>();
    (0..points).filter_map(|point| Spread::of(&at(point)).median()).collect()
}

/// What was measured now takes the place of the same rows of before.
pub fn merged(before: Report, now: Report) -> Report {
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
    pub fn spread(&self, peer: &str) -> Spread {
        Spread::of(self.samples.get(peer).map_or(&[], Vec::as_slice))
    }

    pub fn ratio(&self, rival: Option<&str>) -> Option<f64> {
        let (ours, theirs) = (self.spread(OURS).median()?, self.spread(rival?).median()?);
        (theirs != 0.0).then_some(ours / theirs)
    }

    /// Nothing to judge: none.
    pub fn met(&self, rival: Option<&str>) -> Option<bool> {
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

pub fn goal(goal: Goal) -> String {
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
pub fn cell(spread: &Spread) -> String {
    match (spread.min(), spread.max()) {
        (Some(min), Some(max)) if spread.count() > 1 => {
            format!("{} ({}–{})", shown(spread.median()), short(min), short(max))
        }
        _ => shown(spread.median()),
    }
}
