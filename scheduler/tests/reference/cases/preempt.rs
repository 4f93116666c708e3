//! Victims that may go, that are enough, and of whom none could have stayed.

use super::{bound, node, pod, with};
use crate::reference::World;
use crate::reference::preempt::{budget_violations, check_preemption, may_go, preemptable, priority};
use serde_json::{Value, json};

fn classes() -> Vec<Value> {
    let class =
        |name: &str, value: i64, labels: Value| json!({"metadata": {"name": name, "labels": labels}, "value": value});
    let band = |band: &str| json!({"gantry.dev/band": band});
    vec![
        class("production", 1000, band("production")),
        class("production-low", 900, band("production")),
        class("batch", -10, band("batch")),
        class("best-effort", -20, band("best-effort")),
        class("system", 5000, json!({})),
    ]
}

fn takes(class: &str, cpu: &str) -> Value {
    json!({"priorityClassName": class, "containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]})
}

/// A machine of 4 cpus with four pods of one cpu each.
fn full(classes_of_pods: [&str; 4]) -> World {
    let pods = classes_of_pods.iter().enumerate();
    let pods = pods.map(|(i, class)| bound(&format!("p{i}"), "m", json!({}), takes(class, "1"))).collect();
    World { nodes: vec![node("m", json!({})), node("n", json!({}))], pods, classes: classes(), ..World::default() }
}

fn keys(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| format!("a/{name}")).collect()
}

#[test]
fn lower_priority_goes_but_never_production_for_production() {
    let world = full(["batch"; 4]);
    let check = |pod: &str, victim: &str, expect: bool| {
        let with_class = |class: &str| super::pod(json!({}), takes(class, "1"));
        assert_eq!(may_go(&world, &with_class(pod), &with_class(victim)), expect, "{victim} for {pod}");
    };
    check("production", "batch", true);
    check("production", "best-effort", true);
    check("production", "", true);
    check("production", "production", false);
    check("production", "production-low", false);
    check("production", "system", false);
    check("system", "production", true);
    check("batch", "best-effort", true);
    check("batch", "batch", false);
    check("batch", "", false);
    check("", "batch", true);
    assert_eq!(priority(&world, &json!({"spec": {"priority": 7, "priorityClassName": "batch"}})), 7);
}

#[test]
fn a_choice_is_checked() {
    let world = full(["batch", "batch", "production-low", "production"]);
    let check = |pod: &Value, machine: &str, victims: &[&str], wrong: &str| match check_preemption(
        &world,
        pod,
        machine,
        &keys(victims),
    ) {
        Ok(()) => assert_eq!(wrong, "", "{victims:?} on {machine} should be wrong"),
        Err(why) => assert!(!wrong.is_empty() && why.contains(wrong), "{victims:?} on {machine}: {why}"),
    };
    let wants = |class: &str, cpu: &str| pod(json!({}), takes(class, cpu));
    let production = wants("production", "1");
    check(&production, "m", &["p0"], "");
    check(&production, "m", &["p1"], "");
    check(&production, "m", &["p0", "p1"], "could have stayed");
    check(&production, "m", &["p2"], "must not go");
    check(&production, "m", &["p9"], "is not on m");
    check(&production, "m", &["p0", "p0"], "named twice");
    check(&production, "m", &[], "does not fit");
    check(&production, "n", &["p0"], "is not on n");
    check(&production, "n", &[], "nobody gone");
    check(&production, "o", &[], "no machine");
    check(&wants("production", "2"), "m", &["p0"], "does not fit");
    check(&wants("production", "2"), "m", &["p0", "p1"], "");
    check(&wants("system", "4"), "m", &["p0", "p1", "p2", "p3"], "");
    check(&with(production, "spec.preemptionPolicy", "Never".into()), "m", &["p0"], "must not preempt");
}

#[test]
fn making_room_is_more_than_capacity() {
    let mut world = full(["batch", "batch", "", ""]);
    let anti = json!([{"topologyKey": "host", "labelSelector": {"matchLabels": {"app": "web"}}}]);
    world.nodes[0]["metadata"]["labels"] = json!({"host": "m"});
    world.pods[0]["spec"]["affinity"]["podAntiAffinity"] =
        json!({"requiredDuringSchedulingIgnoredDuringExecution": anti});
    let web = pod(json!({"app": "web"}), takes("production", "1"));
    assert!(check_preemption(&world, &web, "m", &keys(&["p0"])).is_ok());
    assert!(check_preemption(&world, &web, "m", &keys(&["p1"])).is_err());
}

#[test]
fn where_preemption_could_help() {
    let world = full(["batch", "", "production", "system"]);
    // Only m is named: n has room already, or has nobody who could make any.
    let helped = |pod: &Value| {
        let mut machines = preemptable(&world, pod);
        let on_m = machines.remove("m");
        assert!(machines.is_empty(), "{machines:?}");
        on_m
    };
    assert_eq!(helped(&pod(json!({}), takes("production", "2"))), Some(keys(&["p0", "p1"])));
    assert_eq!(helped(&pod(json!({}), takes("production", "3"))), None);
    assert_eq!(helped(&pod(json!({}), takes("production", "5"))), None);
    assert_eq!(helped(&pod(json!({}), takes("batch", "1"))), None);
    let never = with(pod(json!({}), takes("production", "2")), "spec.preemptionPolicy", "Never".into());
    assert_eq!(helped(&never), None);
}

#[test]
fn budgets_that_a_choice_breaks() {
    let mut world = full(["batch"; 4]);
    for i in 0..3 {
        world.pods[i]["metadata"]["labels"] = json!({"app": "web"});
    }
    let budget = |selector: Value, allowed: i64| {
        json!({"metadata": {"name": "b", "namespace": "a"}, "spec": {"selector": selector},
               "status": {"disruptionsAllowed": allowed}})
    };
    let web = || json!({"matchLabels": {"app": "web"}});
    let check = |budgets: Vec<Value>, expect: usize| {
        let world = World { budgets: budgets.clone(), ..world.clone() };
        assert_eq!(budget_violations(&world, &keys(&["p0", "p1", "p2", "p3"])), expect, "{budgets:?}");
    };
    check(vec![], 0);
    check(vec![budget(web(), 3)], 0);
    check(vec![budget(web(), 1)], 2);
    check(vec![budget(web(), 0)], 3);
    check(vec![budget(json!({"matchLabels": {"app": "db"}}), 0)], 0);
    // policy/v1: "a null selector matches no pods, an empty one all pods of the namespace".
    check(vec![budget(json!({}), 0)], 4);
    check(vec![budget(Value::Null, 0)], 0);
    check(vec![with(budget(web(), 0), "metadata.namespace", "b".into())], 0);
    // A pod covered twice is one violation; a pod already being disrupted is none.
    check(vec![budget(web(), 0), budget(web(), 0)], 3);
    check(vec![with(budget(web(), 0), "status.disruptedPods", json!({"p0": "2026-01-01T00:00:00Z"}))], 2);
}
