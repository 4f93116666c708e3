//! When a declared object counts as running, and the line that shows how far it is.

use super::manifests::Manifest;
use crate::say::say;
use gantry_client::Client;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::Value;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// How far an object is.
#[derive(Debug, PartialEq, Eq)]
enum State {
    Running,
    Waiting(String),
    Failed(String),
}

fn number(object: &Value, pointer: &str) -> i64 {
    object.pointer(pointer).and_then(Value::as_i64).unwrap_or_default()
}

fn state(object: &Value) -> State {
    let wanted = |pointer: &str| object.pointer(pointer).and_then(Value::as_i64).unwrap_or(1);
    let observed = number(object, "/status/observedGeneration") >= number(object, "/metadata/generation");
    match object["kind"].as_str() {
        Some("Deployment") => {
            let (ready, all) = (number(object, "/status/availableReplicas"), wanted("/spec/replicas"));
            let updated = number(object, "/status/updatedReplicas");
            if observed && ready == all && updated == all {
                State::Running
            } else {
                State::Waiting(format!("{ready} of {all} replicas available"))
            }
        }
        Some("Job") => match condition(object) {
            Some("Complete") => State::Running,
            Some("Failed") => State::Failed("the job failed".to_owned()),
            _ => {
                let (done, all) = (number(object, "/status/succeeded"), wanted("/spec/completions"));
                State::Waiting(format!("{done} of {all} tasks done"))
            }
        },
        _ => State::Running,
    }
}

fn condition(job: &Value) -> Option<&str> {
    let conditions = job.pointer("/status/conditions")?.as_array()?;
    let holds = |condition: &&Value| condition["status"] == "True";
    conditions.iter().filter(holds).filter_map(|condition| condition["type"].as_str()).find(|name| {
        // Other conditions, such as SuccessCriteriaMet, come before the end.
        *name == "Complete" || *name == "Failed"
    })
}

/// Returns when every object runs; fails with what each one still waits for.
pub async fn wait_until_running(client: &Client, manifests: &[Manifest], wait: Duration) -> anyhow::Result<()> {
    let bar = ProgressBar::new_spinner();
    bar.set_style(ProgressStyle::with_template("{spinner} {msg} ({elapsed})").expect("the template is valid"));
    bar.enable_steady_tick(Duration::from_millis(100));
    let deadline = Instant::now() + wait;
    let mut shown = String::new();
    loop {
        let mut waiting = Vec::new();
        for manifest in manifests {
            let object: Value = client.get(manifest.kind, &manifest.namespace, &manifest.name).await?;
            match state(&object) {
                State::Running => {}
                State::Waiting(what) => waiting.push(format!("{manifest}: {what}")),
                State::Failed(why) => anyhow::bail!("{manifest}: {why}"),
            }
        }
        if waiting.is_empty() {
            bar.finish_and_clear();
            return Ok(());
        }
        let text = waiting.join("; ");
        if text != shown {
            if bar.is_hidden() {
                say!("{text}");
            }
            bar.set_message(text.clone());
            shown = text;
        }
        anyhow::ensure!(Instant::now() < deadline, "after {} s still {shown}", wait.as_secs());
        sleep(Duration::from_millis(100)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::{State, state};
    use serde_json::json;

    #[test]
    fn states() {
        let web = |available: i64, seen: i64| {
            json!({"kind": "Deployment", "metadata": {"generation": 2}, "spec": {"replicas": 3},
                   "status": {"observedGeneration": seen, "availableReplicas": available, "updatedReplicas": 3}})
        };
        assert_eq!(state(&web(3, 2)), State::Running);
        assert_eq!(state(&web(3, 1)), State::Waiting("3 of 3 replicas available".into()));
        assert_eq!(state(&web(1, 2)), State::Waiting("1 of 3 replicas available".into()));
        let job = |name: &str| {
            json!({"kind": "Job", "spec": {"completions": 10},
                   "status": {"succeeded": 4, "conditions": [{"type": name, "status": "True"}]}})
        };
        assert_eq!(state(&job("Complete")), State::Running);
        assert_eq!(state(&job("Failed")), State::Failed("the job failed".into()));
        assert_eq!(state(&job("SuccessCriteriaMet")), State::Waiting("4 of 10 tasks done".into()));
        assert_eq!(state(&json!({"kind": "Secret"})), State::Running);
    }
}
