//! Which data directory uses which of the machine's names: one file each in a folder outside all of them. It decides whether
//! two get into each other's way. It never changes what a claim stands for.

use super::Footprint;
use crate::datadir::{DataDir, make_dir, write_file};
use anyhow::Context;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fs::File;
use std::path::{Path, PathBuf};

/// Gone with the next start of the machine, as the names themselves are.
const OF_THIS_MACHINE: &str = "/run/gantry/nodes";

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Claim {
    pub data_dir: PathBuf,
    pub footprint: Footprint,
}

/// Names that two data directories would both use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Clash {
    Cgroup,
    Network,
}

impl Claim {
    /// `down` ends everything below its cgroup, so one root within the other clashes too.
    pub fn clash(&self, other: &Footprint) -> Option<Clash> {
        let root = |footprint: &Footprint| Path::new("/").join(footprint.cgroup_root.trim_matches('/'));
        let (mine, theirs) = (root(&self.footprint), root(other));
        if mine.starts_with(&theirs) || theirs.starts_with(&mine) {
            return Some(Clash::Cgroup);
        }
        (self.footprint.network_namespace == other.network_namespace).then_some(Clash::Network)
    }

    /// A claim whose data directory no longer says the same is left over.
    fn is_stale(&self) -> bool {
        let read = DataDir::new(&self.data_dir).and_then(|data| Footprint::read(&data));
        !matches!(read, Ok(Some(footprint)) if footprint == self.footprint)
    }
}

pub struct Claims {
    dir: PathBuf,
}

/// Held while claims are judged and written: of two that start at once, one sees the other.
#[must_use]
pub struct Held {
    _dir: File,
}

impl Claims {
    pub fn of_this_machine() -> Self {
        Self::at(Path::new(OF_THIS_MACHINE))
    }

    pub fn at(dir: &Path) -> Self {
        Self { dir: dir.to_owned() }
    }

    pub fn hold(&self) -> anyhow::Result<Held> {
        make_dir(&self.dir, 0o755)?;
        let describe = || format!("locking {}", self.dir.display());
        let dir = File::open(&self.dir).with_context(describe)?;
        rustix::fs::flock(&dir, rustix::fs::FlockOperation::LockExclusive).with_context(describe)?;
        Ok(Held { _dir: dir })
    }

    /// Claims of other data directories that still stand. A file that cannot be read claims nothing.
    pub fn of_others(&self, data: &DataDir) -> Vec<Claim> {
        let own = self.file(data);
        let files = std::fs::read_dir(&self.dir).into_iter().flatten().flatten().map(|entry| entry.path());
        let read = |path: PathBuf| serde_json::from_slice::<Claim>(&std::fs::read(path).ok()?).ok();
        files.filter(|path| *path != own).filter_map(read).filter(|claim| !claim.is_stale()).collect()
    }

    pub fn write(&self, data: &DataDir, footprint: &Footprint) -> anyhow::Result<()> {
        let claim = Claim { data_dir: identity(data), footprint: footprint.clone() };
        write_file(&self.file(data), &serde_json::to_vec_pretty(&claim)?, 0o644)
    }

    pub fn remove(&self, data: &DataDir) {
        let _ = std::fs::remove_file(self.file(data));
    }

    fn file(&self, data: &DataDir) -> PathBuf {
        let digest = Sha256::digest(identity(data).as_os_str().as_encoded_bytes());
        let name: String = digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
        self.dir.join(format!("{name}.json"))
    }
}

/// One directory has one name, whatever links lead to it.
fn identity(data: &DataDir) -> PathBuf {
    std::fs::canonicalize(data.root()).unwrap_or_else(|_| data.root().to_owned())
}
