//! Client libraries that are programs of their own: Python, TypeScript and Go. Each gets a namespace with a Ready pod
//! `server`, and says `ok` in its last line; each operator is watched by kubectl.

use crate::operators::{self, SOON};
use crate::workloads::IMAGE;
use anyhow::ensure;
use gantry_conformance::{Background, Cluster, Kubectl, tools, wait_for};
use std::path::PathBuf;
use std::process::Command;

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
    let mut command = Command::new(tools::python()?);
    command.args(["-m", "kopf", "run", "--quiet", "--standalone", "--namespace=kopf"]);
    operates(cluster, "kopf", command.arg(source("python/greeter.py")), |kubectl| {
        operators::greets(kubectl)?;
        let status = |path: &str| kubectl.path(&["greeting", "first"], path);
        wait_for("the results of the handlers and the timer", SOON, || {
            ensure!(status(".status.create.child")? == "first", "status.create is {}", status(".status")?);
            // A handler of a field is named after both.
            let update = status(r".status.update/spec\.text")?;
            ensure!(update == r#"{"from":"hello","to":"bye"}"#, "status.update is {}", status(".status")?);
            ensure!(status(".status.ticks")? == "3", "the timer said {}", status(".status.ticks")?);
            Ok(())
        })?;
        operators::goes(kubectl)
    })
}

/// Runs an operator while `watched` looks at what it does; what it said explains a failure.
fn operates(
    cluster: &Cluster,
    name: &str,
    command: &mut Command,
    watched: impl FnOnce(&Kubectl) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    with_server(cluster, name, |kubectl| {
        command.env("KUBECONFIG", cluster.data_dir().join("kubeconfig"));
        let mut operator = Background::start(command)?;
        watched(kubectl).map_err(|error| error.context(operator.said()))
    })
}

pub fn typescript_client(cluster: &Cluster) -> anyhow::Result<()> {
    let program = tools::tool("typescript/client.js")?;
    says_ok(cluster, "typescript", Command::new("node").arg(program).arg("typescript"))
}

pub fn go_client(cluster: &Cluster) -> anyhow::Result<()> {
    let Some(program) = go()? else { return Ok(()) };
    says_ok(cluster, "go", Command::new(program).args(["inform", "go"]))
}

pub fn go_manager(cluster: &Cluster) -> anyhow::Result<()> {
    let Some(program) = go()? else { return Ok(()) };
    operates(cluster, "go-manager", Command::new(program).args(["operate", "go-manager"]), |kubectl| {
        operators::greets(kubectl)?;
        operators::heals(kubectl)?;
        operators::says(kubectl, &["greeting", "first"], ".status.said", "bye")?;
        let leader = kubectl.path(&["lease", "greeter"], ".spec.holderIdentity")?;
        ensure!(!leader.is_empty(), "nobody leads");
        operators::goes(kubectl)
    })
}

/// The Go program, or `None` where its modules could not be had: then these cases show nothing, and say so.
fn go() -> anyhow::Result<Option<PathBuf>> {
    if let Ok(why) = tools::tool("go/unreachable") {
        eprintln!("NOT RUN: the Go clients, {}", std::fs::read_to_string(why)?.trim());
        return Ok(None);
    }
    tools::tool("go/client").map(Some)
}
