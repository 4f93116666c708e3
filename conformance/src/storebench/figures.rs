//! What was measured, by row, figure and peer, in the order of first use. It judges nothing: goals are only carried along.

use serde::Serialize;
use std::collections::BTreeMap;

/// What a figure should be. The report says whether it is.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", content = "value", rename_all = "snake_case")]
pub enum Goal {
    /// Ours divided by the peer's.
    RatioAtLeast(f64),
    RatioAtMost(f64),
    /// Ours, whatever the peer does.
    AtLeast(f64),
    AtMost(f64),
    /// Every single sample of ours.
    WorstAtMost(f64),
    /// Asked of nobody: says what a result cost, or how it came about.
    Free,
}

/// How a figure is called and what it should be.
#[derive(Clone, Debug)]
pub struct Name {
    pub row: &'static str,
    pub figure: String,
    pub unit: &'static str,
    pub goal: Goal,
}

#[derive(Debug, Serialize)]
pub struct Figure {
    row: &'static str,
    figure: String,
    unit: &'static str,
    goal: Goal,
    /// One value a round.
    samples: BTreeMap<String, Vec<f64>>,
}

/// A distribution for a plot: what a peer's latencies were at the shares of [`super::latency::CURVE`], once a round.
#[derive(Debug, Serialize)]
pub struct Curve {
    row: &'static str,
    figure: String,
    rounds: BTreeMap<String, Vec<Vec<f64>>>,
}

/// A row that could not be measured, and why.
#[derive(Debug, PartialEq, Serialize)]
pub struct Failure {
    pub row: &'static str,
    pub peer: String,
    pub round: usize,
    pub reason: String,
}

#[derive(Debug, Default, Serialize)]
pub struct Figures {
    figures: Vec<Figure>,
    curves: Vec<Curve>,
    failures: Vec<Failure>,
}

impl Figures {
    pub fn add(&mut self, peer: &str, name: Name, value: f64) {
        eprintln!("    {peer}: {} = {value:.3} {}", name.figure, name.unit);
        let known = self.figures.iter().position(|known| known.row == name.row && known.figure == name.figure);
        let index = known.unwrap_or_else(|| {
            let Name { row, figure, unit, goal } = name;
            self.figures.push(Figure { row, figure, unit, goal, samples: BTreeMap::new() });
            self.figures.len() - 1
        });
        self.figures[index].samples.entry(peer.to_owned()).or_default().push(value);
    }

    pub fn add_curve(&mut self, peer: &str, row: &'static str, figure: &str, points: Vec<f64>) {
        let known = self.curves.iter().position(|known| known.figure == figure);
        let index = known.unwrap_or_else(|| {
            self.curves.push(Curve { row, figure: figure.to_owned(), rounds: BTreeMap::new() });
            self.curves.len() - 1
        });
        self.curves[index].rounds.entry(peer.to_owned()).or_default().push(points);
    }

    pub fn fail(&mut self, failure: Failure) {
        eprintln!("    {}: {} FAILED: {}", failure.peer, failure.row, failure.reason);
        self.failures.push(failure);
    }

    pub fn failures(&self) -> &[Failure] {
        &self.failures
    }

    /// The median of a peer's samples so far.
    pub fn median(&self, peer: &str, row: &str, figure: &str) -> Option<f64> {
        let figure = self.figures.iter().find(|known| known.row == row && known.figure == figure)?;
        let mut samples = figure.samples.get(peer)?.clone();
        samples.sort_by(f64::total_cmp);
        samples.get(samples.len() / 2).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(figure: &str) -> Name {
        Name { row: "writes", figure: figure.to_owned(), unit: "/s", goal: Goal::RatioAtLeast(2.0) }
    }

    #[test]
    fn samples_gather_by_figure_and_peer() {
        let mut figures = Figures::default();
        for (peer, value) in [("gantry", 30.0), ("etcd", 10.0), ("gantry", 10.0), ("gantry", 20.0)] {
            figures.add(peer, name("a"), value);
        }
        figures.add("gantry", name("b"), 7.0);
        assert_eq!(figures.median("gantry", "writes", "a"), Some(20.0));
        assert_eq!(figures.median("etcd", "writes", "a"), Some(10.0));
        assert_eq!(figures.median("etcd", "writes", "b"), None);
        let json = serde_json::to_value(&figures).unwrap();
        assert_eq!(json["figures"][0]["samples"]["gantry"], serde_json::json!([30.0, 10.0, 20.0]));
        assert_eq!(json["figures"][0]["goal"], serde_json::json!({"kind": "ratio_at_least", "value": 2.0}));
        assert_eq!(json["figures"][1]["figure"], "b");
    }
}
