//! The section of the API server: which goals are met, what each figure cost, and two plots.

use super::Wanted;
use super::plot::{self, Bar};
use super::report::{Figure, Goal, OURS, Program, Report, cell, goal};
use super::spread::grouped;
use std::fmt::Write as _;
use std::path::Path;

const MARGINS: &str = "docs/benchmarks/api-goals.svg";
const LATENCIES: &str = "docs/benchmarks/api-latencies.svg";

/// Builds, measures and rewrites the section; a quick look is only printed.
pub fn run(root: &Path, wanted: &Wanted) -> anyhow::Result<()> {
    let (report, command) = Program { name: "api", binary: "gantry-bench-api" }.run(root, wanted)?;
    if !report.quick {
        std::fs::write(root.join(MARGINS), margins(&report))?;
        std::fs::write(root.join(LATENCIES), report.latencies())?;
    }
    report.close(root, "api", &markdown(&report, &command))
}

fn markdown(report: &Report, command: &str) -> String {
    let mut text = String::from("## API server\n\n");
    report.introduce(&mut text, command);
    let _ = writeln!(
        text,
        "One `gantry apiserver` on one member of each store group, all processes of their own with TLS and fsync, and one load \
         generator on the same machine, which sends bodies made beforehand over raw HTTP/2 with TLS. People and agents pass \
         authentication, RBAC, fair queues and all built-in admission. A pod is stored in 4 KB. CPU is from `/proc/PID/stat`, \
         memory is PSS, \"TLS aside\" subtracts what the same cipher costs over memory. Medians, in brackets the least and the most."
    );
    report.tell_apart(&mut text);
    let _ = writeln!(text);
    let (judged, free): (Vec<_>, Vec<_>) = report.results.figures.iter().partition(|figure| figure.goal != Goal::Free);
    let _ = writeln!(text, "| | rounds | Gantry | goal | |\n|---|---:|---:|---|---|");
    for figure in judged {
        let word = figure.met(None).map_or("–", |met| if met { "met" } else { "**missed**" });
        let _ = writeln!(text, "{} {} | {word} |", line(figure), goal(figure.goal));
    }
    report.tell_failures(&mut text);
    let _ = writeln!(text, "\n![How many times better than the goal](benchmarks/api-goals.svg)\n");
    let _ = writeln!(text, "![Latencies by percentile](benchmarks/api-latencies.svg)\n");
    let _ = writeln!(text, "What it cost, and how it came about:\n");
    let _ = writeln!(text, "| | rounds | Gantry |\n|---|---:|---:|");
    for figure in free {
        let _ = writeln!(text, "{}", line(figure));
    }
    text
}

fn line(figure: &Figure) -> String {
    let unit = if figure.unit.is_empty() { String::new() } else { format!(", {}", figure.unit) };
    let spread = figure.spread(OURS);
    format!("| {}{unit} | {} | {} |", grouped(&figure.figure), spread.count(), cell(&spread))
}

/// One bar for every goal: how many times better than it the figure is.
fn margins(report: &Report) -> String {
    let margin = |figure: &Figure| {
        let ours = figure.spread(OURS).median()?;
        match figure.goal {
            Goal::AtLeast(goal) => Some(ours / goal),
            Goal::AtMost(goal) => Some(goal / ours),
            _ => None,
        }
    };
    let bar = |figure: &Figure| Some(Bar { label: figure.figure.clone(), value: margin(figure)?, goal: 1.0 });
    let bars: Vec<Bar> = report.results.figures.iter().filter_map(bar).collect();
    plot::bars("Times better than the goal", &bars)
}

#[cfg(test)]
mod tests {
    use super::super::report::Results;
    use super::*;
    use std::collections::BTreeSet;

    fn figure(name: &str, goal: Goal, ours: &[f64]) -> Figure {
        let samples = [(OURS.to_owned(), ours.to_vec())].into();
        Figure { row: "r".into(), figure: name.into(), unit: "ms".into(), goal, samples }
    }

    fn report() -> Report {
        let figures = vec![
            figure("p99", Goal::AtMost(50.0), &[20.0, 25.0, 90.0]),
            figure("speed", Goal::AtLeast(1.0), &[0.5]),
            figure("cost", Goal::Free, &[7.0]),
        ];
        Report {
            machine: "M".into(),
            fdatasync_us: vec![100.0],
            quick: false,
            peers: vec![OURS.into()],
            curve: vec![0.5, 0.99],
            results: Results { figures, curves: vec![], failures: vec![] },
            apart: BTreeSet::new(),
        }
    }

    #[test]
    fn the_section_says_medians_goals_and_verdicts() {
        let text = markdown(&report(), "the command");
        assert!(text.contains("| p99, ms | 3 | 25.0 (20.0–90.0) | ≤ 50.0 | met |"), "{text}");
        assert!(text.contains("| speed, ms | 1 | 0.500 | ≥ 1.00 | **missed** |"), "{text}");
        assert!(text.contains("| cost, ms | 1 | 7.00 |\n"), "{text}");
        assert!(text.contains("Command: `the command`."), "{text}");
    }

    #[test]
    fn bars_say_how_many_times_better_than_the_goal() {
        let svg = margins(&report());
        assert!(svg.contains(">2.00</text>") && svg.contains(">0.500</text>"), "{svg}");
        assert!(!svg.contains("cost"));
    }
}
