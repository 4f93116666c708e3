//! Three schedulers that all believe to be alone, on the same machines and the same pods, while others fill machines by hand, delete and
//! resize, and two machines lend to batch and take it back.

use crate::arena::{Arena, MACHINES, PATIENCE, Server};
use crate::crowd::{Crowd, drawn, labelled, pod, with};
use crate::record::{Pod, Record};
use crate::replay;
use anyhow::ensure;
use gantry_conformance::wait_for;
use serde_json::{Value, json};

const SCHEDULERS: [&str; 3] = ["one", "two", "three"];
const PODS: usize = 1_300;
const BY_HAND: usize = 30;
/// Machines that lend.
const LENDERS: usize = 20;

fn name(n: usize) -> String {
    format!("p-{n}")
}

/// A third each of ordinary, production and batch, of different sizes: together nearly all that there is.
fn drawn_pod(n: usize) -> Value {
    let one = pod(&name(n), 300 + 50 * drawn(n, 12));
    match n % 3 {
        0 => one,
        1 => with(one, "priorityClassName", json!("production")),
        _ => with(one, "priorityClassName", json!("batch")),
    }
}

fn lend(crowd: &Crowd<'_>, cpu: &str) -> anyhow::Result<()> {
    let capacities = (0..LENDERS).map(|n| {
        format!(
            "apiVersion: gantry.dev/v1\nkind: BatchCapacity\nmetadata: {{name: hollow-{n:05}}}\nspec: {{lendable: {{cpu: '{cpu}'}}}}\n"
        )
    });
    crowd.arena.kubectl.apply(&capacities.collect::<Vec<_>>().join("---\n")).map(drop)
}

/// What people do meanwhile.
fn disturb(crowd: &Crowd<'_>, record: &Record) -> anyhow::Result<()> {
    record.wait_bound(crowd.namespace, PODS / 5)?;
    crowd.create((0..BY_HAND).map(|n| {
        let one = labelled(pod(&format!("by-hand-{n}"), 500), "by", "hand");
        with(one, "nodeName", json!(format!("hollow-{:05}", n * 3 % MACHINES)))
    }))?;
    let placed = |part: usize| {
        let pods = record.pods(crowd.namespace, |pod| !pod.node.is_empty() && pod.name.starts_with("p-"));
        pods.into_iter()
            .filter(move |pod| pod.name[2..].parse::<usize>().is_ok_and(|n| n % 8 == part))
            .collect::<Vec<_>>()
    };
    let grown = placed(0);
    crowd.resize(grown.iter().map(|pod| (pod.name.as_str(), usize::try_from(pod.cpu_m).unwrap_or(0) + 200)))?;
    lend(crowd, "1")?;
    crowd.delete(placed(1).iter().chain(&placed(2)).map(|pod| pod.name.as_str()))?;
    record.wait_bound(crowd.namespace, PODS / 2)?;
    let shrunk = placed(0);
    crowd.resize(shrunk.iter().map(|pod| (pod.name.as_str(), 300)))?;
    crowd.delete(placed(1).iter().chain(&placed(2)).map(|pod| pod.name.as_str()))
}

pub fn at_once_on_the_same_machines(arena: &Arena) -> anyhow::Result<()> {
    arena.case("several", &SCHEDULERS, |crowd, record| {
        lend(crowd, "2")?;
        for (n, scheduler) in SCHEDULERS.iter().enumerate() {
            let server = if n == 0 { Server::Steady } else { Server::Mortal };
            arena.start_scheduler(scheduler, server, &["--no-leader-election"])?;
        }
        std::thread::scope(|scope| {
            let making = scope.spawn(|| crowd.create((0..PODS).map(drawn_pod)));
            let result = disturb(crowd, record);
            making.join().expect("it does not panic").and(result)
        })?;
        // Until all of them fit: what is deleted last is what came last.
        crowd.delete((PODS * 9 / 10..PODS).map(name).collect::<Vec<_>>().iter().map(String::as_str))?;
        record.wait_all_bound(crowd.namespace)?;
        SCHEDULERS.iter().try_for_each(|scheduler| arena.pid(scheduler).map(drop))?;
        let by_hand = |pod: &Pod| pod.name.starts_with("by-hand");
        let summary = replay::judge(&record.changes()?, by_hand)?;
        println!(
            "    {} binds, {} deletions, machines filled to {} %",
            summary.binds, summary.deleted, summary.fullest_percent
        );
        ensure!(summary.fullest_percent >= 95, "the machines were to be full: {summary:?}");
        arena.kubectl.ok(&["delete", "batchcapacities", "--all"])?;
        wait_for("nothing to be lent", PATIENCE, || {
            let left = arena.kubectl.ok(&["get", "batchcapacities", "-o", "name"])?;
            ensure!(left.is_empty(), "{left}");
            Ok(())
        })
    })
}
