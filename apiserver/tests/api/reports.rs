//! Node agents' reports of their pods: written by text, and what that leaves is what any other patch would have left.

use crate::binding::{PODS, bind, cluster};
use crate::harness::{Api, Reply, STRATEGIC};
use serde_json::{Value, json};

/// What agents say in the life of a pod, and what they should not have said.
fn said() -> Vec<Value> {
    let ready =
        |status: &str| json!([{"type": "Ready", "status": status, "lastTransitionTime": "2026-01-02T03:04:05Z"}]);
    let container = |state: Value| json!([{"name": "c", "image": "i", "imageID": "", "ready": false, "restartCount": 0, "state": state}]);
    let ended = |code: i32| json!({"terminated": {"exitCode": code, "reason": "Error"}});
    vec![
        json!({"phase": "Pending", "conditions": ready("False"), "hostIPs": [{"ip": "10.0.0.1"}]}),
        json!({"phase": "Running", "conditions": ready("True"), "podIP": "10.1.0.1", "podIPs": [{"ip": "10.1.0.1"}]}),
        json!({"podIPs": [{"ip": "10.1.0.2"}, {"$patch": "replace"}]}),
        json!({"podIPs": [{"ip": "10.1.0.1", "$patch": "delete"}]}),
        json!({"conditions": [{"type": "Ready", "$patch": "delete"}]}),
        json!({"conditions": null, "message": "é\"\\\n\u{1F600}"}),
        json!({"containerStatuses": container(json!({"running": {"startedAt": "2026-01-02T03:04:05Z"}}))}),
        json!({"containerStatuses": container(ended(1))}),
        json!({"containerStatuses": container(ended(0))}),
        json!({"qosClass": "BestEffort"}),
        json!({"qosClass": "Guaranteed"}),
        json!({"qosClass": null, "$retainKeys": ["phase"]}),
        json!({"phase": 7}),
        json!({"conditions": {"not": "a list"}}),
        json!({"nobody": "knows this", "reason": "Told"}),
        json!({"startTime": "yesterday"}),
        json!({"phase": "Failed", "reason": "Evicted"}),
        json!({"phase": "Succeeded"}),
        json!({}),
        json!({"$patch": "replace", "phase": "Running"}),
        json!({"$patch": "delete"}),
    ]
}

async fn pod(api: &Api, name: &str, restart: &str) -> String {
    let body = json!({"metadata": {"name": name, "labels": {"status": "a-label"}}, "spec": {"restartPolicy": restart,
        "automountServiceAccountToken": false, "containers": [{"name": "c", "image": "i", "command": ["\"status\":{}"]}]}});
    let made = api.post(PODS, &body).await.ok();
    bind(api, name, "n").await.ok();
    known(api).await;
    made["metadata"]["uid"].as_str().unwrap().to_owned()
}

/// A list is as new as the store: whoever looks at the server's memory afterwards sees every write so far.
async fn known(api: &Api) {
    api.get(PODS).await.ok();
}

/// An answer without what two pods may differ in.
fn comparable(reply: Reply, name: &str) -> (u16, Vec<String>, Value) {
    let warnings = reply.warnings().into_iter().map(str::to_owned).collect();
    let mut body = reply.body;
    if body["kind"] == "Status" {
        let text = body["message"].as_str().unwrap().replace(name, "NAME");
        return (reply.code, warnings, text.into());
    }
    let metadata = body["metadata"].as_object_mut().unwrap();
    assert!(metadata.remove("resourceVersion").is_some());
    for own in ["name", "uid", "creationTimestamp", "managedFields"] {
        metadata.remove(own);
    }
    for condition in body["status"]["conditions"].as_array_mut().into_iter().flatten() {
        if condition["type"] == "PodScheduled" {
            condition["lastTransitionTime"] = Value::Null;
        }
    }
    (reply.code, warnings, body)
}

