//! Defaults, validation, updates, graceful deletion and the STATUS column of pods.

use super::{Pod, Strategy};
use crate::kinds::testing::{created, errors, errors_of, row};
use crate::kinds::value::object_mut;
use serde_json::{Value, json};

fn pod(change: impl FnOnce(&mut Value)) -> Value {
    let mut pod =
        json!({ "metadata": { "name": "p" }, "spec": { "containers": [{ "name": "c", "image": "nginx:1" }] } });
    change(&mut pod["spec"]);
    created(&Pod, &pod)
}

#[test]
fn defaults_are_kubernetes() {
    let made = pod(|spec| {
        spec["containers"][0] = json!({"name": "c", "image": "r.io:5000/nginx", "ports": [{"containerPort": 80}],
            "resources": {"limits": {"cpu": "1", "memory": "1Gi"}}, "readinessProbe": {"httpGet": {"port": 80}},
            "env": [{"name": "N", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]});
        spec["volumes"] = json!([{"name": "e"}, {"name": "c", "configMap": {"name": "m"}},
            {"name": "p", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}]);
    });
    let container = json!({"name": "c", "image": "r.io:5000/nginx", "imagePullPolicy": "Always",
        "ports": [{"containerPort": 80, "protocol": "TCP"}],
        "resources": {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1", "memory": "1Gi"}},
        "readinessProbe": {"httpGet": {"port": 80, "path": "/", "scheme": "HTTP"}, "timeoutSeconds": 1, "periodSeconds": 10,
            "successThreshold": 1, "failureThreshold": 3},
        "env": [{"name": "N", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}}}],
        "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File"});
    assert_eq!(made["spec"]["containers"][0], container);
    let volumes = json!([{"name": "e", "emptyDir": {}}, {"name": "c", "configMap": {"name": "m", "defaultMode": 420}},
        {"name": "p", "projected": {"defaultMode": 420, "sources": [{"serviceAccountToken": {"path": "t",
            "expirationSeconds": 3600}}]}}]);
    assert_eq!(made["spec"]["volumes"], volumes);
    assert_eq!(made["spec"]["enableServiceLinks"], true);
    assert_eq!(made["status"], json!({"phase": "Pending", "qosClass": "Guaranteed"}));
}

#[test]
fn how_many_start_together_is_a_number() {
    let labelled = |count: &str| {
        let mut pod = pod(|_| {});
        pod["metadata"]["labels"] = json!({"gantry.dev/pod-group": "g", "gantry.dev/min-member": count});
        pod
    };
    for count in ["1", "512"] {
        assert_eq!(errors(&Pod, &labelled(count), None), "[]", "{count}");
    }
    let refused = |count: &str| {
        format!(
            "metadata.labels[gantry.dev/min-member]: Invalid value: \"{count}\": must be a whole number from 1 to 512"
        )
    };
    for count in ["0", "513", "-1", "abc", "1.5", ""] {
        assert_eq!(errors(&Pod, &labelled(count), None), refused(count));
        assert_eq!(errors(&Pod, &labelled(count), Some(&labelled("1"))), refused(count));
        assert_eq!(errors_of(&Pod, &labelled(count), Some(&labelled("1")), Some("status")), refused(count));
        // What is stored already keeps nobody from writing the rest.
        assert_eq!(errors(&Pod, &labelled(count), Some(&labelled(count))), "[]");
    }
}

#[test]
fn the_pull_policy_follows_the_tag() {
    let rows = [
        ("a", "Always"),
        ("a:latest", "Always"),
        ("h:5/a", "Always"),
        ("a:1", "IfNotPresent"),
        ("a@sha256:0", "IfNotPresent"),
    ];
    for (image, expect) in rows {
        let made = pod(|spec| spec["containers"][0]["image"] = json!(image));
        assert_eq!(made["spec"]["containers"][0]["imagePullPolicy"], expect, "{image}");
    }
}

#[test]
fn the_quality_of_service_follows_the_resources() {
    let rows = [
        (json!({}), "BestEffort"),
        (json!({"requests": {"cpu": "1"}}), "Burstable"),
        (json!({"limits": {"cpu": "1"}}), "Burstable"),
        (json!({"limits": {"cpu": "1", "memory": "1"}, "requests": {"cpu": "500m"}}), "Burstable"),
        (json!({"limits": {"cpu": "1", "memory": "1"}}), "Guaranteed"),
    ];
    for (resources, expect) in rows {
        let made = pod(|spec| spec["containers"][0]["resources"] = resources.clone());
        assert_eq!(made["status"]["qosClass"], expect, "{resources}");
    }
}

