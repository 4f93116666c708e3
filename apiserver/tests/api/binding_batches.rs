//! Bulk binds: several on one machine, groups that bind all or none, and what watchers see of them.

use crate::binding::{BULK, PODS, allocation, cluster, item, pod};
use crate::harness::{Api, MERGE, revision};
use serde_json::{Value, json};

/// Codes, messages and versions, in order.
async fn post(api: &Api, items: Vec<Value>) -> Vec<Value> {
    let reply = api.post(BULK, &json!({"items": items})).await.ok();
    reply["items"].as_array().unwrap().clone()
}

fn codes(results: &[Value]) -> Vec<u64> {
    results.iter().map(|result| result["code"].as_u64().unwrap()).collect()
}

async fn pods(api: &Api, count: usize, metadata: Value) -> Vec<Value> {
    let mut made = Vec::new();
    for at in 0..count {
        made.push(pod(api, &format!("p{at:03}"), metadata.clone()).await);
    }
    made
}

async fn bound_to(api: &Api, node: &str) -> usize {
    let here = api.get(&format!("/api/v1/pods?fieldSelector=spec.nodeName%3D{node}")).await.ok();
    here["items"].as_array().unwrap().len()
}

#[tokio::test]
async fn binds_on_one_machine_are_decided_one_on_top_of_the_other() {
    let api = cluster(&["n", "m"], "100").await;
    let made = pods(&api, 10, json!({})).await;
    let (before, m) = (allocation(&api, "n").await, revision(&allocation(&api, "m").await));
    let n = revision(&before);
    api.delete(&format!("{PODS}/p002"), &json!(null)).await.ok();
    api.patch(MERGE, &format!("{PODS}/p003"), &json!({"metadata": {"labels": {"x": "y"}}})).await.ok();
    let gates = json!({"metadata": {"name": "gated"}, "spec": {"schedulingGates": [{"name": "g"}],
        "containers": [{"name": "c", "image": "i"}]}});
    let gated = api.post(PODS, &gates).await.ok();
    let mut items: Vec<Value> = made.iter().map(|pod| item(pod, "n", n)).collect();
    items[9] = item(&made[9], "m", m);
    items.insert(4, item(&gated, "n", n));
    items.push(item(&made[0], "n", n));
    let results = post(&api, items).await;
    assert_eq!(codes(&results), [201, 201, 404, 201, 409, 201, 201, 201, 201, 201, 201, 409], "{results:?}");
    assert!(results[4]["message"].as_str().unwrap().contains("schedulingGates"));
    assert!(results[11]["message"].as_str().unwrap().contains("already assigned"));
    let after = allocation(&api, "n").await;
    assert_eq!(results[0]["resourceVersion"], after["metadata"]["resourceVersion"]);
    assert_eq!(after["writes"], before["writes"].as_u64().unwrap() + 1, "one bump for all of them");
    assert_eq!(after["bound"], 8);
    assert_eq!((bound_to(&api, "n").await, bound_to(&api, "m").await), (8, 1));
}

#[tokio::test]
async fn who_was_overtaken_on_a_machine_binds_nothing_there() {
    let api = cluster(&["n"], "100").await;
    let made = pods(&api, 4, json!({})).await;
    let n = revision(&allocation(&api, "n").await);
    assert_eq!(codes(&post(&api, vec![item(&made[0], "n", n)]).await), [201]);
    let items = made.iter().map(|pod| item(pod, "n", n)).collect();
    let results = post(&api, items).await;
    assert_eq!(codes(&results), [409; 4]);
    assert!(results[3]["message"].as_str().unwrap().contains("not at version"), "{results:?}");
    assert_eq!(bound_to(&api, "n").await, 1);
}

#[tokio::test]
async fn a_long_run_on_one_machine_is_several_transactions_one_after_the_other() {
    let api = cluster(&["n"], "1000").await;
    let made = pods(&api, 130, json!({})).await;
    let before = allocation(&api, "n").await;
    let results = post(&api, made.iter().map(|pod| item(pod, "n", revision(&before))).collect()).await;
    assert_eq!(codes(&results), [201; 130]);
    let writes = allocation(&api, "n").await["writes"].as_u64().unwrap() - before["writes"].as_u64().unwrap();
    assert_eq!((bound_to(&api, "n").await, writes), (130, 3));
    assert!(results[0]["resourceVersion"] != results[129]["resourceVersion"]);
}

/// An item of a group.
fn of(group: &str, pod: &Value, node: &str, version: u64) -> Value {
    let mut item = item(pod, node, version);
    item["group"] = group.into();
    item
}

