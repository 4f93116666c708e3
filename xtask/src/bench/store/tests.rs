//! What the section says of given samples.

use super::*;
use crate::bench::report::{Failure, Results, merged};
use std::collections::BTreeSet;

fn figure(row: &str, name: &str, goal: Goal, ours: &[f64], theirs: &[f64]) -> Figure {
    let samples = [(OURS, ours), ("etcd 3", theirs)].into_iter().filter(|(_, samples)| !samples.is_empty());
    let samples = samples.map(|(peer, samples)| (peer.to_owned(), samples.to_vec())).collect();
    Figure { row: row.into(), figure: name.into(), unit: "/s".into(), goal, samples }
}

fn report(figures: Vec<Figure>) -> Report {
    Report {
        machine: "M".into(),
        fdatasync_us: vec![100.0, 300.0, 200.0],
        quick: false,
        peers: vec![OURS.into(), "etcd 3".into()],
        curve: vec![0.5, 0.99],
        results: Results { figures, curves: vec![], failures: vec![] },
        apart: BTreeSet::new(),
    }
}

#[test]
fn each_goal_can_be_met_and_missed() {
    let rows: [(Goal, &[f64], bool); 12] = [
        (Goal::RatioAtLeast(2.0), &[20.0], true),
        (Goal::RatioAtLeast(2.0), &[19.0], false),
        (Goal::RatioAtMost(0.5), &[5.0], true),
        (Goal::RatioAtMost(0.5), &[5.1], false),
        (Goal::AtLeast(7.0), &[7.0], true),
        (Goal::AtLeast(7.0), &[6.9], false),
        (Goal::AtMost(7.0), &[7.0], true),
        (Goal::AtMost(7.0), &[7.1], false),
        (Goal::WorstAtMost(2.0), &[1.0, 1.0, 2.0], true),
        (Goal::WorstAtMost(2.0), &[1.0, 1.0, 2.1], false),
        (Goal::AtMost(2.0), &[1.0, 1.0, 2.1], true),
        (Goal::AtLeast(2.0), &[1.0, 1.0, 2.1], false),
    ];
    for (goal, ours, met) in rows {
        assert_eq!(figure("r", "f", goal, ours, &[10.0]).met(Some("etcd 3")), Some(met), "{ours:?}");
    }
    assert_eq!(figure("r", "f", Goal::Free, &[1.0], &[1.0]).met(Some("etcd 3")), None);
    // Without the peer, or without ours, nothing is claimed.
    assert_eq!(figure("r", "f", Goal::RatioAtLeast(2.0), &[20.0], &[]).met(Some("etcd 3")), None);
    assert_eq!(figure("r", "f", Goal::AtMost(2.0), &[], &[1.0]).met(Some("etcd 3")), None);
}

#[test]
fn the_section_says_medians_verdicts_and_failures() {
    let mut report = report(vec![
        figure("rates", "writes", Goal::RatioAtLeast(2.0), &[30.0, 10.0, 20.0], &[8.0, 8.0, 9.0]),
        figure("rates", "cost", Goal::Free, &[7.0], &[]),
    ]);
    report.results.failures.push(Failure { row: "five".into(), peer: OURS.into(), round: 1, reason: "a\nb".into() });
    let text = markdown(&report, "the command");
    assert!(text.contains("| writes, /s | 3 | 20.0 (10.0–30.0) | 8.00 (8.00–9.00) | 2.50 | ≥ 2 × | met |"), "{text}");
    assert!(text.contains("| cost, /s | 1 | 7.00 | – | – |\n"), "{text}");
    assert!(text.contains("**Failed**: five, gantry, round 1: a / b"), "{text}");
    assert!(text.contains("takes 200 µs (median of 3; 100 to 300)"), "{text}");
    assert!(text.contains("Command: `the command`."), "{text}");
}

#[test]
fn a_row_measured_again_replaces_only_itself() {
    let mut before = report(vec![
        figure("rates", "writes", Goal::RatioAtLeast(2.0), &[1.0], &[1.0]),
        figure("five", "p99", Goal::AtMost(2.0), &[1.0], &[]),
    ]);
    before.results.failures.push(Failure { row: "rates".into(), peer: OURS.into(), round: 1, reason: "x".into() });
    let now = report(vec![figure("rates", "writes", Goal::RatioAtLeast(2.0), &[5.0], &[1.0])]);
    let both = merged(before, now);
    let rows: Vec<_> = both.results.figures.iter().map(|f| (f.row.as_str(), f.samples[OURS][0])).collect();
    assert_eq!(rows, [("five", 1.0), ("rates", 5.0)]);
    assert!(both.results.failures.is_empty());
    assert!(markdown(&both, "c").contains("Measured in runs of their own: rates."));
}

#[test]
fn bars_say_how_many_times_better() {
    let report = report(vec![
        figure("a", "more", Goal::RatioAtLeast(2.0), &[30.0], &[10.0]),
        figure("b", "less", Goal::RatioAtMost(0.5), &[10.0], &[40.0]),
        figure("c", "neither", Goal::AtMost(0.5), &[10.0], &[40.0]),
    ]);
    let svg = ratios(&report);
    assert!(svg.contains(">3.00</text>") && svg.contains(">4.00</text>"), "{svg}");
    assert!(!svg.contains("neither"));
}
