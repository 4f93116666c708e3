//! Rollouts and the other workload kinds: what changes, in which order, and how it ends.

use crate::kubectl_writes::with_namespace;
use anyhow::ensure;
use gantry_conformance::{Cluster, wait_for, wait_until};
use std::time::Duration;

const SOON: Duration = Duration::from_secs(30);
const IMAGE: &str = "docker.io/library/testbed:local";

fn deployment(name: &str, strategy: &str) -> String {
    format!(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: {name}}}\nspec:\n  replicas: 2\n  strategy: {strategy}\n  \
         selector: {{matchLabels: {{app: {name}}}}}\n  template:\n    metadata: {{labels: {{app: {name}}}}}\n    spec:\n      \
         containers: [{{name: c, image: \"{IMAGE}\", command: [/testbed, serve], readinessProbe: {{httpGet: {{path: /readyz, port: 8080}}, periodSeconds: 1}}}}]\n"
    )
}

pub fn update_pause_resume_undo(cluster: &Cluster) -> anyhow::Result<()> {
    with_namespace(cluster, "rollouts", |kubectl| {
        kubectl.apply(&deployment("r", "{type: RollingUpdate, rollingUpdate: {maxSurge: 1, maxUnavailable: 0}}"))?;
        kubectl.ok(&["rollout", "status", "deployment/r", "--timeout=40s"])?;
        kubectl.ok(&["set", "env", "deployment/r", "VERSION=2"])?;
        kubectl.ok(&["rollout", "status", "deployment/r", "--timeout=60s"])?;
        ensure!(
            kubectl.path(&["deployment", "r"], ".metadata.annotations.deployment\\.kubernetes\\.io/revision")? == "2",
            "revision 2"
        );
        let history = kubectl.ok(&["rollout", "history", "deployment/r"])?;
        ensure!(history.contains("REVISION") && history.lines().any(|line| line.starts_with('2')), "{history}");
        kubectl.ok(&["rollout", "pause", "deployment/r"])?;
        kubectl.ok(&["set", "image", "deployment/r", "c=docker.io/library/no-such-image:never"])?;
        let sets = || kubectl.ok(&["get", "replicasets", "-o", "name"]).map(|text| text.lines().count());
        wait_until("the paused change to be observed", SOON, || {
            let seen = kubectl.path(&["deployment", "r"], ".status.observedGeneration");
            seen.is_ok_and(|seen| {
                kubectl.path(&["deployment", "r"], ".metadata.generation").is_ok_and(|current| current == seen)
            })
        })?;
        ensure!(sets()? == 2, "a paused deployment makes no new replica set");
        kubectl.ok(&["rollout", "resume", "deployment/r"])?;
        wait_until("the third replica set", SOON, || sets().is_ok_and(|count| count == 3))?;
        ensure!(
            kubectl.path(&["deployment", "r"], ".status.availableReplicas")? == "2",
            "maxUnavailable 0 keeps both old replicas"
        );
        kubectl.ok(&["rollout", "undo", "deployment/r"])?;
        kubectl.ok(&["rollout", "status", "deployment/r", "--timeout=60s"])?;
        ensure!(kubectl.path(&["deployment", "r"], ".spec.template.spec.containers[0].image")? == IMAGE, "undone");
        ensure!(
            kubectl.path(&["deployment", "r"], ".spec.template.spec.containers[0].env[0].value")? == "2",
            "to revision 2"
        );
        let before = kubectl.path(&["pods"], ".items[*].metadata.uid")?;
        kubectl.ok(&["rollout", "restart", "deployment/r"])?;
        kubectl.ok(&["rollout", "status", "deployment/r", "--timeout=60s"])?;
        wait_for("all pods to be new", SOON, || {
            let after = kubectl.path(&["pods"], ".items[*].metadata.uid")?;
            ensure!(
                after.split(' ').count() == 2 && after.split(' ').all(|uid| !before.contains(uid)),
                "{before} → {after}"
            );
            Ok(())
        })
    })
}

pub fn scale_and_wait(cluster: &Cluster) -> anyhow::Result<()> {
    with_namespace(cluster, "scales", |kubectl| {
        kubectl.apply(&deployment("s", "{type: RollingUpdate}"))?;
        kubectl.ok(&["wait", "--for=condition=Available", "deployment/s", "--timeout=40s"])?;
        ensure!(kubectl.ok(&["scale", "deployment/s", "--replicas=4"])?.contains("scaled"), "scale");
        kubectl.ok(&["wait", "--for=jsonpath={.status.readyReplicas}=4", "deployment/s", "--timeout=60s"])?;
        kubectl.ok(&["scale", "deployment/s", "--replicas=0"])?;
        wait_until("no pod", SOON, || kubectl.ok(&["get", "pods", "-o", "name"]).is_ok_and(|text| text.is_empty()))
    })
}

/// A pod whose containers have ended runs nothing any more, even while its object still goes.
const ALIVE: &str = "status.phase!=Succeeded,status.phase!=Failed";

pub fn recreate_never_overlaps(cluster: &Cluster) -> anyhow::Result<()> {
    with_namespace(cluster, "recreate", |kubectl| {
        kubectl.apply(&deployment("o", "{type: Recreate}"))?;
        kubectl.ok(&["rollout", "status", "deployment/o", "--timeout=40s"])?;
        kubectl.ok(&["set", "env", "deployment/o", "VERSION=2"])?;
        let mut most = 0;
        wait_for("the new pods", Duration::from_secs(60), || {
            let live =
                kubectl.path(&["pods", "--field-selector", ALIVE], ".items[*].metadata.labels.pod-template-hash")?;
            let kinds: std::collections::BTreeSet<_> = live.split_whitespace().collect();
            most = most.max(kinds.len());
            let done = kubectl.run(&["rollout", "status", "deployment/o", "--watch=false"], "")?;
            ensure!(done.out.contains("successfully rolled out"), "{}", done.out);
            Ok(())
        })?;
        ensure!(most == 1, "old and new pods never exist together");
        Ok(())
    })
}

pub fn daemon_set_runs_and_rolls(cluster: &Cluster) -> anyhow::Result<()> {
    with_namespace(cluster, "daemons", |kubectl| {
        kubectl.apply(&format!(
            "apiVersion: apps/v1\nkind: DaemonSet\nmetadata: {{name: d}}\nspec:\n  selector: {{matchLabels: {{app: d}}}}\n  template:\n    \
             metadata: {{labels: {{app: d}}}}\n    spec:\n      containers: [{{name: c, image: \"{IMAGE}\", command: [/testbed, sleep]}}]\n"
        ))?;
        kubectl.ok(&["rollout", "status", "daemonset/d", "--timeout=40s"])?;
        kubectl.ok(&["set", "env", "daemonset/d", "VERSION=2"])?;
        kubectl.ok(&["rollout", "status", "daemonset/d", "--timeout=60s"])?;
        ensure!(kubectl.ok(&["get", "controllerrevisions", "-o", "name"])?.lines().count() == 2, "two revisions");
        kubectl.ok(&["rollout", "undo", "daemonset/d"])?;
        kubectl.ok(&["rollout", "status", "daemonset/d", "--timeout=60s"])?;
        ensure!(kubectl.path(&["daemonset", "d"], ".spec.template.spec.containers[0].env")?.is_empty(), "undone");
        Ok(())
    })
}

pub fn job_outcomes(cluster: &Cluster) -> anyhow::Result<()> {
    with_namespace(cluster, "jobs", |kubectl| {
        let job = |name: &str, spec: &str, command: &str| {
            format!(
                "apiVersion: batch/v1\nkind: Job\nmetadata: {{name: {name}}}\nspec: {{{spec}, template: {{spec: {{restartPolicy: Never, \
                 containers: [{{name: c, image: \"{IMAGE}\", command: {command}}}]}}}}}}\n"
            )
        };
        kubectl.apply(&job(
            "indexed",
            "completions: 3, parallelism: 3, completionMode: Indexed",
            "[/testbed, task]",
        ))?;
        kubectl.apply(&job("failing", "backoffLimit: 0", "[/testbed, exit, '3']"))?;
        kubectl.apply(&job("late", "activeDeadlineSeconds: 2", "[/testbed, sleep]"))?;
        kubectl.ok(&["wait", "--for=condition=complete", "job/indexed", "--timeout=60s"])?;
        let log = kubectl.ok(&["logs", "-l", "batch.kubernetes.io/job-completion-index=2"])?;
        ensure!(log.contains("task 2: done"), "{log}");
        kubectl.ok(&["wait", "--for=condition=failed", "job/failing", "--timeout=60s"])?;
        let reason = ".status.conditions[?(@.type==\"Failed\")].reason";
        ensure!(kubectl.path(&["job", "failing"], reason)? == "BackoffLimitExceeded", "why it failed");
        kubectl.ok(&["wait", "--for=condition=failed", "job/late", "--timeout=60s"])?;
        ensure!(kubectl.path(&["job", "late"], reason)? == "DeadlineExceeded", "why it was too late");
        Ok(())
    })
}
