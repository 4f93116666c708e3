//! Measures our store and etcd from outside and prints one JSON report: samples only, no judgement. `cargo xtask bench
//! store` builds, runs this and writes the words.

use anyhow::Context;
use clap::Parser;
use gantry_conformance::storebench::rows::{ROWS, Row};
use gantry_conformance::storebench::sizes::Sizes;
use gantry_conformance::storebench::{Lab, Peer, interrupt, latency, run};
use gantry_conformance::{namespace, readings, tools};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::time::Duration;

#[derive(Parser)]
struct Arguments {
    /// Rounds of each row; the heavy ones have their own number
    #[arg(long, default_value_t = 5)]
    runs: usize,
    /// Rounds of rows that take minutes and vary little
    #[arg(long, default_value_t = 1)]
    heavy_runs: usize,
    /// Only rows whose name contains this (repeatable)
    #[arg(long, value_name = "ROW")]
    only: Vec<String>,
    /// Against which etcd: a program, `auto` (the newest that is installed) or `none` (repeatable)
    #[arg(long, default_value = "auto", value_name = "PROGRAM|auto|none")]
    peer: Vec<String>,
    /// Everything small and short; the figures mean little
    #[arg(long)]
    quick: bool,
    /// How long five members take their load
    #[arg(long, value_name = "SECONDS")]
    five_s: Option<u64>,
    /// Where the members' data lies while they run; not a tmpfs
    #[arg(long, default_value = ".", value_name = "DIR")]
    dir: PathBuf,
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let rows: Vec<&Row> = ROWS.iter().filter(|row| wanted(row, &arguments.only)).collect();
    anyhow::ensure!(!rows.is_empty(), "no such row; there are: {}", names());
    namespace::enter()?;
    let mut sizes = if arguments.quick { Sizes::QUICK } else { Sizes::FULL };
    if let Some(seconds) = arguments.five_s {
        sizes.five_members = Duration::from_secs(seconds);
    }
    let folder = tempfile::Builder::new().prefix("storebench-").tempdir_in(&arguments.dir).context("--dir")?;
    interrupt::watch(folder.path().to_path_buf())?;
    readings::on_disk(folder.path())?;
    let sync = readings::fdatasync_us(folder.path(), 500)?;
    let mut peers = vec![Peer::Gantry];
    for peer in &arguments.peer {
        peers.extend(find(peer)?);
    }
    let lab = Lab::new(folder.path(), sizes, peers.get(1).cloned())?;
    let rounds = |row: &Row| if row.heavy { arguments.heavy_runs } else { arguments.runs };
    let figures = run(&lab, &peers, &rows, &rounds);
    let names: Vec<&str> = peers.iter().map(Peer::name).collect();
    let report = json!({
        "machine": readings::machine(),
        "fdatasync_us": sync,
        "quick": arguments.quick,
        "peers": names,
        "curve": latency::CURVE,
        "results": figures,
    });
    println!("{report}");
    Ok(())
}

fn wanted(row: &Row, only: &[String]) -> bool {
    only.is_empty() || only.iter().any(|part| row.name.contains(part.as_str()))
}

fn names() -> String {
    ROWS.iter().map(|row| row.name).collect::<Vec<_>>().join(", ")
}

/// `auto` prefers the newer one that `conformance/tools.sh` installs to the distribution's.
fn find(peer: &str) -> anyhow::Result<Option<Peer>> {
    let newer = tools::repository().join(".dev/tools/etcd/etcd");
    match peer {
        "none" => Ok(None),
        "auto" if newer.is_file() => Peer::etcd(&newer).map(Some),
        "auto" => {
            Peer::etcd(Path::new("etcd")).map(Some).context("no etcd: run `conformance/tools.sh`, or --peer none")
        }
        program => Peer::etcd(Path::new(program)).map(Some),
    }
}
