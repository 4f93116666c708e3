//! `gantry up`: all roles of one machine in one process, with containerd and the guard beside it.
//!
//! It decides the order in which parts start and what is checked first. The parts meet only at the API.

mod detach;
mod phase;
mod ready;

pub use phase::Phase;

use crate::cli::UpArgs;
use crate::containerd::Containerd;
use crate::datadir::{DataDir, write_file};
use crate::detached::Detached;
use crate::footprint::Footprint;
use crate::pki::{self, Names, Pki};
use crate::roles::api::{self, Api};
use crate::roles::components::Components;
use crate::roles::standalone::pod_ranges;
use crate::roles::stores;
use crate::roles::{kubelet, proxy};
use crate::say::say;
use crate::{machine, preflight, stop};
use gantry_client::Metrics;
use gantry_kubelet::TlsFiles;
use gantry_store::Group;
use std::borrow::Cow;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// The flags with every default filled in.
struct Plan {
    args: UpArgs,
    data: DataDir,
    node_name: String,
    node_ip: IpAddr,
    api_service_ip: IpAddr,
}

impl Plan {
    fn new(args: UpArgs) -> anyhow::Result<Self> {
        Ok(Self {
            data: DataDir::new(&args.data.data_dir)?,
            node_name: machine::node_name(args.node.node_name.as_deref())?,
            node_ip: machine::node_ip(args.node.node_ip),
            api_service_ip: machine::nth_address(&args.network.service_cidr, 1)?,
            args,
        })
    }

    fn footprint(&self) -> Footprint {
        let node = &self.args.node;
        Footprint::new(&node.cgroup_root, &node.nft_table, &node.dns_link)
    }

    /// Everything that a person could have to put right, before anything is changed.
    fn check(&self) -> anyhow::Result<()> {
        preflight::check_root()?;
        self.data.check_path()?;
        machine::check_ranges(&self.args.network.service_cidr, &self.args.network.cluster_cidr)?;
        if !self.args.no_node {
            preflight::check_tools(self.args.node.containerd.as_deref())?;
        }
        self.data.check_format()?;
        if !self.args.no_node {
            self.footprint().check(&self.data)?;
        }
        if self.data.holder("gantry").is_none() {
            let mut ports = vec![(SocketAddr::new(self.args.bind, self.args.api_port), "--api-port")];
            if !self.args.no_node {
                ports.push((SocketAddr::new(self.args.bind, self.args.node.kubelet_port), "--kubelet-port"));
            }
            preflight::check_ports(&ports)?;
        }
        Ok(())
    }
}

pub async fn run(args: UpArgs) -> anyhow::Result<()> {
    let plan = Plan::new(args)?;
    plan.check()?;
    if plan.args.detach {
        detach::run(&plan.data, Duration::from_secs(plan.args.wait_s)).await?;
        print_summary(&plan);
        return Ok(());
    }
    let _lock = plan.data.lock("gantry")?;
    plan.data.create()?;
    // A control plane alone leaves nothing in the kernel.
    if !plan.args.no_node {
        plan.footprint().claim(&plan.data)?;
    }
    let _ = std::fs::remove_file(plan.data.stopped_file());
    let keys = Pki::new(&plan.data);
    if !keys.certificate(pki::CLUSTER_CA).exists() {
        Phase::Keys.announce(&plan.data);
    }
    keys.ensure_all(&names(&plan), &plan.data.kubeconfig(), machine::unix_now_s())?;
    let node = &plan.args.node;
    let cancel = stop::signal_token()?;
    let control = control_plane(&plan, &keys, cancel.clone());
    let runtime = async {
        match plan.args.no_node {
            true => Ok(None),
            false => kubelet::start_runtime(&plan.data, node).await,
        }
    };
    let ((api, groups), runtime) = tokio::try_join!(control, runtime)?;
    let components = Components::new(cancel.clone());
    start_control_loops(&plan, &keys, &api, &components)?;
    if !plan.args.no_node {
        start_node(&plan, &keys, &api, &components, runtime, &cancel).await?;
        Phase::Registering.announce(&plan.data);
        let admin = api.client("kubernetes-admin", &["system:masters"]);
        let Some(node) = ready::wait(&admin, &plan.node_name, &cancel).await else {
            return end(&plan, components, groups).await;
        };
        for shortage in ready::shortages(&node) {
            say!("gantry: {} {} {shortage}", plan.node_name, ready::TAKES_NO_PODS);
        }
    }
    Phase::Ready.announce(&plan.data);
    print_summary(&plan);
    tokio::select! {
        () = cancel.cancelled() => end(&plan, components, groups).await,
        failed = stores::first_ended(&groups) => {
            // Nothing can be kept any more; pods go on, and the next start finds them.
            cancel.cancel();
            end(&plan, components, groups).await?;
            Err(failed.context("a store group of this machine has ended"))
        }
    }
}

