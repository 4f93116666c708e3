//! A list of many small objects whose selector matches none of them.

#![expect(clippy::disallowed_methods, reason = "a benchmark reads real time")]

use super::Ledger;
use super::site::{self, CLIENTS};
use crate::apibench::Lab;
use crate::apibench::bodies::{self, Template};
use crate::apibench::load::{self, Outcome, Shape};
use crate::apibench::servers::{ADDRESS, Api};
use crate::apibench::wire::{Call, Link};
use crate::storebench::figures::Goal;
use crate::storebench::latency::Latencies;
use std::time::Instant;

const MAPS: &str = "/api/v1/namespaces/team-a/configmaps";
const MAP_BYTES: usize = 1_024;

pub fn run(lab: &Lab, ledger: &mut Ledger) -> anyhow::Result<()> {
    let api = Api::start(lab)?;
    let people = site::people(lab, &api)?;
    let count = lab.sizes.config_maps;
    let identities = site::connections(&people.team);
    let shape = Shape { identities: &identities, clients: CLIENTS, count, collection: MAPS };
    let body = Template::new(&bodies::config_map(MAP_BYTES));
    let create = |_, turn: u64| Call::post(MAPS, body.fill(&format!("map-{turn:07}"), "1"));
    let made = load::run(&api, "ConfigMaps", &shape, create)?;
    ledger.cost("create of a 1 KB ConfigMap", Goal::Free, &made);
    let what = format!("list of {count} ConfigMaps of 1 KB whose selector matches none");
    let (mut latencies, outcome) = lab.store.block_on(lists(lab, &api, &people.team))?;
    ledger.latencies(&what, Goal::AtMost(65.0), &mut latencies);
    ledger.free(format!("{what}: CPU of the API server"), "ms each", outcome.each(outcome.cpu.api) / 1_000.0);
    ledger.free(
        format!("{what}: others on the machine meanwhile"),
        "cores",
        outcome.cpu.others.max(0.0) / outcome.seconds,
    );
    bodies_check(&api)
}

async fn lists(lab: &Lab, api: &Api<'_>, who: &crate::apibench::Identity) -> anyhow::Result<(Latencies, Outcome)> {
    let link = Link::connect(ADDRESS, who).await?;
    let call = Call::get(format!("{MAPS}?labelSelector=app%3Dnone"));
    link.must(&call).await?;
    let mut latencies = Latencies::default();
    let (before, began) = (api.cpu()?, Instant::now());
    for _ in 0..lab.sizes.empty_lists {
        let asked = Instant::now();
        link.must(&call).await?;
        latencies.add(asked.elapsed());
    }
    let seconds = began.elapsed().as_secs_f64();
    let done = lab.sizes.empty_lists as u64;
    Ok((latencies, Outcome { done, seconds, cpu: api.cpu()?.since(before), ..Outcome::default() }))
}

/// The objects are as large as is said.
fn bodies_check(api: &Api) -> anyhow::Result<()> {
    let stored = api.must(&Call::get(format!("{MAPS}/map-0000000")))?.len();
    anyhow::ensure!((900..1_200).contains(&stored), "a ConfigMap is stored in {stored} bytes, not in about 1 KB");
    Ok(())
}
