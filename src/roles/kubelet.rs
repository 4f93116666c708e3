//! What the node agent of this machine is told, and `gantry kubelet`: the agent with its containerd and guard.

use crate::cli::{KubeletArgs, NetworkArgs, NodeArgs};
use crate::containerd::Containerd;
use crate::datadir::{DataDir, write_file};
use crate::detached::Detached;
use crate::footprint::Footprint;
use crate::problem::Problem;
use crate::roles::{guard, standalone};
use crate::supervise::supervise;
use crate::{images, machine, preflight, stop};
use gantry_client::Client;
use gantry_kubelet::{Config, TlsFiles};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use tokio_util::sync::CancellationToken;

/// The agent's configuration. `heartbeat` is a client of its own, so that nothing holds the Lease up.
pub fn config(
    data: &DataDir,
    (name, ip): (&str, IpAddr),
    node: &NodeArgs,
    network: &NetworkArgs,
    tls: TlsFiles,
    heartbeat: Client,
) -> anyhow::Result<Config> {
    let own_socket = data.containerd().join("containerd.sock");
    Ok(Config {
        node_name: name.to_owned(),
        node_ips: vec![ip],
        node_labels: labels(&node.node_labels)?,
        root: data.node(),
        log_root: Some(data.log().join("pods")),
        runtime_socket: node.runtime_socket.clone().unwrap_or(own_socket),
        cni_dir: data.containerd().join("cni"),
        cni_bin_dir: preflight::CNI_BIN_DIR.into(),
        cgroup_root: node.cgroup_root.clone(),
        cluster_domain: network.cluster_domain.clone(),
        cluster_dns: vec![network.dns_ip],
        listen: SocketAddr::from((Ipv4Addr::UNSPECIFIED, node.kubelet_port)),
        tls: Some(tls),
        discovery: Some(data.discovery()),
        heartbeat_client: Some(heartbeat),
        ..Config::default()
    })
}

fn labels(given: &[String]) -> Result<BTreeMap<String, String>, Problem> {
    let split = |label: &String| {
        let pair = label.split_once('=').map(|(key, value)| (key.to_owned(), value.to_owned()));
        pair.ok_or_else(|| Problem::new(format!("--node-label {label}: write it as KEY=VALUE")))
    };
    given.iter().map(split).collect()
}

/// containerd with the images that wait in the data directory. `None`: somebody else's containerd is used.
pub async fn start_runtime(data: &DataDir, node: &NodeArgs) -> anyhow::Result<Option<(Containerd, Detached)>> {
    if node.no_supervise || node.runtime_socket.is_some() {
        return Ok(None);
    }
    let program = node.containerd.clone().or_else(|| preflight::find_program("containerd"));
    let containerd = Containerd::new(data, program.unwrap_or_else(|| PathBuf::from("containerd")));
    let running = containerd.start().await?;
    images::import_missing(&containerd.socket(), &data.images()).await?;
    Ok(Some((containerd, running)))
}

/// Watches what lives beside the agent, containerd and the guard, until `cancel`. Both are left running.
pub async fn keep_beside(
    data: &DataDir,
    node: &NodeArgs,
    network: &NetworkArgs,
    runtime: Option<(Containerd, Detached)>,
    cancel: &CancellationToken,
) -> anyhow::Result<()> {
    if let Some((containerd, running)) = runtime {
        let cancel = cancel.clone();
        tokio::spawn(async move { containerd.supervise(running, cancel).await });
    }
    if !node.no_supervise {
        let running = guard::ensure(data, node, network).await?;
        tokio::spawn(guard::keep(data.clone(), node.clone(), network.clone(), running, cancel.clone()));
    }
    Ok(())
}

/// `gantry kubelet`: runs until it is told to stop; pods, containerd and the guard go on.
pub async fn run(args: KubeletArgs) -> anyhow::Result<()> {
    preflight::check_root()?;
    preflight::check_tools(args.node.containerd.as_deref())?;
    let data = DataDir::new(&args.data.data_dir)?;
    data.check_path()?;
    data.check_format()?;
    machine::check_ranges(&args.network.service_cidr, &args.network.cluster_cidr)?;
    let footprint = Footprint::new(&args.node.cgroup_root, &args.node.nft_table, &args.node.dns_link);
    footprint.check(&data)?;
    let listen = SocketAddr::from((Ipv4Addr::UNSPECIFIED, args.node.kubelet_port));
    preflight::check_ports(&[(listen, "--kubelet-port")])?;
    let name = machine::node_name(args.node.node_name.as_deref())?;
    let ip = machine::node_ip(args.node.node_ip);
    let (client, heartbeat) = (standalone::client(&args.client).await?, standalone::client(&args.client).await?);
    let tls = TlsFiles { certificate: args.tls.tls_cert, key: args.tls.tls_key, client_ca: args.tls.client_ca };
    let config = config(&data, (&name, ip), &args.node, &args.network, tls, heartbeat)?;
    data.create()?;
    let _lock = data.lock("kubelet")?;
    let _ = std::fs::remove_file(data.stopped_file());
    footprint.claim(&data)?;
    let cancel = stop::signal_token()?;
    let runtime = start_runtime(&data, &args.node).await?;
    keep_beside(&data, &args.node, &args.network, runtime, &cancel).await?;
    supervise("kubelet", cancel, move |token| gantry_kubelet::run(config.clone(), client.clone(), token)).await;
    write_file(&data.stopped_file(), b"", 0o644)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_pairs() {
        let got = labels(&["a=b".to_owned(), "zone=".to_owned()]).unwrap();
        assert_eq!(got.into_iter().collect::<Vec<_>>(), [("a".into(), "b".into()), ("zone".into(), String::new())]);
        assert!(labels(&["a".to_owned()]).is_err());
    }
}
