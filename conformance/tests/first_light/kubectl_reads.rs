//! What kubectl reads: every output format, selectors, watches, describe, logs, exec and discovery.

use crate::declare::{NAMESPACE, web_pod};
use anyhow::{Context, ensure};
use gantry_conformance::{Cluster, wait_for};
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;

fn contains_all(text: &str, words: &[&str]) -> anyhow::Result<()> {
    for word in words {
        ensure!(text.contains(word), "{word:?} is missing in:\n{text}");
    }
    Ok(())
}

pub fn every_output_format(cluster: &Cluster) -> anyhow::Result<()> {
    let demo = cluster.kubectl.within(NAMESPACE);
    let plain = demo.ok(&["get", "pods", "-l", "app=web"])?;
    let header: Vec<&str> = plain.lines().next().context("a header")?.split_whitespace().collect();
    ensure!(header == ["NAME", "READY", "STATUS", "RESTARTS", "AGE"], "{plain}");
    ensure!(plain.matches("1/1     Running   0").count() == 3, "{plain}");
    let wide = demo.ok(&["get", "pods", "-o", "wide"])?;
    contains_all(&wide, &["IP ", "NODE ", "NOMINATED NODE", "READINESS GATES", cluster.node_name()])?;
    let deployments = demo.ok(&["get", "deployments", "-o", "wide"])?;
    contains_all(
        &deployments,
        &["READY", "UP-TO-DATE", "AVAILABLE", "CONTAINERS", "IMAGES", "SELECTOR", "3/3", "app=web"],
    )?;
    contains_all(
        &demo.ok(&["get", "services"])?,
        &["TYPE", "CLUSTER-IP", "EXTERNAL-IP", "PORT(S)", "80/TCP", "<none>"],
    )?;
    contains_all(&demo.ok(&["get", "jobs"])?, &["STATUS", "COMPLETIONS", "DURATION", "Complete", "10/10"])?;
    contains_all(&cluster.kubectl.ok(&["get", "nodes"])?, &["STATUS", "ROLES", "VERSION", "Ready", "v1.35.2"])?;
    contains_all(&demo.ok(&["get", "configmaps,secrets"])?, &["configmap/web", "secret/web", "Opaque", "DATA"])?;
    contains_all(
        &demo.ok(&["get", "deployment", "web", "-o", "yaml"])?,
        &["apiVersion: apps/v1", "kind: Deployment", "replicas: 3"],
    )?;
    let json = demo.json(&["get", "deployment", "web"])?;
    ensure!(json["spec"]["replicas"] == 3 && json["metadata"]["name"] == "web", "{json}");
    ensure!(demo.ok(&["get", "deployments", "-o", "name"])? == "deployment.apps/web\n", "-o name");
    let columns = demo.ok(&["get", "service", "web", "-o", "custom-columns=N:.metadata.name,P:.spec.ports[0].port"])?;
    ensure!(columns.split_whitespace().eq(["N", "P", "web", "80"]), "{columns}");
    Ok(())
}

pub fn selectors_and_all_namespaces(cluster: &Cluster) -> anyhow::Result<()> {
    let demo = cluster.kubectl.within(NAMESPACE);
    let count = |arguments: &[&str]| -> anyhow::Result<usize> {
        let mut all = vec!["get", "pods", "-o", "name"];
        all.extend(arguments);
        Ok(demo.ok(&all)?.lines().count())
    };
    ensure!(count(&["-l", "app=web"])? == 3, "-l app=web");
    ensure!(count(&["-l", "app in (web,tasks)"])? == 13, "-l app in (web,tasks)");
    ensure!(count(&["-l", "app!=web"])? == 10, "-l app!=web");
    ensure!(count(&["-l", "!app"])? == 0, "-l !app");
    ensure!(count(&["--field-selector", "status.phase=Succeeded"])? == 10, "the finished tasks by phase");
    let node = format!("spec.nodeName={}", cluster.node_name());
    ensure!(count(&["--field-selector", &node])? == 13, "pods by machine");
    ensure!(count(&["--field-selector", "spec.nodeName=elsewhere"])? == 0, "pods of another machine");
    let all = cluster.kubectl.ok(&["get", "services", "-A"])?;
    contains_all(&all, &["NAMESPACE", "default", "kubernetes", "demo", "443/TCP"])?;
    let error = demo.fails(&["get", "pods", "--field-selector", "spec.nonsense=1"], "")?;
    contains_all(&error, &["field label not supported: spec.nonsense"])
}

