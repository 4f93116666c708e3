//! The machine's Lease, renewed every ten seconds on a task and a connection of its own: nothing else can hold it up.

use std::time::Duration;

use gantry_apimachinery::clock::{Clock, SystemClock};
use gantry_apimachinery::kinds;
use gantry_apimachinery::time::{MicroTime, Timestamp};
use gantry_client::{ApiError, Client, Patch};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

pub(crate) const NAMESPACE: &str = "kube-node-lease";
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

/// What a renewal says.
pub(crate) fn renewal(node: &str, now: Timestamp) -> Value {
    json!({"spec": {"holderIdentity": node, "leaseDurationSeconds": LEASE_S, "renewTime": MicroTime(now)}})
}

/// The Lease of a Node with this uid.
pub(crate) fn lease(node: &str, uid: &str, now: Timestamp) -> Value {
    let mut lease = renewal(node, now);
    lease["apiVersion"] = json!("coordination.k8s.io/v1");
    lease["kind"] = json!("Lease");
    lease["metadata"] = json!({"name": node, "namespace": NAMESPACE, "ownerReferences": [{
        "apiVersion": "v1", "kind": "Node", "name": node, "uid": uid}]});
    lease
}

async fn renew(client: &Client, node: &str) -> Result<(), ApiError> {
    let now = SystemClock.now();
    let patch = Patch::Merge(renewal(node, now));
    match client.patch::<Value>(&kinds::LEASE, NAMESPACE, node, patch, None).await {
        Err(ApiError::NotFound(_)) => {
            let owner = client.get::<crate::api::objects::HeaderOnly>(&kinds::NODE, "", node).await?;
            let lease = lease(node, owner.metadata.uid.as_str(), now);
            client.create::<Value>(&kinds::LEASE, NAMESPACE, &lease).await.map(drop)
        }
        other => other.map(drop),
    }
}
