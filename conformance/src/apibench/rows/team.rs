//! One team submits as fast as it can; what another team's single writes take meanwhile.

#![expect(clippy::disallowed_methods, reason = "a benchmark reads real time")]

use super::Ledger;
use super::site;
use crate::apibench::bodies::{self, PODS, QUIET, Template};
use crate::apibench::load::{self, Shape};
use crate::apibench::servers::{ADDRESS, Api};
use crate::apibench::wire::{Call, Link};
use crate::apibench::{Identity, Lab};
use crate::storebench::figures::Goal;
use crate::storebench::latency::Latencies;
use crate::storebench::load::runtime;
use anyhow::Context;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Requests that the busy team keeps under way.
const BUSY: usize = 256;
/// The quiet one writes this often, whatever became of its last write.
const EVERY: Duration = Duration::from_millis(20);

pub fn run(lab: &Lab, ledger: &mut Ledger) -> anyhow::Result<()> {
    let api = Api::start(lab)?;
    let people = site::people(lab, &api)?;
    let template = site::pod_template(&api, None)?;
    let over = AtomicBool::new(false);
    let (burst, quiet) = std::thread::scope(|scope| {
        let quiet = scope.spawn(|| runtime()?.block_on(single_writes(&people.quiet, &template, &over)));
        let identities = site::connections(&people.team);
        let shape = Shape { identities: &identities, clients: BUSY, count: lab.sizes.burst, collection: PODS };
        let body = |turn| template.fill(&bodies::pod_name(turn), "");
        let burst = load::run(&api, "burst", &shape, |_, turn| Call::post(PODS, body(turn)));
        over.store(true, Ordering::Relaxed);
        (burst, quiet.join().expect("the quiet team does not panic"))
    });
    let what = "another team's single write while one submits as fast as it can";
    let (mut quiet, refused) = quiet.context(what)?;
    ledger.latencies(what, Goal::AtMost(50.0), &mut quiet);
    ledger.free(format!("{what}: refused"), "times", refused as f64);
    ledger.cost("create of a pod, 256 clients of one team", Goal::Free, &burst?);
    Ok(())
}

/// Each on its own time, so that a slow one does not hide those behind it.
async fn single_writes(who: &Identity, template: &Template, over: &AtomicBool) -> anyhow::Result<(Latencies, usize)> {
    let link = Link::connect(ADDRESS, who).await?;
    let path = format!("/api/v1/namespaces/{QUIET}/pods");
    let mut ticks = tokio::time::interval(EVERY);
    let mut writes = Vec::new();
    while !over.load(Ordering::Relaxed) {
        ticks.tick().await;
        let call = Call::post(&path, template.fill(&bodies::pod_name(writes.len() as u64), ""));
        let (link, began) = (link.clone(), Instant::now());
        writes.push(tokio::spawn(async move {
            let answer = link.ask(&call).await?;
            anyhow::Ok((answer.status.is_success(), began.elapsed()))
        }));
    }
    let (mut latencies, mut refused) = (Latencies::default(), 0);
    for write in writes {
        let (written, took) = write.await.context("a write")??;
        refused += usize::from(!written);
        latencies.add(took);
    }
    Ok((latencies, refused))
}
