//! cgroup v1: one hierarchy per controller, each a directory. Writes what it is given.

use std::io;
use std::path::{Path, PathBuf};

use super::{CgroupTree, Limits, below, child_names, remove_tree};

/// The controllers whose files the agent writes; the runtime makes what it needs in the others.
const WRITTEN: [&str; 3] = ["cpu", "memory", "pids"];

pub struct V1 {
    root: PathBuf,
}

impl V1 {
    /// `root` is usually `/sys/fs/cgroup`.
    pub fn new(root: &Path) -> Self {
        Self { root: root.to_owned() }
    }
    fn hierarchies(&self) -> Vec<PathBuf> {
        // `cpu` may be a link to `cpu,cpuacct`: a link is not a directory here, so nothing is visited twice.
        child_names(&self.root).into_iter().map(|name| self.root.join(name)).collect()
    }
    fn dir(&self, controller: &str, path: &str) -> Option<PathBuf> {
        let hierarchy = self.root.join(controller);
        hierarchy.is_dir().then(|| below(&hierarchy, path))
    }
}

impl CgroupTree for V1 {
    fn ensure(&self, path: &str, limits: &Limits) -> io::Result<()> {
        for controller in WRITTEN {
            if let Some(dir) = self.dir(controller, path) {
                std::fs::create_dir_all(dir)?;
            }
        }
        if let Some(dir) = self.dir("cpu", path) {
            if let Some(shares) = limits.cpu_shares {
                std::fs::write(dir.join("cpu.shares"), shares.to_string())?;
            }
            if let Some(quota) = limits.cpu_quota_us {
                std::fs::write(dir.join("cpu.cfs_period_us"), Limits::PERIOD_US.to_string())?;
                std::fs::write(dir.join("cpu.cfs_quota_us"), quota.to_string())?;
            }
        }
        if let (Some(dir), Some(bytes)) = (self.dir("memory", path), limits.memory_bytes) {
            std::fs::write(dir.join("memory.limit_in_bytes"), bytes.to_string())?;
        }
        Ok(())
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        self.hierarchies().iter().try_for_each(|h| remove_tree(&below(h, path)))
    }

    fn children(&self, path: &str) -> Vec<String> {
        let mut names: Vec<String> = self.hierarchies().iter().flat_map(|h| child_names(&below(h, path))).collect();
        names.sort();
        names.dedup();
        names
    }
}
