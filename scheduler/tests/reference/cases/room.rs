//! Room on the machine and in the zone, by band.

use super::{ZONE, bound, node, passes, passing, pod, with};
use crate::reference::World;
use crate::reference::room::lacking;
use serde_json::{Value, json};

/// The four bands by class; `plain` has no label.
fn classes() -> Vec<Value> {
    let class = |name: &str, labels: Value| json!({"metadata": {"name": name, "labels": labels}});
    let band = |name: &str| class(name, json!({"gantry.dev/band": name}));
    vec![band("production"), band("batch"), band("best-effort"), class("plain", json!({}))]
}

fn takes(class: &str, requests: Value) -> Value {
    json!({"priorityClassName": class, "containers": [{"name": "c", "resources": {"requests": requests}}]})
}

/// A machine with 4 cpus whose zone is large enough to never matter.
fn world(pods: Vec<Value>, lent_cpu: &str) -> World {
    let lendable = json!({"metadata": {"name": "m"}, "spec": {"lendable": {"cpu": lent_cpu, "example.com/gpu": "8"}}});
    let mut machine = node("m", json!({}));
    machine["status"]["allocatable"]["example.com/gpu"] = "2".into();
    let other = with(node("rest-of-the-zone", json!({})), "status.allocatable.cpu", "1k".into());
    World { nodes: vec![machine, other], pods, classes: classes(), lendable: vec![lendable], ..World::default() }
}

#[test]
fn a_request_must_fit_beside_the_others() {
    let check = |taken: Value, wanted: Value, expect: &[&str]| {
        let world = world(vec![bound("b", "m", json!({}), takes("", taken.clone()))], "0");
        let pod = pod(json!({}), takes("", wanted.clone()));
        assert_eq!(lacking(&world, &pod, &world.nodes[0]), expect, "{wanted} beside {taken}");
        assert_eq!(passes("NodeResourcesFit", &world, &pod, &world.nodes[0]), expect.is_empty());
    };
    check(json!({"cpu": "1"}), json!({"cpu": "3"}), &[]);
    check(json!({"cpu": "1"}), json!({"cpu": "3001m"}), &["cpu"]);
    check(json!({"memory": "1Gi"}), json!({"memory": "3Gi"}), &[]);
    check(json!({"memory": "1Gi"}), json!({"memory": "3073Mi"}), &["memory"]);
    check(json!({"example.com/gpu": "1"}), json!({"example.com/gpu": "1"}), &[]);
    check(json!({"example.com/gpu": "1"}), json!({"example.com/gpu": "2"}), &["example.com/gpu"]);
    // What the machine does not offer it has none of.
    check(json!({}), json!({"hugepages-2Mi": "2Mi"}), &["hugepages-2Mi"]);
    check(json!({}), json!({"ephemeral-storage": "1"}), &["ephemeral-storage"]);
    // What is not requested is not looked at, however full it is; nothing requested is nothing lacking.
    check(json!({"cpu": "9"}), json!({"memory": "1Gi"}), &[]);
    check(json!({"cpu": "9"}), json!({"memory": "1Gi", "cpu": "0"}), &[]);
    check(json!({"cpu": "9", "memory": "9Gi"}), json!({}), &[]);
}

#[test]
fn a_machine_has_so_many_places() {
    let pods: Vec<Value> = (0..3).map(|i| bound(&format!("b{i}"), "m", json!({}), json!({}))).collect();
    let check = |places: Value, pods: &[Value], expect: &[&str]| {
        let mut world = world(pods.to_vec(), "0");
        world.nodes[0]["status"]["allocatable"]["pods"] = places.clone();
        assert_eq!(lacking(&world, &pod(json!({}), json!({})), &world.nodes[0]), expect, "{places}");
    };
    check(json!("4"), &pods, &[]);
    check(json!("3"), &pods, &["pods"]);
    check(Value::Null, &[], &["pods"]);
    let ended = with(pods[0].clone(), "status.phase", "Succeeded".into());
    check(json!("3"), &[ended, pods[1].clone(), pods[2].clone()], &[]);
    let deleting = with(pods[0].clone(), "metadata.deletionTimestamp", "2026-01-01T00:00:00Z".into());
    check(json!("3"), &[deleting, pods[1].clone(), pods[2].clone()], &["pods"]);
}