/// After the cancellation: the components first, then what they write to. Pods, containerd and the guard go on.
async fn end(plan: &Plan, components: Components, groups: Vec<Group>) -> anyhow::Result<()> {
    write_file(&plan.data.stopped_file(), b"", 0o644)?;
    components.ended().await;
    for group in groups {
        group.retire().await;
    }
    Ok(())
}

/// The stores and the API server on them, answering.
async fn control_plane(plan: &Plan, keys: &Pki, cancel: CancellationToken) -> anyhow::Result<(Api, Vec<Group>)> {
    Phase::Store.announce(&plan.data);
    let (stores, groups) = match &plan.args.store_endpoints {
        Some(endpoints) => (stores::remote(endpoints, keys)?, Vec::new()),
        None => stores::open(&plan.data).await?,
    };
    Phase::Api.announce(&plan.data);
    let api = api::Plan {
        listen: SocketAddr::new(plan.args.bind, plan.args.api_port),
        advertise: plan.node_ip,
        service_cidr: plan.args.network.service_cidr.clone(),
        dns_ip: plan.args.network.dns_ip,
        seats: api::seats_here(),
        cluster_domain: plan.args.network.cluster_domain.clone(),
        access: None,
    };
    Ok((Api::start(&api, keys, stores, cancel).await?, groups))
}

fn start_control_loops(plan: &Plan, keys: &Pki, api: &Api, components: &Components) -> anyhow::Result<()> {
    let root_ca_pem = api::read(&keys.certificate(pki::CLUSTER_CA))?;
    let ranges = pod_ranges(&plan.args.network)?;
    // One registry for the process, shown at the API server's /metrics.
    let metrics = Metrics::new();
    api.shows(metrics.clone());
    let config = gantry_controllers::Config { ranges, root_ca_pem, metrics: metrics.clone(), ..Default::default() };
    components.spawn("controllers", api.client("system:kube-controller-manager", &[]), move |client, cancel| {
        gantry_controllers::run(config.clone(), client, cancel)
    });
    let config = gantry_scheduler::Config { metrics, ..Default::default() };
    components.spawn("scheduler", api.client("system:kube-scheduler", &[]), move |client, cancel| {
        gantry_scheduler::run(config.clone(), client, cancel)
    });
    Ok(())
}

/// The node's parts: the agent and the proxy here, containerd and the guard beside.
async fn start_node(
    plan: &Plan,
    keys: &Pki,
    api: &Api,
    components: &Components,
    runtime: Option<(Containerd, Detached)>,
    cancel: &CancellationToken,
) -> anyhow::Result<()> {
    let (data, node, network) = (&plan.data, &plan.args.node, &plan.args.network);
    let name = plan.node_name.as_str();
    kubelet::keep_beside(data, node, network, runtime, cancel).await?;
    let identity = format!("system:node:{name}");
    let agent_client = || api.client(&identity, &["system:nodes"]);
    let serving = pki::kubelet_server(name);
    let tls = TlsFiles {
        certificate: keys.certificate(&serving),
        key: keys.key(&serving),
        client_ca: keys.certificate(pki::CLUSTER_CA),
    };
    let agent = kubelet::config(data, (name, plan.node_ip), node, network, tls, agent_client())?;
    components
        .spawn("kubelet", agent_client(), move |client, cancel| gantry_kubelet::run(agent.clone(), client, cancel));
    let proxy = proxy::config(data, name, node, network);
    let identity = format!("system:node-proxy:{name}");
    components.spawn("proxy", api.client(&identity, &["system:node-proxiers"]), move |client, cancel| {
        gantry_proxy::run(proxy.clone(), client, cancel)
    });
    Ok(())
}

fn names(plan: &Plan) -> Names {
    Names {
        node_name: plan.node_name.clone(),
        node_ip: plan.node_ip,
        api_service_ip: plan.api_service_ip,
        cluster_domain: plan.args.network.cluster_domain.clone(),
        extra: plan.args.tls_sans.clone(),
        api_port: plan.args.api_port,
    }
}

fn print_summary(plan: &Plan) {
    say!("gantry: {} is Ready; API server https://127.0.0.1:{}", plan.node_name, plan.args.api_port);
    say!("export KUBECONFIG={}", for_shell(&plan.data.kubeconfig().to_string_lossy()));
}

/// One word of a shell's command line.
pub fn for_shell(word: &str) -> Cow<'_, str> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-+:,@%".contains(&byte);
    match word.bytes().all(plain) && !word.is_empty() {
        true => word.into(),
        false => format!("'{}'", word.replace('\'', r"'\''")).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_one_word_for_a_shell() {
        for (path, expect) in [
            ("/var/lib/gantry/kubeconfig", "/var/lib/gantry/kubeconfig"),
            ("/my data/k", "'/my data/k'"),
            ("/it's/$HOME", r"'/it'\''s/$HOME'"),
        ] {
            assert_eq!(for_shell(path), expect);
        }
    }
}
