//! What the API server computes for one operation of each kind that there are many of, with all built-in admission on.

use super::Ledger;
use super::bind;
use super::site::{self, CLIENTS};
use crate::apibench::Lab;
use crate::apibench::bodies::{self, NAMESPACE, PODS, Template};
use crate::apibench::load::{self, Shape};
use crate::apibench::servers::Api;
use crate::apibench::wire::{Call, MERGE, STRATEGIC};
use crate::storebench::figures::Goal;
use crate::wait_for;
use serde_json::{Value, json};
use std::time::Duration;

/// Agents with a certificate of their own.
const AGENTS: usize = 64;
/// Events wait for each other on their way to the disk: more are under way at once.
const EVENT_CLIENTS: usize = 1_024;
const EVENT_BATCHES: &str = "/apis/gantry.dev/v1/events";
const EVENT_BATCH: u64 = 256;
/// Batches under way at once.
const BATCHING: usize = 4;
const COUNTED: Duration = Duration::from_secs(60);
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
const EVENTS: &str = "/api/v1/namespaces/team-a/events";

pub fn run(lab: &Lab, ledger: &mut Ledger) -> anyhow::Result<()> {
    let api = Api::start(lab)?;
    let people = site::people(lab, &api)?;
    site::nodes(lab, &api, (bind::LANES * bind::BATCH) as u64)?;
    let template = site::pod_template(&api, None)?;
    let mut created = site::pods(&api, &people.team, &template, 0, lab.sizes.writes)?;
    ledger.cost("create of a pod", Goal::AtMost(120.0), &created);
    ledger.latencies("create of a pod, 64 clients", Goal::Free, &mut created.latencies);
    let bound = bind::run(lab, &api, lab.sizes.writes)?;
    ledger.cost("bind in bulk", Goal::AtMost(60.0), &bound);
    reports(lab, &api, ledger)?;
    events(lab, &api, ledger)?;
    quota(lab, &api, ledger)
}

/// What agents write: the status of their pods, and their leases.
fn reports(lab: &Lab, api: &Api, ledger: &mut Ledger) -> anyhow::Result<()> {
    let agents = lab.agents(AGENTS)?;
    let status = Template::new(&bodies::pod_status());
    let count = lab.sizes.writes;
    let shape = Shape { identities: &agents, clients: CLIENTS, count, collection: PODS };
    // Client `n` is the agent of machine `n`, which has the pods that `bind` gave it.
    let report = |client: usize, turn: u64| {
        let pods = bind::pods_of(client, lab.sizes.writes);
        let pod = pods[turn as usize / CLIENTS % pods.len()];
        Call::patch(format!("{}/status", bodies::pod_path(pod)), STRATEGIC, status.fill("", &format!("{turn:064}")))
    };
    let mut outcome = load::run(api, "status", &shape, report)?;
    ledger.cost("status patch of a pod", Goal::AtMost(80.0), &outcome);
    ledger.latencies("status patch of a pod, 64 clients", Goal::Free, &mut outcome.latencies);
    let lease = Template::new(&bodies::lease());
    let shape = Shape { identities: &agents, clients: CLIENTS, count: AGENTS as u64, collection: LEASES };
    load::run(api, "leases", &shape, |client, _| Call::post(LEASES, lease.fill(&bodies::node_name(client), "")))?;
    let renewal = Template::new(&bodies::renewal());
    let shape = Shape { count, ..shape };
    let renew = |client, turn| {
        let name = bodies::node_name(client);
        Call::patch(format!("{LEASES}/{name}"), MERGE, renewal.fill(&name, &format!("{:06}", turn % 1_000_000)))
    };
    let outcome = load::run(api, "renewals", &shape, renew)?;
    ledger.cost("lease renewal", Goal::AtMost(50.0), &outcome);
    Ok(())
}

fn events(lab: &Lab, api: &Api, ledger: &mut Ledger) -> anyhow::Result<()> {
    let agents = lab.agents(AGENTS)?;
    let event = Template::new(&bodies::event());
    let count = lab.sizes.events / 4;
    let shape = Shape { identities: &agents, clients: EVENT_CLIENTS, count, collection: EVENTS };
    let outcome = load::run(api, "events", &shape, |_, turn| {
        Call::post(EVENTS, event.fill(&format!("web-0000001.{turn:016x}"), ""))
    })?;
    ledger.cost("event, each in a request of its own", Goal::Free, &outcome);
    let batches = lab.sizes.events / EVENT_BATCH;
    let shape = Shape { clients: BATCHING, count: batches, ..shape };
    let mut outcome = load::run(api, "batches of events", &shape, |_, turn| {
        let item = |at| event.fill(&format!("web-0000002.{:016x}", turn * EVENT_BATCH + at), "");
        let items: Vec<_> = (0..EVENT_BATCH).map(item).collect();
        Call::post(EVENT_BATCHES, [&b"{\"items\":["[..], &items.join(&b','), b"]}"].concat().into())
    })?;
    outcome.done = batches * EVENT_BATCH;
    let list: Value = serde_json::from_slice(&api.must(&Call::get(format!("{EVENTS}?limit=1")))?)?;
    let kept = list["metadata"]["remainingItemCount"].as_u64().unwrap_or(0) + 1;
    anyhow::ensure!(kept == count + outcome.done, "{kept} events are there, not {}", count + outcome.done);
    ledger.cost(&format!("event, {EVENT_BATCH} in a request"), Goal::AtMost(25.0), &outcome);
    Ok(())
}

/// The same create where a ResourceQuota counts it.
fn quota(lab: &Lab, api: &Api, ledger: &mut Ledger) -> anyhow::Result<()> {
    let hard = json!({"pods": "1000000", "requests.cpu": "100000"});
    let body =
        json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "all"}, "spec": {"hard": hard}});
    let quotas = format!("/api/v1/namespaces/{NAMESPACE}/resourcequotas");
    api.must(&Call::post(&quotas, site::bytes(&body)))?;
    wait_for("the quota is counted", COUNTED, || {
        let quota: Value = serde_json::from_slice(&api.must(&Call::get(format!("{quotas}/all")))?)?;
        anyhow::ensure!(quota["status"]["used"].is_object(), "its status is {}", quota["status"]);
        Ok(())
    })?;
    let template = site::pod_template(api, None)?;
    let person = lab.person("ann")?;
    let outcome = site::pods(api, &person, &template, lab.sizes.writes, lab.sizes.writes / 4)?;
    ledger.cost("create of a pod under a ResourceQuota", Goal::Free, &outcome);
    Ok(())
}
