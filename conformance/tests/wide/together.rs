//! What several machines and API servers are to a user: one cluster.

use anyhow::{Context, ensure};
use gantry_conformance::{Fleet, Side, wait_for};
use std::collections::BTreeSet;
use std::time::Duration;

pub const REPLICAS: usize = 3;

/// One pod a machine behind one Service.
const WEB: &str = r#"
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 1
      affinity:
        podAntiAffinity:
          requiredDuringSchedulingIgnoredDuringExecution:
          - {topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: web}}}
      containers:
      - name: web
        image: docker.io/library/testbed:local
        command: [/testbed, serve, --port, "8080"]
        ports: [{containerPort: 8080}]
        readinessProbe: {httpGet: {path: /healthz, port: 8080}, periodSeconds: 1}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec:
  selector: {app: web}
  ports: [{port: 80, targetPort: 8080}]
"#;

pub fn machines_join_through_either_api_server(fleet: &Fleet) -> anyhow::Result<()> {
    for side in [Side::A, Side::B] {
        wait_for("three machines to be Ready", Duration::from_secs(60), || {
            fleet.kubectl(side).ok(&["wait", "--for=condition=Ready", "nodes", "--all", "--timeout=1s"])?;
            let names = fleet.kubectl(side).ok(&["get", "nodes", "-o", "name"])?;
            ensure!(names.lines().count() == fleet.machines.len(), "{names}");
            Ok(())
        })?;
    }
    let ranges = fleet.kubectl(Side::A).path(&["nodes"], ".items[*].spec.podCIDR")?;
    let different: BTreeSet<&str> = ranges.split_whitespace().collect();
    ensure!(different.len() == fleet.machines.len(), "every machine has pod addresses of its own: {ranges}");
    Ok(())
}

/// Asks the Service on every machine until each pod has answered there.
pub fn every_machine_reaches_every_pod(fleet: &Fleet) -> anyhow::Result<()> {
    let address = fleet.kubectl(Side::A).path(&["service", "web"], ".spec.clusterIP")?;
    for machine in &fleet.machines {
        let mut seen = BTreeSet::new();
        wait_for(&format!("{} to reach every pod", machine.name), Duration::from_secs(30), || {
            seen.insert(machine.fetch(&format!("http://{address}/hostname"))?);
            ensure!(seen.len() == REPLICAS, "answers came from {seen:?}");
            Ok(())
        })?;
    }
    Ok(())
}

pub fn a_service_spans_the_machines(fleet: &Fleet) -> anyhow::Result<()> {
    let (a, b) = (fleet.kubectl(Side::A), fleet.kubectl(Side::B));
    a.apply(WEB)?;
    b.ok(&["rollout", "status", "deployment/web", "--timeout=60s"])?;
    let nodes = b.path(&["pods", "-l", "app=web"], ".items[*].spec.nodeName")?;
    ensure!(nodes.split_whitespace().collect::<BTreeSet<_>>().len() == REPLICAS, "one pod a machine: {nodes}");
    every_machine_reaches_every_pod(fleet)?;
    // Either API server reaches into a pod on any machine.
    let pods = a.path(&["pods", "-l", "app=web"], ".items[*].metadata.name")?;
    for pod in pods.split_whitespace() {
        for kubectl in [a, b] {
            let said = kubectl.ok(&["exec", pod, "--", "/testbed", "fetch", "http://web/hostname"])?;
            ensure!(pods.split_whitespace().any(|name| said.trim() == name), "by name from {pod}: {said}");
        }
    }
    Ok(())
}

pub fn what_one_api_server_writes_the_other_reads_at_once(fleet: &Fleet) -> anyhow::Result<()> {
    let (a, b) = (fleet.kubectl(Side::A), fleet.kubectl(Side::B));
    a.ok(&["create", "configmap", "shared", "--from-literal=n=start"])?;
    for round in 0..8 {
        let (writer, reader) = if round % 2 == 0 { (a, b) } else { (b, a) };
        let patch = format!(r#"{{"data":{{"n":"{round}"}}}}"#);
        writer.ok(&["patch", "configmap", "shared", "--type=merge", "-p", &patch])?;
        // No retry: a read without a resource version is never older than what was answered before it.
        let read = reader.path(&["configmap", "shared"], ".data.n")?;
        ensure!(read == round.to_string(), "round {round} reads {read}");
        let listed = reader.path(&["configmaps", "--field-selector=metadata.name=shared"], ".items[0].data.n")?;
        ensure!(listed == round.to_string(), "round {round} lists {listed}");
    }
    a.ok(&["delete", "configmap", "shared"])?;
    let gone = b.fails(&["get", "configmap", "shared"], "")?;
    ensure!(gone.contains("NotFound"), "{gone}");
    Ok(())
}

pub fn one_of_two_creators_wins(fleet: &Fleet) -> anyhow::Result<()> {
    for round in 0..5 {
        let name = format!("contested-{round}");
        let create = |side: Side| {
            let by = format!("--from-literal=by={side:?}");
            fleet.kubectl(side).run(&["create", "configmap", &name, &by], "")
        };
        let (a, b) = std::thread::scope(|scope| {
            let other = scope.spawn(|| create(Side::B));
            (create(Side::A), other.join())
        });
        let b = b.map_err(|_| anyhow::anyhow!("the other creator panicked")).and_then(|said| said);
        let (a, b) = (a?, b?);
        let winner = match (a.code, b.code) {
            (0, 1) => "A",
            (1, 0) => "B",
            codes => anyhow::bail!("exactly one creator wins, exit codes are {codes:?}: {} {}", a.err, b.err),
        };
        let by = fleet.kubectl(Side::A).path(&["configmap", &name], ".data.by")?;
        ensure!(by == winner, "{winner} was told that it won, the object is {by}'s");
        let loser = if winner == "A" { b } else { a };
        ensure!(loser.err.contains("already exists"), "{}", loser.err);
        fleet.kubectl(Side::B).ok(&["delete", "configmap", &name]).context("tidying up")?;
    }
    Ok(())
}
