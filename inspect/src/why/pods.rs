//! What a pod waits for, or why it does not go. Pure.

use super::holds::is_going;
use crate::render::cell;
use serde_json::Value;

fn condition<'a>(object: &'a Value, name: &str) -> Option<&'a Value> {
    object["status"]["conditions"].as_array()?.iter().find(|condition| condition["type"] == name)
}

pub fn is_well(pod: &Value) -> bool {
    let done = pod["status"]["phase"] == "Succeeded";
    let ready = condition(pod, "Ready").is_some_and(|ready| ready["status"] == "True");
    !is_going(pod) && (done || ready)
}

fn said(what: &str, condition: &Value) -> String {
    let reason = condition["reason"].as_str().unwrap_or("no reason given");
    match condition["message"].as_str().filter(|text| !text.is_empty()) {
        Some(message) => format!("{what}: {message} ({reason})"),
        None => format!("{what} ({reason})"),
    }
}

/// `node` is the pod's, if it has one that can be read.
pub fn why(pod: &Value, node: Option<&Value>) -> Vec<String> {
    let mut told = Vec::new();
    let name = cell(&pod["spec"]["nodeName"]);
    if pod["spec"]["nodeName"].is_null() && !is_going(pod) {
        let scheduled = condition(pod, "PodScheduled").filter(|scheduled| scheduled["status"] == "False");
        told.push(
            scheduled.map_or_else(
                || "no machine has been looked for yet".into(),
                |c| said("no machine was found for it", c),
            ),
        );
        return told;
    }
    if let Some(node) = node
        && condition(node, "Ready").is_none_or(|ready| ready["status"] != "True")
    {
        let why = condition(node, "Ready").map_or_else(String::new, |ready| format!(": {}", cell(&ready["message"])));
        told.push(format!("its machine {name} is not Ready{why}"));
    }
    if is_going(pod) {
        let grace = cell(&pod["metadata"]["deletionGracePeriodSeconds"]);
        told.push(format!("the agent of {name} ends its containers; they have {grace} s since then"));
    }
    for (list, what) in [("initContainerStatuses", "init container"), ("containerStatuses", "container")] {
        for status in pod["status"][list].as_array().into_iter().flatten() {
            told.extend(container(what, status));
        }
    }
    for gate in ["PodReadyToStartContainers", "Initialized", "ContainersReady", "Ready"] {
        // The first that is not there is what the others wait for.
        if let Some(unmet) = condition(pod, gate).filter(|met| met["status"] == "False" && !is_going(pod)) {
            if told.is_empty() {
                told.push(said(&format!("{gate} is False"), unmet));
            }
            break;
        }
    }
    if pod["status"]["phase"] == "Failed" {
        told.push(said("it failed", &pod["status"]));
    }
    told
}

fn container(what: &str, status: &Value) -> Vec<String> {
    let name = cell(&status["name"]);
    let mut told = Vec::new();
    if let Some(waiting) = status["state"].get("waiting") {
        told.push(said(&format!("{what} {name} waits"), waiting));
    } else if let Some(ended) = status["state"].get("terminated").filter(|ended| ended["exitCode"] != 0) {
        told.push(said(&format!("{what} {name} ended with exit code {}", cell(&ended["exitCode"])), ended));
    } else if status["state"].get("running").is_some() && status["ready"] == false && what == "container" {
        told.push(format!("container {name} runs and is not ready: its readiness or startup probe has not passed"));
    }
    if let Some(before) = status["lastState"].get("terminated") {
        let times = cell(&status["restartCount"]);
        let code = cell(&before["exitCode"]);
        told.push(said(
            &format!("{what} {name} was started again {times} times; the last one ended with exit code {code}"),
            before,
        ));
    }
    told
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_pod_tells_what_it_waits_for() {
        let unscheduled = json!({"spec": {}, "status": {"phase": "Pending", "conditions": [
            {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 machines fit: 3 too little cpu"}]}});
        let crashing = json!({"spec": {"nodeName": "n1"}, "status": {"phase": "Running",
            "conditions": [{"type": "Ready", "status": "False", "reason": "ContainersNotReady"}],
            "containerStatuses": [{"name": "web", "restartCount": 4, "ready": false,
                "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 40s"}},
                "lastState": {"terminated": {"exitCode": 3, "reason": "Error"}}}]}});
        let unready = json!({"spec": {"nodeName": "n1"}, "status": {"phase": "Running",
            "containerStatuses": [{"name": "web", "ready": false, "state": {"running": {}}}]}});
        let going = json!({"metadata": {"deletionTimestamp": "t", "deletionGracePeriodSeconds": 30}, "spec": {"nodeName": "n1"}, "status": {}});
        let gated = json!({"spec": {"nodeName": "n1"}, "status": {"conditions": [
            {"type": "Ready", "status": "False", "reason": "ReadinessGatesNotReady", "message": "no acme.io/lb"}]}});
        let lost = json!({"status": {"conditions": [{"type": "Ready", "status": "Unknown", "message": "the agent is silent"}]}});
        let rows = [
            (
                &unscheduled,
                None,
                vec!["no machine was found for it: 0/3 machines fit: 3 too little cpu (Unschedulable)"],
            ),
            (
                &crashing,
                None,
                vec![
                    "container web waits: back-off 40s (CrashLoopBackOff)",
                    "container web was started again 4 times; the last one ended with exit code 3 (Error)",
                ],
            ),
            (
                &unready,
                None,
                vec!["container web runs and is not ready: its readiness or startup probe has not passed"],
            ),
            (
                &going,
                Some(&lost),
                vec![
                    "its machine n1 is not Ready: the agent is silent",
                    "the agent of n1 ends its containers; they have 30 s since then",
                ],
            ),
            (&gated, None, vec!["Ready is False: no acme.io/lb (ReadinessGatesNotReady)"]),
        ];
        for (pod, node, expect) in rows {
            assert_eq!(why(pod, node), expect);
            assert!(!is_well(pod));
        }
        let well = json!({"spec": {"nodeName": "n1"}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}});
        assert!(is_well(&well) && why(&well, None).is_empty());
    }
}
