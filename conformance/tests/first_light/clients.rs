//! Two client libraries that are not kubectl: kube-rs and the Python `kubernetes` package.

use crate::kubectl_writes::with_namespace;
use anyhow::{Context, ensure};
use futures::{StreamExt, TryStreamExt};
use gantry_conformance::{Cluster, tools};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// A kube-rs client of the cluster's administrator.
pub async fn client(kubeconfig: &Path) -> anyhow::Result<kube::Client> {
    let config = kube::config::Kubeconfig::read_from(kubeconfig)?;
    let config = kube::Config::from_custom_kubeconfig(config, &kube::config::KubeConfigOptions::default()).await?;
    Ok(kube::Client::try_from(config)?)
}

pub fn block_on<T>(future: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(future)
}

pub fn kube_rs_lists_watches_creates_and_patches(cluster: &Cluster) -> anyhow::Result<()> {
    let kubeconfig = cluster.data_dir().join("kubeconfig");
    with_namespace(cluster, "kube-rs", |_| block_on(kube_rs(&kubeconfig)))
}

async fn kube_rs(kubeconfig: &Path) -> anyhow::Result<()> {
    let api: Api<ConfigMap> = Api::namespaced(client(kubeconfig).await?, "kube-rs");
    let listed = api.list(&ListParams::default().labels("from=kube-rs")).await?;
    ensure!(listed.items.is_empty(), "nothing yet");
    let from = listed.metadata.resource_version.context("a list has a resource version")?;
    let parameters = WatchParams::default().labels("from=kube-rs");
    let mut watch = api.watch(&parameters, &from).await?.boxed();

    let object: ConfigMap = serde_json::from_value(serde_json::json!({
        "metadata": {"name": "one", "labels": {"from": "kube-rs"}}, "data": {"n": "1"}
    }))?;
    api.create(&PostParams::default(), &object).await?;
    let patch = serde_json::json!({"data": {"n": "2"}});
    let patched = api.patch("one", &PatchParams::default(), &Patch::Merge(patch)).await?;
    ensure!(patched.data.as_ref().and_then(|data| data.get("n")).is_some_and(|n| n == "2"), "merge patch");
    let apply = serde_json::json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"applied": "yes"}});
    api.patch("one", &PatchParams::apply("suite"), &Patch::Apply(apply)).await?;
    let found = api.get("one").await?.data.unwrap_or_default();
    ensure!(found.get("applied").is_some_and(|value| value == "yes") && found["n"] == "2", "{found:?}");
    api.delete("one", &DeleteParams::default()).await?;

    let mut seen = Vec::new();
    while seen.last() != Some(&"deleted") {
        let next = tokio::time::timeout(Duration::from_secs(10), watch.try_next());
        match next.await.with_context(|| format!("the watch is silent after {seen:?}"))?? {
            Some(WatchEvent::Added(_)) => seen.push("added"),
            Some(WatchEvent::Modified(_)) => seen.push("modified"),
            Some(WatchEvent::Deleted(_)) => seen.push("deleted"),
            Some(WatchEvent::Bookmark(_)) => {}
            other => anyhow::bail!("unexpected: {other:?}"),
        }
    }
    ensure!(seen == ["added", "modified", "modified", "deleted"], "{seen:?}");
    Ok(())
}

pub fn python_lists_watches_creates_and_patches(cluster: &Cluster) -> anyhow::Result<()> {
    with_namespace(cluster, "python", |_| {
        let script = tools::repository().join("conformance/tests/first_light/client.py");
        let output = Command::new(tools::python()?)
            .arg(script)
            .arg(cluster.data_dir().join("kubeconfig"))
            .output()
            .context("python did not start")?;
        let text = String::from_utf8_lossy(&output.stdout);
        ensure!(output.status.success() && text.ends_with("ok\n"), "{text}{}", String::from_utf8_lossy(&output.stderr));
        Ok(())
    })
}
