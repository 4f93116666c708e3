//! `gantry up`: all roles of one machine in one process, with containerd and the guard beside it.
//!
//! It decides the order in which parts start and what is checked first. The parts meet only at the API.

mod detach;
mod phase;

pub use phase::Phase;

use crate::cli::UpArgs;
use crate::containerd::Containerd;
use crate::datadir::DataDir;
use crate::detached::Detached;
use crate::footprint::Footprint;
use crate::pki::{Names, Pki};
use crate::roles::api::{self, Api};
use crate::roles::components::Components;
use crate::roles::standalone::pod_ranges;
use crate::roles::stores;
use crate::roles::{self, guard};
use crate::{images, machine, preflight, stop};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
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

    /// Everything that a person could have to put right, before anything is changed.
    fn check(&self) -> anyhow::Result<()> {
        preflight::check_root()?;
        if !self.args.no_node {
            preflight::check_tools(self.args.node.containerd.as_deref())?;
        }
        self.data.check_format()?;
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
    Phase::Keys.announce(&plan.data);
    let keys = Pki::new(&plan.data);
    keys.ensure_all(&names(&plan), &plan.data.kubeconfig(), machine::unix_now_s())?;
    let node = &plan.args.node;
    Footprint::new(&node.cgroup_root, &node.nft_table, &node.dns_link).write(&plan.data)?;
    let cancel = stop::signal_token()?;
    let control = control_plane(&plan, &keys, cancel.clone());
    let runtime = runtime(&plan);
    let (api, runtime) = tokio::try_join!(control, runtime)?;
    let components = Components::new(cancel.clone());
    start_control_loops(&plan, &keys, &api, &components)?;
    if let Some(runtime) = runtime {
        start_node(&plan, &keys, &api, &components, runtime, cancel.clone()).await?;
    }
    Phase::Ready.announce(&plan.data);
    print_summary(&plan);
    cancel.cancelled().await;
    components.ended().await;
    Ok(())
}

/// The stores and the API server on them, answering.
async fn control_plane(plan: &Plan, keys: &Pki, cancel: CancellationToken) -> anyhow::Result<Api> {
    Phase::Store.announce(&plan.data);
    let stores = stores::open();
    Phase::Api.announce(&plan.data);
    let api = api::Plan {
        listen: SocketAddr::new(plan.args.bind, plan.args.api_port),
        advertise: plan.node_ip,
        service_cidr: plan.args.network.service_cidr.clone(),
        dns_ip: plan.args.network.dns_ip,
        cluster_domain: plan.args.network.cluster_domain.clone(),
    };
    Api::start(&api, keys, stores, cancel).await
}

/// containerd with the images that wait in the data directory; `None` without a node.
async fn runtime(plan: &Plan) -> anyhow::Result<Option<(Containerd, Detached)>> {
    if plan.args.no_node {
        return Ok(None);
    }
    let given = plan.args.node.containerd.clone().or_else(|| preflight::find_program("containerd"));
    let containerd = Containerd::new(&plan.data, given.unwrap_or_else(|| PathBuf::from("containerd")));
    let running = containerd.start().await?;
    images::import_missing(&containerd.socket(), &plan.data.images()).await?;
    Ok(Some((containerd, running)))
}

fn start_control_loops(plan: &Plan, keys: &Pki, api: &Api, components: &Components) -> anyhow::Result<()> {
    let root_ca_pem = api::read(&keys.certificate(crate::pki::CLUSTER_CA))?;
    let ranges = pod_ranges(&plan.args.network)?;
    let config = gantry_controllers::Config { ranges, root_ca_pem, ..Default::default() };
    components.spawn("controllers", api.client("system:kube-controller-manager", &[]), move |client, cancel| {
        gantry_controllers::run(config.clone(), client, cancel)
    });
    Ok(())
}

/// The node's parts: containerd under watch, the agent, the proxy, the guard.
async fn start_node(
    plan: &Plan,
    _keys: &Pki,
    api: &Api,
    components: &Components,
    (containerd, running): (Containerd, Detached),
    cancel: CancellationToken,
) -> anyhow::Result<()> {
    Phase::Registering.announce(&plan.data);
    let (data, node, network) = (&plan.data, &plan.args.node, &plan.args.network);
    let guard = guard::ensure(data, node, network)?;
    tokio::spawn(guard::keep(data.clone(), node.clone(), network.clone(), guard, cancel.clone()));
    let proxy = roles::proxy::config(data, &plan.node_name, node, network);
    let identity = format!("system:node-proxy:{}", plan.node_name);
    components.spawn("proxy", api.client(&identity, &["system:node-proxiers"]), move |client, cancel| {
        gantry_proxy::run(proxy.clone(), client, cancel)
    });
    tokio::spawn(async move { containerd.supervise(running, cancel).await });
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
    println!("gantry: {} is Ready; API server https://127.0.0.1:{}", plan.node_name, plan.args.api_port);
    println!("export KUBECONFIG={}", plan.data.kubeconfig().display());
}
