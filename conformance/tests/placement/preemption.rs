//! A scheduler that dies while pods wait for those that make way for them.

use crate::arena::{Arena, PATIENCE, Server};
use crate::crowd::{Crowd, pod, with};
use crate::record::{Pod, Record};
use crate::replay;
use anyhow::{Context, ensure};
use gantry_conformance::wait_for;
use rustix::process::Signal;
use serde_json::{Value, json};
use std::collections::BTreeMap;

const ALONE: &[&str] = &["--no-leader-election"];
/// One sorts before those that make way, one after.
const URGENT: [&str; 2] = ["a-urgent", "z-urgent"];

/// On four machines only, which eight of 3,800m fill.
fn here(pod: Value) -> Value {
    let names: Vec<String> = (0..4).map(|n| format!("hollow-{n:05}")).collect();
    let on = json!([{"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": names}]}]);
    let required = json!({"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": on}});
    with(pod, "affinity", json!({"nodeAffinity": required}))
}

/// Where room was made for whom, and who goes.
fn nominated(crowd: &Crowd<'_>, record: &Record) -> anyhow::Result<(BTreeMap<String, String>, Vec<String>)> {
    let urgent = record.pods(crowd.namespace, |pod| URGENT.contains(&&*pod.name) && !pod.nominated.is_empty());
    let mut going: Vec<String> =
        record.pods(crowd.namespace, |pod| pod.deleting).into_iter().map(|pod| pod.name).collect();
    going.sort();
    ensure!(urgent.len() == 2 && going.len() >= 2, "room was made for {}, {going:?} go", urgent.len());
    Ok((urgent.into_iter().map(|pod| (pod.name, pod.nominated)).collect(), going))
}

pub fn a_restart_keeps_the_room_that_was_made(arena: &Arena) -> anyhow::Result<()> {
    let class = "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: urgent}\nvalue: 1000\n";
    arena.kubectl.apply(class)?;
    arena.case("room", &["one", "two"], |crowd, record| {
        arena.start_scheduler("one", Server::Steady, ALONE)?;
        crowd.create(
            (0..8).map(|n| here(with(pod(&format!("low-{n}"), 3_800), "terminationGracePeriodSeconds", json!(30)))),
        )?;
        record.wait_bound(crowd.namespace, 8)?;
        // While the machines are stopped, who is to go stays.
        arena.signal("machines", Signal::STOP)?;
        let result = room_is_kept(crowd, record);
        arena.signal("machines", Signal::CONT)?;
        let before = result?;
        record.wait_all_bound_of(crowd.namespace, |pod| URGENT.contains(&&*pod.name))?;
        for pod in record.pods(crowd.namespace, |pod| URGENT.contains(&&*pod.name)) {
            ensure!(Some(&pod.node) == before.get(&pod.name), "{} is on {} instead of {before:?}", pod.name, pod.node);
        }
        let summary = replay::judge(&record.changes()?, |_| false)?;
        ensure!(summary.deleted == 2, "two pods were to make way: {summary:?}");
        let late = record.pods(crowd.namespace, |pod: &Pod| pod.name.starts_with("late") && !pod.node.is_empty());
        ensure!(late.is_empty(), "the room was for others: {late:?}");
        Ok(())
    })?;
    arena.kubectl.ok(&["delete", "priorityclass", "urgent"]).map(drop)
}

fn room_is_kept(crowd: &Crowd<'_>, record: &Record) -> anyhow::Result<BTreeMap<String, String>> {
    let arena = crowd.arena;
    crowd.create(URGENT.map(|name| here(with(pod(name, 4_000), "priorityClassName", json!("urgent")))))?;
    let before = wait_for("room to be made", PATIENCE, || nominated(crowd, record))?;
    ensure!(before.1.len() == 2, "one goes for each: {before:?}");
    arena.kill("one")?;
    arena.start_scheduler("two", Server::Steady, ALONE)?;
    // These want the same room; that they are told why they wait shows that the new one has decided.
    crowd.create((0..4).map(|n| here(pod(&format!("late-{n}"), 3_800))))?;
    crowd.create([here(with(pod("urgent-as-well", 8_001), "priorityClassName", json!("urgent")))])?;
    for name in ["late-0", "late-1", "late-2", "late-3", "urgent-as-well"] {
        crowd.says(name, &["short of cpu"])?;
    }
    let after = nominated(crowd, record).context("after the restart")?;
    ensure!(after == before, "{before:?} became {after:?}");
    Ok(before.0)
}
