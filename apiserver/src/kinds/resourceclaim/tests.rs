//! Requests, what refers to them, what is given, and the row.

use super::ResourceClaim;
use crate::kinds::testing::{created, errors, errors_of, row};
use serde_json::{Value, json};

fn claim(change: impl FnOnce(&mut Value)) -> Value {
    let mut object = json!({"spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com"}}]}}});
    change(&mut object["spec"]["devices"]);
    created(&ResourceClaim, &object)
}

#[test]
fn a_request_is_for_one_device_unless_it_says_so() {
    let exactly = |request: Value| claim(|d| d["requests"][0]["exactly"] = request)["spec"]["devices"]["requests"][0]["exactly"].clone();
    assert_eq!(exactly(json!({})), json!({"allocationMode": "ExactCount", "count": 1}));
    assert_eq!(exactly(json!({"allocationMode": "All"})), json!({"allocationMode": "All"}));
    assert_eq!(exactly(json!({"tolerations": [{"key": "k"}]}))["tolerations"][0]["operator"], "Equal");
}

#[test]
fn what_is_wrong_is_named() {
    let check = |change: &dyn Fn(&mut Value), expect: &str| assert_eq!(errors(&ResourceClaim, &claim(change), None), expect);
    let refers = "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'";
    check(&|_| {}, "[]");
    check(
        &|devices| devices["requests"] = json!([{"name": "a"}]),
        "spec.devices.requests[0]: Required value: exactly one of `exactly` or `firstAvailable` is required",
    );
    check(
        &|devices| devices["requests"][0]["firstAvailable"] = json!([{"name": "s", "deviceClassName": "c"}]),
        "spec.devices.requests[0]: Invalid value: null: exactly one of `exactly` or `firstAvailable` is required, but multiple fields are set",
    );
    check(
        &|devices| devices["requests"][0]["exactly"] = json!({"allocationMode": "All", "count": 2}),
        "[spec.devices.requests[0].exactly.deviceClassName: Required value, \
         spec.devices.requests[0].exactly.count: Invalid value: 2: must not be specified when allocationMode is 'All']",
    );
    check(
        &|devices| devices["requests"][0]["exactly"]["allocationMode"] = json!("Most"),
        "spec.devices.requests[0].exactly.allocationMode: Unsupported value: \"Most\": supported values: \"All\", \"ExactCount\"",
    );
    check(
        &|devices| {
            let first = devices["requests"][0].clone();
            devices["requests"].as_array_mut().unwrap().push(first);
        },
        "spec.devices.requests[1].name: Duplicate value: \"gpu\"",
    );
    check(
        &|devices| devices["constraints"] = json!([{"requests": ["cpu"], "matchAttribute": "model"}]),
        &format!("[spec.devices.constraints[0].requests[0]: Invalid value: \"cpu\": {refers}, \
                  spec.devices.constraints[0].matchAttribute: Invalid value: \"model\": must include a domain]"),
    );
    let choice = json!([{"name": "gpu", "firstAvailable": [{"name": "big", "deviceClassName": "c"}]}]);
    check(
        &|devices| {
            devices["requests"] = choice.clone();
            devices["constraints"] = json!([{"requests": ["gpu/big", "gpu"], "matchAttribute": "d.io/model"}]);
        },
        "[]",
    );
    check(&|devices| devices["config"] = json!([{}]), "spec.devices.config[0].opaque: Required value");
}

#[test]
fn the_wish_stays() {
    let (old, new) = (claim(|_| {}), claim(|devices| devices["requests"][0]["name"] = json!("other")));
    assert_eq!(errors(&ResourceClaim, &old, Some(&old)), "[]");
    assert!(errors(&ResourceClaim, &new, Some(&old)).ends_with("field is immutable"));
}

#[test]
fn what_is_given_stays_given() {
    let with = |status: Value| {
        let mut object = claim(|_| {});
        object["status"] = status;
        object
    };
    let given = |request: &str| json!({"devices": {"results": [{"request": request, "driver": "d.io", "pool": "p", "device": "0"}]}});
    let check = |new: Value, old: Value, expect: &str| {
        let text = errors_of(&ResourceClaim, &with(new), Some(&with(old)), Some("status"));
        assert!(text.starts_with(expect), "{text}");
    };
    let pod = json!([{"resource": "pods", "name": "p", "uid": "u"}]);
    check(json!({"allocation": given("gpu"), "reservedFor": pod}), json!({}), "[]");
    check(json!({"reservedFor": pod}), json!({}), "status.reservedFor: Forbidden: may not be specified when `allocated` is not set");
    check(json!({"allocation": given("cpu")}), json!({}), "status.allocation.devices.results[0].request: Invalid value: \"cpu\"");
    let earlier = json!({"allocation": given("gpu")});
    check(json!({"allocation": {}}), earlier.clone(), "status.allocation: Invalid value: {}: field is immutable");
    check(json!({}), earlier.clone(), "[]");
    let mut reported = earlier.clone();
    reported["devices"] = json!([{"driver": "d.io", "pool": "p", "device": "1"}]);
    check(reported, earlier, "status.devices[0]: Invalid value: \"d.io/p/1\": must be an allocated device in the claim");
}

#[test]
fn the_row_sums_up() {
    let state = |status: Value, deleted: bool| {
        let mut object = json!({"metadata": {}, "status": status});
        if deleted {
            object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        }
        row(&ResourceClaim, &object)[1].clone()
    };
    assert_eq!(state(json!({}), false), "pending");
    assert_eq!(state(json!({"allocation": {}}), false), "allocated");
    assert_eq!(state(json!({"allocation": {}, "reservedFor": [{}]}), true), "deleted,allocated,reserved");
    assert_eq!(state(json!({}), true), "deleted");
}
