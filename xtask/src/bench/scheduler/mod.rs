//! The section of the scheduler: the decision core alone, the published suite's rows beside their floors, bursts, starts, and what
//! each pod costs; four plots.

mod core;
mod quality;

use super::Wanted;
use super::plot::{self, Bar};
use super::report::{Figure, Goal, OURS, Program, Report, cell, goal};
use super::spread::{grouped, shown};
use std::fmt::Write as _;
use std::path::Path;

const GROWTH: &str = "benchmarks/scheduler-growth.svg";
const FLOORS: &str = "benchmarks/scheduler-floors.svg";
const LATENCIES: &str = "benchmarks/scheduler-latencies.svg";
/// Shown once it is there.
const STRANDED: &str = "benchmarks/scheduler-stranded.svg";
const PROGRAM: Program = Program { name: "scheduler", binary: "gantry-bench-scheduler" };

/// Builds, measures and rewrites the section; a quick look is only printed.
pub fn run(root: &Path, wanted: &Wanted) -> anyhow::Result<()> {
    let mut report = PROGRAM.measure(root, wanted)?;
    if wanted.report.is_none() && wants_core(&wanted.further) && !report.quick {
        let samples = core::measure(root, wanted.runs)?;
        let before = std::mem::take(&mut report.results.figures);
        report.results.figures = core::figures(&samples).into_iter().chain(before).collect();
        std::fs::write(root.join("docs").join(STRANDED), quality::measure(root)?)?;
    }
    let (report, command) = PROGRAM.keep(root, wanted, report)?;
    if !report.quick {
        let docs = root.join("docs");
        std::fs::write(docs.join(GROWTH), core::growth(&report))?;
        std::fs::write(docs.join(FLOORS), floors(&report))?;
        std::fs::write(docs.join(LATENCIES), report.latencies())?;
    }
    let stranded = root.join("docs").join(STRANDED).is_file();
    report.close(root, "scheduler", &markdown(&report, &command, stranded))
}

/// Unless only other rows are asked for. A name that ends in * stands for all that begin so, as the measuring program has it.
fn wants_core(further: &[String]) -> bool {
    let words = further.iter().flat_map(|word| word.split('='));
    let words: Vec<&str> = words.collect();
    let asked: Vec<&str> = words.windows(2).filter(|pair| pair[0] == "--only").map(|pair| pair[1]).collect();
    let matches =
        |asked: &&str| asked.strip_suffix('*').map_or(*asked == core::ROW, |begin| core::ROW.starts_with(begin));
    asked.is_empty() || asked.iter().any(matches)
}

fn markdown(report: &Report, command: &str, stranded: bool) -> String {
    let mut text = String::from("## Scheduler\n\n");
    report.introduce(&mut text, command);
    let _ = writeln!(
        text,
        "The core alone is one thread without I/O. In all other rows `gantry scheduler`, `gantry apiserver` and one member of each store \
         group are processes of their own with TLS, their own identities and fsync, beside one load generator on the same machine. \
         Machines of the suite's rows have no agents; those of bursts are `gantry hollow`'s, with Leases and Events. *Created to bound* \
         counts from when the create was sent until a watcher saw the bind. *All waiting* and *sustained* are rates of pods that were \
         there before the scheduler: its first request may bind 256 of them at one moment, so the time begins when 256 are seen bound \
         and ends with the last, and those 256 do not count. A bind *decided again* is one that met another write of its \
         machine. CPU is from `/proc/PID/stat`. Medians, in brackets the least and the most."
    );
    report.tell_apart(&mut text);
    let (core, rest): (Vec<&Figure>, Vec<_>) =
        report.results.figures.iter().partition(|figure| figure.row == core::ROW);
    let (growth, core): (Vec<_>, Vec<_>) = core.into_iter().partition(|figure| core::beside(figure).is_some());
    let growth = core::by_size(growth);
    let (floors, rest): (Vec<_>, Vec<_>) =
        rest.into_iter().partition(|figure| matches!(figure.goal, Goal::RatioAtLeast(_)));
    let (judged, free): (Vec<_>, Vec<_>) = rest.into_iter().partition(|figure| figure.goal != Goal::Free);
    if !core.is_empty() {
        goals(
            &mut text,
            "The decision core, with 10,000 machines and 300,000 pods on them, a third of which have the row's own rules:",
            &core,
        );
        table(&mut text, "As a cluster grows, thirty pods on each machine:", &growth);
        let _ = writeln!(text, "\n![Decisions as a cluster grows]({GROWTH})");
    }
    if !floors.is_empty() {
        published(&mut text, report, &floors);
    }
    if stranded {
        let _ = writeln!(text, "\n![Stranded capacity against exhaustive scoring]({STRANDED})");
    }
    if !judged.is_empty() {
        goals(&mut text, "Bursts and starts:", &judged);
        let _ = writeln!(text, "\n![Production beside a burst, by percentile]({LATENCIES})");
    }
    report.tell_failures(&mut text);
    table(&mut text, "What it cost, and how it came about:", &free);
    text
}

