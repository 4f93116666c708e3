//! What every operator does with a Greeting, whoever wrote it and in whatever language: a ConfigMap with its text belongs to it,
//! and its deletion waits for the operator. Watched by kubectl.

use anyhow::ensure;
use gantry_conformance::{Kubectl, wait_for};
use std::time::Duration;

pub const SOON: Duration = Duration::from_secs(60);
const MAP: [&str; 2] = ["configmap", "first"];

/// An operator makes a ConfigMap of a Greeting, and follows its text.
pub fn greets(kubectl: &Kubectl) -> anyhow::Result<()> {
    kubectl
        .apply("apiVersion: clients.example.test/v1\nkind: Greeting\nmetadata: {name: first}\nspec: {text: hello}\n")?;
    says(kubectl, &MAP, ".data.text", "hello")?;
    let owner = kubectl.path(&MAP, ".metadata.ownerReferences[0].kind")?;
    ensure!(owner == "Greeting", "the ConfigMap belongs to {owner:?}");
    kubectl.ok(&["patch", "greeting", "first", "--type=merge", "-p", r#"{"spec":{"text":"bye"}}"#])?;
    says(kubectl, &MAP, ".data.text", "bye")
}

/// One that watches what it owns makes it again, and takes back what others did to it.
pub fn heals(kubectl: &Kubectl) -> anyhow::Result<()> {
    let before = kubectl.path(&MAP, ".metadata.uid")?;
    kubectl.ok(&["delete", "configmap", "first"])?;
    wait_for("the operator to make its ConfigMap again", SOON, || {
        ensure!(kubectl.path(&MAP, ".metadata.uid")? != before, "it is the one that was deleted");
        Ok(())
    })?;
    kubectl.ok(&["patch", "configmap", "first", "--type=merge", "-p", r#"{"data":{"text":"another's"}}"#])?;
    says(kubectl, &MAP, ".data.text", "bye")
}

/// The deletion waits for the operator's finalizer and what it does then, and the ConfigMap goes with its owner.
pub fn goes(kubectl: &Kubectl) -> anyhow::Result<()> {
    let finalizer = kubectl.path(&["greeting", "first"], ".metadata.finalizers[0]")?;
    ensure!(finalizer == "clients.example.test/greeter", "the operator's finalizer is {finalizer:?}");
    kubectl.ok(&["delete", "greeting", "first", "--timeout=60s"])?;
    let farewell = kubectl.path(&["configmap", "farewell-first"], ".data.text")?;
    ensure!(farewell == "bye", "what it leaves says {farewell:?}");
    wait_for("the ConfigMap to go with its owner", SOON, || {
        let left = kubectl.ok(&["get", "configmap", "first", "--ignore-not-found", "-o", "name"])?;
        ensure!(left.is_empty(), "{left} is still there");
        Ok(())
    })
}

/// A field of an object, in time.
pub fn says(kubectl: &Kubectl, what: &[&str], path: &str, expected: &str) -> anyhow::Result<()> {
    wait_for("the operator to write it", SOON, || {
        let said = kubectl.path(what, path)?;
        ensure!(said == expected, "{path} of {} is {said:?}, not {expected:?}", what.join(" "));
        Ok(())
    })
}
