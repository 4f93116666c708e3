//! The rows, one file each. A row starts its own servers, so that none pays for what another left.

mod agents;
mod bind;
mod costs;
mod empty;
mod lists;
mod population;
mod site;
mod team;
mod watch;

use super::load::Outcome;
use super::{Lab, PEER};
use crate::storebench::figures::{Failure, Figures, Goal, Name};
use crate::storebench::latency::Latencies;

pub struct Row {
    /// What `--only` matches.
    pub name: &'static str,
    /// Takes minutes and varies little: fewer rounds.
    pub heavy: bool,
    pub run: fn(&Lab, &mut Ledger) -> anyhow::Result<()>,
}

/// In the order in which they run.
pub const ROWS: &[Row] = &[
    Row { name: "costs", heavy: false, run: costs::run },
    Row { name: "team", heavy: false, run: team::run },
    Row { name: "watch", heavy: false, run: watch::run },
    Row { name: "agents", heavy: false, run: agents::run },
    Row { name: "empty", heavy: true, run: empty::run },
    Row { name: "population", heavy: true, run: population::run },
];

/// Runs the rows, each in so many rounds as it wants at most.
pub fn run(lab: &Lab, rows: &[&Row], rounds: &dyn Fn(&Row) -> usize) -> Figures {
    let mut figures = Figures::default();
    let most = rows.iter().map(|row| rounds(row)).max().unwrap_or(0);
    for round in 0..most {
        for row in rows.iter().filter(|row| round < rounds(row)) {
            eprintln!("round {} of {}: {}", round + 1, rounds(row), row.name);
            let mut ledger = Ledger { row: row.name, figures: &mut figures };
            if let Err(error) = (row.run)(lab, &mut ledger) {
                let reason = format!("{error:#}");
                figures.fail(Failure { row: row.name, peer: PEER.to_owned(), round: round + 1, reason });
            }
        }
    }
    figures
}

/// Writes a row's figures under its name.
pub struct Ledger<'a> {
    row: &'static str,
    figures: &'a mut Figures,
}

impl Ledger<'_> {
    fn add(&mut self, figure: impl Into<String>, unit: &'static str, goal: Goal, value: f64) {
        self.figures.add(PEER, Name { row: self.row, figure: figure.into(), unit, goal }, value);
    }

    fn free(&mut self, figure: impl Into<String>, unit: &'static str, value: f64) {
        self.add(figure, unit, Goal::Free, value);
    }

    /// A distribution, with its 99th percentile as a figure.
    fn latencies(&mut self, what: &str, goal: Goal, latencies: &mut Latencies) {
        if let Some(p99) = latencies.percentile_ms(0.99) {
            self.add(format!("{what}: p99"), "ms", goal, p99);
        }
        if let Some(p50) = latencies.percentile_ms(0.5) {
            self.free(format!("{what}: p50"), "ms", p50);
        }
        self.figures.add_curve(PEER, self.row, what, latencies.curve_ms());
    }

    /// What one operation cost everybody, and the rate that it came to.
    fn cost(&mut self, what: &str, goal: Goal, outcome: &Outcome) {
        let cpu = outcome.cpu;
        self.add(format!("{what}: CPU of the API server"), "µs each", goal, outcome.each(cpu.api));
        self.free(format!("{what}: CPU of the stores"), "µs each", outcome.each(cpu.stores));
        self.free(format!("{what}: CPU of the generator"), "µs each", outcome.each(cpu.generator));
        self.free(format!("{what}: rate"), "/s", outcome.per_s());
        self.free(format!("{what}: others on the machine meanwhile"), "cores", cpu.others.max(0.0) / outcome.seconds);
        if outcome.refused > 0 {
            self.free(format!("{what}: told to come back later"), "times", outcome.refused as f64);
        }
    }
}
