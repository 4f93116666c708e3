//! What ends when a part dies, and what does not. Every case ends with the whole cluster running again.

use crate::together::{REPLICAS, every_machine_reaches_every_pod};
use anyhow::{Context, ensure};
use gantry_conformance::{Fleet, Kubectl, Side, wait_for};
use std::time::Duration;

/// A write through each API server, as soon as it can be had.
fn writes_go_on(fleet: &Fleet, name: &str) -> anyhow::Result<()> {
    for side in [Side::A, Side::B] {
        let name = format!("{name}-{}", if side == Side::A { "a" } else { "b" });
        let kubectl = fleet.kubectl(side);
        wait_for(&format!("a write through API server {side:?}"), Duration::from_secs(20), || {
            let said = kubectl.run(&["create", "configmap", &name, "--request-timeout=5s"], "")?;
            // A first try may have been written although its answer was lost.
            ensure!(said.code == 0 || said.err.contains("already exists"), "{}", said.err);
            Ok(())
        })?;
    }
    Ok(())
}

fn both_are_there(fleet: &Fleet, name: &str) -> anyhow::Result<()> {
    for side in [Side::A, Side::B] {
        for suffix in ["a", "b"] {
            fleet.kubectl(side).ok(&["get", "configmap", &format!("{name}-{suffix}")])?;
        }
    }
    Ok(())
}

pub fn a_store_machine_dies_and_comes_back(fleet: &Fleet) -> anyhow::Result<()> {
    for member in 1..=3 {
        // Whoever led: each member dies once, and each later majority needs those that came back.
        fleet.kill_store_machine(member)?;
        let name = format!("without-{member}");
        writes_go_on(fleet, &name)?;
        both_are_there(fleet, &name)?;
        fleet.start_store_machine(member)?;
        wait_for("the machines to stay Ready", Duration::from_secs(30), || all_ready(fleet.kubectl(Side::B)))?;
    }
    for member in 1..=3 {
        both_are_there(fleet, &format!("without-{member}"))?;
    }
    Ok(())
}

fn all_ready(kubectl: &Kubectl) -> anyhow::Result<()> {
    kubectl.ok(&["wait", "--for=condition=Ready", "nodes", "--all", "--timeout=1s"]).map(drop)
}

pub fn without_a_majority_nothing_is_written_and_everything_runs(fleet: &Fleet) -> anyhow::Result<()> {
    fleet.kill_store_machine(1)?;
    fleet.kill_store_machine(2)?;
    let kubectl = fleet.kubectl(Side::A);
    let said = kubectl.run(&["create", "configmap", "minority", "--request-timeout=8s"], "")?;
    ensure!(said.code != 0, "one member of three must not write: {}", said.out);
    every_pod_answers_its_neighbours(fleet).context("without a store")?;
    fleet.start_store_machine(1)?;
    fleet.start_store_machine(2)?;
    writes_go_on(fleet, "majority")?;
    wait_for("the machines to be Ready", Duration::from_secs(60), || all_ready(kubectl))?;
    every_machine_reaches_every_pod(fleet)
}

/// Asks the virtual IP from every machine, without asking the API for anything but what is known already.
fn every_pod_answers_its_neighbours(fleet: &Fleet) -> anyhow::Result<()> {
    // The API server answers reads that may be old from its cache also when the store is away.
    let address =
        fleet.kubectl(Side::B).ok(&["get", "--raw", "/api/v1/namespaces/default/services?resourceVersion=0"])?;
    let list: serde_json::Value = serde_json::from_str(&address)?;
    let web = list["items"].as_array().into_iter().flatten().find(|item| item["metadata"]["name"] == "web");
    let address = web.and_then(|web| web["spec"]["clusterIP"].as_str()).context("the Service web")?;
    for machine in &fleet.machines {
        for _ in 0..REPLICAS {
            let said = machine.fetch(&format!("http://{address}/hostname"))?;
            ensure!(said.starts_with("web-"), "{}: {said}", machine.name);
        }
    }
    Ok(())
}

pub fn an_api_server_dies_and_comes_back(fleet: &Fleet) -> anyhow::Result<()> {
    fleet.kill("apiserver-a")?;
    ensure!(fleet.kubectl(Side::A).run(&["get", "nodes"], "")?.code != 0, "it is gone");
    let other = fleet.kubectl(Side::B);
    other.ok(&["create", "configmap", "meanwhile"])?;
    every_machine_reaches_every_pod_through(fleet, other)?;
    fleet.start_apiserver(Side::A)?;
    fleet.wait_answers(Side::A)?;
    fleet.kubectl(Side::A).ok(&["get", "configmap", "meanwhile"])?;
    wait_for("the machines of both API servers to be Ready", Duration::from_secs(60), || all_ready(other))?;
    // Its machines take orders again: a pod of theirs is replaced.
    let node = &fleet.machines[0].name;
    let field = format!("spec.nodeName={node}");
    let pod = other.path(&["pods", "-l", "app=web", "--field-selector", &field], ".items[0].metadata.name")?;
    fleet.kubectl(Side::A).ok(&["delete", "pod", &pod, "--timeout=60s"])?;
    other.ok(&["rollout", "status", "deployment/web", "--timeout=60s"])?;
    every_machine_reaches_every_pod(fleet)
}

