//! Measures an API server of ours from outside and prints one JSON report: samples only, no judgement. `cargo xtask bench api`
//! builds, runs this and writes the words.

use anyhow::Context;
use clap::Parser;
use gantry_conformance::apibench::rows::{self, ROWS, Row};
use gantry_conformance::apibench::sizes::Sizes;
use gantry_conformance::apibench::{Lab, PEER};
use gantry_conformance::storebench::{interrupt, latency};
use gantry_conformance::{namespace, readings};
use serde_json::json;
use std::path::PathBuf;

#[derive(Parser)]
struct Arguments {
    /// Rounds of each row; the heavy ones have their own number
    #[arg(long, default_value_t = 3)]
    runs: usize,
    /// Rounds of rows that take minutes and vary little
    #[arg(long, default_value_t = 1)]
    heavy_runs: usize,
    /// Only rows whose name contains this (repeatable)
    #[arg(long, value_name = "ROW")]
    only: Vec<String>,
    /// Everything small and short; the figures mean little
    #[arg(long)]
    quick: bool,
    /// Pods of the row `population`
    #[arg(long, value_name = "COUNT")]
    pods: Option<u64>,
    /// So many of them are there when all are listed
    #[arg(long, value_name = "COUNT")]
    listed_pods: Option<u64>,
    /// ConfigMaps of the row `empty`
    #[arg(long, value_name = "COUNT")]
    config_maps: Option<u64>,
    /// Writes of each kind in the row `costs`
    #[arg(long, value_name = "COUNT")]
    writes: Option<u64>,
    /// Where the stores' data lies while they run; not a tmpfs
    #[arg(long, default_value = ".", value_name = "DIR")]
    dir: PathBuf,
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let wanted = |row: &&Row| arguments.only.is_empty() || arguments.only.iter().any(|part| row.name.contains(&**part));
    let rows: Vec<&Row> = ROWS.iter().filter(wanted).collect();
    let names = || ROWS.iter().map(|row| row.name).collect::<Vec<_>>().join(", ");
    anyhow::ensure!(!rows.is_empty(), "no such row; there are: {}", names());
    namespace::enter()?;
    let mut sizes = if arguments.quick { Sizes::QUICK } else { Sizes::FULL };
    sizes.pods = arguments.pods.unwrap_or(sizes.pods);
    sizes.listed_pods = arguments.listed_pods.unwrap_or(sizes.listed_pods).min(sizes.pods);
    sizes.config_maps = arguments.config_maps.unwrap_or(sizes.config_maps);
    sizes.writes = arguments.writes.unwrap_or(sizes.writes);
    let folder = tempfile::Builder::new().prefix("apibench-").tempdir_in(&arguments.dir).context("--dir")?;
    interrupt::watch(folder.path().to_path_buf())?;
    readings::on_disk(folder.path())?;
    let sync = readings::fdatasync_us(folder.path(), 500)?;
    let lab = Lab::new(folder.path(), sizes)?;
    let rounds = |row: &Row| if row.heavy { arguments.heavy_runs } else { arguments.runs };
    let figures = rows::run(&lab, &rows, &rounds);
    let report = json!({
        "machine": readings::machine(),
        "fdatasync_us": sync,
        "quick": arguments.quick,
        "peers": [PEER],
        "curve": latency::CURVE,
        "results": figures,
    });
    println!("{report}");
    Ok(())
}
