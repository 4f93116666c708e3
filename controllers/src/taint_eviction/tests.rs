//! Who is evicted, and when.

use gantry_apimachinery::kinds;
use serde_json::{Value, json};

use super::core::reconcile;
use super::types::Observed;
use crate::sim::World;

/// When a pod with these tolerations goes: seconds from now, 0 for at once, `None` for never.
fn check(taints: Value, tolerations: Value, expect: Option<u64>) {
    let mut world = World::new();
    world.create(&kinds::NODE, json!({"metadata": {"name": "n1"}, "spec": {"taints": taints}})).unwrap();
    let pod = json!({"metadata": {"name": "p"}, "spec": {"nodeName": "n1", "tolerations": tolerations}});
    world.create(&kinds::POD, pod).unwrap();
    let look = |world: &World| {
        let node = world.get(&kinds::NODE, "", "n1").unwrap();
        reconcile(&Observed { node, pods: world.list(&kinds::POD) }, world.now)
    };
    let plan = look(&world);
    let when = if plan.writes().next().is_some() { Some(0) } else { plan.requeue.map(|after| after.as_secs()) };
    assert_eq!(when, expect, "{taints} {tolerations}");
    world.pass(i64::try_from(expect.unwrap_or(3600)).unwrap());
    let plan = look(&world);
    assert_eq!(plan.writes().next().is_some(), expect.is_some());
    world.apply(&plan).unwrap();
    assert!(look(&world).is_settled());
}

#[test]
fn evictions_follow_the_tolerations() {
    // Added ten seconds ago.
    let taint = |key: &str| json!({"key": key, "effect": "NoExecute", "timeAdded": "2025-12-31T23:59:50Z"});
    let tolerate = |key: &str, seconds: Value| {
        let mut t = json!({"key": key, "operator": "Exists", "effect": "NoExecute"});
        if !seconds.is_null() {
            t["tolerationSeconds"] = seconds;
        }
        t
    };
    check(json!([]), json!([]), None);
    check(json!([{"key": "a", "effect": "NoSchedule"}]), json!([]), None);
    check(json!([taint("a")]), json!([]), Some(0));
    check(json!([taint("a")]), json!([tolerate("a", Value::Null)]), None);
    check(json!([taint("a")]), json!([tolerate("a", json!(300))]), Some(290));
    check(json!([taint("a"), taint("b")]), json!([tolerate("a", json!(300))]), Some(0));
    check(json!([taint("a"), taint("b")]), json!([tolerate("a", json!(300)), tolerate("b", json!(60))]), Some(50));
    check(json!([taint("a")]), json!([tolerate("a", json!(5))]), Some(0));
}
