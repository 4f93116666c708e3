//! The machine's Lease, renewed every ten seconds on a task and a connection of its own: nothing else can hold it up.

use std::time::Duration;

use gantry_apimachinery::clock::{Clock, SystemClock};
use gantry_apimachinery::kinds;
use gantry_apimachinery::time::MicroTime;
use gantry_client::{ApiError, Client, Patch};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

const NAMESPACE: &str = "kube-node-lease";
const PERIOD: Duration = Duration::from_secs(10);
const PATIENCE: Duration = Duration::from_secs(5);
const LEASE_S: u32 = 40;

pub async fn run(client: Client, node: String, cancel: CancellationToken) {
    loop {
        let renewed = tokio::time::timeout(PATIENCE, renew(&client, &node)).await;
        let pause = match renewed {
            Ok(Ok(())) => PERIOD,
            Ok(Err(e)) => {
                tracing::warn!(error = %e.chain(), "the heartbeat was not taken");
                Duration::from_secs(1)
            }
            Err(_) => Duration::from_millis(200),
        };
        tokio::select! {
            () = cancel.cancelled() => return,
            () = tokio::time::sleep(pause) => {}
        }
    }
}

async fn renew(client: &Client, node: &str) -> Result<(), ApiError> {
    let now = MicroTime(SystemClock.now());
    let spec = json!({"holderIdentity": node, "leaseDurationSeconds": LEASE_S, "renewTime": now});
    let patch = Patch::Merge(json!({ "spec": spec }));
    match client.patch::<Value>(&kinds::LEASE, NAMESPACE, node, patch, None).await {
        Err(ApiError::NotFound(_)) => {
            let owner = client.get::<crate::api::objects::HeaderOnly>(&kinds::NODE, "", node).await?;
            let lease = json!({
                "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "spec": spec,
                "metadata": {"name": node, "namespace": NAMESPACE, "ownerReferences": [{
                    "apiVersion": "v1", "kind": "Node", "name": node, "uid": owner.metadata.uid}]}
            });
            client.create::<Value>(&kinds::LEASE, NAMESPACE, &lease).await.map(drop)
        }
        other => other.map(drop),
    }
}
