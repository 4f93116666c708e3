//! Pods on hollow machines, as kubectl sees them: running, ready, finished, failed, deleted; and what pauses and kills change.

use crate::MACHINES;
use anyhow::ensure;
use gantry_conformance::rehearsal::{PATIENCE, Rehearsal};
use gantry_conformance::{Kubectl, tools, wait_for};
use rustix::process::Signal;

/// A pod that is bound by its maker.
pub fn pod(name: &str, machine: usize, policy: &str, annotations: &str) -> String {
    format!(
        "apiVersion: v1
kind: Pod
metadata: {{name: {name}, labels: {{case: {name}}}, annotations: {{{annotations}}}}}
spec:
  nodeName: hollow-{machine:05}
  restartPolicy: {policy}
  containers: [{{name: c, image: 'registry.example.com/c:1'}}]
"
    )
}

fn phase(kubectl: &Kubectl, name: &str) -> anyhow::Result<String> {
    kubectl.path(&["pod", name], ".status.phase")
}

fn becomes(kubectl: &Kubectl, name: &str, wanted: &str) -> anyhow::Result<()> {
    wait_for(&format!("{name} to be {wanted}"), PATIENCE, || {
        let phase = phase(kubectl, name)?;
        ensure!(phase == wanted, "it is {phase}");
        Ok(())
    })
}

pub fn they_run_become_ready_and_finish(r: &Rehearsal) -> anyhow::Result<()> {
    r.kubectl.with_namespace("life", |kubectl| {
        let services = (0..MACHINES).map(|n| pod(&format!("s-{n}"), n, "Always", ""));
        let tasks = (0..MACHINES).map(|n| pod(&format!("t-{n}"), n, "Never", ""));
        kubectl.apply(&services.chain(tasks).collect::<Vec<_>>().join("---\n"))?;
        let count = |wanted: &str| -> anyhow::Result<usize> {
            let text = kubectl.path(&["pods"], "range .items[*]}{.metadata.name} {.status.phase}{\"\\n\"}{end")?;
            Ok(text.lines().filter(|line| line.ends_with(wanted)).count())
        };
        wait_for("the services to run and the tasks to succeed", PATIENCE, || {
            let (running, succeeded) = (count("Running")?, count("Succeeded")?);
            ensure!((running, succeeded) == (MACHINES, MACHINES), "{running} run, {succeeded} succeeded");
            Ok(())
        })?;
        let service = kubectl.json(&["get", "pod", "s-7"])?;
        let status = &service["status"];
        ensure!(status["containerStatuses"][0]["ready"] == true, "{status}");
        ensure!(status["hostIP"] == "198.18.0.7" && status["podIP"].is_string(), "{status}");
        let task = kubectl.json(&["get", "pod", "t-7"])?;
        let ended = &task["status"]["containerStatuses"][0]["state"]["terminated"];
        ensure!(ended["exitCode"] == 0 && ended["reason"] == "Completed", "{ended}");
        wait_for("the Events", PATIENCE, || {
            let events = kubectl.ok(&["get", "events", "--field-selector", "involvedObject.name=s-7"])?;
            ensure!(["Pulled", "Created", "Started"].iter().all(|reason| events.contains(reason)), "{events}");
            Ok(())
        })?;
        let source = kubectl
            .path(&["events", "--field-selector", "involvedObject.name=s-7,reason=Started"], ".items[0].source")?;
        ensure!(source.contains("hollow-00007") && source.contains("kubelet"), "{source}");
        Ok(())
    })
}

pub fn they_fail_on_demand(r: &Rehearsal) -> anyhow::Result<()> {
    r.kubectl.with_namespace("failures", |kubectl| {
        let code = "gantry.dev/hollow-exit-code: '3'";
        let short = format!("{code}, gantry.dev/hollow-lifetime: 200ms");
        let long = "gantry.dev/hollow-lifetime: 1h";
        let pods = [pod("told", 1, "Never", &short), pod("later", 2, "Never", long), pod("again", 3, "Always", &short)];
        kubectl.apply(&pods.join("---\n"))?;
        becomes(kubectl, "told", "Failed")?;
        let exit = ".status.containerStatuses[0].state.terminated.exitCode";
        ensure!(kubectl.path(&["pod", "told"], exit)? == "3");
        // One that runs already.
        becomes(kubectl, "later", "Running")?;
        let now = ["gantry.dev/hollow-lifetime=0", "gantry.dev/hollow-exit-code=9"];
        kubectl.ok(&["annotate", "--overwrite", "pod", "later", now[0], now[1]])?;
        becomes(kubectl, "later", "Failed")?;
        ensure!(kubectl.path(&["pod", "later"], exit)? == "9");
        wait_for("the agent's back-off", PATIENCE, || {
            let waiting = kubectl.path(&["pod", "again"], ".status.containerStatuses[0].state.waiting.reason")?;
            ensure!(waiting == "CrashLoopBackOff", "{waiting}");
            Ok(())
        })
    })
}

