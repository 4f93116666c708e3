//! Waiting until this machine's Node says Ready, and its agent of now says that it is alive. It only looks.

use gantry_apimachinery::clock::{Clock, SystemClock};
use gantry_apimachinery::kinds;
use gantry_apimachinery::time::Timestamp;
use gantry_client::Client;
use serde_json::Value;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Between a machine's name and what it is short of, in a line of the log.
pub const TAKES_NO_PODS: &str = "takes no pods for now:";
/// Where heartbeats are: `LEASES/NODE`.
const LEASES: &str = "kube-node-lease";

/// The Node that is Ready; `None` when cancelled before.
pub async fn wait(client: &Client, node: &str, cancel: &CancellationToken) -> Option<Value> {
    let start = SystemClock.now();
    loop {
        // What an earlier run stored says Ready too; only this run's agent renews the Lease from now on.
        let lease = client.get::<Value>(&kinds::LEASE, LEASES, node).await;
        if lease.is_ok_and(|lease| is_renewed(&lease, start)) {
            let found = client.get::<Value>(&kinds::NODE, "", node).await.ok();
            if let Some(node) = found.filter(|node| is_ready(node, start)) {
                return Some(node);
            }
        }
        cancel.run_until_cancelled(tokio::time::sleep(LOOK_EVERY)).await?;
    }
}

fn is_renewed(lease: &Value, start: Timestamp) -> bool {
    let renewed = serde_json::from_value::<Timestamp>(lease["spec"]["renewTime"].clone());
    renewed.is_ok_and(|renewed| renewed >= start)
}

/// As its agent of now says. The API keeps seconds.
fn is_ready(node: &Value, start: Timestamp) -> bool {
    let ready = true_conditions(node).find(|condition| condition["type"] == "Ready");
    let told = ready.map(|condition| serde_json::from_value::<Timestamp>(condition["lastHeartbeatTime"].clone()));
    told.is_some_and(|told| told.is_ok_and(|told| told >= start.truncated_to_secs()))
}

/// What the machine is short of, in the words of its agent. It is Ready all the same, and takes no pods but those that tolerate it.
pub fn shortages(node: &Value) -> impl Iterator<Item = &str> {
    let is_pressure = |kind: &str| ["DiskPressure", "MemoryPressure", "PIDPressure"].contains(&kind);
    let pressures = true_conditions(node).filter(move |condition| condition["type"].as_str().is_some_and(is_pressure));
    pressures.filter_map(|condition| condition["message"].as_str())
}

fn true_conditions(node: &Value) -> impl Iterator<Item = &Value> {
    let conditions = node["status"]["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
    conditions.iter().filter(|condition| condition["status"] == "True")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_a_true_condition_counts() {
        let node = |status: &str, at: &str| json!({"status": {"conditions": [{"type": "Ready", "status": status, "lastHeartbeatTime": at}]}});
        let start = serde_json::from_value(json!("2026-11-29T14:31:19.5Z")).unwrap();
        assert!(is_ready(&node("True", "2026-11-29T14:31:19Z"), start));
        assert!(!is_ready(&node("True", "2026-11-29T14:31:18Z"), start), "an earlier run said so");
        assert!(!is_ready(&node("Unknown", "2026-11-29T14:31:20Z"), start));
        assert!(!is_ready(&json!({}), start));
    }

    #[test]
    fn a_machine_under_pressure_says_so() {
        let conditions = json!([
            {"type": "MemoryPressure", "status": "False", "message": "kubelet has sufficient memory available"},
            {"type": "DiskPressure", "status": "True", "message": "kubelet has disk pressure"},
            {"type": "GPUReady", "status": "True", "message": "somebody else's condition"},
            {"type": "Ready", "status": "True", "message": "kubelet is posting ready status"}]);
        let node = json!({"status": {"conditions": conditions}});
        assert_eq!(shortages(&node).collect::<Vec<_>>(), ["kubelet has disk pressure"]);
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
