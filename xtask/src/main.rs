//! `cargo xtask`: which checks, fixes and reports the repository has. The decisions are in the modules; nothing here ships.

mod bench;
mod codegen;
mod licences;
mod tidy;

use clap::{Parser, Subcommand};
use std::path::{Path, PathBuf};
use std::process::Command;

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Checks, fixes, code generation and benchmarks of the Gantry repository")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// All read-only checks: formatting, clippy, tidy, licences
    Verify,
    /// Formats the tree
    Fix,
    /// House rules: crate edges, file and function sizes, first-line docs
    Tidy,
    /// Every dependency's licence is on the allowed list
    Licences,
    /// Makes the schema tables anew from their sources
    Codegen,
    /// Runs simulated groups of the store, each from a seed of its own; a finding names the seed that replays it
    Sim {
        #[arg(long, default_value_t = 1_000)]
        seeds: u64,
        /// The first seed
        #[arg(long, default_value_t = 1)]
        seed: u64,
    },
    /// Feeds changed and random bytes to the store's decoders
    Fuzz {
        /// Inputs per decoder
        #[arg(long, default_value_t = 1_000_000)]
        cases: u32,
    },
    /// Measures, and writes docs/benchmarks.md
    Bench {
        /// What to measure: first-light, store, api, scheduler
        name: String,
        /// Runs per figure; the median is reported
        #[arg(long, default_value_t = 5)]
        runs: usize,
        /// Takes what the measuring program printed elsewhere (with the same words) instead of building and measuring here
        #[arg(long, value_name = "FILE")]
        report: Option<PathBuf>,
        /// Further words for the measuring program, as in `bench store -- --only rates` (`-- --help` lists them)
        #[arg(last = true)]
        further: Vec<String>,
    },
}

/// Unit tests as CI builds them, so that nothing is compiled twice.
const TEST: [&str; 4] = ["test", "--release", "--workspace", "--lib"];

fn main() -> anyhow::Result<()> {
    let root = root();
    match Arguments::parse().task {
        Task::Verify => verify(&root),
        Task::Fix => run(Command::new("cargo").args(["fmt", "--all"]).current_dir(&root)),
        Task::Tidy => tidy::run(&root),
        Task::Licences => licences::run(&root),
        Task::Codegen => codegen::run(),
        Task::Sim { seeds, seed } => run(Command::new("cargo")
            .args(TEST)
            .args(["sim::tests::seeds_find_nothing", "--", "--nocapture"])
            .env("GANTRY_SIM_SEEDS", seeds.to_string())
            .env("GANTRY_SIM_SEED", seed.to_string())
            .current_dir(&root)),
        Task::Fuzz { cases } => run(Command::new("cargo")
            .args(TEST)
            .args(["fuzz::", "--", "--nocapture"])
            .env("PROPTEST_CASES", cases.to_string())
            .current_dir(&root)),
        Task::Bench { name, runs, report, further } => {
            bench::run(&root, &bench::Wanted { name, runs, report, further })
        }
    }
}

fn verify(root: &Path) -> anyhow::Result<()> {
    run(Command::new("cargo").args(["fmt", "--all", "--check"]).current_dir(root))?;
    tidy::run(root)?;
    licences::run(root)?;
    let clippy = ["clippy", "--release", "--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"];
    run(Command::new("cargo").args(clippy).current_dir(root))?;
    println!("verify: formatting, house rules, licences and clippy hold");
    Ok(())
}

/// The workspace's root: the parent of this crate's folder.
fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().expect("xtask is a member of the workspace").to_path_buf()
}

/// Runs a command to its end; its failure is an error that names it.
fn run(command: &mut Command) -> anyhow::Result<()> {
    let status = command.status().map_err(|error| anyhow::anyhow!("{command:?} did not start: {error}"))?;
    anyhow::ensure!(status.success(), "{command:?} failed: {status}");
    Ok(())
}