pub fn watch_sees_changes(cluster: &Cluster) -> anyhow::Result<()> {
    let demo = cluster.kubectl.within(NAMESPACE);
    demo.ok(&["create", "configmap", "watched", "--from-literal=n=0"])?;
    let mut watch =
        demo.spawn(&["get", "configmaps", "-w", "--output-watch-events", "--field-selector", "metadata.name=watched"])?;
    let (sender, lines) = std::sync::mpsc::channel();
    let output = BufReader::new(watch.stdout.take().context("the watch's output")?);
    let reader =
        std::thread::spawn(move || output.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
    let expect = |word: &str| -> anyhow::Result<()> {
        loop {
            let line = lines.recv_timeout(Duration::from_secs(10)).with_context(|| format!("no {word} event"))?;
            if line.starts_with(word) {
                return Ok(());
            }
        }
    };
    expect("ADDED")?;
    demo.ok(&["label", "configmap", "watched", "a=b"])?;
    expect("MODIFIED")?;
    demo.ok(&["delete", "configmap", "watched"])?;
    expect("DELETED")?;
    watch.kill()?;
    watch.wait()?;
    let _ = reader.join();
    Ok(())
}

pub fn describe_tells_the_story(cluster: &Cluster) -> anyhow::Result<()> {
    let demo = cluster.kubectl.within(NAMESPACE);
    let pod = demo.ok(&["describe", "pod", &web_pod(cluster)?])?;
    contains_all(
        &pod,
        &[
            "Status:           Running",
            "Liveness:",
            "Readiness:",
            "Burstable",
            "Successfully assigned demo/web-",
            "Started",
            "Controlled By:  ReplicaSet/web-",
        ],
    )?;
    let deployment = demo.ok(&["describe", "deployment", "web"])?;
    contains_all(
        &deployment,
        &[
            "RollingUpdate",
            "3 desired | 3 updated | 3 total | 3 available | 0 unavailable",
            "ScalingReplicaSet",
            "MinimumReplicasAvailable",
        ],
    )?;
    contains_all(&demo.ok(&["describe", "service", "web"])?, &["Selector:", "app=web", "Endpoints:", ":8080"])?;
    let node = cluster.kubectl.ok(&["describe", "node", cluster.node_name()])?;
    contains_all(
        &node,
        &["Capacity:", "Allocatable:", "KubeletReady", "containerd://", "Non-terminated Pods:", "PodCIDR:"],
    )
}

pub fn logs_of_all_kinds(cluster: &Cluster) -> anyhow::Result<()> {
    let demo = cluster.kubectl.within(NAMESPACE);
    demo.apply(
        r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"talker"},"spec":{"restartPolicy":"Always","containers":[
        {"name":"once","image":"docker.io/library/testbed:local","command":["/testbed","task","--seconds","2"]},
        {"name":"quiet","image":"docker.io/library/testbed:local","command":["/testbed","sleep"]}]}}"#,
    )?;
    wait_for("the first run's log after a restart", Duration::from_secs(30), || {
        let text = demo.ok(&["logs", "talker", "-c", "once", "--previous"])?;
        ensure!(text == "task -: 0 of 2 s\ntask -: 1 of 2 s\ntask -: done\n", "{text:?}");
        Ok(())
    })?;
    let mut follow = demo.spawn(&["logs", "talker", "-c", "once", "-f"])?;
    let output = BufReader::new(follow.stdout.take().context("the log's output")?);
    let lines: Vec<String> = output.lines().map_while(Result::ok).collect();
    follow.wait()?;
    ensure!(
        lines.last().is_some_and(|line| line == "task -: done"),
        "a followed log ends with its container: {lines:?}"
    );
    ensure!(demo.ok(&["logs", "talker", "-c", "once", "--tail=1"])? == "task -: done\n", "--tail=1");
    let stamped = demo.ok(&["logs", "talker", "-c", "once", "--timestamps", "--tail=1"])?;
    ensure!(stamped.starts_with("20") && stamped.ends_with("Z task -: done\n"), "{stamped:?}");
    contains_all(&demo.fails(&["logs", "talker", "-c", "nobody"], "")?, &["nobody"])?;
    demo.ok(&["delete", "pod", "talker", "--now"])?;
    Ok(())
}