#[tokio::test]
async fn a_group_binds_all_or_none() {
    let api = cluster(&["n", "m"], "100").await;
    let made = pods(&api, 6, json!({})).await;
    let version = async |node: &str| revision(&allocation(&api, node).await);
    let (n, m) = (version("n").await, version("m").await);
    let group = |n: u64, m: u64| {
        let nodes = [("n", n), ("m", m), ("n", n), ("m", m)];
        made.iter().zip(nodes).map(|(pod, (node, at))| of("g", pod, node, at)).collect::<Vec<_>>()
    };
    let mut items = group(n, m);
    items[1]["uid"] = "another".into();
    items.push(item(&made[4], "n", n));
    let results = post(&api, items).await;
    assert_eq!(codes(&results), [409, 409, 409, 409, 201], "who is alone is not held up");
    for result in &results[..4] {
        let message = result["message"].as_str().unwrap();
        assert!(message.contains("group \"g\"") && message.contains("pod default/p001: "), "{message}");
    }
    assert_eq!((bound_to(&api, "n").await, bound_to(&api, "m").await), (1, 0));
    let results = post(&api, group(n, m)).await;
    assert_eq!(codes(&results), [409; 4], "a machine has moved");
    assert!(results[3]["message"].as_str().unwrap().contains("pod default/p000: "), "{results:?}");
    api.patch(MERGE, &format!("{PODS}/p003"), &json!({"metadata": {"labels": {"x": "y"}}})).await.ok();
    let (n, writes) = (version("n").await, allocation(&api, "m").await["writes"].as_u64().unwrap());
    let mut items = group(n, m);
    items.push(item(&made[5], "n", n));
    let results = post(&api, items).await;
    assert_eq!(codes(&results), [201; 5]);
    let [versions @ .., last] = &results[..] else { panic!() };
    assert!(versions.iter().all(|one| one["resourceVersion"] == versions[0]["resourceVersion"]), "one transaction");
    assert!(last["resourceVersion"] != versions[0]["resourceVersion"], "who shares a machine comes after the group");
    let m = allocation(&api, "m").await;
    assert_eq!(m["bound"], 2);
    assert_eq!((m["writes"].as_u64().unwrap(), bound_to(&api, "m").await), (writes + 1, 2));
    assert_eq!(bound_to(&api, "n").await, 4);
}

#[tokio::test]
async fn a_group_takes_its_claims_with_it_or_none() {
    let api = cluster(&["n", "m"], "100").await;
    let made = pods(&api, 3, json!({"annotations": {"gantry.dev/at-most-one": "true"}})).await;
    let version = async |node: &str| revision(&allocation(&api, node).await);
    let n = version("n").await;
    assert_eq!(codes(&post(&api, vec![item(&made[2], "n", n)]).await), [201]);
    let held = |name: &str| format!("/apis/gantry.dev/v1/namespaces/default/atmostoneclaims/pod-{name}");
    // Its successor must wait for the agent's word.
    api.delete(&format!("{PODS}/p002"), &json!({"gracePeriodSeconds": 0})).await.ok();
    let successor = pod(&api, "p002", json!({"annotations": {"gantry.dev/at-most-one": "true"}})).await;
    let (n, m) = (version("n").await, version("m").await);
    let results = post(&api, vec![of("g", &made[0], "n", n), of("g", &successor, "m", m)]).await;
    assert_eq!(codes(&results), [409; 2]);
    assert!(results[0]["message"].as_str().unwrap().contains("p002: "), "{results:?}");
    let alone = post(&api, vec![item(&successor, "m", m)]).await;
    for result in results.iter().chain(&alone) {
        assert_eq!((&result["reason"], &result["cause"]), (&json!("Conflict"), &json!("AtMostOneClaimHeld")));
    }
    assert_eq!(api.get(&held("p000")).await.code, 404);
    let twice = vec![of("g", &made[0], "n", n), of("g", &made[0], "m", m)];
    assert_eq!(codes(&post(&api, twice).await), [409; 2]);
    let results = post(&api, vec![of("g", &made[0], "n", n), of("g", &made[1], "m", m)]).await;
    assert_eq!(codes(&results), [201; 2]);
    assert_eq!(api.get(&held("p001")).await.ok()["holder"]["node"], "m");
}

#[tokio::test]
async fn a_large_group_is_one_transaction_and_more_is_refused() {
    let nodes: Vec<String> = (0..32).map(|at| format!("n{at}")).collect();
    let nodes: Vec<&str> = nodes.iter().map(String::as_str).collect();
    let api = cluster(&nodes, "100").await;
    let made = pods(&api, 300, json!({})).await;
    let mut versions = Vec::new();
    for node in &nodes {
        versions.push(revision(&allocation(&api, node).await));
    }
    let items: Vec<Value> =
        made.iter().enumerate().map(|(at, pod)| of("g", pod, nodes[at % 32], versions[at % 32])).collect();
    let results = post(&api, items.clone()).await;
    assert_eq!(codes(&results), [201; 300]);
    assert_eq!(results[0]["resourceVersion"], results[299]["resourceVersion"]);
    let many = |group: &str, count: usize| vec![of(group, &made[0], "n0", 1); count];
    let check = async |items: Vec<Value>, expect: &str| {
        let reply = api.post(BULK, &json!({"items": items})).await;
        assert!(reply.failure().contains(expect), "{}", reply.text);
    };
    check(many("g", 513), "at most 512 binds").await;
    check(many("", 257), "at most 256 binds").await;
}

#[tokio::test]
async fn a_watch_that_saw_a_part_of_a_transaction_is_given_all_of_it_again() {
    let api = cluster(&["n"], "100").await;
    let made = pods(&api, 3, json!({})).await;
    let path = "/api/v1/pods?watch=1&fieldSelector=spec.nodeName%3Dn";
    let mut watch = api.watch(path).await;
    let n = revision(&allocation(&api, "n").await);
    assert_eq!(codes(&post(&api, made.iter().map(|pod| item(pod, "n", n)).collect()).await), [201; 3]);
    let first = watch.next().await.unwrap();
    drop(watch);
    let from = revision(&first["object"]);
    let mut again = api.watch(&format!("{path}&resourceVersion={from}")).await;
    assert_eq!(
        [again.brief().await, again.brief().await, again.brief().await],
        ["ADDED p000", "ADDED p001", "ADDED p002"]
    );
    // What came alone is not told again.
    let alone = api.patch(MERGE, &format!("{PODS}/p001"), &json!({"metadata": {"labels": {"x": "y"}}})).await.ok();
    let mut after = api.watch(&format!("{path}&resourceVersion={}", revision(&alone))).await;
    api.patch(MERGE, &format!("{PODS}/p000"), &json!({"metadata": {"labels": {"x": "y"}}})).await.ok();
    assert_eq!(after.brief().await, "MODIFIED p000");
}
