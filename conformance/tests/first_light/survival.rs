//! What outlives the control plane, and what does not outlive `gantry down`.

use crate::declare::{NAMESPACE, web_pod};
use anyhow::{Context, ensure};
use gantry_conformance::{Cluster, http_get, wait_for};
use std::collections::BTreeMap;
use std::process::Command;
use std::time::Duration;

/// The processes of the cluster's containers: pid → start time, from the cgroups of its pods.
fn container_processes(cluster: &Cluster) -> anyhow::Result<BTreeMap<u32, String>> {
    let root = cluster.cgroup_root();
    let base =
        if std::path::Path::new("/sys/fs/cgroup/memory").is_dir() { "/sys/fs/cgroup/memory" } else { "/sys/fs/cgroup" };
    let mut found = BTreeMap::new();
    let mut folders = vec![std::path::PathBuf::from(format!("{base}{root}"))];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).with_context(|| folder.display().to_string())?.flatten() {
            if entry.path().is_dir() {
                folders.push(entry.path());
            }
        }
        for pid in std::fs::read_to_string(folder.join("cgroup.procs")).unwrap_or_default().lines() {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            let start = stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(19)).unwrap_or_default();
            found.insert(pid.parse()?, start.to_owned());
        }
    }
    Ok(found)
}

/// The pods of the demo's Deployment are settled: three Ready, none ending.
fn settled_demo(cluster: &Cluster) -> anyhow::Result<BTreeMap<String, String>> {
    let demo = cluster.kubectl.within(NAMESPACE);
    demo.ok(&["rollout", "status", "deployment/web", "--timeout=60s"])?;
    let text = demo.path(&["pods", "-l", "app=web"], "range .items[*]}{.metadata.uid}={.status.containerStatuses[0].containerID}={.status.containerStatuses[0].restartCount}{\"\\n\"}{end")?;
    let pods: BTreeMap<String, String> = text
        .lines()
        .filter_map(|line| line.split_once('='))
        .map(|(uid, rest)| (uid.to_owned(), rest.to_owned()))
        .collect();
    ensure!(pods.len() == 3, "three web pods: {text:?}");
    Ok(pods)
}

/// Waits until no pod is ending anywhere, so that the set of processes stands still.
fn quiet(cluster: &Cluster) -> anyhow::Result<()> {
    wait_for("no pod to be ending", Duration::from_secs(90), || {
        let ending =
            cluster.kubectl.ok(&["get", "pods", "-A", "-o", "jsonpath={.items[*].metadata.deletionTimestamp}"])?;
        ensure!(ending.is_empty(), "{ending}");
        let namespaces =
            cluster.kubectl.ok(&["get", "namespaces", "-o", "jsonpath={.items[*].metadata.deletionTimestamp}"])?;
        ensure!(namespaces.is_empty(), "{namespaces}");
        Ok(())
    })
}

pub fn names_resolve_and_pods_live_while_the_process_is_dead(cluster: &Cluster) -> anyhow::Result<()> {
    quiet(cluster)?;
    let pods = settled_demo(cluster)?;
    let service = cluster.kubectl.within(NAMESPACE).path(&["service", "web"], ".spec.clusterIP")?;
    wait_for("the virtual IP to answer before", Duration::from_secs(30), || http_get(&service, 80, "/hostname"))?;
    let pod = web_pod(cluster)?;
    let pid = first_process(cluster, &pod)?;
    let processes = container_processes(cluster)?;
    ensure!(processes.len() >= 6, "three containers and three sandboxes at least: {processes:?}");
    for round in 0..2 {
        cluster.kill()?;
        ensure!(cluster.kubectl.run(&["version"], "")?.code != 0, "the API is gone");
        http_get(&service, 80, "/hostname").context("the virtual IP answers without a control plane")?;
        // From inside a pod, by name: nsenter into its network alone keeps the container's own resolv.conf.
        let output = Command::new("nsenter")
            .args(["--target", &pid.to_string(), "--net", "--mount", "--", "/testbed", "fetch", "http://web/hostname"])
            .output()?;
        let text = String::from_utf8_lossy(&output.stdout);
        let error = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success() && text.starts_with("web-"), "round {round}: by name: {text} {error}");
        ensure!(container_processes(cluster)? == processes, "round {round}: the same processes while dead");
        cluster.spawn()?;
        cluster.wait_ready(Duration::from_secs(60))?;
        wait_for("the adopted pods to be reported", Duration::from_secs(30), || {
            let after = settled_demo(cluster)?;
            ensure!(after == pods, "containers and restart counts: {pods:?} became {after:?}");
            Ok(())
        })?;
        ensure!(container_processes(cluster)? == processes, "round {round}: adopted, the same PIDs");
    }
    wait_for("exec on an adopted pod", Duration::from_secs(15), || {
        let said = cluster.kubectl.within(NAMESPACE).ok(&["exec", &pod, "--", "/testbed", "echo", "back"])?;
        ensure!(said == "back\n", "it says {said:?}");
        Ok(())
    })
}

fn first_process(cluster: &Cluster, pod: &str) -> anyhow::Result<u32> {
    let uid = cluster.kubectl.within(NAMESPACE).path(&["pod", pod], ".metadata.uid")?;
    for pid in container_processes(cluster)?.into_keys() {
        let group = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
        let command = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        if group.contains(&uid) && command.contains("testbed") && command.contains("serve") {
            return Ok(pid);
        }
    }
    anyhow::bail!("no process of pod {pod}")
}

#[expect(clippy::disallowed_methods, reason = "that nothing happens can only be seen by watching for a while")]
pub fn an_emptied_store_kills_nothing(cluster: &Cluster) -> anyhow::Result<()> {
    let processes = container_processes(cluster)?;
    if cluster.pid().is_ok() {
        cluster.kill()?;
    }
    match &cluster.external {
        Some(stores) => stores.empty()?,
        None => std::fs::remove_dir_all(cluster.data_dir().join("store")).context("emptying the store")?,
    }
    cluster.spawn()?;
    wait_for("the new, empty cluster to answer", Duration::from_secs(60), || {
        let pods = cluster.kubectl.ok(&["get", "pods", "-A", "-o", "name"])?;
        ensure!(pods.is_empty(), "the new cluster knows no pod: {pods}");
        Ok(())
    })?;
    wait_for("the agent to refuse a cluster that is not its own", Duration::from_secs(20), || {
        let log = cluster.log_tail(20);
        ensure!(log.contains("this machine belongs to another cluster: its pods keep running"), "{log}");
        Ok(())
    })?;
    let end = std::time::Instant::now() + Duration::from_secs(8);
    while std::time::Instant::now() < end {
        let now = container_processes(cluster)?;
        ensure!(
            processes.iter().all(|(pid, start)| now.get(pid) == Some(start)),
            "killed: {processes:?} became {now:?}"
        );
        std::thread::sleep(Duration::from_millis(500));
    }
    Ok(())
}
