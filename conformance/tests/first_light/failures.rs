//! The failures that a first user meets, and what each one says.

use crate::kubectl_writes::with_namespace;
use anyhow::{Context, ensure};
use gantry_conformance::{Cluster, Kubectl, http_get, wait_for};
use std::time::{Duration, Instant};

const IMAGE: &str = "docker.io/library/testbed:local";

fn pod(name: &str, container: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, labels: {{app: {name}}}}}\nspec: {{terminationGracePeriodSeconds: 1, \
         containers: [{{name: c, {container}}}]}}\n"
    )
}

fn expect(kubectl: &Kubectl, pod: &str, path: &str, value: &str, seconds: u64) -> anyhow::Result<()> {
    wait_for(&format!("{path} of pod {pod} to be {value}"), Duration::from_secs(seconds), || {
        let found = kubectl.path(&["pod", pod], path)?;
        ensure!(found == value, "it is {found:?}");
        Ok(())
    })
}

fn expect_event(kubectl: &Kubectl, pod: &str, words: &[&str]) -> anyhow::Result<()> {
    wait_for(&format!("an event of pod {pod} with {words:?}"), Duration::from_secs(15), || {
        let text = kubectl.ok(&["events", "--for", &format!("pod/{pod}")])?;
        ensure!(text.lines().any(|line| words.iter().all(|word| line.contains(word))), "{text}");
        Ok(())
    })
}

pub fn an_exit_restarts_in_place_with_back_off(cluster: &Cluster) -> anyhow::Result<()> {
    with_namespace(cluster, "exits", |kubectl| {
        kubectl.apply(&pod("crasher", &format!("image: '{IMAGE}', command: [/testbed, exit, '4']")))?;
        let status = ".status.containerStatuses[0]";
        expect(kubectl, "crasher", &format!("{status}.state.waiting.reason"), "CrashLoopBackOff", 40)?;
        expect(kubectl, "crasher", &format!("{status}.lastState.terminated.exitCode"), "4", 10)?;
        expect(kubectl, "crasher", &format!("{status}.lastState.terminated.reason"), "Error", 10)?;
        expect_event(kubectl, "crasher", &["BackOff", "Back-off restarting failed container"])?;
        let uid = kubectl.path(&["pod", "crasher"], ".metadata.uid")?;
        expect(kubectl, "crasher", &format!("{status}.restartCount"), "2", 40)?;
        ensure!(kubectl.path(&["pod", "crasher"], ".metadata.uid")? == uid, "the same pod, in place");
        Ok(())
    })
}

#[expect(clippy::disallowed_methods, reason = "the promise is a time")]
pub fn failed_readiness_leaves_the_endpoints(cluster: &Cluster) -> anyhow::Result<()> {
    with_namespace(cluster, "readiness", |kubectl| {
        let probe = "readinessProbe: {httpGet: {path: /readyz, port: 8080}, periodSeconds: 1, failureThreshold: 1}";
        kubectl.apply(&pod("moody", &format!("image: '{IMAGE}', command: [/testbed, serve], {probe}")))?;
        kubectl.ok(&["expose", "pod", "moody", "--port=80", "--target-port=8080"])?;
        kubectl.ok(&["wait", "--for=condition=Ready", "pod/moody", "--timeout=30s"])?;
        let service = kubectl.path(&["service", "moody"], ".spec.clusterIP")?;
        let address = kubectl.path(&["pod", "moody"], ".status.podIP")?;
        wait_for("an answer through the service", Duration::from_secs(10), || http_get(&service, 80, "/hostname"))?;
        let endpoints = || {
            kubectl.path(
                &["endpointslices", "-l", "kubernetes.io/service-name=moody"],
                ".items[*].endpoints[?(@.conditions.ready==true)].addresses[*]",
            )
        };
        http_get(&address, 8080, "/unready")?;
        let start = Instant::now();
        wait_for("the pod to leave the endpoints and the kernel's rules", Duration::from_secs(15), || {
            ensure!(endpoints()?.is_empty() && http_get(&service, 80, "/hostname").is_err(), "it is still there");
            Ok(())
        })?;
        ensure!(start.elapsed() < Duration::from_secs(5), "it took {:?}", start.elapsed());
        http_get(&address, 8080, "/ready")?;
        wait_for("it to come back", Duration::from_secs(15), || http_get(&service, 80, "/hostname"))?;
        ensure!(endpoints()? == address, "the endpoints name it again");
        ensure!(kubectl.path(&["pod", "moody"], ".status.containerStatuses[0].restartCount")? == "0", "not restarted");
        Ok(())
    })
}

