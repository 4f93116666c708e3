//! The kernel's resource limits of whole pods: where each pod's cgroup is and what it is given. Containers' own limits
//! go through the runtime. Decides paths and numbers; the trees (`v1`, `v2`) write them.

pub mod limits;
pub mod qos;
mod v1;
mod v2;

#[cfg(test)]
mod tests;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use limits::{Limits, container_resources, pod_limits};
pub use qos::Class;
pub use v1::V1;
pub use v2::V2;

use crate::api::PodSpec;

/// A cgroup hierarchy, or the set of them. Paths are like `/gantry/burstable/podUID`.
pub trait CgroupTree: Send + Sync {
    /// Makes the group and its parents, and writes the limits. Repeating it changes nothing.
    fn ensure(&self, path: &str, limits: &Limits) -> io::Result<()>;
    /// Removes the group and what is below it, in every hierarchy. Fails while a process is in it; gone is fine.
    fn remove(&self, path: &str) -> io::Result<()>;
    /// The names directly below a group.
    fn children(&self, path: &str) -> Vec<String>;
}

/// The tree that this machine has: v2 when it is mounted alone, else v1.
pub fn detect(root: &Path) -> Arc<dyn CgroupTree> {
    if root.join("cgroup.controllers").exists() { Arc::new(V2::new(root)) } else { Arc::new(V1::new(root)) }
}

/// The group that a class's pods are in: guaranteed ones directly below the root, the others in a group of their own.
fn class_path(root: &str, class: Class) -> String {
    let root = root.trim_end_matches('/');
    match class {
        Class::Guaranteed => root.to_owned(),
        Class::Burstable => format!("{root}/burstable"),
        Class::BestEffort => format!("{root}/besteffort"),
    }
}

/// Where a pod's cgroup is.
pub fn pod_path(root: &str, class: Class, uid: &str) -> String {
    format!("{}/pod{uid}", class_path(root, class))
}

/// Gives the classes' own groups their weight, with these pods on the machine.
pub fn weigh_classes<'a>(
    tree: &dyn CgroupTree,
    root: &str,
    pods: impl Iterator<Item = &'a PodSpec> + Clone,
) -> io::Result<()> {
    for class in [Class::Burstable, Class::BestEffort] {
        let cpu_shares = Some(limits::class_shares(class, pods.clone()));
        tree.ensure(&class_path(root, class), &Limits { cpu_shares, ..Limits::default() })?;
    }
    Ok(())
}

/// Every pod's cgroup below the root: (uid, path).
pub fn pods(tree: &dyn CgroupTree, root: &str) -> Vec<(String, String)> {
    let parents = [Class::Guaranteed, Class::Burstable, Class::BestEffort].map(|class| class_path(root, class));
    let of = |parent: &String| {
        let pods = tree.children(parent).into_iter();
        let named =
            pods.filter_map(|name| name.strip_prefix("pod").map(|uid| (uid.to_owned(), format!("{parent}/{name}"))));
        named.collect::<Vec<_>>()
    };
    parents.iter().flat_map(of).collect()
}

fn below(root: &Path, path: &str) -> PathBuf {
    root.join(path.trim_start_matches('/'))
}

/// Removes a directory of cgroups, deepest first: their files cannot be unlinked, only the directories removed.
fn remove_tree(dir: &Path) -> io::Result<()> {
    let entries = match std::fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(e) => return Err(e),
    };
    for entry in entries.flatten() {
        if entry.file_type().is_ok_and(|t| t.is_dir()) {
            remove_tree(&entry.path())?;
        }
    }
    match std::fs::remove_dir(dir) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
        _ => Ok(()),
    }
}

fn child_names(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let dirs = entries.filter(|e| e.file_type().is_ok_and(|t| t.is_dir()));
    let mut names: Vec<String> = dirs.filter_map(|e| e.file_name().into_string().ok()).collect();
    names.sort();
    names
}
