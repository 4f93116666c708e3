//! One role as a process of its own: it reaches the API server with its kubeconfig and runs until it is told to stop.

use crate::cli::{ApiserverArgs, ClientArgs, ControllersArgs, NetworkArgs, SchedulerArgs};
use crate::pki::Pki;
use crate::problem::Problem;
use crate::roles::api::{self, Api, read};
use crate::roles::{metrics, stores};
use crate::{machine, preflight, stop};
use gantry_client::Client;
use gantry_controllers::{Cidr, LeaderElection, Ranges};
use std::path::PathBuf;

/// The role's client; a kubeconfig that cannot be read is the person's to put right.
pub async fn client(args: &ClientArgs) -> anyhow::Result<Client> {
    let path = &args.kubeconfig;
    match Client::from_kubeconfig(path).await {
        Ok(client) => Ok(client),
        Err(error) => Err(Problem::new(format!("--kubeconfig {}: {error}", path.display())).into()),
    }
}

/// Unique among the processes that compete for one Lease.
fn identity() -> String {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    format!("{host}-{}", uuid::Uuid::new_v4())
}

/// The addresses of pods, as the node-ipam controller shares them out.
pub fn pod_ranges(network: &NetworkArgs) -> Result<Ranges, Problem> {
    let cidr = &network.cluster_cidr;
    Cidr::parse(cidr)
        .and_then(|cluster| Ranges::new(cluster, 24))
        .ok_or_else(|| Problem::new(format!("--cluster-cidr {cidr}: an IPv4 range of at least a /24 is needed")))
}

/// `gantry apiserver`: on stores that run elsewhere.
pub async fn apiserver(args: ApiserverArgs) -> anyhow::Result<()> {
    machine::check_ranges(&args.network.service_cidr, &args.network.cluster_cidr)?;
    let keys = Pki::at(args.pki_dir);
    preflight::check_ports(&[(args.listen, "--listen")])?;
    let stores = stores::remote(&args.store_endpoints, &keys)?;
    let plan = api::Plan {
        listen: args.listen,
        advertise: machine::node_ip(args.advertise_ip),
        service_cidr: args.network.service_cidr,
        dns_ip: args.network.dns_ip,
        seats: args.max_requests_inflight.map_or_else(api::seats_here, |seats| seats as usize),
        cluster_domain: args.network.cluster_domain,
        access: Some((args.authentication, args.authorization, args.audit)),
    };
    let cancel = stop::signal_token()?;
    let api = Api::start(&plan, &keys, stores, cancel.clone()).await?;
    tracing::info!(listen = %plan.listen, "the API server answers");
    cancel.cancelled().await;
    api.ended().await;
    Ok(())
}

/// `gantry scheduler`: whenever it leads.
pub async fn scheduler(args: SchedulerArgs) -> anyhow::Result<()> {
    let usual = gantry_scheduler::Config::default();
    let read_file = |path: &PathBuf| -> anyhow::Result<_> {
        let parsed = serde_saphyr::from_str::<gantry_scheduler::Profiles>(&read(path)?);
        let checked = parsed.map_err(|error| error.to_string()).and_then(gantry_scheduler::Profiles::checked);
        checked.map_err(|why| Problem::new(format!("--config {}: {why}", path.display())).into())
    };
    let profiles = args.config.as_ref().map(read_file).transpose()?;
    let config = match profiles {
        None => usual,
        Some((scheduler_name, profiles)) => gantry_scheduler::Config { scheduler_name, profiles, ..usual },
    };
    let leader_election = !args.no_leader_election;
    let config = gantry_scheduler::Config { leader_election, identity: identity(), ..config };
    let (client, cancel) = (client(&args.client).await?, stop::signal_token()?);
    metrics::serve(&args.metrics, config.metrics.clone(), cancel.clone()).await?;
    gantry_scheduler::run(config, client, cancel).await?;
    Ok(())
}

/// `gantry controllers`: whenever they lead.
pub async fn controllers(args: ControllersArgs) -> anyhow::Result<()> {
    let root_ca_pem = args.root_ca.as_deref().map(read).transpose()?.unwrap_or_default();
    let leader_election = Some(LeaderElection {
        namespace: "kube-system".to_owned(),
        name: "kube-controller-manager".to_owned(),
        identity: identity(),
    });
    let ranges = pod_ranges(&args.network)?;
    let config = gantry_controllers::Config { ranges, root_ca_pem, leader_election, ..Default::default() };
    let (client, cancel) = (client(&args.client).await?, stop::signal_token()?);
    metrics::serve(&args.metrics, config.metrics.clone(), cancel.clone()).await?;
    gantry_controllers::run(config, client, cancel).await?;
    Ok(())
}
