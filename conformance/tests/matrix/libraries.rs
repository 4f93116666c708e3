//! Client libraries that are programs of their own: Python, TypeScript and Go. Each gets a namespace with a Ready pod
//! `server`, and says `ok` in its last line; each operator is watched by kubectl.

use crate::workloads::IMAGE;
use anyhow::ensure;
use gantry_conformance::{Background, Cluster, Kubectl, tools, wait_for};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

const SOON: Duration = Duration::from_secs(180);

fn source(path: &str) -> PathBuf {
    tools::repository().join("conformance/clients").join(path)
}

/// A namespace with a web server's pod, and the definition of Greetings.
pub fn with_server(
    cluster: &Cluster,
    name: &str,
    body: impl FnOnce(&Kubectl) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let greetings = source("greetings.yaml").display().to_string();
    cluster.kubectl.ok(&["apply", "--server-side", "-f", &greetings])?;
    cluster.kubectl.with_namespace(name, |kubectl| {
        kubectl.apply(&format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: server}}\nspec:\n  terminationGracePeriodSeconds: 1\n  \
             containers: [{{name: server, image: \"{IMAGE}\", command: [/testbed, serve]}}]\n"
        ))?;
        kubectl.ok(&["wait", "--for=condition=Ready", "pod/server", "--timeout=90s"])?;
        body(kubectl)
    })
}

/// Runs a program to its end, which must be well.
fn says_ok(cluster: &Cluster, name: &str, command: &mut Command) -> anyhow::Result<()> {
    with_server(cluster, name, |_| {
        command.env("KUBECONFIG", cluster.data_dir().join("kubeconfig"));
        let (status, said) = Background::start(command)?.end()?;
        ensure!(status.success() && said.lines().any(|line| line == "ok"), "{status}:\n{said}");
        Ok(())
    })
}

pub fn python_client(cluster: &Cluster) -> anyhow::Result<()> {
    let mut command = Command::new(tools::python()?);
    says_ok(cluster, "python", command.arg(source("python/client.py")).arg("python"))
}

pub fn python_operator_on_kopf(cluster: &Cluster) -> anyhow::Result<()> {
    with_server(cluster, "kopf", |kubectl| {
        let mut command = Command::new(tools::python()?);
        command.args(["-m", "kopf", "run", "--quiet", "--standalone", "--namespace=kopf"]);
        command.arg(source("python/greeter.py")).env("KUBECONFIG", cluster.data_dir().join("kubeconfig"));
        let mut operator = Background::start(&mut command)?;
        kopf_greets(kubectl).map_err(|error| error.context(operator.said()))
    })
}

fn kopf_greets(kubectl: &Kubectl) -> anyhow::Result<()> {
    greets(kubectl)?;
    let status = |path: &str| kubectl.path(&["greeting", "first"], path);
    wait_for("the results of the handlers and the timer", SOON, || {
        ensure!(status(".status.create.child")? == "first", "status.create is {}", status(".status")?);
        ensure!(status(".status.update")?.contains(r#""to":"bye""#), "status.update is {}", status(".status")?);
        ensure!(status(".status.ticks")? == "3", "the timer said {}", status(".status.ticks")?);
        Ok(())
    })?;
    ensure!(status(".metadata.finalizers[0]")? == "clients.example.test/greeter", "the operator's finalizer");
    goes(kubectl)?;
    let farewell = kubectl.path(&["configmap", "farewell-first"], ".data.text")?;
    ensure!(farewell == "bye", "the handler of the deletion ran: {farewell}");
    Ok(())
}

/// An operator makes a ConfigMap of a Greeting, and follows its text.
pub fn greets(kubectl: &Kubectl) -> anyhow::Result<()> {
    kubectl
        .apply("apiVersion: clients.example.test/v1\nkind: Greeting\nmetadata: {name: first}\nspec: {text: hello}\n")?;
    let text = || kubectl.path(&["configmap", "first"], ".data.text");
    wait_for("the operator to make a ConfigMap", SOON, || {
        ensure!(text()? == "hello", "its text is {}", text()?);
        Ok(())
    })?;
    let owner = kubectl.path(&["configmap", "first"], ".metadata.ownerReferences[0].kind")?;
    ensure!(owner == "Greeting", "the ConfigMap belongs to {owner:?}");
    kubectl.ok(&["patch", "greeting", "first", "--type=merge", "-p", r#"{"spec":{"text":"bye"}}"#])?;
    wait_for("the operator to follow the text", SOON, || {
        ensure!(text()? == "bye", "its text is {}", text()?);
        Ok(())
    })
}

/// The deletion waits for the operator's finalizer, and the ConfigMap goes with its owner.
pub fn goes(kubectl: &Kubectl) -> anyhow::Result<()> {
    kubectl.ok(&["delete", "greeting", "first", "--timeout=60s"])?;
    wait_for("the ConfigMap to go with its owner", SOON, || {
        let left = kubectl.ok(&["get", "configmap", "first", "--ignore-not-found", "-o", "name"])?;
        ensure!(left.is_empty(), "{left} is still there");
        Ok(())
    })
}

pub fn typescript_client(cluster: &Cluster) -> anyhow::Result<()> {
    let program = tools::tool("typescript/client.js")?;
    says_ok(cluster, "typescript", Command::new("node").arg(program).arg("typescript"))
}