pub fn they_stop_and_go_when_they_are_deleted(r: &Rehearsal) -> anyhow::Result<()> {
    r.kubectl.with_namespace("deletions", |kubectl| {
        let all: Vec<String> = (0..20).map(|n| pod(&format!("d-{n}"), n, "Always", "")).collect();
        kubectl.apply(&all.join("---\n"))?;
        kubectl.ok(&["wait", "--for=condition=Ready", "pods", "--all", "--timeout=60s"])?;
        kubectl.ok(&["delete", "pods", "--all", "--timeout=60s"])?;
        ensure!(kubectl.path(&["pods"], ".items")? == "[]");
        Ok(())
    })
}

pub fn reports_pause_and_go_on(r: &Rehearsal) -> anyhow::Result<()> {
    r.kubectl.with_namespace("pause", |kubectl| {
        kubectl.apply(&pod("before", 4, "Always", ""))?;
        becomes(kubectl, "before", "Running")?;
        r.signal("machines", Signal::USR1)?;
        wait_for("the pause to be told", PATIENCE, || {
            let said = r.tails(50);
            ensure!(said.contains("paused=true"), "{said}");
            Ok(())
        })?;
        kubectl.apply(&pod("during", 4, "Always", ""))?;
        // Its machine sees both, one after the other; the deletion is confirmed, the pod's start is not told.
        kubectl.ok(&["delete", "pod", "before", "--timeout=60s"])?;
        let during = kubectl.json(&["get", "pod", "during"])?;
        ensure!(during["status"].get("startTime").is_none(), "nothing is told: {}", during["status"]);
        r.signal("machines", Signal::USR2)?;
        becomes(kubectl, "during", "Running")
    })
}

pub fn they_run_on_when_the_process_is_killed(r: &Rehearsal) -> anyhow::Result<()> {
    r.kubectl.with_namespace("survival", |kubectl| {
        kubectl.apply(
            &[pod("s", 5, "Always", ""), pod("t", 6, "Never", "gantry.dev/hollow-lifetime: 1h")].join("---\n"),
        )?;
        kubectl.ok(&["wait", "--for=condition=Ready", "pods", "--all", "--timeout=60s"])?;
        let containers = || {
            let one = "{.status.containerStatuses[0].containerID} {.status.containerStatuses[0].restartCount}";
            kubectl.path(&["pods"], &format!("range .items[*]}}{one}{{\"\\n\"}}{{end"))
        };
        let before = containers()?;
        r.kill("machines")?;
        r.start_machines("machines", MACHINES, 0, &[])?;
        // It is there again when it starts what is new.
        kubectl.apply(&pod("new", 5, "Always", ""))?;
        becomes(kubectl, "new", "Running")?;
        kubectl.ok(&["delete", "pod", "new", "--timeout=60s"])?;
        let after = containers()?;
        ensure!(after == before, "{before} became {after}");
        kubectl.ok(&["wait", "--for=condition=Ready", "pods", "--all", "--timeout=60s"])?;
        Ok(())
    })
}

pub fn a_drawn_workload_runs_to_its_end(r: &Rehearsal) -> anyhow::Result<()> {
    let profile = r.path("load.yaml");
    std::fs::write(
        &profile,
        "namespaces: [load-e2e]
parts:
- {name: task, share: 3, kind: Pod, lifetime: 300ms}
- {name: job, share: 1, kind: Job, replicas: {min: 2, max: 6}, lifetime: 300ms}
",
    )?;
    let path = profile.to_string_lossy().into_owned();
    let flags = ["hollow", "workload", "--profile", &path, "--count", "60", "--seed", "5"];
    let printed = |flags: &[&str]| tools::run(r.gantry(flags)?.args(["--out", "-"]));
    let lines = printed(&flags)?;
    ensure!(lines == printed(&flags)?, "the same seed prints the same");
    ensure!(lines.lines().all(|line| line.starts_with('{')), "{lines}");
    let said = tools::run(r.gantry(&flags)?.args(["--rate", "200"]).env("KUBECONFIG", r.path("data/kubeconfig")))?;
    ensure!(said.contains("with 60 of 60 pods"), "{said}");
    let again = tools::run(r.gantry(&flags)?.env("KUBECONFIG", r.path("data/kubeconfig")))?;
    ensure!(again.contains("were there already"), "{again}");
    let kubectl = r.kubectl.within("load-e2e");
    wait_for("every pod to succeed", PATIENCE * 2, || {
        let text = kubectl.path(&["pods"], "range .items[*]}{.status.phase}{\"\\n\"}{end")?;
        let done = text.lines().filter(|line| *line == "Succeeded").count();
        ensure!(done == 60, "{done} of {} have succeeded", text.lines().count());
        Ok(())
    })?;
    kubectl.ok(&["wait", "--for=condition=Complete", "jobs", "--all", "--timeout=60s"])?;
    Ok(())
}
