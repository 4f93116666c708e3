//! The section of the store against etcd: which goals are met, what it cost, and two plots. Samples are kept beside it, so
//! that one row can be measured again without the others; the section names such rows.

use super::Wanted;
use super::plot::{self, Bar};
use super::report::{Figure, Goal, OURS, Program, Report, cell, goal};
use super::spread::{grouped, shown};
use std::fmt::Write as _;
use std::path::Path;

const RATIOS: &str = "docs/benchmarks/store-ratios.svg";
const LATENCIES: &str = "docs/benchmarks/store-latencies.svg";

/// Builds, measures and rewrites the section; a quick look is only printed.
pub fn run(root: &Path, wanted: &Wanted) -> anyhow::Result<()> {
    let (report, command) = Program { name: "store", binary: "gantry-bench-store" }.run(root, wanted)?;
    if !report.quick {
        std::fs::write(root.join(RATIOS), ratios(&report))?;
        std::fs::write(root.join(LATENCIES), report.latencies())?;
    }
    report.close(root, "store", &markdown(&report, &command))
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
    report.tell_failures(&mut text);
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
    report.introduce(text, command);
    let _ = writeln!(
        text,
        "Three members each with TLS and fsync on this one machine, beside one load generator that speaks etcd v3 to both over 24 \
         connections to all members; who is first alternates. Medians, in brackets the least and the most."
    );
    report.tell_apart(text);
    let _ = writeln!(text);
}

fn line(figure: &Figure, rivals: &[&str]) -> String {
    let Figure { figure: name, unit, .. } = figure;
    let unit = if unit.is_empty() { String::new() } else { format!(", {unit}") };
    let ours = figure.spread(OURS);
    let theirs: String = rivals.iter().map(|rival| format!(" {} |", cell(&figure.spread(rival)))).collect();
    let rounds = ours.count().max(rivals.first().map_or(0, |rival| figure.spread(rival).count()));
    let ratio = shown(figure.ratio(rivals.first().copied()));
    format!("| {}{unit} | {rounds} | {} |{theirs} {ratio} |", grouped(name), cell(&ours))
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

#[cfg(test)]
mod tests;
