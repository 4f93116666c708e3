//! Cases by rule, and the small manifests that they are built from.

mod generated;
mod machine;
mod node_affinity;
mod pod_affinity;
mod ports;
mod preempt;
mod requests;
mod room;
mod scores;
mod spread;

use crate::reference::manifest::name;
use crate::reference::{FILTERS, World, refusals};
use serde_json::{Value, json};

const ZONE: &str = "topology.kubernetes.io/zone";

/// A machine with 4 cpus, 4 GiB and ten places.
fn node(name: &str, labels: Value) -> Value {
    let allocatable = json!({"cpu": "4", "memory": "4Gi", "pods": "10"});
    json!({"metadata": {"name": name, "labels": labels}, "spec": {}, "status": {"allocatable": allocatable}})
}

/// One machine per name, in the zone that the name starts with (`a1` and `a2` are in zone `a`); `-1` has no zone.
fn zoned(names: &[&str]) -> Vec<Value> {
    let labels = |name: &str| match &name[..1] {
        "-" => json!({"host": name}),
        zone => json!({ZONE: zone, "host": name}),
    };
    names.iter().map(|name| node(name, labels(name))).collect()
}

/// A waiting pod of the namespace `a`.
fn pod(labels: Value, spec: Value) -> Value {
    json!({"metadata": {"name": "incoming", "namespace": "a", "labels": labels}, "spec": spec})
}

/// A running pod of the namespace `a`.
fn bound(name: &str, node: &str, labels: Value, spec: Value) -> Value {
    let mut pod = pod(labels, spec);
    pod["metadata"]["name"] = name.into();
    pod["spec"]["nodeName"] = node.into();
    pod["status"] = json!({"phase": "Running"});
    pod
}

fn with(mut object: Value, path: &str, value: Value) -> Value {
    let mut place = &mut object;
    for field in path.split('.') {
        place = &mut place[field];
    }
    *place = value;
    object
}

/// Whether this filter lets the pod onto the machine.
fn passes(filter: &str, world: &World, pod: &Value, node: &Value) -> bool {
    assert!(FILTERS.iter().any(|(name, _)| *name == filter), "there is no filter {filter}");
    !refusals(world, pod, node).contains(&filter)
}

/// The machines that this filter lets the pod onto, in one text.
fn passing(filter: &str, world: &World, pod: &Value) -> String {
    let names: Vec<&str> = world.nodes.iter().filter(|node| passes(filter, world, pod, node)).map(name).collect();
    names.join(" ")
}
