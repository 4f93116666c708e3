//! One event to everybody who watches a kind: how long it takes, and what each delivery costs.

#![expect(clippy::disallowed_methods, reason = "a benchmark reads real time")]

use super::Ledger;
use super::site;
use crate::apibench::Lab;
use crate::apibench::bodies::{self, PODS, Template};
use crate::apibench::load::Outcome;
use crate::apibench::servers::Api;
use crate::apibench::watchers::Watchers;
use crate::apibench::wire::{Call, MERGE};
use crate::storebench::figures::Goal;
use crate::storebench::latency::Latencies;
use serde_json::json;
use std::time::Instant;

const MAPS: &str = "/api/v1/namespaces/team-a/configmaps";
const MAP_BYTES: usize = 1_024;

pub fn run(lab: &Lab, ledger: &mut Ledger) -> anyhow::Result<()> {
    let api = Api::start(lab)?;
    let people = site::people(lab, &api)?;
    let (watchers, connections) = (lab.sizes.watchers, lab.sizes.watcher_connections);
    api.must(&Call::post(MAPS, Template::new(&bodies::config_map(MAP_BYTES)).fill("seen", "0")))?;
    let map = Seen { collection: MAPS, path: format!("{MAPS}/seen"), connections };
    let change = |turn| site::bytes(&json!({"data": {"version": format!("{turn:08}")}}));
    let (mut latencies, outcome) = map.run(lab, &api, change)?;
    let what = format!("one event of 1 KB to {watchers} watchers on {connections} connections");
    ledger.latencies(&what, Goal::AtMost(100.0), &mut latencies);
    ledger.cost("delivered watch event of 1 KB", Goal::Free, &outcome);
    let template = site::pod_template(&api, None)?;
    site::pods(&api, &people.team, &template, 0, 1)?;
    let pod = Seen { collection: PODS, path: bodies::pod_path(0), connections };
    let change = |turn| site::bytes(&json!({"metadata": {"annotations": {"example.com/turn": format!("{turn:08}")}}}));
    let (mut latencies, outcome) = pod.run(lab, &api, change)?;
    let what = format!("one event of a 4 KB pod to {watchers} watchers on {connections} connections");
    ledger.latencies(&what, Goal::Free, &mut latencies);
    ledger.cost("delivered watch event of a 4 KB pod", Goal::AtMost(8.0), &outcome);
    Ok(())
}

/// An object that everybody watches.
struct Seen {
    collection: &'static str,
    path: String,
    connections: usize,
}

impl Seen {
    /// Writes it again and again, each time when all have seen the last. Latencies are from before the write to each arrival.
    fn run(
        &self,
        lab: &Lab,
        api: &Api,
        change: impl Fn(usize) -> bytes::Bytes,
    ) -> anyhow::Result<(Latencies, Outcome)> {
        let version = site::version(api, self.collection)?;
        let mut watchers = Watchers::start(lab.admin()?, self.connections);
        let watch = format!("{}?watch=1&resourceVersion={version}", self.collection);
        watchers.add(vec![watch; lab.sizes.watchers])?;
        let write = |turn| api.must(&Call::patch(&self.path, MERGE, change(turn)));
        // The first one warms up both sides.
        write(0)?;
        watchers.take(watchers.open)?;
        let (mut latencies, mut seconds) = (Latencies::default(), 0.0);
        let before = api.cpu()?;
        for turn in 1..=lab.sizes.seen_writes {
            let began = Instant::now();
            write(turn)?;
            let (arrivals, _) = watchers.take(watchers.open)?;
            let last = arrivals.iter().max().copied().unwrap_or(began);
            seconds += (last - began).as_secs_f64();
            arrivals.into_iter().for_each(|at| latencies.add(at - began));
        }
        let cpu = api.cpu()?.since(before);
        let done = (watchers.open * lab.sizes.seen_writes) as u64;
        Ok((latencies, Outcome { done, seconds, cpu, ..Outcome::default() }))
    }
}
