//! The benchmark of the API server: one real `gantry apiserver` on one member of each store group, TLS and fsync on, asked over
//! raw HTTP/2 with bodies that were made beforehand. Here is where everything happens; each row is a file of `rows`.

pub mod bodies;
pub mod load;
pub mod rows;
pub mod servers;
pub mod sizes;
pub mod tls_cost;
pub mod watchers;
pub mod wire;

use crate::storebench::{self, wire::tls};
use crate::tools;
use anyhow::Context;
use sizes::Sizes;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

/// Whose samples the figures are.
pub const PEER: &str = "gantry";

/// A caller: the certificate that it shows.
pub type Identity = Arc<rustls::ClientConfig>;

pub struct Lab {
    /// Folder, keys, programs and a runtime for questions between loads.
    pub store: storebench::Lab,
    pub sizes: Sizes,
}

impl Lab {
    /// Makes keys in `folder`.
    pub fn new(folder: &Path, sizes: Sizes) -> anyhow::Result<Self> {
        Ok(Self { store: storebench::Lab::new(folder, storebench::sizes::Sizes::FULL, None)?, sizes })
    }

    /// The exempt administrator.
    pub fn admin(&self) -> anyhow::Result<Identity> {
        self.identity("admin")
    }

    pub fn scheduler(&self) -> anyhow::Result<Identity> {
        self.identity("scheduler")
    }

    /// A person, who passes authorisation and the fair queue as anybody does.
    pub fn person(&self, name: &str) -> anyhow::Result<Identity> {
        let out = self.store.folder.join(format!("{name}.kubeconfig"));
        let mut issue = self.pki("client");
        issue.args([name, "--server", "https://127.0.0.1:6443", "--out"]).arg(out);
        tools::run(&mut issue)?;
        self.identity(&format!("client-{name}"))
    }

    /// The agents of the first machines.
    pub fn agents(&self, count: usize) -> anyhow::Result<Vec<Identity>> {
        let agent = |number| {
            let node = bodies::node_name(number);
            let file = format!("node-{node}");
            if !self.store.pki(&format!("{file}.crt")).is_file() {
                let mut issue = self.pki("node");
                issue.args([&node, "--ip", "127.0.0.1", "--server", "https://127.0.0.1:6443"]);
                tools::run(&mut issue)?;
            }
            self.identity(&file)
        };
        (0..count).map(agent).collect()
    }

    fn pki(&self, subcommand: &str) -> Command {
        let mut command = Command::new(&self.store.gantry);
        command.args(["pki", subcommand, "--data-dir"]).arg(&self.store.folder);
        command
    }

    fn identity(&self, file: &str) -> anyhow::Result<Identity> {
        tls(&self.store.pki(""), "ca", file).with_context(|| format!("the certificate of {file}"))
    }
}
