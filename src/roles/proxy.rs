//! What the service proxy of this machine is told, and `gantry proxy`.

use crate::cli::{NetworkArgs, NodeArgs, ProxyArgs};
use crate::datadir::DataDir;
use crate::footprint::Footprint;
use crate::roles::standalone;
use crate::supervise::supervise;
use crate::{machine, preflight, stop};

pub fn config(data: &DataDir, node_name: &str, node: &NodeArgs, network: &NetworkArgs) -> gantry_proxy::Config {
    let defaults = gantry_proxy::Config::default();
    gantry_proxy::Config {
        node_name: node_name.to_owned(),
        table: node.nft_table.clone(),
        service_cidr: network.service_cidr.clone(),
        cluster_cidr: network.cluster_cidr.clone(),
        discovery: data.discovery(),
        nft: preflight::find_program("nft").unwrap_or(defaults.nft),
        conntrack: preflight::find_program("conntrack").unwrap_or(defaults.conntrack),
        ip: preflight::find_program("ip").unwrap_or(defaults.ip),
        masquerade_egress: defaults.masquerade_egress,
    }
}

pub async fn run(args: ProxyArgs) -> anyhow::Result<()> {
    preflight::check_root()?;
    let data = DataDir::new(&args.data.data_dir)?;
    data.check_format()?;
    let footprint = Footprint::new(&args.node.cgroup_root, &args.node.nft_table, &args.node.dns_link);
    footprint.check(&data)?;
    data.create()?;
    let _lock = data.lock("proxy")?;
    footprint.claim(&data)?;
    let client = standalone::client(&args.client).await?;
    let config = config(&data, &machine::node_name(args.node.node_name.as_deref())?, &args.node, &args.network);
    let cancel = stop::signal_token()?;
    supervise("proxy", cancel, move |token| gantry_proxy::run(config.clone(), client.clone(), token)).await;
    Ok(())
}
