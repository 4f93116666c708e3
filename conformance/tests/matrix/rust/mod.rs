//! The Rust client: kube-rs in this very process, with the cluster's kubeconfig.

mod client;
mod controller;

use crate::libraries::with_server;
use crate::operators;
use anyhow::{Context, ensure};
use gantry_conformance::{Cluster, Kubectl};
use std::future::Future;

pub fn rust_client(cluster: &Cluster) -> anyhow::Result<()> {
    with_server(cluster, "rust", |_| {
        block_on(async {
            let kube = connect(cluster).await?;
            client::watches(&kube, "rust").await.context("watches")?;
            client::applies(&kube, "rust").await.context("applies")?;
            client::executes(&kube, "rust").await.context("executes")?;
            client::logs(&kube, "rust").await.context("logs")?;
            client::forwards(&kube, "rust").await.context("forwards")
        })
    })
}

pub fn rust_controller(cluster: &Cluster) -> anyhow::Result<()> {
    with_server(cluster, "rust-controller", |kubectl| {
        let kubectl = kubectl.clone();
        block_on(async {
            let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
            let running = tokio::spawn(controller::run(connect(cluster).await?, "rust-controller", stopped));
            let checked = tokio::task::spawn_blocking(move || controls(&kubectl)).await?;
            drop(stop);
            let reconciled = running.await.context("the controller's end")?;
            checked.with_context(|| format!("it reconciled: {reconciled:#?}"))?;
            // Made, another text, two repairs, the deletion, and what its own writes cause: not a loop.
            ensure!((5..60).contains(&reconciled.len()), "it reconciled {} times", reconciled.len());
            let failed: Vec<_> = reconciled.iter().filter(|one| one.is_err()).collect();
            ensure!(failed.len() <= 5, "{failed:#?}");
            Ok(())
        })
    })
}

fn controls(kubectl: &Kubectl) -> anyhow::Result<()> {
    operators::greets(kubectl)?;
    operators::heals(kubectl)?;
    operators::says(kubectl, &["greeting", "first"], ".status.said", "bye")?;
    operators::goes(kubectl)
}

async fn connect(cluster: &Cluster) -> anyhow::Result<kube::Client> {
    let config = kube::config::Kubeconfig::read_from(cluster.data_dir().join("kubeconfig"))?;
    let config = kube::Config::from_custom_kubeconfig(config, &Default::default()).await?;
    Ok(kube::Client::try_from(config)?)
}

fn block_on<T>(what: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?.block_on(what)
}
