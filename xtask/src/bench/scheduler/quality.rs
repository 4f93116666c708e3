//! What sampling strands: the rows that the core's own test prints, as a plot.

use crate::bench::plot::{self, Along, Line, Panel};
use anyhow::Context;
use serde::Deserialize;
use std::path::Path;
use std::process::{Command, Stdio};

/// A full cluster, twice.
#[derive(Deserialize)]
struct Row {
    band: String,
    seed: u64,
    sampled: Left,
    exhaustive: Left,
}

/// In thousandths of the cluster.
#[derive(Deserialize)]
struct Left {
    cpu: f64,
    memory: f64,
}

/// Runs the test and draws what it found.
pub fn measure(root: &Path) -> anyhow::Result<String> {
    let output = Command::new("cargo")
        .args(["test", "--quiet", "--release", "-p", "gantry-scheduler", "--test", "quality", "--", "--nocapture"])
        .env("GANTRY_QUALITY", "json")
        .current_dir(root)
        .stderr(Stdio::inherit())
        .output()
        .context("the test of quality did not start")?;
    anyhow::ensure!(output.status.success(), "the test of quality failed: {}", output.status);
    draw(&String::from_utf8_lossy(&output.stdout))
}

fn draw(text: &str) -> anyhow::Result<String> {
    let lines = text.lines().filter(|line| line.starts_with('{'));
    let rows: Vec<Row> =
        lines.map(|line| serde_json::from_str(line).with_context(|| line.to_owned())).collect::<Result<_, _>>()?;
    anyhow::ensure!(!rows.is_empty(), "the test of quality printed nothing");
    let line = |label: &str, of: fn(&Row) -> f64| Line {
        label: label.to_owned(),
        points: rows.iter().map(|row| of(row) / 10.0).collect(),
    };
    let panel = |title: &str, sampled: fn(&Row) -> f64, exhaustive: fn(&Row) -> f64| Panel {
        title: title.to_owned(),
        lines: vec![line("a sample of 5 %", sampled), line("every machine", exhaustive)],
    };
    let points = rows.iter().map(|row| format!("{}, workload {}", row.band, row.seed)).collect();
    let along = Along { title: "band and workload".to_owned(), points };
    let panels = [
        panel("CPU left over in a full cluster", |row| row.sampled.cpu, |row| row.exhaustive.cpu),
        panel("Memory left over in a full cluster", |row| row.sampled.memory, |row| row.exhaustive.memory),
    ];
    Ok(plot::groups("% of the cluster", &along, &panels))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_become_a_plot_and_no_rows_an_error() {
        let row = r#"{"band":"batch","seed":1,"sampled":{"cpu":24,"memory":260},"exhaustive":{"cpu":26,"memory":259}}"#;
        let svg = draw(&format!("running 1 test\n{row}\n")).unwrap();
        assert!(
            svg.contains("batch, workload 1") && svg.contains(">a sample of 5 %</text>") && !svg.contains("polyline")
        );
        assert!(draw("running 1 test\n").is_err());
    }
}
