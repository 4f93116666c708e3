//! What nobody should write and somebody will: no panic, no loop, and a reason on the pod.

use serde_json::{Value, json};

use super::model::{allocation, node, pod};
use super::*;

fn labelled(name: &str, spec: Value) -> Arc<Pod> {
    let mut pod = (*pod(name, "1m", "", spec)).clone();
    pod.metadata.labels.insert("app".into(), "lonely".into());
    Arc::new(pod)
}

/// Two machines, one of which has no label `host`.
fn two() -> Engine {
    let mut engine = Engine::new("default-scheduler");
    for (name, labels) in [("m", json!({"host": "m"})), ("bare", json!({}))] {
        let mut node = (*node(name, 5, "64")).clone();
        node.metadata.labels = serde_json::from_value(labels).unwrap();
        engine.step(0, Event::Node(Arc::new(node)));
        engine.step(0, Event::Allocation(allocation(name, 5, 0, None)));
    }
    engine.step(0, Event::Reached(Watch::Pods, 10));
    engine
}

fn apart_from_itself() -> Value {
    let term = json!({"labelSelector": {"matchLabels": {"app": "lonely"}}, "topologyKey": "host"});
    json!({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}})
}

/// Decides until nobody is ready, and says how many decisions that took.
fn exhaust(engine: &mut Engine, now_ms: u64) -> (Vec<String>, usize) {
    let mut all = Vec::new();
    for turn in 0..100_000 {
        if !engine.has_ready() {
            return (all, turn);
        }
        all.extend(told(&engine.step(now_ms, Event::Decide { seed: turn as u64, most: 64 })));
    }
    panic!("it never comes to rest");
}

#[test]
fn pods_that_want_to_be_apart_from_all_of_their_kind() {
    let mut engine = two();
    for at in 0..10_000 {
        engine.step(0, Event::Pod(labelled(&format!("p{at:05}"), apart_from_itself())));
    }
    let (effects, turns) = exhaust(&mut engine, 0);
    // One goes where the key is; where it is not, nobody is near, and 110 are room for.
    let here = |name: &str| machine(&engine.snapshot, name).1;
    assert_eq!((here("m"), here("bare"), effects.iter().filter(|e| e.starts_with("bind")).count()), (1, 110, 2));
    assert!(turns < 1_000, "{turns} turns");
    let waiting = engine.depths().sleeping;
    assert!(waiting > 9_000, "{waiting} sleep");
    assert_eq!(exhaust(&mut engine, 1), (vec![], 0), "nothing happened, so nobody is looked at");
}

#[test]
fn constraints_that_nothing_can_meet() {
    let selector = |requirements: Value| {
        json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
            {"nodeSelectorTerms": [{"matchExpressions": requirements}]}}}})
    };
    let contradiction =
        selector(json!([{"key": "host", "operator": "Exists"}, {"key": "host", "operator": "DoesNotExist"}]));
    let numbers = selector(json!([{"key": "host", "operator": "Gt", "values": ["x"]}]));
    let unknown = selector(json!([{"key": "host", "operator": "Like", "values": ["m"]}]));
    let empty = json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
        {"nodeSelectorTerms": []}}}});
    for (at, spec) in [contradiction, numbers, unknown, empty].into_iter().enumerate() {
        let mut engine = two();
        engine.step(0, Event::Pod(pod("p", "1m", "", spec)));
        let (effects, _) = exhaust(&mut engine, 0);
        assert_eq!(effects, ["explain p: 0/2 machines: 2 not matching the pod's node selector or affinity"], "{at}");
    }
}

#[test]
fn a_selector_that_matches_everything_and_keys_that_half_of_the_machines_have() {
    let mut engine = two();
    let everything = json!({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
        [{"labelSelector": {}, "namespaceSelector": {}, "topologyKey": "host"}]}}});
    engine.step(0, Event::Pod(pod("there", "1m", "m", json!({}))));
    engine.step(0, Event::Pod(pod("p", "1m", "", everything)));
    assert_eq!(told(&decide(&mut engine, 0)), ["bind p@5"], "where there is no key nobody is near");
    assert_eq!(machine(&engine.snapshot, "bare").1, 1);
    let spread = json!({"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "host",
        "whenUnsatisfiable": "DoNotSchedule", "minDomains": 9, "labelSelector": {"matchLabels": {"app": "lonely"}}}]});
    for name in ["a", "b"] {
        engine.step(0, Event::Pod(labelled(name, spread.clone())));
    }
    let effects = told(&decide(&mut engine, 0));
    assert!(effects[1].starts_with("explain b: 0/2 machines: 1"), "{effects:?}");
}

#[test]
fn impossible_amounts_are_explained() {
    let mut engine = two();
    for (name, amount) in [("huge", "9223372036854775807"), ("negative", "-5")] {
        engine.step(0, Event::Pod(pod(name, amount, "", json!({}))));
    }
    let effects = told(&decide(&mut engine, 0));
    assert!(effects.iter().any(|e| e.starts_with("explain huge: 0/2 machines: 2 short of cpu: wants")), "{effects:?}");
    assert!(effects.iter().any(|e| e.starts_with("bind negative@")), "less than nothing is nothing: {effects:?}");
}

#[test]
fn a_machine_that_shrinks_below_its_pods() {
    let mut engine = engine();
    engine.step(0, Event::Pod(pod("there", "2", "m", json!({}))));
    engine.step(1, Event::Node(node("m", 20, "1")));
    engine.step(1, Event::Allocation(allocation("m", 20, 1, None)));
    engine.step(1, Event::Pod(pod("p", "1", "", json!({}))));
    engine.step(1, Event::Pod(pod("nothing", "0", "", json!({}))));
    let mut effects = told(&decide(&mut engine, 1));
    effects.sort();
    let short = "explain p: 0/1 machines: 1 short of cpu: wants 1, 0 free";
    assert_eq!(effects, ["bind nothing@20", short], "who asks for nothing takes nothing");
}

#[test]
fn a_clock_that_jumps() {
    let mut engine = engine();
    engine.step(1 << 40, Event::Pod(pod("big", "8", "", json!({}))));
    assert_eq!(decide(&mut engine, 1 << 40).len(), 1);
    engine.step(5, Event::Node(node("m", 20, "8")));
    assert_eq!(decide(&mut engine, 5), [], "its back-off was counted from a time that is not yet");
    assert_eq!(told(&decide(&mut engine, (1 << 40) + 300_000)), ["bind big@5"]);
}

#[test]
fn an_allocation_that_somebody_edited() {
    let mut engine = engine();
    // Neither the counts nor the causes make sense.
    engine.step(1, Event::Allocation(allocation("m", 50, 999, Some(77))));
    engine.step(1, Event::Pod(pod("a", "1", "", json!({}))));
    assert_eq!(decide(&mut engine, 1), [], "nothing is decided until the pods up to there are known");
    engine.step(2, Event::Reached(Watch::Pods, 50));
    assert_eq!(told(&decide(&mut engine, 2)), ["bind a@50"]);
}