#[test]
fn bands_share_a_machine() {
    // 4 cpus and 2 lent. Reserved pods count against 4, everybody together against 6.
    let check = |reserved: &str, lent: &str, class: &str, wanted: &str, expect: bool| {
        let pods = vec![
            bound("r", "m", json!({}), takes("production", json!({"cpu": reserved}))),
            bound("l", "m", json!({}), takes("batch", json!({"cpu": lent}))),
        ];
        let world = world(pods, "2");
        let pod = pod(json!({}), takes(class, json!({"cpu": wanted})));
        let got = passes("NodeResourcesFit", &world, &pod, &world.nodes[0]);
        assert_eq!(got, expect, "{class} wants {wanted} beside {reserved} reserved and {lent} lent");
    };
    for class in ["production", "plain", "", "unknown"] {
        check("3", "0", class, "1", true);
        check("3", "0", class, "1001m", false);
        check("1", "4", class, "1", true);
        check("1", "4", class, "1001m", false);
        // Batch beyond what is lent does not lessen what production may reserve, up to the sum.
        check("1", "2", class, "3", true);
    }
    for class in ["batch", "best-effort"] {
        check("4", "0", class, "2", true);
        check("4", "1", class, "1", true);
        check("4", "1", class, "1001m", false);
        check("0", "0", class, "6", true);
        check("0", "0", class, "6001m", false);
    }
}

#[test]
fn only_cpu_and_memory_are_lent() {
    let world = world(vec![], "2");
    let pod = pod(json!({}), takes("batch", json!({"example.com/gpu": "3"})));
    assert_eq!(lacking(&world, &pod, &world.nodes[0]), ["example.com/gpu"]);
}

#[test]
fn batch_leaves_one_per_cent_of_the_zone() {
    // Two machines of 4 cpus in zone a, of which `used` is taken: 80m must stay free.
    let check = |used: &str, class: &str, wanted: Value, expect: &str| {
        let nodes = vec![node("a1", json!({ZONE: "a"})), node("a2", json!({ZONE: "a"})), node("none", json!({}))];
        let machines = if used == "12" { vec!["a1", "a2"] } else { vec!["a2"] };
        let pods =
            machines.iter().map(|machine| bound(machine, machine, json!({}), takes("plain", json!({"cpu": used}))));
        let pods = pods.collect();
        let world = World { nodes, pods, classes: classes(), ..World::default() };
        let pod = pod(json!({}), takes(class, wanted.clone()));
        assert_eq!(passing("ZoneReserve", &world, &pod), expect, "{class} wants {wanted}, {used} used");
    };
    for class in ["batch", "best-effort"] {
        check("4", class, json!({"cpu": "3920m"}), "a1 a2 none");
        check("4", class, json!({"cpu": "3921m"}), "none");
        check("4", class, json!({"cpu": "3961m"}), "");
        // An overfull machine does not take from what its neighbours have free.
        check("9", class, json!({"cpu": "3920m"}), "a1 a2 none");
        check("4", class, json!({"memory": "8Gi"}), "");
        // 1 % of 8 GiB is 85899345 bytes, rounded down.
        check("4", class, json!({"memory": "8504035247"}), "a1 a2");
        check("4", class, json!({"memory": "8504035248"}), "");
        check("4", class, json!({"example.com/gpu": "1"}), "a1 a2 none");
        // Nothing is kept of what is not asked for, though all of the zone's cpu is taken.
        check("12", class, json!({"memory": "1Gi"}), "a1 a2 none");
    }
    for class in ["production", "plain", ""] {
        check("8", class, json!({"cpu": "8"}), "a1 a2 none");
    }
}

#[test]
fn a_cordoned_machine_is_no_reserve() {
    let cordoned = with(node("a2", json!({ZONE: "a"})), "spec.unschedulable", true.into());
    let nodes = vec![node("a1", json!({ZONE: "a"})), cordoned];
    let world = World { nodes, classes: classes(), ..World::default() };
    for (wanted, expect) in [("3960m", "a1 a2"), ("3961m", "")] {
        let pod = pod(json!({}), takes("batch", json!({"cpu": wanted})));
        assert_eq!(passing("ZoneReserve", &world, &pod), expect, "{wanted}");
    }
}
