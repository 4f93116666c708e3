//! Unmounting everything below a folder, deepest first. It never deletes a file.

use anyhow::Context;
use rustix::mount::{UnmountFlags, unmount};
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// Unmounts every mount point below (not at) `root`. A busy one is detached: its last user has just been killed.
pub fn unmount_below(root: &Path) -> anyhow::Result<()> {
    loop {
        let table = std::fs::read("/proc/self/mountinfo").context("reading /proc/self/mountinfo")?;
        let points = points_below(&table, root);
        if points.is_empty() {
            return Ok(());
        }
        for point in points {
            if unmount(&point, UnmountFlags::NOFOLLOW).is_err() {
                unmount(&point, UnmountFlags::NOFOLLOW | UnmountFlags::DETACH)
                    .with_context(|| format!("unmounting {}", point.display()))?;
            }
        }
    }
}

/// Mount points below `root` in the text of mountinfo, the last mounted first: a stack comes off from its top.
fn points_below(table: &[u8], root: &Path) -> Vec<PathBuf> {
    let lines = table.split(|byte| *byte == b'\n');
    let mut points: Vec<PathBuf> = lines
        .filter_map(|line| line.split(|byte| *byte == b' ').nth(4))
        .map(unescape)
        .filter(|point| point.starts_with(root) && point != root)
        .collect();
    points.reverse();
    points.sort_by_key(|point| std::cmp::Reverse(point.components().count()));
    points
}

/// mountinfo writes space, tab, newline and backslash as three octal digits.
fn unescape(field: &[u8]) -> PathBuf {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((first, tail)) = rest.split_first() {
        let octal = |digits: &[u8]| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok();
        match tail.get(..3).and_then(octal) {
            Some(byte) if *first == b'\\' => {
                bytes.push(byte);
                rest = &tail[3..];
            }
            _ => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    PathBuf::from(OsString::from_vec(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deepest_first_and_only_below() {
        let table = b"1 0 0:1 / / rw - ext4 /dev/vda rw\n\
            2 1 0:2 / /d/a rw - tmpfs tmpfs rw\n\
            3 1 0:3 / /d/a/b\\040c rw - overlay overlay rw\n\
            4 1 0:3 / /d rw - tmpfs tmpfs rw\n\
            5 1 0:3 / /different rw - tmpfs tmpfs rw\n";
        assert_eq!(points_below(table, Path::new("/d")), [PathBuf::from("/d/a/b c"), PathBuf::from("/d/a")]);
    }
}
