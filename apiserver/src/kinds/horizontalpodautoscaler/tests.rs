//! Defaults, sources and targets of metrics, behaviour, and the row.

use super::HorizontalPodAutoscaler;
use crate::kinds::testing::{defaulted, errors, errors_of, row};
use serde_json::{Value, json};

fn autoscaler(change: impl FnOnce(&mut Value)) -> Value {
    let mut object = json!({"spec": {"maxReplicas": 5, "scaleTargetRef": {"kind": "Deployment", "name": "web"}}});
    change(&mut object["spec"]);
    defaulted(&HorizontalPodAutoscaler, &object)
}

#[test]
fn defaults_are_kubernetes() {
    let spec = &autoscaler(|_| {})["spec"];
    let cpu = json!([{"type": "Resource", "resource": {"name": "cpu",
        "target": {"type": "Utilization", "averageUtilization": 80}}}]);
    assert_eq!((&spec["minReplicas"], &spec["metrics"], spec.get("behavior")), (&json!(1), &cpu, None));
    let slow = &autoscaler(|spec| spec["behavior"] = json!({"scaleDown": {"selectPolicy": "Disabled"}}))["spec"];
    let double = json!({"type": "Percent", "value": 100, "periodSeconds": 15});
    assert_eq!(
        slow["behavior"],
        json!({"scaleDown": {"selectPolicy": "Disabled", "policies": [double]}, "scaleUp": {"stabilizationWindowSeconds": 0,
            "selectPolicy": "Max", "policies": [{"type": "Pods", "value": 4, "periodSeconds": 15}, double]}})
    );
}

#[test]
fn what_is_wrong_is_named() {
    let check = |change: &dyn Fn(&mut Value), expect: &str| {
        assert_eq!(errors(&HorizontalPodAutoscaler, &autoscaler(change), None), expect);
    };
    check(&|_| {}, "[]");
    check(&|spec| spec["minReplicas"] = json!(0), "spec.minReplicas: Invalid value: 0: must be greater than or equal to 1");
    check(
        &|spec| spec["minReplicas"] = json!(6),
        "spec.maxReplicas: Invalid value: 5: must be greater than or equal to `minReplicas`",
    );
    check(
        &|spec| spec["scaleTargetRef"] = json!({}),
        "[spec.scaleTargetRef.kind: Required value, spec.scaleTargetRef.name: Required value]",
    );
    check(
        &|spec| spec["behavior"] = json!({"scaleUp": {"stabilizationWindowSeconds": 3601, "policies": []}}),
        "[spec.behavior.scaleUp.stabilizationWindowSeconds: Invalid value: 3601: must be less than or equal to 3600, \
         spec.behavior.scaleUp.policies: Required value: must specify at least one Policy]",
    );
    check(
        &|spec| spec["behavior"] = json!({"scaleDown": {"policies": [{"type": "Pods", "value": 0, "periodSeconds": 1801}]}}),
        "[spec.behavior.scaleDown.policies[0].value: Invalid value: 0: must be greater than zero, \
         spec.behavior.scaleDown.policies[0].periodSeconds: Invalid value: 1801: must be less than or equal to 1800]",
    );
    let mut counted = autoscaler(|_| {});
    counted["status"] = json!({"desiredReplicas": -1});
    let expect = "status.desiredReplicas: Invalid value: -1: must be greater than or equal to 0";
    assert_eq!(errors_of(&HorizontalPodAutoscaler, &counted, Some(&counted), Some("status")), expect);
}

#[test]
fn a_metric_has_one_source_and_a_target() {
    let check = |metric: Value, expect: &str| {
        let object = autoscaler(|spec| spec["metrics"] = json!([metric]));
        assert_eq!(errors(&HorizontalPodAutoscaler, &object, None), expect);
    };
    let average = json!({"type": "AverageValue", "averageValue": "100"});
    check(json!({"type": "Pods", "pods": {"metric": {"name": "rps"}, "target": average}}), "[]");
    check(json!({"type": "Pods"}), "spec.metrics[0].pods: Required value: must populate information for the given metric source");
    check(
        json!({"type": "External", "external": {"metric": {"name": "q"}, "target": {"type": "Value", "value": "0"}}}),
        "spec.metrics[0].external.target.value: Invalid value: \"0\": must be positive",
    );
    check(
        json!({"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Value"}}}),
        "spec.metrics[0].resource.target.averageUtilization: Required value: must set either a target raw value or a target utilization",
    );
    check(
        json!({"type": "ContainerResource", "containerResource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 5}}}),
        "spec.metrics[0].containerResource.container: Required value: must specify a container",
    );
    check(
        json!({"type": "Object", "object": {"describedObject": {"kind": "Ingress", "name": "i"}, "metric": {"name": "rps"}, "target": average},
            "pods": {"metric": {"name": "rps"}, "target": average}}),
        "spec.metrics[0].pods: Forbidden: must populate the given metric source only",
    );
    check(
        json!({"type": "Wish"}),
        "spec.metrics[0].type: Unsupported value: \"Wish\": supported values: \"ContainerResource\", \"External\", \"Object\", \"Pods\", \"Resource\"",
    );
}

#[test]
fn the_row_shows_metrics_as_they_are_and_should_be() {
    let mut object = autoscaler(|_| {});
    assert_eq!(row(&HorizontalPodAutoscaler, &object), json!(["x", "Deployment/web", "cpu: <unknown>/80%", "1", 5, 0, "5s"]));
    let average = json!({"type": "AverageValue", "averageValue": "10"});
    let external = json!({"type": "External", "external": {"metric": {"name": "q"}, "target": average}});
    let metrics = object["spec"]["metrics"].as_array_mut().unwrap();
    metrics.extend([external.clone(), external]);
    object["status"] = json!({"currentReplicas": 2, "currentMetrics": [
        {"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": 12, "averageValue": "1"}}}]});
    let targets = "cpu: 12%/80%, <unknown>/10 (avg) + 1 more...";
    assert_eq!(row(&HorizontalPodAutoscaler, &object), json!(["x", "Deployment/web", targets, "1", 5, 2, "5s"]));
}
