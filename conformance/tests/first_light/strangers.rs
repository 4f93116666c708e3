//! A mistyped `--data-dir`: what belongs to somebody else is refused and left alone, mounts included.

use anyhow::{Context, ensure};
use gantry_conformance::{Cluster, tools};
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use std::path::Path;
use std::process::{Command, Stdio};

/// `gantry SUBCOMMAND --data-dir FOLDER` must end with code 2 and name what it found there.
fn refused(subcommand: &[&str], folder: &Path) -> anyhow::Result<()> {
    let mut command = Command::new(tools::gantry()?);
    let output = command.args(subcommand).arg("--data-dir").arg(folder).stdin(Stdio::null()).output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.code() == Some(2), "{subcommand:?} on {}: {}, {said}", folder.display(), output.status);
    ensure!(said.contains("is not a Gantry data directory"), "{subcommand:?} on {}: {said}", folder.display());
    Ok(())
}

pub fn a_directory_of_somebody_else_is_left_alone(_: &Cluster) -> anyhow::Result<()> {
    let folder = tempfile::Builder::new().prefix("gantry-e2e-").tempdir().context("a folder")?;
    let (file, disk) = (folder.path().join("thesis.tex"), folder.path().join("disk"));
    std::fs::write(&file, "three years")?;
    std::fs::create_dir(&disk)?;
    mount("tmpfs", &disk, "tmpfs", MountFlags::empty(), None).context("mounting a tmpfs")?;
    let tried = (|| {
        std::fs::write(disk.join("more"), "of it")?;
        for subcommand in [&["up"][..], &["up", "--detach"], &["down"], &["down", "--purge"]] {
            refused(subcommand, folder.path())?;
        }
        ensure!(std::fs::read_to_string(&file)? == "three years", "the file changed");
        ensure!(std::fs::read_to_string(disk.join("more")).is_ok_and(|text| text == "of it"), "the disk is unmounted");
        let left = std::fs::read_dir(folder.path())?.count();
        ensure!(left == 2, "{left} entries are in the folder, not the two that were there");
        Ok(())
    })();
    unmount(&disk, UnmountFlags::DETACH).context("unmounting the tmpfs")?;
    tried
}
