//! cgroup v2: one hierarchy; a controller works in a group only when its parent delegates it. Writes what it is given.

use std::io;
use std::path::{Path, PathBuf};

use super::{CgroupTree, Limits, below, child_names, remove_tree};

const DELEGATED: [&str; 5] = ["cpuset", "cpu", "io", "memory", "pids"];

pub struct V2 {
    root: PathBuf,
}

impl V2 {
    /// `root` is usually `/sys/fs/cgroup`.
    pub fn new(root: &Path) -> Self {
        Self { root: root.to_owned() }
    }

    /// Every group above the last one delegates what the machine has.
    fn delegate(&self, path: &str) -> io::Result<()> {
        let available = std::fs::read_to_string(self.root.join("cgroup.controllers"))?;
        let wanted: Vec<String> =
            available.split_whitespace().filter(|c| DELEGATED.contains(c)).map(|c| format!("+{c}")).collect();
        let mut dir = self.root.clone();
        for part in path.trim_matches('/').split('/') {
            std::fs::write(dir.join("cgroup.subtree_control"), wanted.join(" "))?;
            dir.push(part);
            std::fs::create_dir_all(&dir)?;
        }
        // The pod's group delegates to its containers.
        std::fs::write(dir.join("cgroup.subtree_control"), wanted.join(" "))
    }
}

impl CgroupTree for V2 {
    fn ensure(&self, path: &str, limits: &Limits) -> io::Result<()> {
        self.delegate(path)?;
        let dir = below(&self.root, path);
        if let Some(shares) = limits.cpu_shares {
            std::fs::write(dir.join("cpu.weight"), Limits::cpu_weight(shares).to_string())?;
        }
        let quota = limits.cpu_quota_us.map_or_else(|| "max".to_owned(), |q| q.to_string());
        std::fs::write(dir.join("cpu.max"), format!("{quota} {}", Limits::PERIOD_US))?;
        let memory = limits.memory_bytes.map_or_else(|| "max".to_owned(), |b| b.to_string());
        std::fs::write(dir.join("memory.max"), memory)
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        remove_tree(&below(&self.root, path))
    }

    fn children(&self, path: &str) -> Vec<String> {
        child_names(&below(&self.root, path))
    }
}
