//! What every version of kubectl streams out of and into a pod: logs, exec, attach, port-forward, proxy, debug.

use crate::workloads::IMAGE;
use crate::{contains_all, each_kubectl};
use anyhow::{Context, ensure};
use gantry_conformance::{Background, Cluster, Kubectl, http_get};
use std::time::Duration;

const SOON: Duration = Duration::from_secs(30);

pub fn kubectl_reaches_into_pods(cluster: &Cluster) -> anyhow::Result<()> {
    each_kubectl(cluster, "streams", |kubectl, _| {
        kubectl.apply(&format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: server, labels: {{app: server}}}}\nspec:\n  \
             terminationGracePeriodSeconds: 1\n  containers:\n  \
             - {{name: server, image: \"{IMAGE}\", command: [/testbed, serve], ports: [{{containerPort: 8080}}]}}\n  \
             - {{name: reader, image: \"{IMAGE}\", command: [/testbed, cat], stdin: true, stdinOnce: true}}\n---\n\
             apiVersion: v1\nkind: Service\nmetadata: {{name: server}}\nspec: {{selector: {{app: server}}, ports: [{{port: 80, targetPort: 8080}}]}}\n"
        ))?;
        kubectl.ok(&["wait", "--for=condition=Ready", "pod/server", "--timeout=90s"])?;
        logs(kubectl)?;
        commands(kubectl)?;
        forwards(kubectl)?;
        debugs(kubectl)
    })
}

fn logs(kubectl: &Kubectl) -> anyhow::Result<()> {
    ensure!(kubectl.ok(&["logs", "server", "-c", "server"])? == "serving on port 8080\n", "logs");
    let all = kubectl.ok(&["logs", "-l", "app=server", "--all-containers", "--prefix", "--timestamps", "--tail=5"])?;
    contains_all(&all, &["[pod/server/server] 20", "Z serving on port 8080"])?;
    let mut follow = Background::start(&mut kubectl.command(&["logs", "-f", "server", "-c", "server"]))?;
    follow.line("serving on port 8080", SOON)?;
    contains_all(&kubectl.fails(&["logs", "server", "-c", "nobody"], "")?, &["nobody"])
}

fn commands(kubectl: &Kubectl) -> anyhow::Result<()> {
    ensure!(kubectl.ok(&["exec", "server", "-c", "server", "--", "/testbed", "echo", "a", "b"])? == "a b\n", "exec");
    let cat = ["exec", "-i", "server", "-c", "server", "--", "/testbed", "cat"];
    ensure!(kubectl.ok_with(&cat, "through standard input\n")? == "through standard input\n", "exec -i");
    let said = kubectl.run(&["exec", "server", "-c", "server", "--", "/testbed", "exit", "7"], "")?;
    ensure!(said.code == 7, "the exit code: {said:?}");
    let attached = kubectl.run(&["attach", "-i", "server", "-c", "reader"], "to the first process\n")?;
    ensure!(attached.code == 0 && attached.out.contains("to the first process"), "{attached:?}");
    Ok(())
}

/// The port in a line like `Forwarding from 127.0.0.1:40123 -> 8080`.
fn port(line: &str) -> anyhow::Result<u16> {
    let rest = line.split("127.0.0.1:").nth(1).context("no address")?;
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().with_context(|| line.to_owned())
}

fn forwards(kubectl: &Kubectl) -> anyhow::Result<()> {
    for (target, ports) in [("pod/server", ":8080"), ("service/server", ":80")] {
        let mut forward =
            Background::start(&mut kubectl.command(&["port-forward", "--address=127.0.0.1", target, ports]))?;
        let port = port(&forward.line("Forwarding from", SOON)?)?;
        ensure!(http_get("127.0.0.1", port, "/hostname")?.trim() == "server", "through {target}");
        ensure!(http_get("127.0.0.1", port, "/hostname")?.trim() == "server", "a second time");
    }
    let namespace = kubectl.path(&["pod", "server"], ".metadata.namespace")?;
    let mut proxy = Background::start(&mut kubectl.command(&["proxy", "--port=0"]))?;
    let port = port(&proxy.line("Starting to serve", SOON)?)?;
    contains_all(&http_get("127.0.0.1", port, "/version")?, &["\"gitVersion\": \"v1.35."])
        .or_else(|_| contains_all(&http_get("127.0.0.1", port, "/version")?, &["\"gitVersion\":\"v1.35."]))?;
    let pods = format!("/api/v1/namespaces/{namespace}/pods");
    contains_all(&http_get("127.0.0.1", port, &pods)?, &["PodList", "server"])
}

fn debugs(kubectl: &Kubectl) -> anyhow::Result<()> {
    let image = format!("--image={IMAGE}");
    kubectl.ok(&["debug", "server", &image, "--container=visitor", "--", "/testbed", "echo", "a visitor"])?;
    let status = ".status.ephemeralContainerStatuses[0].state.terminated.exitCode";
    let wait = format!("--for=jsonpath={{{status}}}=0");
    kubectl.ok(&["wait", &wait, "pod/server", "--timeout=60s"])?;
    ensure!(kubectl.ok(&["logs", "server", "-c", "visitor"])? == "a visitor\n", "the visitor's log");
    Ok(())
}
