//! What a cluster could leave on a machine, and that it left none of it. It decides what counts as a trace.

use crate::wait::wait_for;
use anyhow::Context;
use std::collections::BTreeSet;
use std::process::Command;
use std::time::Duration;

/// What a cluster could leave on a machine, as lines of text.
pub fn traces() -> anyhow::Result<BTreeSet<String>> {
    let mut found = BTreeSet::new();
    let mut command = |name: &str, arguments: &[&str]| -> anyhow::Result<()> {
        let output = Command::new(name).args(arguments).output().with_context(|| name.to_owned())?;
        for line in String::from_utf8_lossy(&output.stdout).lines() {
            // A bridge is up or down with its ports; that is a state, not a thing.
            let things = line.split_whitespace().filter(|word| !["UP", "DOWN", "UNKNOWN", "linkdown"].contains(word));
            found.insert(format!("{name} {}: {}", arguments.join(" "), things.collect::<Vec<_>>().join(" ")));
        }
        Ok(())
    };
    command("nft", &["list", "tables"])?;
    command("ip", &["-brief", "address"])?;
    command("ip", &["netns", "list"])?;
    command("ip", &["route"])?;
    let ports = Command::new("iptables-save").args(["-t", "nat"]).output().context("iptables-save")?;
    for line in String::from_utf8_lossy(&ports.stdout).lines().filter(|line| line.starts_with("-A CNI-")) {
        found.insert(format!("host port: {line}"));
    }
    for line in std::fs::read_to_string("/proc/self/mountinfo")?.lines().filter(|line| line.contains("gantry")) {
        found.insert(format!("mount: {line}"));
    }
    for entry in std::fs::read_dir("/proc")?.flatten() {
        let command = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let command = String::from_utf8_lossy(&command).replace('\0', " ");
        if command.contains("gantry-e2e-") {
            found.insert(format!("process: {command}"));
        }
    }
    let mut folders = vec![std::path::PathBuf::from("/sys/fs/cgroup")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten().filter(|entry| entry.path().is_dir()) {
            let path = entry.path();
            if path.to_string_lossy().contains("gantry-e2e-") {
                found.insert(format!("cgroup: {}", path.display()));
            } else if path.components().count() < 7 {
                folders.push(path);
            }
        }
    }
    Ok(found)
}

/// Fails with every trace that was not there before.
pub fn nothing_left(before: &BTreeSet<String>) -> anyhow::Result<()> {
    wait_for("nothing to be left", Duration::from_secs(10), || {
        let left: Vec<String> = traces()?.difference(before).cloned().collect();
        anyhow::ensure!(left.is_empty(), "left behind:\n  {}", left.join("\n  "));
        Ok(())
    })
}
