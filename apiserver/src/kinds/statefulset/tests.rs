//! Defaults, claims as volumes of the template, and what may change.

use super::StatefulSet;
use crate::kinds::testing::{created, defaulted, errors, errors_of, row};
use serde_json::{Value, json};

fn set(change: impl FnOnce(&mut Value)) -> Value {
    let mut object = json!({ "spec": { "selector": { "matchLabels": { "app": "db" } }, "serviceName": "db", "template": {
        "metadata": { "labels": { "app": "db" } }, "spec": { "containers": [{ "name": "c", "image": "pg:16" }] } } } });
    change(&mut object["spec"]);
    defaulted(&StatefulSet, &object)
}

fn claim(name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}}}})
}

#[test]
fn defaults_are_kubernetes() {
    let spec = &set(|spec| spec["volumeClaimTemplates"] = json!([claim("data")]))["spec"];
    let fields = ["replicas", "revisionHistoryLimit", "podManagementPolicy", "updateStrategy", "persistentVolumeClaimRetentionPolicy"];
    let expect = [
        json!(1),
        json!(10),
        json!("OrderedReady"),
        json!({"type": "RollingUpdate", "rollingUpdate": {"partition": 0, "maxUnavailable": 1}}),
        json!({"whenDeleted": "Retain", "whenScaled": "Retain"}),
    ];
    assert_eq!(fields.map(|field| spec[field].clone()), expect);
    let claim = &spec["volumeClaimTemplates"][0];
    assert_eq!((&claim["kind"], &claim["apiVersion"]), (&json!("PersistentVolumeClaim"), &json!("v1")));
    assert_eq!((&claim["spec"]["volumeMode"], &claim["status"]), (&json!("Filesystem"), &json!({"phase": "Pending"})));
    let left = set(|spec| spec["updateStrategy"] = json!({"type": "OnDelete"}));
    assert_eq!(left["spec"]["updateStrategy"], json!({"type": "OnDelete"}));
    assert_eq!(created(&StatefulSet, &set(|_| {}))["status"], json!({"replicas": 0, "availableReplicas": 0}));
}

#[test]
fn what_is_wrong_is_named() {
    let check =
        |change: &dyn Fn(&mut Value), expect: &str| assert_eq!(errors(&StatefulSet, &set(change), None), expect);
    check(&|_| {}, "[]");
    check(
        &|spec| spec["podManagementPolicy"] = json!("Random"),
        "spec.podManagementPolicy: Invalid value: \"Random\": must be 'OrderedReady' or 'Parallel'",
    );
    check(
        &|spec| spec["updateStrategy"] = json!({"type": "OnDelete", "rollingUpdate": {"partition": 1}}),
        "spec.updateStrategy.rollingUpdate: Invalid value: {\"partition\":1}: only allowed for updateStrategy 'RollingUpdate'",
    );
    check(
        &|spec| spec["updateStrategy"] = json!({"rollingUpdate": {"partition": -1, "maxUnavailable": "0%"}}),
        "[spec.updateStrategy.rollingUpdate.partition: Invalid value: -1: must be greater than or equal to 0, \
         spec.updateStrategy.rollingUpdate.maxUnavailable: Invalid value: \"0%\": cannot be 0]",
    );
    check(
        &|spec| spec["persistentVolumeClaimRetentionPolicy"] = json!({"whenScaled": "Keep"}),
        "spec.persistentVolumeClaimRetentionPolicy.whenScaled: Unsupported value: \"Keep\": supported values: \"Retain\", \"Delete\"",
    );
    check(&|spec| spec["ordinals"] = json!({"start": -1}), "spec.ordinals.start: Invalid value: -1: must be greater than or equal to 0");
    check(
        &|spec| spec["template"]["spec"]["restartPolicy"] = json!("Never"),
        "spec.template.spec.restartPolicy: Unsupported value: \"Never\": supported values: \"Always\"",
    );
    check(
        &|spec| spec["selector"] = json!({}),
        "spec.selector: Invalid value: {}: empty selector is invalid for statefulset",
    );
    check(
        &|spec| spec["template"]["spec"]["activeDeadlineSeconds"] = json!(5),
        "spec.template.spec.activeDeadlineSeconds: Forbidden: activeDeadlineSeconds in StatefulSet is not Supported",
    );
}