/// Ours beside what the suite's own benchmark must reach.
fn published(text: &mut String, report: &Report, floors: &[&Figure]) {
    let peer = floor(report);
    let _ = writeln!(
        text,
        "\nThe shapes of kube-scheduler's own benchmark, through API server and store. Its floors are the `threshold`s of \
         `test/integration/scheduler_perf/*/performance-config.yaml` in kubernetes/kubernetes, below which its own run fails: on \
         its project's machines, the API server in the same process, without TLS. *Created meanwhile* counts, as it does, from the \
         first create to the last bind, on two processors that creating shares; *all waiting*, of pods \
         that were there before the scheduler, is placing alone.\n"
    );
    let _ = writeln!(
        text,
        "| pods/s | rounds | Gantry | published floor | ratio | goal | |\n|---|---:|---:|---:|---:|---|---|"
    );
    for figure in floors {
        let (ours, theirs) = (figure.spread(OURS), peer.and_then(|peer| figure.spread(peer).median()));
        let (ratio, word) = (shown(figure.ratio(peer)), verdict(figure, peer));
        let (name, count, goal) = (grouped(&figure.figure), ours.count(), goal(figure.goal));
        let _ =
            writeln!(text, "| {name} | {count} | {} | {} | {ratio} | {goal} | {word} |", cell(&ours), shown(theirs));
    }
    let _ = writeln!(text, "\n![How many times the published floor]({FLOORS})");
}

fn floor(report: &Report) -> Option<&str> {
    report.peers.iter().map(String::as_str).find(|peer| *peer != OURS)
}

fn verdict(figure: &Figure, peer: Option<&str>) -> &'static str {
    figure.met(peer).map_or("–", |met| if met { "met" } else { "**missed**" })
}

fn goals(text: &mut String, title: &str, figures: &[&Figure]) {
    let _ = writeln!(text, "\n{title}\n\n| | rounds | Gantry | goal | |\n|---|---:|---:|---|---|");
    for figure in figures {
        let _ = writeln!(text, "{} {} | {} |", line(figure), goal(figure.goal), verdict(figure, None));
    }
}

fn table(text: &mut String, title: &str, figures: &[&Figure]) {
    if figures.is_empty() {
        return;
    }
    let _ = writeln!(text, "\n{title}\n\n| | rounds | Gantry |\n|---|---:|---:|");
    for figure in figures {
        let _ = writeln!(text, "{}", line(figure));
    }
}

fn line(figure: &Figure) -> String {
    let unit = if figure.unit.is_empty() { String::new() } else { format!(", {}", figure.unit) };
    let spread = figure.spread(OURS);
    format!("| {}{unit} | {} | {} |", grouped(&figure.figure), spread.count(), cell(&spread))
}

/// One bar for every row that has a floor.
fn floors(report: &Report) -> String {
    let peer = floor(report);
    let bar = |figure: &Figure| {
        let Goal::RatioAtLeast(goal) = figure.goal else { return None };
        let how = figure.figure.rsplit(", ").next().unwrap_or_default();
        Some(Bar { label: format!("{}, {how}", figure.row), value: figure.ratio(peer)?, goal })
    };
    let bars: Vec<Bar> = report.results.figures.iter().filter_map(bar).collect();
    plot::bars("Times kube-scheduler's published floor", &bars)
}

#[cfg(test)]
mod tests;
