//! The rows of the comparison, one file each. A row starts its own servers, so that none pays for what another left.

mod conditional;
mod failover;
mod fill;
mod five;
mod keepalive;
mod latency;
mod memory;
mod rates;
mod watches;

use super::figures::{Figures, Goal, Name};
use super::{Lab, Peer};

/// One row.
pub struct Row {
    /// What `--only` matches.
    pub name: &'static str,
    /// Takes minutes and varies little: fewer rounds.
    pub heavy: bool,
    /// Has a goal whatever the peer does: only ours runs.
    pub alone: bool,
    pub run: fn(&Lab, &Peer, &mut Figures) -> anyhow::Result<()>,
}

/// In the order in which they run; `latency` uses what `rates` found.
pub const ROWS: &[Row] = &[
    Row { name: rates::ROW, heavy: false, alone: false, run: rates::run },
    Row { name: latency::ROW, heavy: false, alone: false, run: latency::run },
    Row { name: keepalive::ROW, heavy: false, alone: false, run: keepalive::run },
    Row { name: conditional::ROW, heavy: false, alone: false, run: conditional::run },
    Row { name: failover::ROW, heavy: false, alone: false, run: failover::run },
    Row { name: watches::ROW, heavy: true, alone: false, run: watches::run },
    Row { name: memory::SMALL, heavy: true, alone: false, run: memory::small },
    Row { name: memory::LARGE, heavy: true, alone: false, run: memory::large_and_restart },
    Row { name: five::ROW, heavy: true, alone: true, run: five::run },
];

/// Writes a row's figures under its name.
struct Ledger<'a> {
    row: &'static str,
    peer: &'a str,
    figures: &'a mut Figures,
}

impl Ledger<'_> {
    fn add(&mut self, figure: impl Into<String>, unit: &'static str, goal: Goal, value: f64) {
        self.figures.add(self.peer, Name { row: self.row, figure: figure.into(), unit, goal }, value);
    }
}
