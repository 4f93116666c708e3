//! Removing links, routes and nftables tables by name. What is already gone is fine.

use super::ports;
use crate::preflight::find_program;
use anyhow::Context;
use gantry_proxy::routes::PROTOCOL;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Where libcni keeps what each pod's network was given; containerd 1.6 cannot move it.
const CNI_RESULTS: &str = "/var/lib/cni/results";

/// Deletes the host ends of the pods whose namespaces lay below `containerd`, and the cached results that name them.
/// Answers whether one of them had host ports.
pub fn remove_pod_links(containerd: &Path) -> anyhow::Result<bool> {
    let Ok(entries) = std::fs::read_dir(CNI_RESULTS) else { return Ok(false) };
    let mut had_ports = false;
    for entry in entries.flatten() {
        let path = entry.path();
        let Some(result) = std::fs::read(&path).ok().and_then(|bytes| serde_json::from_slice::<Value>(&bytes).ok())
        else {
            continue;
        };
        if let Some(links) = host_links(&result, containerd) {
            if let Some(pod) = ports::port_mappings(&result) {
                ports::forget(&pod)?;
                had_ports = true;
            }
            for link in links {
                remove_link(&link)?;
            }
            let _ = std::fs::remove_file(&path);
        }
    }
    Ok(had_ports)
}

/// The interfaces outside any sandbox, if the result is of a pod whose namespace lies below `containerd`.
fn host_links(cached: &Value, containerd: &Path) -> Option<Vec<String>> {
    let interfaces = cached["result"]["interfaces"].as_array()?;
    let sandbox = |interface: &Value| interface["sandbox"].as_str().map(PathBuf::from);
    let mine = interfaces.iter().filter_map(sandbox).any(|path| path.starts_with(containerd));
    let outside = interfaces.iter().filter(|interface| sandbox(interface).is_none_or(|p| p.as_os_str().is_empty()));
    mine.then(|| outside.filter_map(|interface| interface["name"].as_str()).map(str::to_owned).collect())
}

/// Asks `ip`, not /sys: that file system shows the network namespace it was mounted in, which may be another.
pub fn remove_link(name: &str) -> anyhow::Result<()> {
    let is_there = || Ok::<_, anyhow::Error>(run("ip", &["link", "show", "dev", name])?.status.success());
    if is_there()? {
        let output = run("ip", &["link", "delete", "dev", name])?;
        // A link whose namespace is being torn down may vanish meanwhile.
        anyhow::ensure!(output.status.success() || !is_there()?, "deleting link {name}: {}", text_of(&output));
    }
    Ok(())
}

pub fn remove_table(name: &str) -> anyhow::Result<()> {
    if run("nft", &["list", "tables", "inet"])?
        .stdout
        .split(|b| *b == b'\n')
        .any(|line| String::from_utf8_lossy(line).trim() == format!("table inet {name}"))
    {
        let output = run("nft", &["delete", "table", "inet", name])?;
        anyhow::ensure!(output.status.success(), "deleting table inet {name}: {}", text_of(&output));
    }
    Ok(())
}

/// Forgets the ways to other machines' pods. Another cluster's node in the same network namespace sets its own again.
pub fn remove_routes() -> anyhow::Result<()> {
    // Not `ip route flush`: it fails where no route was ever made.
    let shown = run("ip", &["-4", "-json", "route", "show", "proto", PROTOCOL])?;
    let routes: Vec<Value> = serde_json::from_slice(&shown.stdout).unwrap_or_default();
    for range in routes.iter().filter_map(|route| route["dst"].as_str()) {
        let output = run("ip", &["-4", "route", "delete", range, "proto", PROTOCOL])?;
        anyhow::ensure!(output.status.success(), "removing the route to {range}: {}", text_of(&output));
    }
    Ok(())
}

pub fn run(program: &str, arguments: &[&str]) -> anyhow::Result<Output> {
    let path = find_program(program).unwrap_or_else(|| program.into());
    Command::new(path).args(arguments).output().with_context(|| format!("running {program}"))
}

pub fn text_of(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_host_ends_of_our_pods() {
        let result = |netns: &str| {
            json!({"kind": "cniCacheV1", "result": {"interfaces": [
                {"name": "veth1", "mac": "x"}, {"name": "eth0", "sandbox": netns}]}})
        };
        let containerd = Path::new("/d/containerd");
        assert_eq!(host_links(&result("/d/containerd/state/netns/cni-1"), containerd), Some(vec!["veth1".to_owned()]));
        assert_eq!(host_links(&result("/other/netns/cni-1"), containerd), None);
        assert_eq!(host_links(&json!({}), containerd), None);
    }
}