fn every_machine_reaches_every_pod_through(fleet: &Fleet, kubectl: &Kubectl) -> anyhow::Result<()> {
    let address = kubectl.path(&["service", "web"], ".spec.clusterIP")?;
    for machine in &fleet.machines {
        machine.fetch(&format!("http://{address}/hostname"))?;
    }
    Ok(())
}

/// Which side holds the Lease of a pair of loops. Their identities are random; the process that dies is found by trying.
fn holder(fleet: &Fleet, lease: &str) -> anyhow::Result<String> {
    let kubectl = fleet.kubectl(Side::A).within("kube-system");
    let holder = kubectl.path(&["lease", lease], ".spec.holderIdentity")?;
    ensure!(!holder.is_empty(), "nobody holds {lease}");
    Ok(holder)
}

pub fn the_leading_loops_die_and_others_take_over(fleet: &Fleet) -> anyhow::Result<()> {
    let kubectl = fleet.kubectl(Side::B);
    for (role, lease) in [("scheduler", "kube-scheduler"), ("controllers", "kube-controller-manager")] {
        let before = holder(fleet, lease)?;
        fleet.kill(&format!("{role}-a"))?;
        start(fleet, role, Side::A)?;
        // Had A not led, B does, and dies now.
        if wait_for("another holder", Duration::from_secs(3), || changed(fleet, lease, &before)).is_err() {
            fleet.kill(&format!("{role}-b"))?;
            start(fleet, role, Side::B)?;
        }
        wait_for(&format!("another {role} to lead"), Duration::from_secs(60), || changed(fleet, lease, &before))
            .with_context(|| fleet.tail(&format!("{role}-b"), 20))?;
        let name = format!("after-{role}");
        kubectl.ok(&[
            "create",
            "deployment",
            &name,
            "--image=docker.io/library/testbed:local",
            "--",
            "/testbed",
            "pause",
        ])?;
        kubectl.ok(&["rollout", "status", &format!("deployment/{name}"), "--timeout=60s"])?;
        kubectl.ok(&["delete", "deployment", &name])?;
    }
    Ok(())
}

fn start(fleet: &Fleet, role: &str, side: Side) -> anyhow::Result<()> {
    if role == "scheduler" { fleet.start_scheduler(side) } else { fleet.start_controllers(side) }
}

fn changed(fleet: &Fleet, lease: &str, before: &str) -> anyhow::Result<()> {
    let now = holder(fleet, lease)?;
    ensure!(now != before, "{before} still holds {lease}");
    Ok(())
}

pub fn a_machine_is_cut_off_and_comes_back(fleet: &Fleet) -> anyhow::Result<()> {
    let (machine, kubectl) = (&fleet.machines[2], fleet.kubectl(Side::B));
    let field = format!("spec.nodeName={}", machine.name);
    let pod = ["pods", "-l", "app=web", "--field-selector", field.as_str()];
    let address = kubectl.path(&pod, ".items[0].status.podIP")?;
    let name = kubectl.path(&pod, ".items[0].metadata.name")?;
    machine.plug(false)?;
    wait_for("the machine to be reported as not Ready", Duration::from_secs(90), || {
        let ready = kubectl.path(&["node", &machine.name], ".status.conditions[?(@.type==\"Ready\")].status")?;
        ensure!(ready == "Unknown", "Ready is {ready}");
        Ok(())
    })?;
    wait_for("its pod to leave the endpoints", Duration::from_secs(20), || {
        let slices = ["endpointslices", "-l", "kubernetes.io/service-name=web"];
        let ready = kubectl.path(&slices, ".items[*].endpoints[?(@.conditions.ready==true)].addresses[0]")?;
        ensure!(ready.split_whitespace().count() == REPLICAS - 1, "ready: {ready}");
        ensure!(!ready.split_whitespace().any(|one| one == address), "{address} is still ready: {ready}");
        Ok(())
    })?;
    let said = machine.fetch(&format!("http://{address}:8080/hostname")).context("its pod goes on")?;
    ensure!(said.trim() == name, "{said}");
    machine.plug(true)?;
    wait_for("the machine to be Ready again", Duration::from_secs(60), || all_ready(kubectl))?;
    let uid = kubectl.path(&["pod", &name], ".status.containerStatuses[0].restartCount")?;
    ensure!(uid == "0", "the pod was not restarted: {uid}");
    every_machine_reaches_every_pod(fleet)
}
