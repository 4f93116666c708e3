//! The kinds that Kubernetes has, through the whole pipeline: made, told what acts on them, printed, changed, scaled and deleted.

use crate::harness::{Api, MERGE, STRATEGIC};
use gantry_apimachinery::protobuf;
use gantry_apimachinery::schema::Schema;
use http::Method;
use serde_json::{Value, json};

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// One small object of each kind: its collection's path and itself.
fn samples() -> Vec<(&'static str, Value)> {
    [workloads(), storage(), traffic(), devices(), admission()].concat()
}

fn containers() -> Value {
    json!([{"name": "c", "image": "i:1"}])
}

fn workloads() -> Vec<(&'static str, Value)> {
    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": containers()}});
    let task = json!({"spec": {"template": {"spec": {"restartPolicy": "Never", "containers": containers()}}}});
    vec![
        (
            "/apis/apps/v1/namespaces/default/statefulsets",
            json!({"spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template}}),
        ),
        ("/api/v1/namespaces/default/replicationcontrollers", json!({"spec": {"template": template}})),
        ("/api/v1/namespaces/default/podtemplates", json!({"template": template})),
        ("/api/v1/namespaces/default/resourcequotas", json!({"spec": {"hard": {"pods": "5"}}})),
        ("/api/v1/namespaces/default/limitranges", json!({"spec": {"limits": [{"type": "Pod"}]}})),
        ("/apis/batch/v1/namespaces/default/cronjobs", json!({"spec": {"schedule": "@daily", "jobTemplate": task}})),
        (
            "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers",
            json!({"spec": {"maxReplicas": 3, "scaleTargetRef": {"kind": "Deployment", "name": "web"}}}),
        ),
        (
            "/apis/policy/v1/namespaces/default/poddisruptionbudgets",
            json!({"spec": {"minAvailable": 1, "selector": {}}}),
        ),
    ]
}

fn storage() -> Vec<(&'static str, Value)> {
    let modes = json!(["ReadWriteOnce"]);
    let size = json!({"storage": "1Gi"});
    vec![
        (
            "/api/v1/namespaces/default/persistentvolumeclaims",
            json!({"spec": {"accessModes": modes, "resources": {"requests": size}}}),
        ),
        (
            "/api/v1/persistentvolumes",
            json!({"spec": {"accessModes": modes, "capacity": size, "hostPath": {"path": "/d"}}}),
        ),
        ("/apis/storage.k8s.io/v1/storageclasses", json!({"provisioner": "d.example.com"})),
        (
            "/apis/storage.k8s.io/v1/volumeattachments",
            json!({"spec": {"attacher": "d", "nodeName": "n", "source": {"persistentVolumeName": "v"}}}),
        ),
        ("/apis/storage.k8s.io/v1/csidrivers", json!({"spec": {}})),
        ("/apis/storage.k8s.io/v1/csinodes", json!({"spec": {"drivers": []}})),
        (
            "/apis/storage.k8s.io/v1/namespaces/default/csistoragecapacities",
            json!({"storageClassName": "s", "capacity": "1Gi"}),
        ),
        ("/apis/storage.k8s.io/v1/volumeattributesclasses", json!({"driverName": "d", "parameters": {"k": "v"}})),
        ("/apis/node.k8s.io/v1/runtimeclasses", json!({"handler": "runsc"})),
    ]
}

fn traffic() -> Vec<(&'static str, Value)> {
    let backend = json!({"service": {"name": "web", "port": {"number": 80}}});
    vec![
        ("/apis/networking.k8s.io/v1/namespaces/default/ingresses", json!({"spec": {"defaultBackend": backend}})),
        ("/apis/networking.k8s.io/v1/ingressclasses", json!({"spec": {"controller": "example.com/lb"}})),
        ("/apis/networking.k8s.io/v1/namespaces/default/networkpolicies", json!({"spec": {"podSelector": {}}})),
        ("/apis/networking.k8s.io/v1/servicecidrs", json!({"spec": {"cidrs": ["10.97.0.0/16"]}})),
    ]
}

fn devices() -> Vec<(&'static str, Value)> {
    let claim = json!({"devices": {"requests": [{"name": "d", "exactly": {"deviceClassName": "c"}}]}});
    let pool = json!({"name": "p", "generation": 1, "resourceSliceCount": 1});
    vec![
        ("/apis/resource.k8s.io/v1/deviceclasses", json!({"spec": {}})),
        ("/apis/resource.k8s.io/v1/namespaces/default/resourceclaims", json!({"spec": claim})),
        ("/apis/resource.k8s.io/v1/namespaces/default/resourceclaimtemplates", json!({"spec": {"spec": claim}})),
        ("/apis/resource.k8s.io/v1/resourceslices", json!({"spec": {"driver": "d", "allNodes": true, "pool": pool}})),
    ]
}

fn admission() -> Vec<(&'static str, Value)> {
    let rule = json!({"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]});
    let hook = json!({"name": "h.example.com", "admissionReviewVersions": ["v1"], "sideEffects": "None",
        "rules": [rule], "clientConfig": {"url": "https://h"}});
    vec![
        ("/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations", json!({"webhooks": [hook]})),
        ("/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations", json!({"webhooks": [hook]})),
        (
            "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
            json!({"spec": {"matchConstraints": {"resourceRules": [rule]}, "validations": [{"expression": "true"}]}}),
        ),
        (
            "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings",
            json!({"spec": {"policyName": "p", "validationActions": ["Deny"]}}),
        ),
    ]
}

#[tokio::test]
async fn every_kind_is_made_printed_and_deleted() {
    let api = Api::new().await;
    for (path, mut object) in samples() {
        object["metadata"] = json!({"name": "x", "labels": {"l": "1"}});
        object["status"] = json!({"observedGeneration": 7});
        let reply = api.post(path, &object).await;
        let told = reply.warnings().iter().any(|text| text.contains("stored, but not acted upon yet"));
        let acted_upon = path.ends_with("podtemplates")
            || path.contains("admissionregistration")
            || path.ends_with("limitranges")
            || path.ends_with("poddisruptionbudgets")
            || path.ends_with("runtimeclasses")
            || path.ends_with("resourcequotas");
        assert_eq!(told, !acted_upon, "{path}: {:?}", reply.warnings());
        let made = reply.ok();
        assert_ne!(made["status"]["observedGeneration"], 7, "{path}: a status is not for creators");
        let one = format!("{path}/x");
        let read = api.get(&one).await.ok();
        assert_eq!(read, made, "{path}");
        assert_eq!(api.put(&one, &read).await.ok(), made, "{path}: writing what is there changes nothing");
        let table = api.get_as(path, TABLE).await.ok();
        let cells = table["rows"][0]["cells"].as_array().map(Vec::len);
        assert_eq!(cells, table["columnDefinitions"].as_array().map(Vec::len), "{path}");
        let labelled = api.patch(MERGE, &one, &json!({"metadata": {"labels": {"l": "2"}}})).await.ok();
        assert_eq!(labelled["metadata"]["generation"], made["metadata"]["generation"], "{path}");
        assert_eq!(api.delete(&one, &Value::Null).await.code, 200, "{path}");
        if path.contains("/persistentvolume") {
            let held = api.get(&one).await.ok()["metadata"]["finalizers"].clone();
            assert!(held[0].as_str().unwrap().ends_with("-protection"), "{path}: {held}");
            api.patch(MERGE, &one, &json!({"metadata": {"finalizers": null}})).await.ok();
        }
        assert_eq!(api.get(&one).await.code, 404, "{path}");
    }
}

#[tokio::test]
async fn some_are_replaced_only_by_who_knows_the_version() {
    let api = Api::new().await;
    let path = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
    let budget = json!({"metadata": {"name": "x"}, "spec": {"minAvailable": 1, "selector": {}}});
    assert_eq!(api.put(&format!("{path}/x"), &budget).await.code, 404);
    api.post(path, &budget).await.ok();
    let refused = api.put(&format!("{path}/x"), &budget).await.failure();
    let expect = "422 Invalid poddisruptionbudgets.policy \"x\" is invalid: metadata.resourceVersion: Invalid value: 0: \
         must be specified for an update";
    assert_eq!(refused, expect);
}

#[tokio::test]
async fn generations_count_changes_of_the_wish() {
    let api = Api::new().await;
    let (path, mut set) = samples().swap_remove(0);
    set["metadata"] = json!({"name": "x"});
    let made = api.post(path, &set).await.ok();
    assert_eq!((&made["metadata"]["generation"], &made["status"]["replicas"]), (&json!(1), &json!(0)));
    let one = format!("{path}/x");
    let scaled = api.patch(MERGE, &format!("{one}/scale"), &json!({"spec": {"replicas": 4}})).await.ok();
    assert_eq!((&scaled["kind"], &scaled["status"]["selector"]), (&json!("Scale"), &json!("a=b")));
    let status = json!({"status": {"replicas": 4, "observedGeneration": 2}, "spec": {"replicas": 9}});
    let now = api.patch(MERGE, &format!("{one}/status"), &status).await.ok();
    let expect = (&json!(2), &json!(4), &json!(4));
    assert_eq!((&now["metadata"]["generation"], &now["spec"]["replicas"], &now["status"]["replicas"]), expect);
    let refused = api.patch(MERGE, &one, &json!({"spec": {"podManagementPolicy": "Parallel"}})).await.failure();
    assert!(
        refused.starts_with(
            "422 Invalid StatefulSet.apps \"x\" is invalid: spec: Forbidden: updates to statefulset spec for fields other than"
        ),
        "{refused}"
    );
}

#[tokio::test]
async fn an_address_is_named_in_one_way() {
    let api = Api::new().await;
    let path = "/apis/networking.k8s.io/v1/ipaddresses";
    let of = |name: &str| json!({"metadata": {"name": name}, "spec": {"parentRef": {"resource": "services", "namespace": "ns", "name": "s"}}});
    assert_eq!(api.post(path, &of("2001:db8::1")).await.ok()["metadata"]["name"], "2001:db8::1");
    assert_eq!(api.get(&format!("{path}/2001:db8::1")).await.code, 200);
    let refused = api.post(path, &of("2001:DB8::2")).await.failure();
    assert!(refused.contains("metadata.name: Invalid value: \"2001:DB8::2\": must be in canonical form"), "{refused}");
}

#[tokio::test]
async fn a_new_kind_comes_in_protobuf() {
    let api = Api::new().await;
    let (path, mut cron) = samples().into_iter().find(|(path, _)| path.ends_with("cronjobs")).unwrap();
    cron["metadata"] = json!({"name": "x"});
    cron["kind"] = json!("CronJob");
    cron["apiVersion"] = json!("batch/v1");
    cron["spec"]["timeZone"] = json!("Europe/Berlin");
    let body = protobuf::encode(&cron, Schema::builtin().kind("batch", "v1", "CronJob").unwrap());
    let made = api.send(Method::POST, path, &[("content-type", PROTOBUF)], body).await.ok();
    assert_eq!((&made["spec"]["schedule"], &made["spec"]["timeZone"]), (&json!("@daily"), &json!("Europe/Berlin")));
    assert_eq!(made["spec"]["jobTemplate"]["spec"]["template"]["spec"]["restartPolicy"], "Never");
}

#[tokio::test]
async fn a_pod_is_debugged_and_resized_through_its_own_doors() {
    let api = Api::new().await;
    let pods = "/api/v1/namespaces/default/pods";
    let account = json!({"metadata": {"name": "default"}});
    api.post("/api/v1/namespaces/default/serviceaccounts", &account).await.ok();
    // A consistent list waits for the cache, which admission reads.
    api.get("/api/v1/serviceaccounts").await.ok();
    let container = json!({"name": "c", "image": "i:1", "resources": {"requests": {"cpu": "100m"}}});
    api.post(pods, &json!({"metadata": {"name": "x"}, "spec": {"containers": [container]}})).await.ok();
    let debugger =
        json!({"spec": {"ephemeralContainers": [{"name": "d", "image": "busybox", "targetContainerName": "c"}]}});
    let refused = api.patch(STRATEGIC, &format!("{pods}/x"), &debugger).await.failure();
    assert!(
        refused.starts_with("422 Invalid Pod \"x\" is invalid: spec: Forbidden: pod updates may not change"),
        "{refused}"
    );
    let door = format!("{pods}/x/ephemeralcontainers");
    let debugged = api.patch(STRATEGIC, &door, &debugger).await.ok();
    assert_eq!((&debugged["kind"], &debugged["spec"]["ephemeralContainers"][0]["name"]), (&json!("Pod"), &json!("d")));
    assert_eq!(api.get(&door).await.ok(), debugged);
    let wish = json!({"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "200m"}}}]}});
    let resized = api.patch(STRATEGIC, &format!("{pods}/x/resize"), &wish).await.ok();
    assert_eq!(resized["spec"]["containers"][0]["resources"]["requests"]["cpu"], "200m");
    assert_eq!(resized["metadata"]["generation"], 3);
    let core = api.get("/api/v1").await.ok();
    let served =
        |name: &str| core["resources"].as_array().unwrap().iter().find(|r| r["name"] == name).unwrap()["verbs"].clone();
    for name in ["pods/resize", "pods/ephemeralcontainers"] {
        assert_eq!(served(name), json!(["get", "patch", "update"]));
    }
}
