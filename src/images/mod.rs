//! Images without a registry: the two that Gantry builds itself, and the import of archives into its containerd.
//!
//! It decides what is in `pause` and `testbed`. It never pulls anything.

mod import;
mod oci;

pub use import::{import, import_missing};
use oci::{Image, Platform};

use crate::problem::Problem;
use anyhow::Context;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The sandbox image that containerd's configuration names.
pub const PAUSE: &str = "docker.io/library/pause:local";
/// Small behaviours for the demo and the tests.
pub const TESTBED: &str = "docker.io/library/testbed:local";

const STATIC_TARGET: &str = "x86_64-unknown-linux-gnu";

/// Writes `pause.tar` and `testbed.tar` into `out`; `program` is the static testbed binary. Returns the paths.
pub fn write_archives(program: &Path, out: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let bytes = std::fs::read(program).with_context(|| format!("reading {}", program.display()))?;
    if needs_loader(&bytes) {
        return Err(Problem::new(format!(
            "{} is not a static program and would not start in an empty image; build it with \
             RUSTFLAGS='-C target-feature=+crt-static' cargo build --release -p testbed --target {STATIC_TARGET}",
            program.display()
        ))
        .into());
    }
    std::fs::create_dir_all(out).with_context(|| format!("creating {}", out.display()))?;
    let mut written = vec![];
    for (file, image) in [("pause.tar", pause(bytes.clone())), ("testbed.tar", testbed(bytes.clone()))] {
        let path = out.join(file);
        let archive = image.archive()?;
        if std::fs::read(&path).ok().as_deref() != Some(archive.as_slice()) {
            crate::datadir::write_file(&path, &archive, 0o644)?;
        }
        written.push(path);
    }
    Ok(written)
}

fn pause(program: Vec<u8>) -> Image {
    Image {
        reference: PAUSE.to_owned(),
        platform: Platform::host(),
        files: vec![oci::File::program("pause", program)],
        entrypoint: vec!["/pause".to_owned()],
        command: vec![],
        ports: vec![],
    }
}

fn testbed(program: Vec<u8>) -> Image {
    const PASSWD: &str = "root:x:0:0:root:/:/testbed\nnobody:x:65534:65534:nobody:/:/testbed\n";
    const GROUP: &str = "root:x:0:\nnogroup:x:65534:\n";
    Image {
        reference: TESTBED.to_owned(),
        platform: Platform::host(),
        files: vec![
            oci::File::directory("etc", 0o755),
            oci::File::text("etc/group", GROUP),
            oci::File::text("etc/passwd", PASSWD),
            oci::File::program("testbed", program),
            oci::File::directory("tmp", 0o1777),
        ],
        entrypoint: vec!["/testbed".to_owned()],
        command: vec!["serve".to_owned()],
        ports: vec!["8080/tcp".to_owned()],
    }
}

/// Whether the kernel would need a dynamic loader for this ELF file: it has a PT_INTERP segment.
fn needs_loader(elf: &[u8]) -> bool {
    const PROGRAM_INTERPRETER: u32 = 3;
    let word = |at: usize, len: usize| -> Option<u64> {
        let mut buffer = [0u8; 8];
        buffer[..len].copy_from_slice(elf.get(at..at + len)?);
        Some(u64::from_le_bytes(buffer))
    };
    let read = || -> Option<bool> {
        // ELF64, little endian; offsets from the System V ABI.
        if elf.get(..6)? != b"\x7fELF\x02\x01" {
            return Some(true);
        }
        let (table, size, count) = (word(32, 8)? as usize, word(54, 2)? as usize, word(56, 2)? as usize);
        for index in 0..count {
            if word(table + index * size, 4)? == u64::from(PROGRAM_INTERPRETER) {
                return Some(true);
            }
        }
        Some(false)
    };
    read().unwrap_or(true)
}

/// Builds the static testbed program with cargo in the source tree at `source`, or finds one that is already built.
pub fn build_program(source: &Path) -> anyhow::Result<PathBuf> {
    if !source.join("conformance/testbed/Cargo.toml").is_file() {
        return Err(Problem::new(format!(
            "{} is not Gantry's source tree; give --binary FILE (a static testbed program) or --source DIR",
            source.display()
        ))
        .into());
    }
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| source.join("target"), PathBuf::from);
    let status = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(["build", "--release", "--quiet", "-p", "testbed", "--target", STATIC_TARGET])
        .env("RUSTFLAGS", "-C target-feature=+crt-static")
        .env("CARGO_TARGET_DIR", &target)
        .current_dir(source)
        .status()
        .context("running cargo; is Rust installed and on PATH?")?;
    anyhow::ensure!(status.success(), "building the testbed program failed: cargo ended with {status}");
    Ok(target.join(STATIC_TARGET).join("release").join("testbed"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dynamic_program_is_refused() {
        let scratch = tempfile::tempdir().unwrap();
        let this_test = std::env::current_exe().unwrap();
        let refused = write_archives(&this_test, scratch.path()).unwrap_err();
        assert!(refused.to_string().contains("is not a static program"), "{refused}");
        assert_eq!(crate::problem::exit_code(&refused), 2);
        assert!(needs_loader(b"#!/bin/sh\n"));
    }

    #[test]
    fn elsewhere_than_the_source_tree_is_a_problem() {
        let scratch = tempfile::tempdir().unwrap();
        let refused = build_program(scratch.path()).unwrap_err();
        assert!(refused.to_string().contains("--binary FILE"), "{refused}");
    }
}
