//! The benchmark of the store: our members and etcd's, side by side on one machine, under one load generator that speaks etcd
//! v3 to both. Here are the peers and the order in which they take their turns; each row is a file of `rows`.

pub mod figures;
pub mod interrupt;
pub mod latency;
pub mod load;
pub mod rows;
pub mod servers;
pub mod sizes;
pub mod wire;

use crate::tools;
use anyhow::Context;
use figures::{Failure, Figures};
use rows::Row;
use sizes::Sizes;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

/// What takes its turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Peer {
    Gantry,
    Etcd { name: String, program: PathBuf },
}

impl Peer {
    pub fn name(&self) -> &str {
        match self {
            Self::Gantry => "gantry",
            Self::Etcd { name, .. } => name,
        }
    }

    /// An etcd, named by its own version.
    pub fn etcd(program: &Path) -> anyhow::Result<Self> {
        let said = tools::run(Command::new(program).arg("--version"))?;
        let version = said.lines().find_map(|line| line.strip_prefix("etcd Version: "));
        let version = version.with_context(|| format!("{}: not an etcd: {said}", program.display()))?;
        Ok(Self::Etcd { name: format!("etcd {}", version.trim()), program: program.to_path_buf() })
    }
}

/// Where everything happens.
pub struct Lab {
    /// On the disk that is measured.
    pub folder: PathBuf,
    pub gantry: PathBuf,
    pub tls: Arc<rustls::ClientConfig>,
    pub sizes: Sizes,
    /// Whom ours is compared with in rows that need one of its figures.
    pub rival: Option<Peer>,
    /// Of the load generator.
    pub threads: usize,
    /// For questions between loads.
    runtime: tokio::runtime::Runtime,
}

impl Lab {
    /// Makes keys in `folder`.
    pub fn new(folder: &Path, sizes: Sizes, rival: Option<Peer>) -> anyhow::Result<Self> {
        let gantry = tools::gantry()?;
        let mut init = Command::new(&gantry);
        init.args(["pki", "init", "--node-name", "bench", "--node-ip", "127.0.0.1", "--data-dir"]).arg(folder);
        tools::run(&mut init)?;
        let threads = std::thread::available_parallelism().map_or(1, usize::from).min(4);
        let tls = wire::tls(&folder.join("pki"), "store-ca", "store-peer")?;
        Ok(Self { folder: folder.to_path_buf(), gantry, tls, sizes, rival, threads, runtime: load::runtime()? })
    }

    pub fn pki(&self, file: &str) -> PathBuf {
        self.folder.join("pki").join(file)
    }

    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        self.runtime.block_on(future)
    }
}

/// Runs the rows, each in so many rounds as it wants at most, and the peers in turns: who is first alternates.
pub fn run(lab: &Lab, peers: &[Peer], rows: &[&Row], rounds: &dyn Fn(&Row) -> usize) -> Figures {
    let mut figures = Figures::default();
    let most = rows.iter().map(|row| rounds(row)).max().unwrap_or(0);
    for round in 0..most {
        for row in rows.iter().filter(|row| round < rounds(row)) {
            let mut turn: Vec<&Peer> = peers.iter().filter(|peer| !row.alone || **peer == Peer::Gantry).collect();
            if round % 2 == 1 {
                turn.reverse();
            }
            for peer in turn {
                eprintln!("round {} of {}, {}: {}", round + 1, rounds(row), row.name, peer.name());
                if let Err(error) = (row.run)(lab, peer, &mut figures) {
                    let reason = format!("{error:#}");
                    figures.fail(Failure { row: row.name, peer: peer.name().to_owned(), round: round + 1, reason });
                }
            }
        }
    }
    figures
}
