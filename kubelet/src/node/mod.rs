//! This machine as the cluster sees it: its Node object, its heartbeat, its pod network. Decides what is reported and
//! when; never anything about pods.

mod cni;
pub(crate) mod heartbeat;
mod machine;
pub(crate) mod status;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use gantry_apimachinery::kinds;
use gantry_client::{ApiError, Client, EventRecorder, EventType, Informer, InformerOptions, ObjectRef, Patch};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::agent::now;
use crate::api::node::{Node, NodeStatus};
use crate::config::Config;
use crate::runtime::Runtime;

pub use machine::{Facts as MachineFacts, Pressure};

const LOOK: Duration = Duration::from_millis(500);
/// A status that did not change is written again after this long.
const REPORT_MS: u64 = 300_000;

/// The labels that a machine gives itself.
pub(crate) fn labels(config: &Config) -> Value {
    let mut labels = json!({
        "kubernetes.io/hostname": config.node_name,
        "kubernetes.io/os": "linux", "kubernetes.io/arch": machine::architecture(),
        "beta.kubernetes.io/os": "linux", "beta.kubernetes.io/arch": machine::architecture(),
    });
    for (k, v) in &config.node_labels {
        labels[k] = json!(v);
    }
    labels
}

/// The Node of a machine that registers.
pub(crate) fn registration(config: &Config, status: &NodeStatus) -> Value {
    let metadata = json!({"name": config.node_name, "labels": labels(config)});
    json!({"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": {}, "status": status})
}

pub struct NodeAgent {
    pub config: Config,
    pub client: Client,
    pub runtime: Arc<dyn Runtime>,
    pub facts: MachineFacts,
    pub recorder: EventRecorder,
    pub cancel: CancellationToken,
}

impl NodeAgent {
    /// Registers the machine once its cluster is known, then keeps its status true until cancelled.
    pub async fn run(self, mut cluster: watch::Receiver<Option<String>>) {
        let cancel = self.cancel.clone();
        let work = async {
            if cluster.wait_for(Option::is_some).await.is_err() {
                return;
            }
            self.register().await;
            let heartbeat = self.config.heartbeat_client.clone().unwrap_or_else(|| self.client.clone());
            tokio::spawn(heartbeat::run(heartbeat, self.config.node_name.clone(), self.cancel.clone()));
            self.report().await;
        };
        tokio::select! {
            () = cancel.cancelled() => {}
            () = work => {}
        }
    }

    /// Creates the Node, or brings its labels up to date; what others wrote on it stays.
    async fn register(&self) {
        let name = &self.config.node_name;
        loop {
            let existing = self.client.get::<Node>(&kinds::NODE, "", name).await;
            let result = match existing {
                Ok(_) => {
                    let patch = Patch::Merge(json!({ "metadata": {"labels": labels(&self.config)} }));
                    self.client.patch::<Value>(&kinds::NODE, "", name, patch, None).await.map(drop)
                }
                Err(ApiError::NotFound(_)) => {
                    let node = registration(&self.config, &self.status(&Node::default()).await);
                    self.client.create::<Value>(&kinds::NODE, "", &node).await.map(drop)
                }
                Err(e) => Err(e),
            };
            match result {
                Ok(()) => return,
                Err(e) => tracing::warn!(error = %e.chain(), "the machine could not be registered yet"),
            }
            sleep(Duration::from_secs(1)).await;
        }
    }

    async fn report(&self) {
        let name = self.config.node_name.clone();
        let options = InformerOptions::fields(format!("metadata.name={name}"));
        let informer: Informer<Node> = Informer::start(self.client.clone(), &kinds::NODE, options, self.cancel.clone());
        informer.synced().await;
        let mut changes = informer.subscribe();
        let (mut reported, mut at_ms) = (None, 0);
        let mut was_ready = None;
        loop {
            let Some(node) = informer.get("", &name) else {
                // Somebody deleted it: this machine is still here.
                self.register().await;
                tokio::select! { _ = changes.recv() => {}, () = sleep(LOOK) => {} }
                continue;
            };
            if let Some(cidr) = node.spec.pod_cidr.as_deref().filter(|_| !self.config.external_cni)
                && let Err(error) = cni::ensure(&self.config, cidr)
            {
                tracing::error!(%error, "the pod network's configuration could not be written");
            }
            let status = self.status(&node).await;
            let same = reported.as_ref().is_some_and(|before| status::same(before, &status))
                && status::same(&node.status, &status);
            if !same || now().boot_ms.saturating_sub(at_ms) >= REPORT_MS {
                match self.write(&node, &status).await {
                    Ok(()) => {
                        at_ms = now().boot_ms;
                        self.tell_readiness(&node, &status, &mut was_ready);
                        reported = Some(status);
                    }
                    Err(e) => tracing::warn!(error = %e.chain(), "the machine's status could not be written"),
                }
            }
            // A written status comes back as a change; looking again then costs nothing but one comparison.
            tokio::select! { _ = changes.recv() => {}, () = sleep(self.pause(reported.as_ref())) => {} }
        }
    }

    /// Quick looks until the machine is Ready, then every ten seconds.
    fn pause(&self, reported: Option<&NodeStatus>) -> Duration {
        let ready = reported.is_some_and(|s| s.conditions.iter().any(|c| c.kind == "Ready" && c.status == "True"));
        if ready { LOOK * 20 } else { LOOK / 5 }
    }

    async fn status(&self, node: &Node) -> NodeStatus {
        let seen = status::Seen {
            runtime: self.runtime.health().await,
            version: self.runtime.version().await.unwrap_or_default(),
            images: self.runtime.images().await.unwrap_or_default(),
            pressure: machine::pressure(&self.config.root),
        };
        status::of(node, &self.config, &self.facts, &seen, now().wall)
    }

    async fn write(&self, node: &Node, status: &NodeStatus) -> Result<(), ApiError> {
        let mut body = json!({ "status": status });
        let removed = node.status.addresses.iter().any(|a| !status.addresses.contains(a));
        if let Some(list) = body["status"]["addresses"].as_array_mut().filter(|_| removed) {
            list.push(json!({"$patch": "replace"}));
        }
        let name = &self.config.node_name;
        self.client.patch::<Value>(&kinds::NODE, "", name, Patch::Strategic(body), Some("status")).await.map(drop)
    }

    fn tell_readiness(&self, node: &Node, status: &NodeStatus, was: &mut Option<bool>) {
        let ready = status.conditions.iter().any(|c| c.kind == "Ready" && c.status == "True");
        if was.replace(ready) == Some(ready) {
            return;
        }
        let reason = if ready { "NodeReady" } else { "NodeNotReady" };
        let message = format!("Node {} status is now: {reason}", self.config.node_name);
        self.recorder.event(&ObjectRef::of(&kinds::NODE, node), EventType::Normal, reason, &message);
    }
}
