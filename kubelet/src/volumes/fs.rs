//! Directories, tmpfs mounts and host paths: the file-system calls behind volumes, and their removal.

use std::ffi::CString;
use std::io;
use std::os::unix::fs::{FileTypeExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};

use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

use crate::api::Pod;
use crate::api::volume::{EmptyDir, HostPath};

/// Every mount point at or below a directory, deepest first.
pub fn mounted_below(dir: &Path) -> Vec<PathBuf> {
    let text = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let points = text.lines().filter_map(|line| line.split(' ').nth(4)).map(unescape);
    let mut below: Vec<PathBuf> = points.map(PathBuf::from).filter(|p| p.starts_with(dir)).collect();
    below.sort_by_key(|p| std::cmp::Reverse(p.components().count()));
    below
}

/// mountinfo writes blanks and backslashes in octal.
fn unescape(text: &str) -> String {
    text.replace("\\040", " ").replace("\\011", "\t").replace("\\012", "\n").replace("\\134", "\\")
}

/// Mounts a tmpfs there unless one is. One that is there keeps its size, group and mode.
pub fn tmpfs(dir: &Path, size_bytes: Option<i64>, group: Option<u32>) -> io::Result<()> {
    std::fs::create_dir_all(dir)?;
    let real = dir.canonicalize()?;
    if mounted_below(&real).contains(&real) {
        return Ok(());
    }
    let options = CString::new(tmpfs_options(size_bytes, group)).expect("the text has no zero byte");
    mount("tmpfs", &real, "tmpfs", MountFlags::empty(), options.as_c_str())?;
    Ok(())
}

/// Everyone may write to a volume; what is made in it belongs to its group, if it has one.
fn mode(group: Option<u32>) -> u32 {
    if group.is_some() { 0o2777 } else { 0o777 }
}

pub fn tmpfs_options(size_bytes: Option<i64>, group: Option<u32>) -> String {
    let size = size_bytes.map(|bytes| format!(",size={bytes}")).unwrap_or_default();
    let owner = group.map(|gid| format!(",gid={gid}")).unwrap_or_default();
    format!("mode={:04o}{owner}{size}", mode(group))
}

/// Makes an `emptyDir` with its group and mode, once: from then on both are its containers' to change.
pub fn empty_dir(pod: &Pod, dir: &Path, empty: &EmptyDir) -> io::Result<()> {
    let group = pod.spec.security_context.as_ref().and_then(|s| s.fs_group).and_then(|g| u32::try_from(g).ok());
    if empty.medium == "Memory" {
        return tmpfs(dir, empty.size_limit.map(|q| q.value()).filter(|b| *b > 0), group);
    }
    if dir.exists() {
        return Ok(());
    }
    // It gets its name last: after a crash half-way nobody takes it for whole. No volume's name has a dot.
    let staged = dir.with_extension("new");
    std::fs::create_dir_all(&staged)?;
    chown(&staged, None, group)?;
    std::fs::set_permissions(&staged, std::fs::Permissions::from_mode(mode(group)))?;
    std::fs::rename(&staged, dir)
}

/// Checks a host path's type, and makes it where the type says so.
pub fn check_host_path(host: &HostPath) -> Result<(), String> {
    let path = Path::new(&host.path);
    let kind = host.kind.as_deref().unwrap_or_default();
    let make = |r: io::Result<()>| r.map_err(|e| format!("hostPath {}: {e}", host.path));
    match kind {
        "DirectoryOrCreate" if !path.exists() => make(std::fs::create_dir_all(path))?,
        "FileOrCreate" if !path.exists() => make(std::fs::write(path, b""))?,
        _ => {}
    }
    let found = std::fs::metadata(path).map(|m| m.file_type());
    let fits = match (kind, &found) {
        ("", _) => true,
        ("DirectoryOrCreate" | "Directory", Ok(t)) => t.is_dir(),
        ("FileOrCreate" | "File", Ok(t)) => t.is_file(),
        ("Socket", Ok(t)) => t.is_socket(),
        ("CharDevice", Ok(t)) => t.is_char_device(),
        ("BlockDevice", Ok(t)) => t.is_block_device(),
        _ => false,
    };
    if fits {
        Ok(())
    } else {
        Err(format!("hostPath type check failed: {} is not a {}", host.path, kind.to_lowercase()))
    }
}

/// Unmounts everything of a pod and removes its directory. Repeating it is fine.
pub fn remove_pod_dir(dir: &Path) -> io::Result<()> {
    let Ok(real) = dir.canonicalize() else { return Ok(()) };
    for point in mounted_below(&real) {
        unmount(&point, UnmountFlags::DETACH)?;
    }
    match std::fs::remove_dir_all(&real) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
        _ => Ok(()),
    }
}