pub fn failed_liveness_restarts(cluster: &Cluster) -> anyhow::Result<()> {
    with_namespace(cluster, "liveness", |kubectl| {
        // Ready means that it listens; a first look at a server that does not listen yet must not restart it.
        let get = "httpGet: {path: /healthz, port: 8080}, periodSeconds: 1";
        let probes = format!("livenessProbe: {{{get}, failureThreshold: 3}}, readinessProbe: {{{get}}}");
        kubectl.apply(&pod("sick", &format!("image: '{IMAGE}', command: [/testbed, serve], {probes}")))?;
        kubectl.ok(&["wait", "--for=condition=Ready", "pod/sick", "--timeout=30s"])?;
        http_get(&kubectl.path(&["pod", "sick"], ".status.podIP")?, 8080, "/break")?;
        expect(kubectl, "sick", ".status.containerStatuses[0].restartCount", "1", 30)?;
        kubectl.ok(&["wait", "--for=condition=Ready", "pod/sick", "--timeout=30s"])?;
        expect_event(kubectl, "sick", &["Unhealthy", "Liveness probe failed"])?;
        expect_event(kubectl, "sick", &["Killing", "failed liveness probe, will be restarted"])
    })
}

pub fn a_bad_image_says_so(cluster: &Cluster) -> anyhow::Result<()> {
    with_namespace(cluster, "images", |kubectl| {
        kubectl.apply(&pod("typo", "image: 'localhost:1/no-such-image:v1'"))?;
        let waiting = ".status.containerStatuses[0].state.waiting.reason";
        expect(kubectl, "typo", waiting, "ErrImagePull", 30)?;
        expect(kubectl, "typo", waiting, "ImagePullBackOff", 30)?;
        expect_event(kubectl, "typo", &["Failed", "localhost:1/no-such-image:v1"])?;
        expect_event(kubectl, "typo", &["BackOff", "Back-off pulling image"])?;
        kubectl.apply(&pod("never", "image: 'docker.io/library/absent:v1', imagePullPolicy: Never"))?;
        expect(kubectl, "never", waiting, "ErrImageNeverPull", 30)
    })
}

pub fn a_pod_that_fits_nowhere_says_why(cluster: &Cluster) -> anyhow::Result<()> {
    with_namespace(cluster, "giants", |kubectl| {
        kubectl.apply(&pod("giant", &format!("image: '{IMAGE}', resources: {{requests: {{cpu: '800'}}}}")))?;
        let message = wait_for("the reason", Duration::from_secs(15), || {
            let text = kubectl.path(&["pod", "giant"], ".status.conditions[?(@.type==\"PodScheduled\")].message")?;
            ensure!(text.starts_with("0/1 machines: 1 short of cpu: wants 800, "), "{text:?}");
            Ok(text)
        })?;
        ensure!(message.contains(" free"), "{message}");
        ensure!(kubectl.path(&["pod", "giant"], ".status.phase")? == "Pending", "it waits");
        expect_event(kubectl, "giant", &["FailedScheduling", "short of cpu"])?;
        kubectl.ok(&["get", "pod", "giant"]).context("it is listed")?;
        Ok(())
    })
}

pub fn out_of_memory_says_so(cluster: &Cluster) -> anyhow::Result<()> {
    with_namespace(cluster, "memory", |kubectl| {
        let limits = "resources: {limits: {memory: 32Mi}}";
        kubectl.apply(&pod("hungry", &format!("image: '{IMAGE}', command: [/testbed, eat, '128'], {limits}")))?;
        let last = ".status.containerStatuses[0].lastState.terminated";
        expect(kubectl, "hungry", &format!("{last}.reason"), "OOMKilled", 40)?;
        expect(kubectl, "hungry", &format!("{last}.exitCode"), "137", 10)
    })
}
