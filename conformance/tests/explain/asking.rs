//! The fleet, pods that wait, and what `gantry explain` says of them.

use anyhow::{Context, ensure};
use gantry_conformance::rehearsal::{PATIENCE, Rehearsal};
use gantry_conformance::{Kubectl, wait_for};
use serde_json::Value;
use std::path::PathBuf;
use std::process::{Command, Stdio};

pub const MACHINES: usize = 6;

/// Three machines in each of two zones, all alike.
pub const PROFILE: &str = "
name: hollow
zones: 2
racksPerZone: 3
classes:
- {name: plain, cpu: 8, memory: 32Gi}
pods:
  startup: {min: 10ms, max: 50ms}
  lifetime: {min: 1h, max: 2h}
  stopping: {min: 10ms, max: 50ms}
";

/// What a run of `gantry` said.
pub struct Said {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Said {
    /// All of these words are in the answer.
    pub fn has(&self, words: &[&str]) -> anyhow::Result<()> {
        for word in words {
            ensure!(self.out.contains(word), "no {word:?} in:\n{}\n{}", self.out, self.err);
        }
        Ok(())
    }

    pub fn json(&self) -> anyhow::Result<Value> {
        serde_json::from_str(&self.out).with_context(|| format!("{}\n{}", self.out, self.err))
    }
}

pub fn run(command: &mut Command, input: &str) -> anyhow::Result<Said> {
    use std::io::Write;
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    child.stdin.take().context("its standard input")?.write_all(input.as_bytes())?;
    let output = child.wait_with_output()?;
    Ok(Said {
        code: output.status.code().unwrap_or(-1),
        out: String::from_utf8_lossy(&output.stdout).into_owned(),
        err: String::from_utf8_lossy(&output.stderr).into_owned(),
    })
}

pub fn admin(r: &Rehearsal) -> PathBuf {
    r.path("data/kubeconfig")
}

/// `gantry explain pod NAME -n NAMESPACE`, which must succeed.
pub fn explain(r: &Rehearsal, namespace: &str, name: &str, flags: &[&str]) -> anyhow::Result<Said> {
    let mut command = r.gantry(&["explain", "pod", name, "-n", namespace])?;
    let said = run(command.args(flags).arg("--kubeconfig").arg(admin(r)), "")?;
    ensure!(said.code == 0, "exit code {}: {}{}", said.code, said.out, said.err);
    Ok(said)
}

pub fn fits(r: &Rehearsal, namespace: &str, flags: &[&str], manifest: &str) -> anyhow::Result<Said> {
    let mut command = r.gantry(&["fits", "-f", "-", "-n", namespace])?;
    run(command.args(flags).arg("--kubeconfig").arg(admin(r)), manifest)
}

/// A pod of these parts of a spec, in YAML's flow form.
pub fn pod(name: &str, spec: &str) -> String {
    labelled(name, "", spec)
}

pub fn labelled(name: &str, labels: &str, spec: &str) -> String {
    let spec = if spec.contains("containers") {
        spec.to_owned()
    } else {
        format!("containers: [{{name: c, image: 'i:1'}}], {spec}")
    };
    format!(
        "{{apiVersion: v1, kind: Pod, metadata: {{name: {name}, labels: {{{labels}}}}}, spec: {{terminationGracePeriodSeconds: 0, {spec}}}}}\n"
    )
}

/// Containers that want this.
pub fn wants(requests: &str) -> String {
    format!("containers: [{{name: c, image: 'i:1', resources: {{requests: {{{requests}}}, limits: {{{requests}}}}}}}]")
}

/// The scheduler has said of the pod why it waits.
pub fn told(kubectl: &Kubectl, name: &str) -> anyhow::Result<String> {
    let condition = ".status.conditions[?(@.type==\"PodScheduled\")].message";
    wait_for(&format!("a reason why {name} waits"), PATIENCE, || {
        let message = kubectl.path(&["pod", name], condition)?;
        ensure!(!message.is_empty(), "none yet");
        Ok(message)
    })
}

pub fn placed(kubectl: &Kubectl, name: &str) -> anyhow::Result<String> {
    wait_for(&format!("{name} to have a machine"), PATIENCE, || {
        let node = kubectl.path(&["pod", name], ".spec.nodeName")?;
        ensure!(!node.is_empty(), "it has none");
        Ok(node)
    })
}

/// A pod that waits in a namespace of its own; all of the words are in what is explained.
pub fn waits(r: &Rehearsal, namespace: &str, spec: &str, words: &[&str]) -> anyhow::Result<()> {
    r.kubectl.with_namespace(namespace, |kubectl| {
        kubectl.apply(&pod("p", spec))?;
        told(kubectl, "p")?;
        let said = explain(r, namespace, "p", &[])?;
        said.has(&[&format!("pod {namespace}/p waits: ")])?;
        said.has(words)
    })
}
