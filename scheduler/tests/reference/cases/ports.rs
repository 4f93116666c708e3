//! Host ports.

use super::{bound, node, passes, pod, with};
use crate::reference::World;
use serde_json::{Value, json};

fn free(taken: &Value, wanted: Value) -> bool {
    let world = World { nodes: vec![node("m", json!({}))], pods: vec![taken.clone()], ..World::default() };
    passes("NodePorts", &world, &pod(json!({}), wanted), &world.nodes[0])
}

fn containers(port: Value) -> Value {
    json!({"containers": [{"name": "c", "ports": [port]}]})
}

#[test]
fn address_protocol_and_port_make_the_place() {
    let port = |address: &str, protocol: &str, port: u32| {
        containers(json!({"hostIP": address, "protocol": protocol, "hostPort": port, "containerPort": 1}))
    };
    let check = |taken: Value, wanted: Value, expect: bool| {
        for (one, other) in [(&taken, &wanted), (&wanted, &taken)] {
            let running = bound("b", "m", json!({}), one.clone());
            assert_eq!(free(&running, other.clone()), expect, "{one} {other}");
        }
    };
    let local = port("127.0.0.1", "TCP", 80);
    check(local.clone(), local.clone(), false);
    check(local.clone(), port("127.0.0.1", "TCP", 81), true);
    check(local.clone(), port("127.0.0.1", "UDP", 80), true);
    check(local.clone(), port("10.0.0.1", "TCP", 80), true);
    check(local.clone(), port("0.0.0.0", "TCP", 80), false);
    check(local.clone(), port("::", "TCP", 80), false);
    check(port("::", "TCP", 80), port("0.0.0.0", "TCP", 80), false);
    check(port("0.0.0.0", "TCP", 80), port("0.0.0.0", "UDP", 80), true);
    // Without an address or protocol: every address, TCP.
    check(local.clone(), containers(json!({"hostPort": 80, "containerPort": 1})), false);
    check(port("127.0.0.1", "UDP", 80), containers(json!({"hostPort": 80, "containerPort": 1})), true);
    // A container port alone takes nothing of the machine.
    check(local, containers(json!({"containerPort": 80})), true);
}

#[test]
fn whose_ports_count() {
    let port = json!([{"hostPort": 80, "containerPort": 80}]);
    let wanted = containers(json!({"hostPort": 80, "containerPort": 80}));
    let check = |taken: Value, expect: bool| {
        assert_eq!(free(&bound("b", "m", json!({}), taken.clone()), wanted.clone()), expect, "{taken}");
    };
    check(json!({"containers": [{"name": "c"}, {"name": "d", "ports": port}]}), false);
    check(json!({"initContainers": [{"name": "i", "restartPolicy": "Always", "ports": port}]}), false);
    check(json!({"initContainers": [{"name": "i", "ports": port}]}), true);
    // On the host's network a container port is the machine's.
    let inside = json!([{"containerPort": 80}]);
    check(json!({"hostNetwork": true, "containers": [{"name": "c", "ports": inside}]}), false);
    check(json!({"hostNetwork": false, "containers": [{"name": "c", "ports": inside}]}), true);
    check(json!({"hostNetwork": true, "containers": [{"name": "c", "ports": [{"containerPort": 81}]}]}), true);
}

#[test]
fn ended_pods_gave_their_ports_back_and_deleting_ones_did_not() {
    let port = json!({"hostPort": 80, "containerPort": 80});
    let running = bound("b", "m", json!({}), containers(port.clone()));
    assert!(!free(&running, containers(port.clone())));
    assert!(!free(
        &with(running.clone(), "metadata.deletionTimestamp", "2026-01-01T00:00:00Z".into()),
        containers(port.clone())
    ));
    for phase in ["Succeeded", "Failed"] {
        assert!(free(&with(running.clone(), "status.phase", phase.into()), containers(port.clone())), "{phase}");
    }
    assert!(free(&with(running, "spec.nodeName", "elsewhere".into()), containers(port)));
}
