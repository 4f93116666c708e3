//! What every version of kubectl does with workloads: run, scale, roll out and back, wait.

use crate::{contains_all, each_kubectl};
use anyhow::ensure;
use gantry_conformance::{Cluster, Kubectl};

pub const IMAGE: &str = "docker.io/library/testbed:local";

pub fn kubectl_runs_workloads(cluster: &Cluster) -> anyhow::Result<()> {
    each_kubectl(cluster, "workloads", |kubectl, _| {
        rolls(kubectl)?;
        runs_to_an_end(kubectl)?;
        scales(kubectl)
    })
}

fn deployment() -> String {
    format!(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: web, labels: {{app: web}}}}\nspec:\n  replicas: 1\n  \
         selector: {{matchLabels: {{app: web}}}}\n  template:\n    metadata: {{labels: {{app: web}}}}\n    spec:\n      \
         terminationGracePeriodSeconds: 1\n      \
         containers: [{{name: web, image: \"{IMAGE}\", command: [/testbed, serve], ports: [{{containerPort: 8080}}]}}]\n"
    )
}

fn rolls(kubectl: &Kubectl) -> anyhow::Result<()> {
    kubectl.apply(&deployment())?;
    contains_all(
        &kubectl.ok(&["rollout", "status", "deployment/web", "--timeout=90s"])?,
        &["successfully rolled out"],
    )?;
    kubectl.ok(&["expose", "deployment", "web", "--port=80", "--target-port=8080"])?;
    ensure!(kubectl.path(&["service", "web"], ".spec.selector")? == r#"{"app":"web"}"#, "expose takes the selector");
    kubectl.ok(&["rollout", "pause", "deployment/web"])?;
    kubectl.ok(&["set", "env", "deployment/web", "VERSION=2"])?;
    kubectl.ok(&["set", "resources", "deployment/web", "--requests=cpu=10m"])?;
    kubectl.ok(&["set", "image", "deployment/web", "web=docker.io/library/testbed:local"])?;
    kubectl.ok(&["annotate", "deployment/web", "kubernetes.io/change-cause=second"])?;
    kubectl.ok(&["rollout", "resume", "deployment/web"])?;
    kubectl.ok(&["rollout", "status", "deployment/web", "--timeout=90s"])?;
    contains_all(&kubectl.ok(&["rollout", "history", "deployment/web"])?, &["REVISION", "2         second"])?;
    contains_all(&kubectl.ok(&["rollout", "history", "deployment/web", "--revision=2"])?, &["VERSION:", "cpu:"])?;
    kubectl.ok(&["rollout", "undo", "deployment/web", "--to-revision=1"])?;
    kubectl.ok(&["rollout", "status", "deployment/web", "--timeout=90s"])?;
    let environment = kubectl.path(&["deployment", "web"], ".spec.template.spec.containers[0].env")?;
    ensure!(environment.is_empty(), "the first revision had no variable: {environment}");
    kubectl.ok(&["rollout", "restart", "deployment/web"])?;
    kubectl.ok(&["wait", "--for=condition=Available", "deployment/web", "--timeout=90s"])?;
    let restarted = kubectl.path(&["deployment", "web"], ".spec.template.metadata.annotations")?;
    contains_all(&restarted, &["kubectl.kubernetes.io/restartedAt"])
}

fn runs_to_an_end(kubectl: &Kubectl) -> anyhow::Result<()> {
    let image = format!("--image={IMAGE}");
    kubectl.ok(&["create", "job", "task", &image, "--", "/testbed", "echo", "done"])?;
    kubectl.ok(&["wait", "--for=condition=complete", "job/task", "--timeout=90s"])?;
    ensure!(kubectl.ok(&["logs", "job/task"])? == "done\n", "logs of a job");
    contains_all(&kubectl.ok(&["get", "jobs"])?, &["Complete", "1/1"])?;
    // An attachment shows what is written from then on (a Kubernetes rule), so the program waits for the client's first line.
    let run = ["run", "once", &image, "--restart=Never", "--attach", "--rm", "--quiet"];
    let said = kubectl.run(&[&run[..], &["-i", "--command", "--", "/testbed", "cat"]].concat(), "from run\n")?;
    ensure!(said.code == 0 && said.out.contains("from run"), "{said:?}");
    contains_all(&kubectl.fails(&["get", "pod", "once"], "")?, &["(NotFound)"])?;
    let failing = kubectl.run(&[&run[..], &["--command", "--", "/testbed", "exit", "3"]].concat(), "")?;
    ensure!(failing.code == 3, "kubectl run exits as its container: {failing:?}");
    Ok(())
}

fn scales(kubectl: &Kubectl) -> anyhow::Result<()> {
    contains_all(
        &kubectl.fails(&["scale", "deployment/web", "--current-replicas=7", "--replicas=3"], "")?,
        &["Expected replicas to be 7"],
    )?;
    kubectl.ok(&["scale", "deployment/web", "--current-replicas=1", "--replicas=2"])?;
    kubectl.ok(&["wait", "--for=jsonpath={.status.readyReplicas}=2", "deployment/web", "--timeout=90s"])?;
    kubectl
        .ok(&["autoscale", "deployment", "web", "--min=1", "--max=3", "--cpu-percent=80"])
        .or_else(|_| kubectl.ok(&["autoscale", "deployment", "web", "--min=1", "--max=3", "--cpu=80%"]))?;
    contains_all(&kubectl.ok(&["get", "hpa", "web"])?, &["Deployment/web", "80%"])?;
    contains_all(&kubectl.ok(&["get", "all"])?, &["pod/web-", "service/web", "deployment.apps/web", "job.batch/task"])?;
    contains_all(&kubectl.ok(&["events", "--for", "deployment/web"])?, &["ScalingReplicaSet"])?;
    let described = kubectl.ok(&["describe", "deployment/web"])?;
    contains_all(&described, &["2 desired | 2 updated | 2 total", "NewReplicaSet:", "MinimumReplicasAvailable"])?;
    kubectl.ok(&["delete", "deployment", "web", "--cascade=foreground", "--timeout=60s"])?;
    ensure!(kubectl.ok(&["get", "rs,pods", "-l", "app=web", "-o", "name"])?.is_empty(), "nothing of it is left");
    Ok(())
}