#[test]
fn claims_are_volumes_of_the_template() {
    let mounted = |name: &str| {
        set(|spec| {
            spec["volumeClaimTemplates"] = json!([claim("data")]);
            spec["template"]["spec"]["containers"][0]["volumeMounts"] = json!([{"name": name, "mountPath": "/d"}]);
        })
    };
    assert_eq!(errors(&StatefulSet, &mounted("data"), None), "[]");
    let expect = "spec.template.spec.containers[0].volumeMounts[0].name: Not found: \"other\"";
    assert_eq!(errors(&StatefulSet, &mounted("other"), None), expect);
    let bare = set(|spec| spec["volumeClaimTemplates"] = json!([{"metadata": {"name": "data"}, "spec": {}}]));
    let expect = "[spec.volumeClaimTemplates[0].spec.accessModes: Required value: at least 1 access mode is required, \
         spec.volumeClaimTemplates[0].spec.resources[storage]: Required value]";
    assert_eq!(errors(&StatefulSet, &bare, None), expect);
}

#[test]
fn only_some_fields_may_change() {
    let check = |change: &dyn Fn(&mut Value), allowed: bool| {
        let text = errors(&StatefulSet, &set(change), Some(&set(|_| {})));
        let refused = text.starts_with("spec: Forbidden: updates to statefulset spec for fields other than 'replicas', 'ordinals', ");
        assert_eq!((text == "[]", refused), (allowed, !allowed), "{text}");
    };
    check(&|spec| spec["replicas"] = json!(3), true);
    check(&|spec| spec["ordinals"] = json!({"start": 1}), true);
    check(&|spec| spec["template"]["spec"]["containers"][0]["image"] = json!("pg:17"), true);
    check(&|spec| spec["minReadySeconds"] = json!(3), true);
    check(&|spec| spec["persistentVolumeClaimRetentionPolicy"] = json!({"whenScaled": "Delete"}), true);
    check(&|spec| spec["serviceName"] = json!("other"), false);
    check(&|spec| spec["podManagementPolicy"] = json!("Parallel"), false);
    check(&|spec| spec["volumeClaimTemplates"] = json!([claim("data")]), false);
}

#[test]
fn a_status_counts_no_more_pods_than_there_are() {
    let check = |status: Value, expect: &str| {
        let mut new = set(|_| {});
        new["status"] = status;
        let mut old = set(|_| {});
        old["status"] = json!({"replicas": 1, "collisionCount": 2});
        assert_eq!(errors_of(&StatefulSet, &new, Some(&old), Some("status")), expect);
    };
    check(json!({"replicas": 2, "readyReplicas": 2, "availableReplicas": 1, "collisionCount": 2}), "[]");
    check(
        json!({"replicas": 1, "readyReplicas": 2, "collisionCount": 2}),
        "status.readyReplicas: Invalid value: 2: cannot be greater than status.replicas",
    );
    check(
        json!({"replicas": 1, "availableReplicas": 1, "collisionCount": 2}),
        "status.availableReplicas: Invalid value: 1: cannot be greater than status.readyReplicas",
    );
    check(json!({"replicas": 1}), "status.collisionCount: Invalid value: 0: cannot be decremented");
}

#[test]
fn the_row_is_kubectls() {
    let mut object = set(|spec| spec["replicas"] = json!(3));
    object["status"] = json!({"readyReplicas": 2});
    assert_eq!(row(&StatefulSet, &object), json!(["x", "2/3", "5s", "c", "pg:16"]));
}
