//! The decision core's own benchmark: its lines as figures, and how decisions slow down as a cluster grows.

use crate::bench::plot::{self, Along, Line, Panel};
use crate::bench::report::{Figure, Goal, OURS, Report};
use crate::bench::spread::short;
use anyhow::Context;
use serde::Deserialize;
use std::path::Path;
use std::process::{Command, Stdio};

pub const ROW: &str = "core";
/// Of the goals.
const MACHINES: u64 = 10_000;
const SIZES: [u64; 4] = [100, 1_000, MACHINES, 50_000];
const SHAPES: [&str; 2] = ["basic", "mix"];

/// A line that it prints.
#[derive(Deserialize)]
pub struct Sample {
    shape: String,
    machines: u64,
    placed: u64,
    per_second: f64,
    decisions_per_second: f64,
    p50_us: f64,
    p99_us: f64,
    p999_us: f64,
    snapshot_bytes: f64,
    #[serde(default)]
    build_s: f64,
}

/// So many rounds of all its rows.
pub fn measure(root: &Path, rounds: usize) -> anyhow::Result<Vec<Sample>> {
    let mut samples = Vec::new();
    for round in 0..rounds {
        eprintln!("round {} of {rounds}: core", round + 1);
        let output = Command::new("cargo")
            .args(["bench", "--quiet", "-p", "gantry-scheduler", "--bench", "core"])
            .current_dir(root)
            .stderr(Stdio::inherit())
            .output()
            .context("the core's benchmark did not start")?;
        anyhow::ensure!(output.status.success(), "the core's benchmark failed: {}", output.status);
        samples.extend(parse(&String::from_utf8_lossy(&output.stdout))?);
    }
    Ok(samples)
}

fn parse(text: &str) -> anyhow::Result<Vec<Sample>> {
    let lines = text.lines().filter(|line| line.starts_with('{'));
    lines.map(|line| serde_json::from_str(line).with_context(|| line.to_owned())).collect()
}

/// The goals are for one core at [`MACHINES`].
pub fn figures(samples: &[Sample]) -> Vec<Figure> {
    let mut figures: Vec<Figure> = Vec::new();
    let mut add = |figure: String, unit: &str, goal: Goal, value: f64| {
        let index = figures.iter().position(|known| known.figure == figure).unwrap_or_else(|| {
            let (row, unit) = (ROW.to_owned(), unit.to_owned());
            figures.push(Figure { row, figure, unit, goal, samples: [(OURS.to_owned(), vec![])].into() });
            figures.len() - 1
        });
        figures[index].samples.entry(OURS.to_owned()).or_default().push(value);
    };
    for sample in samples {
        let Sample { shape, machines, placed, .. } = sample;
        add(decisions(shape, *machines), "/s", Goal::Free, sample.decisions_per_second);
        if *machines != MACHINES {
            continue;
        }
        let what = format!("core alone, {shape}");
        let goal = match &shape[..] {
            "basic" => Goal::AtLeast(20_000.0),
            "batch" => Goal::Free,
            _ => Goal::AtLeast(5_000.0),
        };
        add(format!("{what}: placements"), "/s", goal, sample.per_second);
        add(format!("{what}: one decision, p99"), "µs", Goal::AtMost(2_000.0), sample.p99_us);
        add(format!("{what}: one decision, p50"), "µs", Goal::Free, sample.p50_us);
        add(format!("{what}: one decision, p99.9"), "µs", Goal::Free, sample.p999_us);
        // Of the first row alone: those after it use memory again that is there.
        if shape == "basic" {
            let state = format!("{machines} machines and {placed} pods");
            add(format!("snapshot of {state}"), "MB", Goal::AtMost(300.0), sample.snapshot_bytes / 1e6);
            add(format!("building the snapshot of {state}"), "s", Goal::Free, sample.build_s);
        }
    }
    figures
}

fn decisions(shape: &str, machines: u64) -> String {
    format!("core alone, {shape}: decisions beside {machines} machines")
}

/// Beside how many machines, if that is what a figure is about; and the kind of pods.
pub fn beside(figure: &Figure) -> Option<(&str, u64)> {
    let (kind, rest) = figure.figure.split_once(": decisions beside ")?;
    Some((kind, rest.strip_suffix(" machines")?.parse().ok()?))
}

/// Kind by kind as they came, from the smallest cluster to the largest.
pub fn by_size(mut figures: Vec<&Figure>) -> Vec<&Figure> {
    let mut kinds: Vec<&str> = Vec::new();
    for (kind, _) in figures.iter().filter_map(|figure| beside(figure)) {
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    figures.sort_by_key(|figure| {
        beside(figure).map(|(kind, machines)| (kinds.iter().position(|known| *known == kind), machines))
    });
    figures
}

/// Decisions a second by the number of machines.
pub fn growth(report: &Report) -> String {
    let of = |shape: &str, machines: u64| {
        let name = decisions(shape, machines);
        let figure = report.results.figures.iter().find(|figure| figure.row == ROW && figure.figure == name)?;
        figure.spread(OURS).median()
    };
    let line = |shape: &&str| Line {
        label: (*shape).to_owned(),
        points: SIZES.iter().filter_map(|machines| of(shape, *machines)).collect(),
    };
    let lines = SHAPES.iter().map(line).filter(|line| line.points.len() == SIZES.len()).collect();
    let along =
        Along { title: "machines".to_owned(), points: SIZES.iter().map(|machines| short(*machines as f64)).collect() };
    plot::lines("decisions/s of one core", &along, &[Panel { title: "Decisions as a cluster grows".to_owned(), lines }])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(shape: &str, machines: u64, per_second: f64) -> String {
        format!(
            r#"{{"shape":"{shape}","machines":{machines},"placed":300000,"pods":20000,"per_second":{per_second},
            "decisions_per_second":{per_second},"p50_us":9.0,"p99_us":40.0,"p999_us":90.0,"snapshot_bytes":2.5e8}}"#
        )
        .replace('\n', "")
    }

    #[test]
    fn rounds_gather_and_goals_are_for_one_size() {
        let text = [line("basic", 10_000, 30_000.0), line("basic", 10_000, 10_000.0), line("mix", 100, 7.0)].join("\n");
        let figures = figures(&parse(&format!("   Compiling\n{text}\n")).unwrap());
        let by = |name: &str| figures.iter().find(|figure| figure.figure == name);
        let placements = by("core alone, basic: placements").unwrap();
        assert_eq!((placements.spread(OURS).count(), placements.met(None)), (2, Some(true)));
        assert_eq!(by("snapshot of 10000 machines and 300000 pods").unwrap().met(None), Some(true));
        assert!(by("core alone, mix: placements").is_none());
        assert!(by("core alone, mix: decisions beside 100 machines").is_some());
    }

    #[test]
    fn clusters_grow_from_small_to_large_kind_by_kind() {
        let sizes = [("mix", 10_000), ("basic", 10_000), ("mix", 100), ("basic", 50_000), ("basic", 1_000)];
        let text: Vec<String> = sizes.iter().map(|(shape, machines)| line(shape, *machines, 7.0)).collect();
        let figures = figures(&parse(&text.join("\n")).unwrap());
        let sorted = by_size(figures.iter().filter(|figure| beside(figure).is_some()).collect());
        let sorted: Vec<_> = sorted.into_iter().filter_map(beside).collect();
        let (mix, basic) = ("core alone, mix", "core alone, basic");
        assert_eq!(sorted, [(mix, 100), (mix, 10_000), (basic, 1_000), (basic, 10_000), (basic, 50_000)]);
    }
}
