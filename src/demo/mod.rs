//! `gantry demo`: applies a folder of manifests, waits until they run, and shows what runs and one answer.
//!
//! It is an ordinary client of the API: everything it does, kubectl can do. It decides only what is shown.

mod manifests;
mod progress;
mod table;

use crate::cli::DemoArgs;
use crate::datadir::DataDir;
use crate::problem::Problem;
use crate::say::say;
use anyhow::Context;
use gantry_client::{Client, Patch};
use manifests::Manifest;
use std::time::Duration;

/// Owns the fields that the demo applied.
const MANAGER: &str = "gantry-demo";

pub async fn run(args: DemoArgs) -> anyhow::Result<()> {
    let data = DataDir::new(&args.data.data_dir)?;
    let manifests = manifests::load(&args.folder)?;
    let kubeconfig = data.kubeconfig();
    if !kubeconfig.is_file() {
        let text = format!("no cluster below {}: start one with `gantry up --detach`", data.root().display());
        return Err(Problem::new(text).into());
    }
    let client = Client::from_kubeconfig(&kubeconfig).await?.with_user_agent(MANAGER);
    for manifest in &manifests {
        apply(&client, manifest).await?;
    }
    progress::wait_until_running(&client, &manifests, Duration::from_secs(args.wait_s)).await?;
    say!("{}", table::running(&client, &manifests).await?);
    if let Some((url, answer)) = table::first_answer(&client, &manifests).await? {
        say!("{url} answers:\n{}", table::indented(&answer, 3));
    }
    say!(
        "The cluster stays up. To use it:\n  export KUBECONFIG={}",
        crate::up::for_shell(&kubeconfig.to_string_lossy())
    );
    Ok(())
}

async fn apply(client: &Client, manifest: &Manifest) -> anyhow::Result<()> {
    let patch = Patch::Apply { manager: MANAGER.to_owned(), force: true, body: manifest.body.clone() };
    let applied: Result<serde_json::Value, _> =
        client.patch(manifest.kind, &manifest.namespace, &manifest.name, patch, None).await;
    applied.with_context(|| format!("applying {manifest}"))?;
    Ok(())
}
