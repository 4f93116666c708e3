//! Removing links, routes and nftables tables by name. What is already gone is fine.

use crate::preflight::{CNI_BIN_DIR, find_program};
use anyhow::Context;
use gantry_proxy::routes::PROTOCOL;
use serde_json::{Value, json};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// Where libcni keeps what each pod's network was given; containerd 1.6 cannot move it.
const CNI_RESULTS: &str = "/var/lib/cni/results";

/// Deletes the host ends of the pods whose namespaces lay below `containerd`, and the cached results that name them.
pub fn remove_pod_links(containerd: &Path) -> anyhow::Result<()> {
    let Ok(entries) = std::fs::read_dir(CNI_RESULTS) else { return Ok(()) };
    for entry in entries.flatten() {
        let path = entry.path();
        let Some(result) = std::fs::read(&path).ok().and_then(|bytes| serde_json::from_slice::<Value>(&bytes).ok())
        else {
            continue;
        };
        if let Some(links) = host_links(&result, containerd) {
            if let Some(call) = port_mappings(&result) {
                forget_ports(&call)?;
            }
            for link in links {
                remove_link(&link)?;
            }
            let _ = std::fs::remove_file(&path);
        }
    }
    Ok(())
}

/// The interfaces outside any sandbox, if the result is of a pod whose namespace lies below `containerd`.
fn host_links(cached: &Value, containerd: &Path) -> Option<Vec<String>> {
    let interfaces = cached["result"]["interfaces"].as_array()?;
    let sandbox = |interface: &Value| interface["sandbox"].as_str().map(PathBuf::from);
    let mine = interfaces.iter().filter_map(sandbox).any(|path| path.starts_with(containerd));
    let outside = interfaces.iter().filter(|interface| sandbox(interface).is_none_or(|p| p.as_os_str().is_empty()));
    mine.then(|| outside.filter_map(|interface| interface["name"].as_str()).map(str::to_owned).collect())
}

/// What CNI's `portmap` has to be told to forget one pod's host ports.
struct PortMappings {
    container: String,
    interface: String,
    config: Value,
}

/// `None` for a pod without host ports.
fn port_mappings(cached: &Value) -> Option<PortMappings> {
    let ports = cached["capabilityArgs"]["portMappings"].as_array().filter(|ports| !ports.is_empty())?;
    let text = |field: &str| cached[field].as_str().map(str::to_owned);
    let config = json!({"cniVersion": "0.4.0", "name": text("networkName")?, "type": "portmap", "snat": true,
        "runtimeConfig": {"portMappings": ports}});
    Some(PortMappings { container: text("containerId")?, interface: text("ifName")?, config })
}

/// The plugin's rules live in chains that it shares with other users of CNI: only it knows which are whose.
fn forget_ports(pod: &PortMappings) -> anyhow::Result<()> {
    let mut child = Command::new(Path::new(CNI_BIN_DIR).join("portmap"))
        .env("CNI_COMMAND", "DEL")
        .env("CNI_CONTAINERID", &pod.container)
        .env("CNI_NETNS", "")
        .env("CNI_IFNAME", &pod.interface)
        .env("CNI_PATH", CNI_BIN_DIR)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("running CNI's portmap")?;
    // Dropped after the write, so that the plugin reads to the end.
    child.stdin.take().context("portmap's input")?.write_all(pod.config.to_string().as_bytes())?;
    let output = child.wait_with_output().context("running CNI's portmap")?;
    let said = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    anyhow::ensure!(output.status.success(), "removing the host ports of {}: {said}", pod.container);
    Ok(())
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

fn run(program: &str, arguments: &[&str]) -> anyhow::Result<Output> {
    let path = find_program(program).unwrap_or_else(|| program.into());
    Command::new(path).args(arguments).output().with_context(|| format!("running {program}"))
}

fn text_of(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

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

    #[test]
    fn only_pods_with_host_ports_have_some_to_forget() {
        let cached = |ports: Value| {
            json!({"containerId": "c1", "ifName": "eth0", "networkName": "gantry",
                "capabilityArgs": {"portMappings": ports}})
        };
        assert!(port_mappings(&cached(json!([]))).is_none() && port_mappings(&cached(Value::Null)).is_none());
        let call = port_mappings(&cached(json!([{"hostPort": 80}]))).unwrap();
        assert_eq!((call.container.as_str(), call.interface.as_str()), ("c1", "eth0"));
        assert_eq!(call.config["runtimeConfig"], json!({"portMappings": [{"hostPort": 80}]}));
    }
}
