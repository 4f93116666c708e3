//! Sources, capacity, what stays, and the row.

use super::PersistentVolume;
use crate::kinds::testing::{created, errors, row, updated};
use serde_json::{Value, json};

fn volume(change: impl FnOnce(&mut Value)) -> Value {
    let mut object = json!({"spec": {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"},
        "csi": {"driver": "d.example.com", "volumeHandle": "h"}}});
    change(&mut object["spec"]);
    created(&PersistentVolume, &object)
}

#[test]
fn defaults_are_kubernetes() {
    let made = volume(|_| {});
    assert_eq!((&made["spec"]["persistentVolumeReclaimPolicy"], &made["spec"]["volumeMode"]), (&json!("Retain"), &json!("Filesystem")));
    assert_eq!(made["status"], json!({"phase": "Pending", "lastPhaseTransitionTime": "1970-01-01T00:16:40Z"}));
}

#[test]
fn what_is_wrong_is_named() {
    let check = |change: &dyn Fn(&mut Value), expect: &str| {
        assert_eq!(errors(&PersistentVolume, &volume(change), None), expect);
    };
    check(&|_| {}, "[]");
    check(
        &|spec| *spec = json!({}),
        "[spec.accessModes: Required value, spec.capacity: Required value, spec: Required value: must specify a volume type]",
    );
    check(
        &|spec| spec["capacity"] = json!({"cpu": "1"}),
        "spec.capacity: Unsupported value: {\"cpu\":\"1\"}: supported values: \"storage\"",
    );
    check(
        &|spec| spec["capacity"] = json!({"storage": "0"}),
        "spec.capacity[storage]: Invalid value: \"0\": must be greater than zero",
    );
    check(
        &|spec| spec["nfs"] = json!({"server": "s", "path": "/"}),
        "spec.csi: Forbidden: may not specify more than 1 volume type",
    );
    check(
        &|spec| spec["csi"] = json!({"driver": "Bad_Name", "nodeStageSecretRef": {"name": "s"}}),
        "[spec.csi.volumeHandle: Required value, spec.csi.driver: Invalid value: \"Bad_Name\": a lowercase RFC 1123 subdomain must \
         consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character \
         (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*'), \
         spec.csi.nodeStageSecretRef.namespace: Required value]",
    );
    check(
        &|spec| spec["persistentVolumeReclaimPolicy"] = json!("Burn"),
        "spec.persistentVolumeReclaimPolicy: Unsupported value: \"Burn\": supported values: \"Delete\", \"Recycle\", \"Retain\"",
    );
    let local = |spec: &mut Value| {
        crate::kinds::value::remove(spec, "csi");
        spec["local"] = json!({"path": "/mnt"});
    };
    check(&local, "metadata.annotations: Required value: Local volume requires node affinity");
}

#[test]
fn where_the_data_is_stays() {
    let check = |change: &dyn Fn(&mut Value), expect: &str| {
        let old = volume(|_| {});
        let mut new = old.clone();
        change(&mut new["spec"]);
        assert_eq!(errors(&PersistentVolume, &new, Some(&old)), expect);
    };
    check(&|spec| spec["persistentVolumeReclaimPolicy"] = json!("Delete"), "[]");
    check(&|spec| spec["csi"]["controllerExpandSecretRef"] = json!({"name": "n", "namespace": "s"}), "[]");
    check(
        &|spec| spec["csi"]["volumeHandle"] = json!("other"),
        "spec.persistentvolumesource: Forbidden: spec.persistentvolumesource is immutable after creation",
    );
    check(&|spec| spec["volumeMode"] = json!("Block"), "spec.volumeMode: Invalid value: \"Block\": field is immutable");
}

#[test]
fn a_new_phase_has_a_time() {
    let mut old = volume(|_| {});
    old["status"] = json!({"phase": "Pending", "lastPhaseTransitionTime": "then"});
    let mut new = old.clone();
    new["status"]["phase"] = json!("Available");
    let status = updated(&PersistentVolume, &new, &old, Some("status"))["status"].clone();
    assert_eq!(status, json!({"phase": "Available", "lastPhaseTransitionTime": "1970-01-01T00:16:40Z"}));
}

#[test]
fn the_row_is_kubectls() {
    let mut object = volume(|spec| spec["claimRef"] = json!({"namespace": "ns", "name": "c"}));
    object["status"] = json!({"phase": "Bound"});
    let expect = json!(["x", "1Gi", "RWO", "Retain", "Bound", "ns/c", "", "<unset>", "", "5s", "Filesystem"]);
    assert_eq!(row(&PersistentVolume, &object), expect);
}
