//! Whether a pod's write costs more when more agents watch, each by its own `spec.nodeName`.

use super::Ledger;
use super::site;
use crate::apibench::Lab;
use crate::apibench::bodies::{self, PODS, Template};
use crate::apibench::load::{self, Shape};
use crate::apibench::servers::Api;
use crate::apibench::watchers::Watchers;
use crate::apibench::wire::{Call, STRATEGIC};
use crate::storebench::figures::Goal;

/// Machines that the written pods are on; each has a watcher from the beginning.
const NODES: usize = 16;
const CONNECTIONS: usize = 100;
/// What two equal measurements may differ by.
const NOISE: f64 = 1.1;

pub fn run(lab: &Lab, ledger: &mut Ledger) -> anyhow::Result<()> {
    let api = Api::start(lab)?;
    site::people(lab, &api)?;
    site::nodes(lab, &api, NODES as u64)?;
    for node in 0..NODES {
        let template = site::pod_template(&api, Some(&bodies::node_name(node)))?;
        site::pods(&api, &lab.admin()?, &template, node as u64, 1)?;
    }
    let agents = lab.agents(NODES)?;
    let status = Template::new(&bodies::pod_status());
    let shape = Shape { identities: &agents, clients: NODES, count: lab.sizes.agent_writes, collection: PODS };
    // Client `n` is the agent of the machine that pod `n` is on.
    let report = |client: usize, turn: u64| {
        let path = format!("{}/status", bodies::pod_path(client as u64));
        Call::patch(path, STRATEGIC, status.fill("", &format!("{turn:064}")))
    };
    let version = site::version(&api, PODS)?;
    let mut watchers = Watchers::start(lab.scheduler()?, CONNECTIONS.min(lab.sizes.agents[0]));
    let mut costs = Vec::new();
    // Without watchers first: everything is warm then.
    load::run(&api, "pod writes", &shape, report)?;
    for count in lab.sizes.agents {
        let watch = |node| {
            let node = bodies::node_name(node);
            format!(
                "/api/v1/pods?watch=1&allowWatchBookmarks=true&fieldSelector=spec.nodeName%3D{node}&resourceVersion={version}"
            )
        };
        watchers.add((watchers.open..count).map(watch).collect())?;
        let outcome = load::run(&api, &format!("pod writes, {count} agents watch"), &shape, report)?;
        ledger.cost(&format!("status patch of a pod while {count} agents watch"), Goal::Free, &outcome);
        costs.push(outcome.each(outcome.cpu.api));
    }
    if let [first, .., last] = costs[..] {
        let [few, _, many] = lab.sizes.agents;
        let what = format!("CPU of the API server for a pod write, {many} watching agents to {few}");
        ledger.add(what, "", Goal::AtMost(NOISE), last / first);
    }
    Ok(())
}
