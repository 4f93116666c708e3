//! What a pod takes.

use super::with;
use crate::reference::manifest::amount;
use crate::reference::requests::of_pod;
use serde_json::{Value, json};

fn requests(amounts: Value) -> Value {
    json!({"name": "x", "resources": {"requests": amounts}})
}

fn cpu(amount: &str) -> Value {
    requests(json!({"cpu": amount}))
}

fn sidecar(amount: &str) -> Value {
    with(cpu(amount), "restartPolicy", "Always".into())
}

#[test]
fn cpu_over_containers_inits_and_sidecars() {
    let check = |spec: Value, expect: i128| {
        assert_eq!(amount(&of_pod(&json!({"spec": spec})), "cpu"), expect, "{spec}");
    };
    check(json!({}), 0);
    check(json!({"containers": [cpu("100m"), cpu("0.2"), {"name": "none"}]}), 300);
    // "The highest of any particular resource request on all init containers is the effective init request."
    check(json!({"containers": [cpu("100m")], "initContainers": [cpu("300m"), cpu("200m")]}), 300);
    check(json!({"containers": [cpu("400m")], "initContainers": [cpu("300m")]}), 400);
    // Sidecars stay beside the containers and beside the inits that come after them.
    check(json!({"containers": [cpu("100m")], "initContainers": [sidecar("50m")]}), 150);
    check(json!({"containers": [cpu("100m")], "initContainers": [sidecar("50m"), cpu("300m")]}), 350);
    check(json!({"containers": [cpu("100m")], "initContainers": [cpu("300m"), sidecar("50m")]}), 300);
    check(json!({"containers": [cpu("100m")], "initContainers": [sidecar("50m"), cpu("300m"), sidecar("400m")]}), 550);
    check(json!({"containers": [cpu("100m")], "overhead": {"cpu": "250m"}}), 350);
    check(json!({"initContainers": [cpu("300m")], "overhead": {"cpu": "250m"}}), 550);
}

#[test]
fn each_resource_has_its_own_peak() {
    let taken = of_pod(&json!({"spec": {
        "containers": [requests(json!({"cpu": "1", "memory": "1Mi", "example.com/gpu": 2, "hugepages-2Mi": "4Mi"}))],
        "initContainers": [requests(json!({"cpu": "500m", "memory": "3Mi", "ephemeral-storage": "1Ki"}))],
    }}));
    for (resource, expect) in [
        ("cpu", 1000),
        ("memory", 3 << 20),
        ("example.com/gpu", 2),
        ("hugepages-2Mi", 4 << 20),
        ("ephemeral-storage", 1024),
    ] {
        assert_eq!(amount(&taken, resource), expect, "{resource}");
    }
}

#[test]
fn the_pod_as_a_whole_stands_in_for_its_containers() {
    let check = |whole: Value, resource: &str, expect: i128| {
        let containers = json!([requests(json!({"cpu": "1", "memory": "2Ki", "example.com/gpu": "1"}))]);
        let spec = json!({"containers": containers, "resources": {"requests": whole}, "overhead": {"cpu": "10m"}});
        assert_eq!(amount(&of_pod(&json!({"spec": spec})), resource), expect, "{resource} of {whole}");
    };
    check(json!({}), "cpu", 1010);
    check(json!({"cpu": "3"}), "cpu", 3010);
    check(json!({"cpu": "500m"}), "cpu", 510);
    check(json!({"cpu": "3"}), "memory", 2048);
    check(json!({"memory": "1Mi"}), "memory", 1 << 20);
    check(json!({"hugepages-2Mi": "2Mi"}), "hugepages-2Mi", 2 << 20);
    // Only cpu, memory and huge pages can be asked for by the pod as a whole.
    check(json!({"example.com/gpu": "5"}), "example.com/gpu", 1);
}

#[test]
fn a_resize_holds_the_larger_of_wanted_and_given() {
    let status = |name: &str, given: &str| json!([{"name": name, "allocatedResources": {"cpu": given}}]);
    let check = |pod: Value, expect: i128| assert_eq!(amount(&of_pod(&pod), "cpu"), expect, "{pod}");
    let spec = json!({"nodeName": "m", "containers": [cpu("200m")]});
    check(json!({"spec": spec, "status": {"containerStatuses": status("x", "500m")}}), 500);
    check(json!({"spec": spec, "status": {"containerStatuses": status("x", "100m")}}), 200);
    check(json!({"spec": spec, "status": {"containerStatuses": status("y", "500m")}}), 200);
    check(json!({"spec": spec, "status": {"initContainerStatuses": status("x", "500m")}}), 200);
    let waiting =
        with(json!({"spec": spec, "status": {"containerStatuses": status("x", "500m")}}), "spec.nodeName", Value::Null);
    check(waiting, 200);
    let running = |runs: &str| json!([{"name": "x", "allocatedResources": {"cpu": "300m"}, "resources": {"requests": {"cpu": runs}}}]);
    check(json!({"spec": spec, "status": {"containerStatuses": running("500m")}}), 500);
    check(json!({"spec": spec, "status": {"containerStatuses": running("100m")}}), 300);
    // What the machine can never grant is not held; what is only put off is.
    let pending = |reason: &str, given: &str| {
        let conditions = json!([{"type": "PodResizePending", "status": "True", "reason": reason}]);
        json!({"spec": spec, "status": {"containerStatuses": status("x", given), "conditions": conditions}})
    };
    check(pending("Infeasible", "100m"), 100);
    check(pending("Deferred", "100m"), 200);
    check(pending("Infeasible", "300m"), 300);
    // Sidecars can be resized, ordinary init containers cannot.
    let init = |init: Value| {
        let spec = json!({"nodeName": "m", "containers": [], "initContainers": [init]});
        json!({"spec": spec, "status": {"initContainerStatuses": status("x", "500m")}})
    };
    check(init(sidecar("200m")), 500);
    check(init(cpu("200m")), 200);
}
