//! Hollow machines as the cluster sees them: Nodes, Leases, and what their identity may do.

use crate::MACHINES;
use anyhow::{Context, ensure};
use gantry_conformance::rehearsal::{PATIENCE, Rehearsal};
use gantry_conformance::{Kubectl, tools, wait_for};
use serde_json::Value;
use std::collections::BTreeSet;
use std::process::Command;

fn items(list: &Value) -> anyhow::Result<&Vec<Value>> {
    list["items"].as_array().context("a list has items")
}

pub fn fifty_register_and_keep_their_leases(r: &Rehearsal) -> anyhow::Result<()> {
    let nodes = r.kubectl.json(&["get", "nodes"])?;
    let nodes = items(&nodes)?;
    ensure!(nodes.len() == MACHINES, "{} Nodes", nodes.len());
    let label = |node: &Value, key: &str| node["metadata"]["labels"][key].as_str().unwrap_or_default().to_owned();
    let all = |key: &str| nodes.iter().map(|node| label(node, key)).collect::<BTreeSet<_>>();
    ensure!(all("kubernetes.io/hostname").len() == MACHINES, "each has its own host name");
    ensure!(all("topology.kubernetes.io/zone") == BTreeSet::from(["zone-1".to_owned(), "zone-2".to_owned()]));
    ensure!(all("gantry.dev/rack").len() == 10, "{:?}", all("gantry.dev/rack"));
    for node in nodes {
        let (class, status) = (label(node, "gantry.dev/machine-class"), &node["status"]);
        let gpus = &status["allocatable"]["nvidia.com/gpu"];
        ensure!((class == "gpu") == (gpus == "4"), "{class} has {gpus} GPUs");
        let cpu = if class == "gpu" { "16" } else { "8" };
        ensure!(status["capacity"]["cpu"] == cpu, "{class}: {}", status["capacity"]);
    }
    let renewed = || -> anyhow::Result<Vec<String>> {
        let leases = r.kubectl.json(&["get", "leases", "-n", "kube-node-lease"])?;
        let time = |lease: &Value| format!("{} {}", lease["metadata"]["name"], lease["spec"]["renewTime"]);
        Ok(items(&leases)?.iter().map(time).collect())
    };
    let first = wait_for("a Lease of each", PATIENCE, || {
        let leases = renewed()?;
        ensure!(leases.len() == MACHINES, "{} Leases", leases.len());
        Ok(leases)
    })?;
    wait_for("each Lease to be renewed", PATIENCE, || {
        let now = renewed()?;
        let same = now.iter().filter(|one| first.contains(one)).count();
        ensure!(same == 0, "{same} were not renewed yet");
        Ok(())
    })
}

pub fn their_identity_may_do_no_more_than_agents(r: &Rehearsal) -> anyhow::Result<()> {
    let hollow = Kubectl::new(&r.path("data/pki/hollow.kubeconfig"), &r.path(""))?;
    let may = |words: &[&str]| -> anyhow::Result<bool> {
        let mut arguments = vec!["auth", "can-i"];
        arguments.extend(words);
        Ok(hollow.run(&arguments, "")?.out.trim() == "yes")
    };
    for words in [
        &["create", "nodes"][..],
        &["patch", "pods", "--subresource=status", "-n", "default"],
        &["delete", "pods", "-n", "default"],
        &["patch", "leases", "-n", "kube-node-lease"],
    ] {
        ensure!(may(words)?, "it may {words:?}");
    }
    for words in [
        &["create", "pods", "-n", "default"][..],
        &["get", "secrets", "-n", "kube-system"],
        &["patch", "leases", "-n", "kube-system"],
        &["delete", "nodes"],
        &["create", "clusterroles"],
        &["impersonate", "users"],
    ] {
        ensure!(!may(words)?, "it may not {words:?}");
    }
    Ok(())
}

pub fn a_deleted_machine_comes_back(r: &Rehearsal) -> anyhow::Result<()> {
    let uid = || r.kubectl.path(&["node", "hollow-00003"], ".metadata.uid");
    let before = uid()?;
    r.kubectl.ok(&["delete", "node", "hollow-00003"])?;
    wait_for("the machine to register again", PATIENCE, || {
        let now = uid()?;
        ensure!(now != before, "it is the one that was deleted");
        Ok(())
    })?;
    r.wait_ready(MACHINES)
}

pub fn a_wrong_profile_is_told_by_its_field(r: &Rehearsal) -> anyhow::Result<()> {
    let path = r.path("wrong.yaml");
    std::fs::write(&path, "classes: [{name: a, gpus: {count: none}}]")?;
    let output = r.gantry(&["hollow", "--nodes", "1"])?.arg("--profile").arg(&path).output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.code() == Some(2), "exit code {:?}: {said}", output.status.code());
    ensure!(said.contains("classes[0].gpus.count: a whole number from 1 to 1024 is needed, not \"none\""), "{said}");
    Ok(())
}

pub fn each_may_watch_for_itself(r: &Rehearsal) -> anyhow::Result<()> {
    r.start_machines("watchers", 5, MACHINES, &["--watch-per-node"])?;
    r.wait_ready(MACHINES + 5)?;
    r.kubectl.with_namespace("watchers", |kubectl| {
        let pods: Vec<String> =
            (0..5).map(|n| crate::pods::pod(&format!("w-{n}"), MACHINES + n, "Always", "")).collect();
        kubectl.apply(&pods.join("---\n"))?;
        kubectl.ok(&["wait", "--for=condition=Ready", "pods", "--all", "--timeout=60s"])?;
        Ok(())
    })?;
    r.kill("watchers")?;
    let gone: Vec<String> = (0..5).map(|n| format!("hollow-{:05}", MACHINES + n)).collect();
    let mut delete = vec!["delete", "node"];
    delete.extend(gone.iter().map(String::as_str));
    r.kubectl.ok(&delete)?;
    let lines = tools::run(Command::new(tools::gantry()?).args(["hollow", "profile", "gangs"]))?;
    ensure!(lines.contains("kind: Gang"), "{lines}");
    Ok(())
}
