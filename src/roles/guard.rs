//! The guard of one machine: node DNS, in a process of its own that `gantry` starts, watches and leaves running.
//!
//! It decides what the guard is told. It never restarts one that is alive and was told the same.

use crate::cli::{GuardArgs, NetworkArgs, NodeArgs};
use crate::datadir::DataDir;
use crate::detached::{self, Detached};
use crate::footprint::Footprint;
use crate::problem::Problem;
use crate::supervise::supervise;
use crate::{preflight, stop};
use anyhow::Context;
use gantry_kubelet::guard::GuardConfig;
use gantry_proxy::dns;
use std::ffi::OsString;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

const DNS_PORT: u16 = 53;
const STOP_PATIENCE: Duration = Duration::from_secs(5);

/// `gantry guard`: serves until it is told to stop.
pub async fn run(args: GuardArgs) -> anyhow::Result<()> {
    preflight::check_root()?;
    let data = DataDir::new(&args.data.data_dir)?;
    data.check_format()?;
    let _lock = data.lock("guard")?;
    Footprint::new(&args.node.cgroup_root, &args.node.nft_table, &args.node.dns_link).claim(&data)?;
    let dns = dns_config(&data, &args.node, &args.network)?;
    let cancel = stop::signal_token()?;
    let serving = supervise("node DNS", cancel.clone(), move |token| dns::serve(dns.clone(), token));
    match args.agent_pid_file {
        Some(agent_pid_file) => {
            let watch = GuardConfig {
                log: agent_pid_file
                    .file_stem()
                    .map_or_else(|| data.log_file("agent"), |name| data.log().join(name).with_extension("log")),
                agent_pid_file,
                argv: args.agent,
                clean_stop: data.stopped_file(),
            };
            tokio::join!(serving, gantry_kubelet::guard::run(watch, cancel));
        }
        None => serving.await,
    }
    Ok(())
}

fn dns_config(data: &DataDir, node: &NodeArgs, network: &NetworkArgs) -> anyhow::Result<dns::Config> {
    let IpAddr::V4(ip) = network.dns_ip else {
        return Err(Problem::new(format!("--dns-ip {}: an IPv4 address is needed", network.dns_ip)).into());
    };
    let (_, length) = network.service_cidr.split_once('/').unwrap_or_default();
    let prefix_length = length.parse().map_err(|_| Problem::new(format!("--service-cidr {}", network.service_cidr)))?;
    Ok(dns::Config {
        discovery: data.discovery(),
        domain: network.cluster_domain.clone(),
        listen: SocketAddr::new(network.dns_ip, DNS_PORT),
        link: Some(dns::LinkConfig {
            name: node.dns_link.clone(),
            ip,
            prefix_length,
            program: preflight::find_program("ip").unwrap_or_else(|| PathBuf::from("ip")),
        }),
        service_cidr: network.service_cidr.clone(),
        cluster_cidr: network.cluster_cidr.clone(),
        upstreams: upstreams(&node.dns_upstream, ip)?,
    })
}

/// `auto`, `none`, or resolvers separated by commas.
fn upstreams(text: &str, own: Ipv4Addr) -> Result<Vec<SocketAddr>, Problem> {
    match text {
        "none" => Ok(vec![]),
        "auto" => {
            let resolv_conf = std::fs::read_to_string("/etc/resolv.conf").unwrap_or_default();
            Ok(dns::upstreams_in(&resolv_conf, own))
        }
        list => {
            let parse = |one: &str| {
                let plain = one.parse::<IpAddr>().map(|ip| SocketAddr::new(ip, DNS_PORT));
                plain.or_else(|_| one.parse::<SocketAddr>()).map_err(|_| {
                    Problem::new(format!("--dns-upstream {one:?}: give auto, none, or addresses separated by commas"))
                })
            };
            list.split(',').map(parse).collect()
        }
    }
}

/// Everything that tells a guard which machine it is on, and how this process was started.
fn arguments(
    data: &DataDir,
    node: &NodeArgs,
    network: &NetworkArgs,
    (own, agent_pid_file): (&Path, &Path),
) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = vec!["guard".into(), "--data-dir".into(), data.root().into()];
    for (flag, value) in [
        ("--cgroup-root", node.cgroup_root.clone()),
        ("--nft-table", node.nft_table.clone()),
        ("--dns-link", node.dns_link.clone()),
        ("--dns-upstream", node.dns_upstream.clone()),
        ("--service-cidr", network.service_cidr.clone()),
        ("--cluster-cidr", network.cluster_cidr.clone()),
        ("--dns-ip", network.dns_ip.to_string()),
        ("--cluster-domain", network.cluster_domain.clone()),
    ] {
        arguments.extend([flag.into(), value.into()]);
    }
    if let Some(name) = &node.node_name {
        arguments.extend(["--node-name".into(), name.into()]);
    }
    if node.restart {
        arguments.extend(["--agent-pid-file".into(), agent_pid_file.into(), "--".into(), own.into()]);
        arguments.extend(std::env::args_os().skip(1));
    }
    arguments
}

/// The guard that runs on this data directory, or a new one. One that was started differently, or from a program that was
/// replaced since, is replaced: pods do not notice, and names resolve again within moments.
pub async fn ensure(data: &DataDir, node: &NodeArgs, network: &NetworkArgs) -> anyhow::Result<Detached> {
    let own = std::env::current_exe().context("finding this program")?;
    let role = if std::env::args_os().nth(1).is_some_and(|role| role == "kubelet") { "kubelet" } else { "gantry" };
    let arguments = arguments(data, node, network, (&own, &data.pid_file(role)));
    if let Some(running) = Detached::from_pid_file(&data.pid_file("guard"), &own)
        && data.holder("guard") == Some(running.pid())
    {
        if running.was_started_as(&own, &arguments) {
            return Ok(running);
        }
        tracing::info!(pid = running.pid(), "the guard was started in another way; replacing it");
        running.stop(STOP_PATIENCE).await;
    }
    // The guard writes its pid file itself, together with its lock.
    detached::spawn(&own, &arguments, &data.log_file("guard"), None).context("starting the guard")
}

/// Keeps a guard running until `cancel`; the last one is left running.
pub async fn keep(
    data: DataDir,
    node: NodeArgs,
    network: NetworkArgs,
    mut running: Detached,
    cancel: CancellationToken,
) {
    loop {
        tokio::select! {
            () = cancel.cancelled() => return running.leave(),
            () = running.ended() => tracing::warn!(log = %data.log_file("guard").display(), "the guard ended; starting it again"),
        }
        running = loop {
            tokio::select! {
                () = cancel.cancelled() => return,
                () = tokio::time::sleep(Duration::from_secs(1)) => {}
            }
            match ensure(&data, &node, &network).await {
                Ok(started) => break started,
                Err(error) => tracing::error!("{error:#}"),
            }
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resolvers() {
        let own = Ipv4Addr::new(10, 96, 0, 10);
        assert_eq!(upstreams("none", own).unwrap(), []);
        let two = upstreams("192.0.2.1,[::1]:5353", own).unwrap();
        assert_eq!(two, ["192.0.2.1:53".parse().unwrap(), "[::1]:5353".parse().unwrap()]);
        assert!(upstreams("x", own).unwrap_err().to_string().contains("--dns-upstream"));
    }
}
