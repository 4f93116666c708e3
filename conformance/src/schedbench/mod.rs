//! The benchmark of the scheduler: the real roles as processes of their own (a member of each store group, an API server, a
//! scheduler, and where a row says so the controllers and hollow machines), with TLS, real identities and fsync. Here is who runs
//! which row when; each kind of row is a file of `rows`.

pub mod paced;
pub mod published;
pub mod roles;
pub mod rows;
pub mod seen;
pub mod shapes;
pub mod site;

use crate::apibench::{self, PEER};
use crate::storebench::figures::{Failure, Figures, Goal, Name};
use crate::storebench::latency::Latencies;
use published::{SHAPES, Shape};

/// Whose published floors stand beside ours.
pub const FLOOR: &str = "kube-scheduler's published floor";

pub struct Lab {
    /// Folder, keys and identities.
    pub api: apibench::Lab,
    /// Of all counts of machines and pods.
    pub scale: f64,
}

impl Lab {
    pub fn scaled(&self, count: u64) -> u64 {
        published::scaled(count, self.scale)
    }
}

#[derive(Clone, Copy)]
pub enum Row {
    Published(&'static Shape),
    /// Many pods at once, agents' reports paused.
    Burst,
    /// A large Job from its creation until all of it is ready.
    Pipeline,
    /// A scheduler's start beside everything that is there.
    Start,
    /// Measured by another program; named here so that it can be asked for alone.
    Core,
}

impl Row {
    pub fn all() -> Vec<Self> {
        SHAPES.iter().map(Self::Published).chain([Self::Burst, Self::Pipeline, Self::Start, Self::Core]).collect()
    }

    /// What `--only` matches.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Published(shape) => shape.name,
            Self::Burst => "burst",
            Self::Pipeline => "pipeline",
            Self::Start => "start",
            Self::Core => "core",
        }
    }

    /// Takes minutes and varies little: fewer rounds.
    pub fn heavy(&self) -> bool {
        !matches!(self, Self::Published(_))
    }

    fn run(&self, lab: &Lab, ledger: &mut Ledger) -> anyhow::Result<()> {
        match self {
            Self::Published(shape) => rows::suite::run(lab, shape, ledger),
            Self::Burst => rows::burst::run(lab, ledger),
            Self::Pipeline => rows::pipeline::run(lab, ledger),
            Self::Start => rows::start::run(lab, ledger),
            Self::Core => Ok(()),
        }
    }
}

/// Runs the rows, each in so many rounds as it wants at most. A row starts its own servers, so that none pays for what another
/// left.
pub fn run(lab: &Lab, rows: &[Row], rounds: &dyn Fn(&Row) -> usize) -> Figures {
    let mut figures = Figures::default();
    let most = rows.iter().map(rounds).max().unwrap_or(0);
    for round in 0..most {
        for row in rows.iter().filter(|row| round < rounds(row)) {
            eprintln!("round {} of {}: {}", round + 1, rounds(row), row.name());
            let mut ledger = Ledger { row: row.name(), figures: &mut figures };
            if let Err(error) = row.run(lab, &mut ledger) {
                let reason = format!("{error:#}");
                figures.fail(Failure { row: row.name(), peer: PEER.to_owned(), round: round + 1, reason });
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
    pub fn add(&mut self, figure: impl Into<String>, unit: &'static str, goal: Goal, value: f64) {
        self.figures.add(PEER, Name { row: self.row, figure: figure.into(), unit, goal }, value);
    }

    pub fn free(&mut self, figure: impl Into<String>, unit: &'static str, value: f64) {
        self.add(figure, unit, Goal::Free, value);
    }

    /// Ours beside what is published.
    pub fn beside(&mut self, figure: String, floor: f64, times: f64, value: f64) {
        let name = |figure| Name { row: self.row, figure, unit: "pods/s", goal: Goal::RatioAtLeast(times) };
        self.figures.add(PEER, name(figure.clone()), value);
        self.figures.add(FLOOR, name(figure), floor);
    }

    /// A distribution, with its 99th percentile as a figure.
    pub fn latencies(&mut self, what: &str, goal: Goal, latencies: &mut Latencies) {
        if let Some(p50) = latencies.percentile_ms(0.5) {
            self.free(format!("{what}: p50"), "ms", p50);
        }
        if let Some(p99) = latencies.percentile_ms(0.99) {
            self.add(format!("{what}: p99"), "ms", goal, p99);
        }
    }

    pub fn curve(&mut self, what: &str, latencies: &mut Latencies) {
        self.figures.add_curve(PEER, self.row, what, latencies.curve_ms());
    }

    /// What each pod cost everybody who took part.
    pub fn costs(&mut self, what: &str, costs: &site::Costs, pods: u64) {
        for (who, seconds) in costs.by_process() {
            if seconds > 0.0 {
                self.free(format!("{what}: CPU of {who}"), "ms a pod", seconds * 1_000.0 / pods as f64);
            }
        }
        self.free(format!("{what}: others on the machine meanwhile"), "cores", costs.others.max(0.0) / costs.wall);
    }
}