#[test]
fn what_is_wrong_is_named() {
    let check = |change: &dyn Fn(&mut Value), expect: &str| assert_eq!(errors(&Pod, &pod(change), None), expect);
    check(&|_| {}, "[]");
    check(&|spec| spec["containers"] = json!([]), "spec.containers: Required value");
    check(
        &|spec| drop(object_mut(&mut spec["containers"][0]).remove("image")),
        "spec.containers[0].image: Required value",
    );
    check(
        &|spec| spec["containers"] = json!([{"name": "c", "image": "a:1"}, {"name": "c", "image": "a:1"}]),
        "spec.containers[1].name: Duplicate value: \"c\"",
    );
    check(
        &|spec| spec["restartPolicy"] = json!("Sometimes"),
        "spec.restartPolicy: Unsupported value: \"Sometimes\": supported values: \"Always\", \"OnFailure\", \"Never\"",
    );
    check(
        &|spec| spec["containers"][0]["volumeMounts"] = json!([{"name": "v", "mountPath": "/v"}]),
        "spec.containers[0].volumeMounts[0].name: Not found: \"v\"",
    );
    check(
        &|spec| spec["containers"][0]["resources"] = json!({"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}),
        "spec.containers[0].resources.requests: Invalid value: \"2\": must be less than or equal to cpu limit of 1",
    );
    check(
        &|spec| spec["containers"][0]["ports"] = json!([{"containerPort": 70000}]),
        "spec.containers[0].ports[0].containerPort: Invalid value: 70000: must be between 1 and 65535, inclusive",
    );
    check(
        &|spec| spec["containers"][0]["livenessProbe"] = json!({"periodSeconds": 1}),
        "spec.containers[0].livenessProbe: Required value: must specify a handler type",
    );
    check(
        &|spec| spec["volumes"] = json!([{"name": "v", "emptyDir": {}, "hostPath": {"path": "/"}}]),
        "spec.volumes[0].hostPath: Forbidden: may not specify more than 1 volume type",
    );
    check(
        &|spec| {
            spec["tolerations"] =
                json!([{"key": "a", "operator": "Exists", "effect": "NoSchedule", "tolerationSeconds": 1}])
        },
        "spec.tolerations[0].effect: Invalid value: \"NoSchedule\": effect must be 'NoExecute' when `tolerationSeconds` is set",
    );
    check(
        &|spec| {
            spec["initContainers"] =
                json!([{"name": "i", "image": "a:1", "livenessProbe": {"exec": {"command": ["x"]}}}])
        },
        "spec.initContainers[0].livenessProbe: Forbidden: may not be set for init containers without restartPolicy=Always",
    );
}

#[test]
fn what_no_agent_acts_on_is_refused_at_creation() {
    let isolated = pod(|spec| spec["hostUsers"] = json!(false));
    assert_eq!(errors(&Pod, &isolated, None), "spec.hostUsers: Forbidden: not supported yet");
    assert_eq!(errors(&Pod, &isolated, Some(&isolated)), "[]", "one that is there already stays usable");
    let weaker = pod(|spec| spec["volumes"] = json!([{"name": "v", "emptyDir": {"sizeLimit": "1Gi"}}]));
    assert_eq!(Pod.warnings(&weaker, Some(&weaker)), [""; 0]);
    let expect = ["spec.volumes[0].emptyDir.sizeLimit: stored, but not acted upon yet"];
    assert_eq!(Pod.warnings(&weaker, None), expect);
    let mut debugged = isolated.clone();
    debugged["spec"]["ephemeralContainers"] = json!([{"name": "d", "image": "a:1", "imagePullPolicy": "Always",
        "terminationMessagePolicy": "File", "securityContext": {"seLinuxOptions": {"level": "s0"}}}]);
    let expect = "spec.ephemeralContainers[0].securityContext.seLinuxOptions: Forbidden: not supported yet";
    assert_eq!(errors_of(&Pod, &debugged, Some(&isolated), Some("ephemeralcontainers")), expect);
}

#[test]
fn only_a_few_fields_change_later() {
    let old = pod(|spec| spec["tolerations"] = json!([{"key": "a", "operator": "Exists"}]));
    let check = |change: &dyn Fn(&mut Value), expect: &str| {
        let mut new = old.clone();
        change(&mut new["spec"]);
        let text = errors(&Pod, &new, Some(&old));
        assert!(if expect.is_empty() { text == "[]" } else { text.contains(expect) }, "{text}");
    };
    check(&|spec| spec["containers"][0]["image"] = json!("nginx:2"), "");
    check(&|spec| spec["activeDeadlineSeconds"] = json!(5), "");
    check(
        &|spec| spec["tolerations"] = json!([{"key": "a", "operator": "Exists"}, {"key": "b", "operator": "Exists"}]),
        "",
    );
    check(&|spec| spec["tolerations"] = json!([]), "existing toleration can not be modified");
    check(
        &|spec| spec["nodeName"] = json!("n"),
        "pod updates may not change fields other than `spec.containers[*].image`",
    );
    check(&|spec| spec["containers"][0]["command"] = json!(["x"]), "changed: spec.containers");
    check(&|spec| spec["containers"] = json!([]), "pod updates may not add or remove containers");
}

#[test]
fn a_finished_container_does_not_run_again() {
    let status = |state: Value| json!({"containerStatuses": [{"name": "c", "state": state}]});
    let mut old = pod(|spec| spec["restartPolicy"] = json!("Never"));
    old["status"] = status(json!({"terminated": {"exitCode": 1}}));
    let mut new = old.clone();
    new["status"] = status(json!({"running": {}}));
    let expect = "status.containerStatuses[0].state: Forbidden: may not be transitioned to non-terminated state";
    assert_eq!(errors_of(&Pod, &new, Some(&old), Some("status")), expect);
    assert_eq!(errors_of(&Pod, &old, Some(&old), Some("status")), "[]");
}

#[test]
fn deletion_is_graceful_where_something_runs() {
    let rows = [
        (json!({"spec": {}, "status": {"phase": "Pending"}}), None, 0),
        (json!({"spec": {"nodeName": "n"}, "status": {"phase": "Succeeded"}}), None, 0),
        (json!({"spec": {"nodeName": "n", "terminationGracePeriodSeconds": 7}}), None, 7),
        (json!({"spec": {"nodeName": "n"}}), None, 30),
        (json!({"spec": {"nodeName": "n"}}), Some(0), 0),
        (json!({"spec": {"nodeName": "n"}}), Some(-1), 1),
    ];
    for (pod, requested, expect) in rows {
        assert_eq!(Pod.grace_period(&pod, requested), Some(expect), "{pod} {requested:?}");
    }
}

#[test]
fn the_status_column_sums_up() {
    let check = |object: Value, ready: &str, reason: &str, restarts: &str| {
        let cells = row(&Pod, &object);
        assert_eq!((&cells[1], &cells[2], &cells[3]), (&json!(ready), &json!(reason), &json!(restarts)), "{object}");
    };
    let of = |phase: &str, statuses: Value| json!({"metadata": {}, "spec": {"containers": [{"name": "c"}]}, "status": {"phase": phase, "containerStatuses": statuses}});
    check(of("Pending", json!([])), "0/1", "Pending", "0");
    check(of("Running", json!([{"name": "c", "ready": true, "state": {"running": {}}}])), "1/1", "Running", "0");
    let looping = json!([{"name": "c", "restartCount": 2, "state": {"waiting": {"reason": "CrashLoopBackOff"}},
        "lastState": {"terminated": {"finishedAt": "1970-01-01T00:00:05Z"}}}]);
    check(of("Running", looping), "0/1", "CrashLoopBackOff", "2 (10s ago)");
    let done = json!([{"name": "c", "state": {"terminated": {"reason": "Completed", "exitCode": 0}}}]);
    check(of("Succeeded", done), "0/1", "Completed", "0");
    let killed = json!([{"name": "c", "state": {"terminated": {"signal": 9, "exitCode": 137}}}]);
    check(of("Failed", killed), "0/1", "Signal:9", "0");
    let mut ending = of("Running", json!([{"name": "c", "ready": true, "state": {"running": {}}}]));
    ending["metadata"]["deletionTimestamp"] = json!("1970-01-01T00:00:15Z");
    check(ending, "1/1", "Terminating", "0");
    let mut starting = of("Pending", json!([]));
    starting["spec"]["initContainers"] = json!([{"name": "a"}, {"name": "b"}]);
    starting["status"]["initContainerStatuses"] = json!([{"name": "a", "state": {"terminated": {"exitCode": 0}}}, {"name": "b", "state": {"waiting": {"reason": "PodInitializing"}}}]);
    check(starting.clone(), "0/1", "Init:1/2", "0");
    starting["status"]["initContainerStatuses"][1]["state"] = json!({"terminated": {"exitCode": 3}});
    check(starting, "0/1", "Init:ExitCode:3", "0");
}
