//! What the section says of given samples.

use super::*;
use crate::bench::report::Results;
use std::collections::BTreeSet;

const FLOOR: &str = "floor";

fn figure(row: &str, name: &str, goal: Goal, ours: &[f64], floor: Option<f64>) -> Figure {
    let mut samples: std::collections::BTreeMap<_, _> = [(OURS.to_owned(), ours.to_vec())].into();
    samples.extend(floor.map(|floor| (FLOOR.to_owned(), vec![floor])));
    Figure { row: row.into(), figure: name.into(), unit: "/s".into(), goal, samples }
}

fn report(figures: Vec<Figure>) -> Report {
    Report {
        machine: "M".into(),
        fdatasync_us: vec![100.0],
        quick: false,
        peers: vec![OURS.into(), FLOOR.into()],
        curve: vec![0.5, 0.99],
        results: Results { figures, curves: vec![], failures: vec![] },
        apart: BTreeSet::new(),
    }
}

fn whole() -> Report {
    let times = Goal::RatioAtLeast(3.0);
    report(vec![
        figure("core", "core alone, basic: placements", Goal::AtLeast(20_000.0), &[30_000.0], None),
        figure("core", "core alone, basic: decisions beside 100 machines", Goal::Free, &[7.0], None),
        figure(
            "basic-10k",
            "basic-10k: 10000 pods (S/N), all waiting",
            times,
            &[1_000.0, 3_000.0, 2_000.0],
            Some(500.0),
        ),
        figure("start", "from its start", Goal::AtMost(5.0), &[6.0], None),
        figure("basic-10k", "binds decided again", Goal::Free, &[0.0], None),
    ])
}

#[test]
fn each_table_has_its_figures_and_verdicts() {
    let text = markdown(&whole(), "the command", false);
    assert!(text.contains("| core alone, basic: placements, /s | 1 | 30,000 | ≥ 20,000 | met |"), "{text}");
    let row = "all waiting | 3 | 2,000 (1,000–3,000) | 500 | 4.00 | ≥ 3 × | met |";
    assert!(text.contains(row) && text.contains("| basic-10k: 10,000 pods (S/N), all waiting |"), "{text}");
    assert!(!text.contains("\n\n\n"), "{text}");
    assert!(text.contains("| from its start, /s | 1 | 6.00 | ≤ 5.00 | **missed** |"), "{text}");
    assert!(text.contains("| binds decided again, /s | 1 | 0 |\n"), "{text}");
    assert!(!text.contains("stranded.svg"));
    assert!(markdown(&whole(), "c", true).contains("(benchmarks/scheduler-stranded.svg)"));
}

#[test]
fn bars_are_named_by_row() {
    let svg = floors(&whole());
    assert!(svg.contains(">basic-10k, all waiting</text>") && svg.contains(">4.00</text>"), "{svg}");
}

#[test]
fn the_core_runs_unless_only_others_are_wanted() {
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let all = ["", "--scale 0.5", "--only core", "--only=core", "--only spread --only core", "--only co*"].map(words);
    assert!(all.iter().all(|further| wants_core(further)), "{all:?}");
    assert!(!wants_core(&words("--only spread")) && !wants_core(&words("--only=burst --only start --only b*")));
}