#[tokio::test]
async fn a_report_leaves_what_any_other_patch_of_the_status_would() {
    let api = cluster(&["n"], "4").await;
    let agent = api.as_user("system:node:n", &["system:nodes"]);
    let said = said();
    for (at, restart) in ["Always", "OnFailure", "Never"].into_iter().enumerate() {
        let (quick, long) = (format!("quick-{at}"), format!("long-{at}"));
        let uids = [pod(&api, &quick, restart).await, pod(&api, &long, restart).await];
        let mut position = at;
        for step in 0..120 {
            // Each in turn comes after each other in the course of the rounds.
            position = (position + 1 + step / said.len()) % said.len();
            let status = &said[position];
            known(&api).await;
            let report = match step % 3 {
                0 => json!({"status": status}),
                _ => json!({"metadata": {"uid": uids[0]}, "status": status}),
            };
            let reported = agent.patch(STRATEGIC, &format!("{PODS}/{quick}/status"), &report).await;
            // Whoever says more than the status takes the long way.
            let patch = json!({"metadata": {"uid": uids[1], "name": long}, "status": status});
            let patched = agent.patch(STRATEGIC, &format!("{PODS}/{long}/status"), &patch).await;
            let (reported, patched) = (comparable(reported, &quick), comparable(patched, &long));
            assert_eq!(reported, patched, "{restart}, step {step}: {status}");
        }
        let stored = |name: String| {
            let api = api.clone();
            async move { comparable(api.get(&format!("{PODS}/{name}")).await, &name) }
        };
        assert_eq!(stored(quick).await, stored(long).await, "{restart}");
    }
}

#[tokio::test]
async fn a_report_keeps_owners_and_meets_other_writes() {
    let api = cluster(&["n"], "4").await;
    let agent = api.as_user("system:node:n", &["system:nodes"]);
    let uid = pod(&api, "a", "Always").await;
    let path = format!("{PODS}/a");
    let report = |ip: &str| json!({"metadata": {"uid": uid}, "status": {"podIP": ip, "podIPs": [{"ip": ip}, {"$patch": "replace"}]}});
    let before = api.get(&path).await.ok();
    known(&api).await;
    let after = agent.patch(STRATEGIC, &format!("{path}/status"), &report("10.1.0.1")).await.ok();
    assert_eq!(after["metadata"]["managedFields"], before["metadata"]["managedFields"]);
    assert_ne!(after["metadata"]["resourceVersion"], before["metadata"]["resourceVersion"]);
    assert_eq!(after, api.get(&path).await.ok(), "what is answered is what is stored");
    let mut writers = Vec::new();
    for n in 0..20 {
        let (agent, api, path, report) = (agent.clone(), api.clone(), path.clone(), report(&format!("10.1.1.{n}")));
        writers.push(tokio::spawn(async move {
            let label = json!({"metadata": {"labels": {format!("l{n}"): "x"}}});
            let (reported, labelled) = (format!("{path}/status"), path);
            let both =
                tokio::join!(agent.patch(STRATEGIC, &reported, &report), api.patch(STRATEGIC, &labelled, &label),);
            (both.0.code, both.1.code)
        }));
    }
    for writer in writers {
        assert_eq!(writer.await.unwrap(), (200, 200));
    }
    let labels = &api.get(&path).await.ok()["metadata"]["labels"];
    assert_eq!(labels.as_object().unwrap().len(), 21, "no write is lost: {labels}");
    let stranger = json!({"metadata": {"uid": "another"}, "status": {"podIP": "10.1.0.9"}});
    assert!(
        agent.patch(STRATEGIC, &format!("{path}/status"), &stranger).await.failure().contains("UID in precondition")
    );
    api.delete(&path, &json!({"gracePeriodSeconds": 30})).await.ok();
    let leaving = agent.patch(STRATEGIC, &format!("{path}/status"), &report("10.1.0.3")).await.ok();
    assert_eq!(
        (&leaving["status"]["podIP"], leaving["metadata"].get("deletionTimestamp").is_some()),
        (&json!("10.1.0.3"), true)
    );
}