pub fn exec_with_and_without_terminal(cluster: &Cluster) -> anyhow::Result<()> {
    let demo = cluster.kubectl.within(NAMESPACE);
    let pod = web_pod(cluster)?;
    ensure!(demo.ok(&["exec", &pod, "--", "/testbed", "echo", "a", "b"])? == "a b\n", "output");
    let echoed = demo.ok_with(&["exec", "-i", &pod, "--", "/testbed", "cat"], "through standard input\n")?;
    ensure!(echoed == "through standard input\n", "{echoed:?}");
    let said = demo.run(&["exec", &pod, "--", "/testbed", "exit", "7"], "")?;
    ensure!(said.code == 7, "the exit code is {} ({})", said.code, said.err);
    let said = demo.run(&["exec", &pod, "--", "/no/such/file"], "")?;
    ensure!(said.code != 0 && said.err.contains("no such file"), "{said:?}");
    let kubeconfig = cluster.data_dir().join("kubeconfig");
    let kubectl = gantry_conformance::tools::kubectl()?;
    let line = format!("{} -n demo exec -it {pod} -- /testbed echo on a terminal", kubectl.display());
    let output = Command::new("script")
        .args(["-qec", &line, "/dev/null"])
        .env("KUBECONFIG", kubeconfig)
        .stdin(Stdio::null())
        .output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    ensure!(output.status.success() && text.contains("on a terminal\r\n"), "exec -it: {} {text:?}", output.status);
    Ok(())
}

pub fn discovery_commands(cluster: &Cluster) -> anyhow::Result<()> {
    let kubectl = &cluster.kubectl;
    let resources = kubectl.ok(&["api-resources", "-o", "wide"])?;
    contains_all(
        &resources,
        &[
            "pods ",
            "po ",
            "deployments",
            "deploy",
            "endpointslices",
            "discovery.k8s.io/v1",
            "nodeallocations",
            "gantry.dev/v1",
        ],
    )?;
    contains_all(&kubectl.ok(&["api-versions"])?, &["apps/v1\n", "batch/v1\n", "v1\n"])?;
    let version = kubectl.ok(&["version"])?;
    contains_all(&version, &["Client Version: v1.35.2", "Server Version: v1.35.2"])?;
    ensure!(!version.contains("WARNING"), "{version}");
    contains_all(&kubectl.ok(&["cluster-info"])?, &["control plane", "is running at", "https://"])?;
    contains_all(&kubectl.ok(&["auth", "whoami"])?, &["kubernetes-admin", "system:masters"])?;
    ensure!(kubectl.ok(&["auth", "can-i", "create", "pods"])?.trim() == "yes", "auth can-i");
    contains_all(
        &kubectl.ok(&["explain", "deployment.spec.strategy.rollingUpdate"])?,
        &["KIND:       Deployment", "maxSurge", "DESCRIPTION", "maximum number of pods"],
    )?;
    contains_all(&kubectl.ok(&["explain", "pod.spec.containers.resources"])?, &["limits", "requests", "FIELDS"])?;
    let metrics = kubectl.ok(&["get", "--raw", "/metrics"])?;
    contains_all(
        &metrics,
        &["gantry_scheduler_bound_total", "gantry_loop_handled_total{loop=", "apiserver_request_total{"],
    )?;
    let mut types: Vec<&str> = metrics.lines().filter(|line| line.starts_with("# TYPE")).collect();
    types.sort_unstable();
    ensure!(types.windows(2).all(|pair| pair[0] != pair[1]), "each metric is told of once");
    ensure!(metrics.ends_with("# EOF\n") && metrics.matches("# EOF").count() == 1, "it ends once");
    let events = kubectl.within(NAMESPACE).ok(&["events"])?;
    contains_all(&events, &["LAST SEEN", "Scheduled", "Started", "SuccessfulCreate"])?;
    contains_all(&kubectl.within(NAMESPACE).ok(&["get", "events"])?, &["LAST SEEN", "REASON", "OBJECT"])?;
    contains_all(
        &kubectl.within(NAMESPACE).ok(&["get", "all"])?,
        &["pod/web-", "service/web", "deployment.apps/web", "replicaset.apps/web-", "job.batch/tasks"],
    )
}
