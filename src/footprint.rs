//! What a running node leaves in the kernel under names of its own choice: written down before it is made, so that
//! `gantry down` finds it also after a crash. It never removes anything itself.

use crate::datadir::{DataDir, write_file};
use crate::problem::Problem;
use anyhow::Context;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

const VERSION: u32 = 1;

/// Names outside the data directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Footprint {
    version: u32,
    pub cgroup_root: String,
    pub nft_table: String,
    pub dns_link: String,
    /// The network namespace that the table and the link are in, as /proc/self/ns/net names it.
    pub network_namespace: String,
}

impl Footprint {
    pub fn new(cgroup_root: &str, nft_table: &str, dns_link: &str) -> Self {
        Self {
            version: VERSION,
            cgroup_root: cgroup_root.to_owned(),
            nft_table: nft_table.to_owned(),
            dns_link: dns_link.to_owned(),
            network_namespace: network_namespace(),
        }
    }

    /// Writes it down, unless this data directory has left something under other names: `gantry down` would miss that.
    pub fn claim(&self, data: &DataDir) -> anyhow::Result<()> {
        if let Some(old) = Self::read(data)?.filter(|old| old.network_namespace == self.network_namespace) {
            self.same_names(&old, data)?;
        }
        write_file(&path(data), &serde_json::to_vec_pretty(self)?, 0o644)
    }

    fn same_names(&self, old: &Self, data: &DataDir) -> Result<(), Problem> {
        for (flag, old, new) in [
            ("--cgroup-root", &old.cgroup_root, &self.cgroup_root),
            ("--nft-table", &old.nft_table, &self.nft_table),
            ("--dns-link", &old.dns_link, &self.dns_link),
        ] {
            if old != new {
                return Err(Problem::new(format!(
                    "{flag} {new}: {} was started with {old} and may still use it; run `gantry down --data-dir {}` first",
                    data.root().display(),
                    data.root().display(),
                )));
            }
        }
        Ok(())
    }

    /// `None` when this data directory never ran a node.
    pub fn read(data: &DataDir) -> anyhow::Result<Option<Self>> {
        let path = path(data);
        match std::fs::read(&path) {
            Ok(bytes) => {
                serde_json::from_slice(&bytes).map(Some).with_context(|| format!("reading {}", path.display()))
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).with_context(|| format!("reading {}", path.display())),
        }
    }

    pub fn forget(data: &DataDir) {
        let _ = std::fs::remove_file(path(data));
    }
}

fn path(data: &DataDir) -> PathBuf {
    data.run().join("footprint.json")
}

/// The identity of this process's network namespace, such as `net:[4026531840]`.
pub fn network_namespace() -> String {
    std::fs::read_link("/proc/self/ns/net").map(|link| link.to_string_lossy().into_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read() {
        let scratch = tempfile::tempdir().unwrap();
        let data = DataDir::new(scratch.path()).unwrap();
        data.create().unwrap();
        assert_eq!(Footprint::read(&data).unwrap(), None);
        let footprint = Footprint::new("/gantry", "gantry", "gantry-dns");
        footprint.claim(&data).unwrap();
        footprint.claim(&data).unwrap();
        assert_eq!(Footprint::read(&data).unwrap(), Some(footprint.clone()));
        let other = Footprint::new("/gantry", "other", "gantry-dns");
        let refused = other.claim(&data).unwrap_err().to_string();
        assert!(refused.starts_with("--nft-table other:") && refused.contains("gantry down"), "{refused}");
        Footprint::forget(&data);
        other.claim(&data).unwrap();
        Footprint::forget(&data);
        assert_eq!(Footprint::read(&data).unwrap(), None);
    }
}
