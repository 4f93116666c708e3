//! A large cluster's machines and pods: what each costs in memory, and lists of many of them on the way.

use super::Ledger;
use super::{lists, site};
use crate::apibench::Lab;
use crate::apibench::bodies::PODS;
use crate::apibench::servers::Api;
use crate::apibench::wire::Call;
use crate::readings;
use crate::storebench::figures::Goal;
use anyhow::Context;
use serde_json::Value;

pub fn run(lab: &Lab, ledger: &mut Ledger) -> anyhow::Result<()> {
    let (nodes, listed, all) = (lab.sizes.nodes, lab.sizes.listed_pods, lab.sizes.pods);
    let api = Api::start(lab)?;
    let people = site::people(lab, &api)?;
    let template = site::pod_template(&api, None)?;
    let pss = || readings::pss_mb(api.pid());
    let empty = pss()?;
    ledger.free("resident memory of the API server: without objects", "MB", empty);
    site::nodes(lab, &api, nodes)?;
    let with_nodes = pss()?;
    let each = |from: f64, to: f64, count: u64| (to - from) * 1e6 / count as f64;
    ledger.free(format!("resident memory per machine, {nodes} of them"), "B", each(empty, with_nodes, nodes));
    let made = site::pods(&api, &people.team, &template, 0, listed)?;
    ledger.cost(&format!("create of pods up to {listed}"), Goal::Free, &made);
    let some = pss()?;
    ledger.free(format!("resident memory per pod, the first {listed}"), "B", each(with_nodes, some, listed));
    lists::run(lab, &api, ledger)?;
    let made = site::pods(&api, &people.team, &template, listed, all - listed)?;
    ledger.cost(&format!("create of pods from {listed} to {all}"), Goal::Free, &made);
    let full = pss()?;
    ledger.free("bytes of a pod's JSON, as it is listed", "B", pod_bytes(&api)?);
    let goal = Goal::AtMost(11_264.0);
    ledger.add(
        format!("resident memory per stored pod of 4 KB, {all} of them"),
        "B",
        goal,
        each(with_nodes, full, all),
    );
    let goal = if all == 300_000 { Goal::AtMost(4_000.0) } else { Goal::Free };
    ledger.add(format!("resident memory of the API server: {all} pods and {nodes} machines"), "MB", goal, full);
    Ok(())
}

/// Of one that many are like.
fn pod_bytes(api: &Api) -> anyhow::Result<f64> {
    let list: Value = serde_json::from_slice(&api.must(&Call::get(format!("{PODS}?limit=1")))?)?;
    let pod = list["items"].get(0).context("a pod")?;
    Ok(pod.to_string().len() as f64)
}
