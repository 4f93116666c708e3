//! Measures our scheduler, through an API server and stores, from outside, and prints one JSON report: samples only, no judgement.
//! `cargo xtask bench scheduler` builds, runs this and the decision core's own benchmark, and writes the words.

use anyhow::Context;
use clap::Parser;
use gantry_conformance::apibench::sizes::Sizes;
use gantry_conformance::apibench::{self, PEER};
use gantry_conformance::schedbench::{self, FLOOR, Lab, Row};
use gantry_conformance::storebench::{interrupt, latency};
use gantry_conformance::{namespace, readings};
use serde_json::json;
use std::path::PathBuf;

#[derive(Parser)]
struct Arguments {
    /// Rounds of each row; the heavy ones have their own number
    #[arg(long, default_value_t = 3)]
    runs: usize,
    /// Rounds of rows that take minutes and vary little: burst, pipeline, start
    #[arg(long, default_value_t = 1)]
    heavy_runs: usize,
    /// Only rows of this name (repeatable); a name that ends in * stands for all that begin so
    #[arg(long, value_name = "ROW")]
    only: Vec<String>,
    /// So much of every count of machines and pods; less than 1 is a quick look, whose figures mean little
    #[arg(long, default_value_t = 1.0, value_name = "SHARE")]
    scale: f64,
    /// Where the stores' data lies while they run; not a tmpfs
    #[arg(long, default_value = ".", value_name = "DIR")]
    dir: PathBuf,
}

fn wanted(only: &[String], name: &str) -> bool {
    let matches = |pattern: &String| match pattern.strip_suffix('*') {
        Some(begin) => name.starts_with(begin),
        None => name == pattern,
    };
    only.is_empty() || only.iter().any(matches)
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let all = Row::all();
    let rows: Vec<Row> = all.iter().copied().filter(|row| wanted(&arguments.only, row.name())).collect();
    let names = || all.iter().map(Row::name).collect::<Vec<_>>().join(", ");
    anyhow::ensure!(!rows.is_empty(), "no such row; there are: {}", names());
    let scale = arguments.scale;
    anyhow::ensure!(scale > 0.0 && scale <= 1.0, "--scale {scale}: a share above 0 and up to 1 is needed");
    namespace::enter()?;
    let folder = tempfile::Builder::new().prefix("schedbench-").tempdir_in(&arguments.dir).context("--dir")?;
    interrupt::watch(folder.path().to_path_buf())?;
    readings::on_disk(folder.path())?;
    let sync = readings::fdatasync_us(folder.path(), 500)?;
    let lab = Lab { api: apibench::Lab::new(folder.path(), Sizes::FULL)?, scale };
    let rounds = |row: &Row| if row.heavy() { arguments.heavy_runs } else { arguments.runs };
    let figures = schedbench::run(&lab, &rows, &rounds);
    let report = json!({
        "machine": readings::machine(),
        "fdatasync_us": sync,
        "quick": scale < 1.0,
        "peers": [PEER, FLOOR],
        "curve": latency::CURVE,
        "results": figures,
    });
    println!("{report}");
    Ok(())
}
