//! Where devices are, what they are, and what stays.

use super::ResourceSlice;
use crate::kinds::testing::{created, errors, row};
use serde_json::{Value, json};

fn slice(change: impl FnOnce(&mut Value)) -> Value {
    let mut object = json!({"spec": {"driver": "d.example.com", "nodeName": "n", "pool": {"name": "n", "generation": 1, "resourceSliceCount": 1},
        "devices": [{"name": "gpu-0", "attributes": {"model": {"string": "A"}}, "capacity": {"d.io/memory": {"value": "1Gi"}}}]}});
    change(&mut object["spec"]);
    created(&ResourceSlice, &object)
}

#[test]
fn what_is_wrong_is_named() {
    let check = |change: &dyn Fn(&mut Value), expect: &str| {
        let text = errors(&ResourceSlice, &slice(change), None);
        assert!(text.starts_with(expect), "{text}");
    };
    check(&|_| {}, "[]");
    check(
        &|spec| *spec = json!({}),
        "[spec.driver: Required value, spec.pool.name: Required value, spec.pool.resourceSliceCount: Invalid value: 0: must be greater than zero, \
         spec: Required value: exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required]",
    );
    check(
        &|spec| spec["allNodes"] = json!(true),
        "spec: Invalid value: \"{`nodeName`, `allNodes`}\": exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required, but",
    );
    check(
        &|spec| spec["devices"][0]["attributes"] = json!({"a b": {"string": "x"}}),
        "spec.devices[0].attributes[a b]: Invalid value: \"a b\": a valid C identifier",
    );
    check(
        &|spec| spec["devices"][0]["attributes"] = json!({"m": {}}),
        "spec.devices[0].attributes[m]: Required value: exactly one value must be specified",
    );
    check(
        &|spec| spec["devices"][0]["attributes"] = json!({"v": {"version": "1"}}),
        "spec.devices[0].attributes[v].version: Invalid value: \"1\": must be a string compatible with semver.org spec 2.0.0",
    );
    check(
        &|spec| spec["devices"][0]["taints"] = json!([{"key": "k", "effect": "Stop"}]),
        "spec.devices[0].taints[0].effect: Unsupported value: \"Stop\": supported values: \"NoExecute\", \"NoSchedule\", \"None\"",
    );
    check(
        &|spec| spec["devices"] = json!([{"name": "a"}, {"name": "a"}]),
        "spec.devices[1].name: Duplicate value: \"a\"",
    );
    check(
        &|spec| spec["devices"][0]["nodeName"] = json!("m"),
        "spec.devices[0].nodeName: Forbidden: must not be set when `perDeviceNodeSelection` is not true",
    );
    check(
        &|spec| spec["sharedCounters"] = json!([{"name": "c", "counters": {"memory": {"value": "1Gi"}}}]),
        "spec: Invalid value: \"{`sharedCounters`, `devices`}\": exactly one of",
    );
}

#[test]
fn whose_devices_where_stays() {
    let old = slice(|_| {});
    let more = slice(|spec| spec["devices"] = json!([]));
    assert_eq!(errors(&ResourceSlice, &more, Some(&old)), "[]");
    let moved = slice(|spec| {
        spec["nodeName"] = json!("m");
        spec["pool"]["name"] = json!("m");
    });
    let expect = "[spec.pool.name: Invalid value: \"m\": field is immutable, spec.nodeName: Invalid value: \"m\": field is immutable]";
    assert_eq!(errors(&ResourceSlice, &moved, Some(&old)), expect);
}

#[test]
fn a_taint_has_a_time() {
    let tainted = slice(|spec| spec["devices"][0]["taints"] = json!([{"key": "k", "effect": "NoSchedule"}]));
    assert_eq!(tainted["spec"]["devices"][0]["taints"][0]["timeAdded"], "1970-01-01T00:16:40Z");
}

#[test]
fn the_row_is_kubectls() {
    assert_eq!(row(&ResourceSlice, &slice(|_| {})), json!(["x", "n", "d.example.com", "n", "5s"]));
}
