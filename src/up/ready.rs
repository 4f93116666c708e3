//! Waiting until this machine's Node says Ready. It only looks.

use gantry_apimachinery::kinds;
use gantry_client::Client;
use serde_json::Value;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

const LOOK_EVERY: Duration = Duration::from_millis(50);

/// False when cancelled before.
pub async fn wait(client: &Client, node: &str, cancel: &CancellationToken) -> bool {
    loop {
        if let Ok(found) = client.get::<Value>(&kinds::NODE, "", node).await
            && is_ready(&found)
        {
            return true;
        }
        if cancel.run_until_cancelled(tokio::time::sleep(LOOK_EVERY)).await.is_none() {
            return false;
        }
    }
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
}
