//! Rolling strategies, and the opt-in to at most one pod.

use super::{Deployment, Strategy};
use crate::kinds::testing::{defaulted, errors, row};
use crate::kinds::value::object_mut;
use serde_json::{Value, json};

fn deployment(change: impl FnOnce(&mut Value)) -> Value {
    let mut object = json!({ "spec": { "selector": { "matchLabels": { "app": "web" } }, "template": {
        "metadata": { "labels": { "app": "web" } }, "spec": { "containers": [{ "name": "c", "image": "nginx" }] } } } });
    change(&mut object["spec"]);
    defaulted(&Deployment, &object)
}

#[test]
fn defaults_are_kubernetes() {
    let spec = &deployment(|_| {})["spec"];
    assert_eq!(spec["replicas"], 1);
    assert_eq!(spec["revisionHistoryLimit"], 10);
    assert_eq!(spec["progressDeadlineSeconds"], 600);
    let strategy = json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"}});
    assert_eq!(spec["strategy"], strategy);
    let template = json!({"restartPolicy": "Always", "dnsPolicy": "ClusterFirst", "schedulerName": "default-scheduler",
        "securityContext": {}, "terminationGracePeriodSeconds": 30, "containers": [{"name": "c", "image": "nginx",
        "imagePullPolicy": "Always", "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
        "resources": {}}]});
    assert_eq!(spec["template"]["spec"], template);
}

#[test]
fn what_is_wrong_is_named() {
    let check =
        |change: &dyn Fn(&mut Value), expect: &str| assert_eq!(errors(&Deployment, &deployment(change), None), expect);
    check(&|_| {}, "[]");
    check(&|spec| spec["replicas"] = json!(-1), "spec.replicas: Invalid value: -1: must be greater than or equal to 0");
    check(&|spec| drop(object_mut(spec).remove("selector")), "spec.selector: Required value");
    check(
        &|spec| spec["template"]["metadata"]["labels"] = json!({"app": "other"}),
        "spec.template.metadata.labels: Invalid value: {\"app\":\"other\"}: `selector` does not match template `labels`",
    );
    check(
        &|spec| spec["strategy"] = json!({"type": "Recreate", "rollingUpdate": {"maxSurge": 1}}),
        "spec.strategy.rollingUpdate: Forbidden: may not be specified when strategy `type` is 'Recreate'",
    );
    check(
        &|spec| spec["strategy"] = json!({"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 0}}),
        "spec.strategy.rollingUpdate.maxUnavailable: Invalid value: 0: may not be 0 when `maxSurge` is 0",
    );
    check(
        &|spec| spec["template"]["spec"]["restartPolicy"] = json!("Never"),
        "spec.template.spec.restartPolicy: Unsupported value: \"Never\": supported values: \"Always\"",
    );
    check(
        &|spec| spec["minReadySeconds"] = json!(600),
        "spec.progressDeadlineSeconds: Invalid value: 600: must be greater than minReadySeconds",
    );
}

#[test]
fn the_selector_stays() {
    let old = deployment(|_| {});
    let mut new = old.clone();
    new["spec"]["selector"]["matchLabels"]["tier"] = json!("x");
    new["spec"]["template"]["metadata"]["labels"]["tier"] = json!("x");
    let expect = "spec.selector: Invalid value: {\"matchLabels\":{\"app\":\"web\",\"tier\":\"x\"}}: field is immutable";
    assert_eq!(errors(&Deployment, &new, Some(&old)), expect);
}

#[test]
fn at_most_one_does_not_surge() {
    let opted = |strategy: Value| {
        deployment(|spec| {
            spec["strategy"] = strategy;
            spec["template"]["metadata"]["annotations"] = json!({"gantry.dev/at-most-one": "true"});
        })
    };
    assert!(errors(&Deployment, &opted(json!({})), None).contains("surges"));
    for strategy in [json!({"type": "Recreate"}), json!({"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}})] {
        assert_eq!(errors(&Deployment, &opted(strategy), None), "[]");
    }
}

#[test]
fn a_template_whose_pods_will_be_refused_is_warned_of() {
    let (plain, isolated) =
        (deployment(|_| {}), deployment(|spec| spec["template"]["spec"]["hostUsers"] = json!(false)));
    let expect = ["spec.template.spec.hostUsers: not supported yet; its pods are refused"];
    assert!(Deployment.warnings(&plain, None).is_empty());
    assert_eq!(Deployment.warnings(&isolated, None), expect);
    assert_eq!(Deployment.warnings(&isolated, Some(&plain)), expect);
    assert!(Deployment.warnings(&isolated, Some(&isolated)).is_empty(), "a write to the status");
}

#[test]
fn the_row_is_kubectls() {
    let mut object = deployment(|spec| spec["replicas"] = json!(3));
    object["status"] = json!({"readyReplicas": 2, "updatedReplicas": 3, "availableReplicas": 1});
    assert_eq!(row(&Deployment, &object), json!(["x", "2/3", 3, 1, "5s", "c", "nginx", "app=web"]));
}
