//! Waiting until this machine's Node says Ready, and its agent of now says that it is alive. It only looks.

use gantry_apimachinery::clock::{Clock, SystemClock};
use gantry_apimachinery::kinds;
use gantry_apimachinery::time::Timestamp;
use gantry_client::Client;
use serde_json::Value;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Where heartbeats are: `LEASES/NODE`.
const LEASES: &str = "kube-node-lease";

/// False when cancelled before.
pub async fn wait(client: &Client, node: &str, cancel: &CancellationToken) -> bool {
    let start = SystemClock.now();
    loop {
        // What an earlier run stored says Ready too; only this run's agent renews the Lease from now on.
        let lease = client.get::<Value>(&kinds::LEASE, LEASES, node).await;
        if lease.is_ok_and(|lease| is_renewed(&lease, start)) {
            let found = client.get::<Value>(&kinds::NODE, "", node).await;
            if found.is_ok_and(|node| is_ready(&node)) {
                return true;
            }
        }
        if cancel.run_until_cancelled(tokio::time::sleep(LOOK_EVERY)).await.is_none() {
            return false;
        }
    }
}

fn is_renewed(lease: &Value, start: Timestamp) -> bool {
    let renewed = serde_json::from_value::<Timestamp>(lease["spec"]["renewTime"].clone());
    renewed.is_ok_and(|renewed| renewed >= start)
}

fn is_ready(node: &Value) -> bool {
    let conditions = node["status"]["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
    conditions.iter().any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_a_true_condition_counts() {
        let node = |status: &str| json!({"status": {"conditions": [{"type": "Ready", "status": status}]}});
        assert!(is_ready(&node("True")));
        assert!(!is_ready(&node("Unknown")));
        assert!(!is_ready(&json!({})));
    }

    #[test]
    fn only_a_later_renewal_counts() {
        let lease = json!({"spec": {"renewTime": "2026-11-29T14:31:19.115508Z"}});
        let at = |text: &str| serde_json::from_value(json!(text)).unwrap();
        assert!(is_renewed(&lease, at("2026-11-29T14:31:19Z")));
        assert!(!is_renewed(&lease, at("2026-11-29T14:31:20Z")));
        assert!(!is_renewed(&json!({}), at("2026-11-29T14:31:20Z")));
    }
}
