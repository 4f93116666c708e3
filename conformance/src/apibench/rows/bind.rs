//! Binds as the scheduler sends them: 256 at once, each to another machine and against the version of that machine's allocation
//! that the bind before it left.

#![expect(clippy::disallowed_methods, reason = "a benchmark reads real time")]

use super::site;
use crate::apibench::Lab;
use crate::apibench::bodies::{self, NAMESPACE, PODS};
use crate::apibench::load::Outcome;
use crate::apibench::servers::{ADDRESS, Api};
use crate::apibench::wire::{Call, Link};
use anyhow::Context;
use bytes::Bytes;
use futures::future::try_join_all;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Instant;

pub const BATCH: usize = 256;
/// Batches under way at once, each on machines of its own.
pub const LANES: usize = 2;

/// The pods of a machine, of so many: machine `n` gets `n`, and every 512th after it.
pub fn pods_of(node: usize, pods: u64) -> Vec<u64> {
    (node as u64..pods).step_by(LANES * BATCH).collect()
}

/// Binds pods `0..count`.
pub fn run(lab: &Lab, api: &Api, count: u64) -> anyhow::Result<Outcome> {
    let versions = versions(api)?;
    let scheduler = lab.scheduler()?;
    let before = api.cpu()?;
    let began = Instant::now();
    lab.store.block_on(async {
        let lanes =
            (0..LANES).map(|number| {
                let own = versions.iter().skip(number * BATCH).take(BATCH).cloned().collect();
                let scheduler = &scheduler;
                async move {
                    Lane { number, versions: own, link: Link::connect(ADDRESS, scheduler).await? }.run(count).await
                }
            });
        try_join_all(lanes).await
    })?;
    let seconds = began.elapsed().as_secs_f64();
    api.settle(PODS)?;
    Ok(Outcome { done: count, seconds, cpu: api.cpu()?.since(before), ..Outcome::default() })
}

/// Of the first machines' allocations, in order.
fn versions(api: &Api) -> anyhow::Result<Vec<String>> {
    let list: Value = serde_json::from_slice(&api.must(&Call::get("/apis/gantry.dev/v1/nodeallocations"))?)?;
    let items = list["items"].as_array().context("a list has items")?;
    let metadata = |item: &Value, field: &str| item["metadata"][field].as_str().unwrap_or_default().to_owned();
    let known: BTreeMap<String, String> =
        items.iter().map(|item| (metadata(item, "name"), metadata(item, "resourceVersion"))).collect();
    let of = |node| known.get(&bodies::node_name(node)).cloned().context("a machine has an allocation");
    (0..LANES * BATCH).map(of).collect()
}

struct Lane {
    number: usize,
    versions: Vec<String>,
    link: Link,
}

impl Lane {
    async fn run(mut self, count: u64) -> anyhow::Result<()> {
        let mut first = self.number * BATCH;
        while (first as u64) < count {
            let size = BATCH.min(count as usize - first);
            let answer = self.link.must(&Call::post("/apis/gantry.dev/v1/bindings", self.batch(first, size))).await?;
            let answer: Value = serde_json::from_slice(&answer)?;
            for (machine, result) in answer["items"].as_array().context("results")?.iter().enumerate() {
                let version = result["resourceVersion"].as_str().with_context(|| format!("a bind failed: {result}"))?;
                self.versions[machine] = version.to_owned();
            }
            first += LANES * BATCH;
        }
        Ok(())
    }

    fn batch(&self, first: usize, size: usize) -> Bytes {
        let item = |place: usize| {
            json!({"namespace": NAMESPACE, "name": bodies::pod_name((first + place) as u64),
                "node": bodies::node_name(self.number * BATCH + place), "allocationVersion": self.versions[place]})
        };
        site::bytes(&json!({"items": (0..size).map(item).collect::<Vec<_>>()}))
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn machines_share_the_pods() {
        assert_eq!(super::pods_of(3, 1_100), [3, 515, 1_027]);
    }
}
