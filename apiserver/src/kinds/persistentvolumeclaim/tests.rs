//! Sizes, modes, what a bound claim may still change, and the row.

use super::PersistentVolumeClaim;
use crate::kinds::testing::{created, errors, errors_of, row};
use serde_json::{Value, json};

fn claim(change: impl FnOnce(&mut Value)) -> Value {
    let mut object = json!({"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
    change(&mut object["spec"]);
    created(&PersistentVolumeClaim, &object)
}

#[test]
fn what_is_wrong_is_named() {
    let check = |change: &dyn Fn(&mut Value), expect: &str| {
        assert_eq!(errors(&PersistentVolumeClaim, &claim(change), None), expect);
    };
    check(&|_| {}, "[]");
    check(
        &|spec| *spec = json!({}),
        "[spec.accessModes: Required value: at least 1 access mode is required, spec.resources[storage]: Required value]",
    );
    check(
        &|spec| spec["resources"]["requests"]["storage"] = json!("0"),
        "spec.resources[storage]: Invalid value: \"0\": must be greater than zero",
    );
    check(
        &|spec| spec["accessModes"] = json!(["Many"]),
        "spec.accessModes: Unsupported value: \"Many\": supported values: \"ReadOnlyMany\", \"ReadWriteMany\", \"ReadWriteOnce\", \"ReadWriteOncePod\"",
    );
    check(
        &|spec| spec["accessModes"] = json!(["ReadWriteOncePod", "ReadWriteOnce"]),
        "spec.accessModes: Forbidden: may not use ReadWriteOncePod with other access modes",
    );
    check(
        &|spec| spec["volumeMode"] = json!("Tape"),
        "spec.volumeMode: Unsupported value: \"Tape\": supported values: \"Block\", \"Filesystem\"",
    );
    let pod = json!({"kind": "Pod", "name": "p"});
    check(
        &|spec| spec["dataSourceRef"] = pod.clone(),
        "[spec.dataSource: Invalid value: \"Pod\": must be 'PersistentVolumeClaim' when referencing the default apiGroup, \
         spec.dataSourceRef: Invalid value: \"Pod\": must be 'PersistentVolumeClaim' when referencing the default apiGroup]",
    );
}

#[test]
fn a_source_has_two_names() {
    let from = json!({"kind": "PersistentVolumeClaim", "name": "a"});
    assert_eq!(claim(|spec| spec["dataSource"] = from.clone())["spec"]["dataSourceRef"], from);
    assert_eq!(claim(|spec| spec["dataSourceRef"] = from.clone())["spec"]["dataSource"], from);
    let unknown = claim(|spec| spec["dataSource"] = json!({"apiGroup": "x.io", "kind": "Y", "name": "a"}));
    assert_eq!(unknown["spec"].get("dataSource"), None);
}

#[test]
fn a_claim_stays_but_for_its_volume_and_its_size_once_bound() {
    let check = |phase: &str, change: &dyn Fn(&mut Value), expect: &str| {
        let mut old = claim(|_| {});
        old["status"] = json!({"phase": phase, "capacity": {"storage": "1Gi"}});
        let mut new = old.clone();
        change(&mut new["spec"]);
        let text = errors(&PersistentVolumeClaim, &new, Some(&old));
        assert!(text.starts_with(expect), "{text}");
    };
    let grow = |spec: &mut Value| spec["resources"]["requests"]["storage"] = json!("2Gi");
    check("Pending", &|spec| spec["volumeName"] = json!("v"), "[]");
    check("Pending", &|spec| spec["storageClassName"] = json!("fast"), "[]");
    check("Pending", &grow, "spec: Forbidden: spec is immutable after creation except resources.requests");
    check("Bound", &grow, "[]");
    check("Bound", &|spec| spec["accessModes"] = json!(["ReadOnlyMany"]), "spec: Forbidden: spec is immutable");
    check(
        "Bound",
        &|spec| spec["resources"]["requests"]["storage"] = json!("1Mi"),
        "spec.resources.requests.storage: Forbidden: field can not be less than status.capacity",
    );
    check("Bound", &|spec| spec["volumeMode"] = json!("Block"), "[spec: Forbidden: spec is immutable after creation");
}

#[test]
fn a_status_has_amounts() {
    let mut new = claim(|_| {});
    new["status"] = json!({"capacity": {"storage": "-1"}, "conditions": [{}]});
    let expect = "[status.capacity[storage]: Invalid value: \"-1\": must be greater than or equal to 0, \
         status.conditions[0].type: Required value]";
    assert_eq!(errors_of(&PersistentVolumeClaim, &new, Some(&new), Some("status")), expect);
}

#[test]
fn the_row_is_kubectls() {
    let mut object = claim(|spec| spec["storageClassName"] = json!("fast"));
    assert_eq!(row(&PersistentVolumeClaim, &object), json!(["x", "Pending", "", "", "", "fast", "<unset>", "5s", "Filesystem"]));
    object["spec"]["volumeName"] = json!("pv1");
    object["status"] = json!({"phase": "Bound", "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteMany", "ReadWriteOnce"]});
    assert_eq!(
        row(&PersistentVolumeClaim, &object),
        json!(["x", "Bound", "pv1", "1Gi", "RWO,RWX", "fast", "<unset>", "5s", "Filesystem"])
    );
}
