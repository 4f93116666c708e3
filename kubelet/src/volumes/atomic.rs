//! Replaces the files of a volume all at once, as Kubernetes does: `..data` points to a dated directory, every visible
//! name points through `..data`, and an update moves that one link. Decides only the order of file operations.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Component, Path};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    pub bytes: Vec<u8>,
    pub mode: u32,
}

/// Files by their path relative to the volume.
pub type Payload = BTreeMap<String, File>;

const DATA: &str = "..data";
const DATA_NEW: &str = "..data_tmp";

/// Makes the volume hold exactly the payload; true when something changed. `stamp` must be new with every call.
pub fn write(dir: &Path, payload: &Payload, group: Option<u32>, stamp: &str) -> io::Result<bool> {
    if let Some(bad) = payload.keys().find(|path| !is_inside(path)) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("invalid path in volume: {bad}")));
    }
    let current = std::fs::read_link(dir.join(DATA)).ok();
    if current.is_some() && holds(&dir.join(DATA), payload, group)? {
        link_names(dir, payload)?;
        return Ok(false);
    }
    let name = format!("..{stamp}");
    let fresh = dir.join(&name);
    fill(&fresh, payload, group)?;
    let staged = dir.join(DATA_NEW);
    match std::fs::remove_file(&staged) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
        _ => {}
    }
    symlink(&name, &staged)?;
    std::fs::rename(&staged, dir.join(DATA))?;
    link_names(dir, payload)?;
    if let Some(old) = current.filter(|old| old.as_os_str() != name.as_str()) {
        std::fs::remove_dir_all(dir.join(old))?;
    }
    Ok(true)
}

/// A relative path without `..` whose first part does not hide among ours.
fn is_inside(path: &str) -> bool {
    !path.is_empty()
        && !path.starts_with("..")
        && Path::new(path).components().all(|c| matches!(c, Component::Normal(_)))
}

fn fill(dir: &Path, payload: &Payload, group: Option<u32>) -> io::Result<()> {
    std::fs::create_dir_all(dir)?;
    std::fs::set_permissions(dir, std::fs::Permissions::from_mode(0o755))?;
    for (path, file) in payload {
        let target = dir.join(path);
        if let Some(parent) = target.parent() {
            std::fs::create_dir_all(parent)?;
        }
        std::fs::write(&target, &file.bytes)?;
        chown(&target, None, group)?;
        std::fs::set_permissions(&target, std::fs::Permissions::from_mode(mode(file, group)))?;
    }
    Ok(())
}

/// Files of a volume with a group are readable by that group.
fn mode(file: &File, group: Option<u32>) -> u32 {
    if group.is_some() { file.mode | 0o440 } else { file.mode }
}

fn holds(data: &Path, payload: &Payload, group: Option<u32>) -> io::Result<bool> {
    for (path, file) in payload {
        let target = data.join(path);
        match std::fs::read(&target) {
            Ok(bytes) if bytes == file.bytes => {}
            Ok(_) => return Ok(false),
            Err(e) if e.kind() == io::ErrorKind::NotFound || e.kind() == io::ErrorKind::NotADirectory => {
                return Ok(false);
            }
            Err(e) => return Err(e),
        }
        if std::fs::metadata(&target)?.mode() & 0o7777 != mode(file, group) {
            return Ok(false);
        }
    }
    Ok(count(data)? == payload.len())
}

fn count(dir: &Path) -> io::Result<usize> {
    let mut n = 0;
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        n += if entry.file_type()?.is_dir() { count(&entry.path())? } else { 1 };
    }
    Ok(n)
}

/// Every first part of a path is a link through `..data`; links of names that are no more go.
fn link_names(dir: &Path, payload: &Payload) -> io::Result<()> {
    let wanted: BTreeSet<&str> = payload.keys().filter_map(|p| p.split('/').next()).collect();
    for name in &wanted {
        let link = dir.join(name);
        let target = format!("{DATA}/{name}");
        if std::fs::read_link(&link).is_ok_and(|t| t.as_os_str() == target.as_str()) {
            continue;
        }
        match symlink(&target, &link) {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
            other => other?,
        }
    }
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if !name.starts_with("..") && !wanted.contains(name.as_ref()) && entry.file_type()?.is_symlink() {
            std::fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}
