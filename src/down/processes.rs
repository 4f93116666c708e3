//! Finding and killing container processes: by the cgroups that pods live under, and by the shims of one containerd.
//!
//! It never kills a process that is in neither.

use anyhow::Context;
use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// One cgroup path in every hierarchy of the machine (cgroup v1 has several, v2 one).
#[derive(Debug)]
pub struct Cgroups {
    roots: Vec<PathBuf>,
}

impl Cgroups {
    /// `root` is a path such as `/gantry`; the hierarchy roots themselves are never taken.
    pub fn under(mount: &Path, root: &str) -> Self {
        let relative = root.trim_matches('/');
        if relative.is_empty() || relative.split('/').any(|part| part == "..") {
            return Self { roots: vec![] };
        }
        let hierarchies = std::fs::read_dir(mount).map(|entries| entries.flatten().map(|e| e.path()).collect());
        let mut candidates: Vec<PathBuf> = hierarchies.unwrap_or_default();
        candidates.push(mount.to_owned());
        let mut roots: Vec<PathBuf> = candidates
            .iter()
            .filter_map(|hierarchy| std::fs::canonicalize(hierarchy).ok())
            .map(|hierarchy| hierarchy.join(relative))
            .filter(|path| path.join("cgroup.procs").exists())
            .collect();
        roots.sort();
        roots.dedup();
        Self { roots }
    }

    pub fn processes(&self) -> BTreeSet<i32> {
        self.folders().iter().flat_map(|folder| ids_in(&folder.join("cgroup.procs"))).collect()
    }

    /// Removes the folders, children first. Their processes are gone by now.
    pub fn remove(&self) -> anyhow::Result<()> {
        let mut folders = self.folders();
        folders.sort_by_key(|folder| std::cmp::Reverse(folder.components().count()));
        for folder in folders {
            match std::fs::remove_dir(&folder) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(error).with_context(|| format!("removing the cgroup {}", folder.display()));
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn folders(&self) -> Vec<PathBuf> {
        let mut found = vec![];
        let mut open = self.roots.clone();
        while let Some(folder) = open.pop() {
            if let Ok(entries) = std::fs::read_dir(&folder) {
                open.extend(entries.flatten().filter(|e| e.file_type().is_ok_and(|t| t.is_dir())).map(|e| e.path()));
            }
            found.push(folder);
        }
        found
    }
}

fn ids_in(file: &Path) -> Vec<i32> {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    text.lines().filter_map(|line| line.trim().parse().ok()).filter(|id| *id > 0).collect()
}

/// The shims of the containerd on `socket`, and their children: containers whose cgroup is elsewhere.
pub fn shims_of(socket: &Path) -> BTreeSet<i32> {
    let ids = std::fs::read_dir("/proc").map(|entries| {
        entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok()).collect::<Vec<_>>()
    });
    let ids = ids.unwrap_or_default();
    let shims: BTreeSet<i32> = ids.iter().copied().filter(|id| is_shim(*id, socket)).collect();
    let children = ids.iter().copied().filter(|id| parent_of(*id).is_some_and(|parent| shims.contains(&parent)));
    children.chain(shims.iter().copied()).collect()
}

fn is_shim(id: i32, socket: &Path) -> bool {
    let Ok(line) = std::fs::read(format!("/proc/{id}/cmdline")) else { return false };
    let words: Vec<&[u8]> = line.split(|byte| *byte == 0).collect();
    let program = words.first().copied().unwrap_or_default();
    let address = words.iter().position(|word| *word == b"-address").and_then(|at| words.get(at + 1));
    program.ends_with(b"containerd-shim-runc-v2")
        && address.is_some_and(|address| *address == socket.as_os_str().as_encoded_bytes())
}

/// Field 4 of /proc/ID/stat; the name in field 2 may hold spaces and parentheses.
fn parent_of(id: i32) -> Option<i32> {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

/// SIGKILLs what `find` finds until it finds nothing.
pub async fn kill_until_none(find: impl Fn() -> BTreeSet<i32>, patience: Duration) -> anyhow::Result<()> {
    let deadline = tokio::time::Instant::now() + patience;
    loop {
        let found = find();
        if found.is_empty() {
            return Ok(());
        }
        anyhow::ensure!(tokio::time::Instant::now() < deadline, "these processes do not end: {found:?}");
        for id in found {
            if let Some(pid) = Pid::from_raw(id) {
                // It may have ended since it was found.
                let _ = kill_process(pid, Signal::KILL);
            }
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hierarchy_root_is_never_taken() {
        for root in ["", "/", "/../x"] {
            assert!(Cgroups::under(Path::new("/sys/fs/cgroup"), root).roots.is_empty(), "{root}");
        }
    }

    #[test]
    fn a_tree_is_found_and_removed_children_first() {
        let scratch = tempfile::tempdir().unwrap();
        let pod = scratch.path().join("cpu/gantry/burstable/pod1");
        std::fs::create_dir_all(&pod).unwrap();
        std::fs::create_dir_all(scratch.path().join("memory/other")).unwrap();
        std::fs::write(scratch.path().join("cpu/gantry/cgroup.procs"), "").unwrap();
        let cgroups = Cgroups::under(scratch.path(), "/gantry");
        assert_eq!(cgroups.roots, [std::fs::canonicalize(scratch.path()).unwrap().join("cpu/gantry")]);
        // Unlike in a real hierarchy, the file has to go before its folder can.
        std::fs::remove_file(scratch.path().join("cpu/gantry/cgroup.procs")).unwrap();
        cgroups.remove().unwrap();
        assert!(!scratch.path().join("cpu/gantry").exists() && scratch.path().join("memory/other").exists());
    }

    #[test]
    fn a_parent_is_read_from_stat() {
        assert_eq!(parent_of(std::process::id() as i32), Some(std::os::unix::process::parent_id() as i32));
    }
}
