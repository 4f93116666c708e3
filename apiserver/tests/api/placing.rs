//! The kinds with which pods are placed: groups, what machines lend to batch, and questions to the scheduler.

use crate::harness::{Api, MERGE, names};
use serde_json::{Value, json};

const OWN: &str = "/apis/gantry.dev/v1/namespaces/default";
const CAPACITIES: &str = "/apis/gantry.dev/v1/batchcapacities";

/// Gives a user one of the roles for people, in the namespace `default`.
async fn person(api: &Api, role: &str) -> Api {
    let subject = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": role});
    let binding = json!({"metadata": {"name": role}, "subjects": [subject],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role}});
    let path = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings";
    api.post(path, &binding).await.ok();
    // A list answers once this server has heard of the binding.
    api.get(path).await.ok();
    api.as_user(role, &["system:authenticated"])
}

#[tokio::test]
async fn a_tenant_makes_groups_and_the_scheduler_tells_how_they_stand() {
    let api = Api::new().await;
    let (edit, view) = (person(&api, "edit").await, person(&api, "view").await);
    let group = json!({"metadata": {"name": "g"}, "spec": {"minMember": 4}, "status": {"phase": "Scheduled"}});
    let made = edit.post(&format!("{OWN}/podgroups"), &group).await.ok();
    assert_eq!((&made["spec"]["scheduleTimeoutSeconds"], made.get("status")), (&json!(60), None));
    assert_eq!(view.post(&format!("{OWN}/podgroups"), &group).await.code, 403);
    assert_eq!(names(&view.get(&format!("{OWN}/podgroups")).await.ok()), ["g"]);
    let path = format!("{OWN}/podgroups/g");
    let stands = json!({"status": {"phase": "Scheduling", "scheduled": 1}});
    assert_eq!(edit.patch(MERGE, &format!("{path}/status"), &stands).await.code, 403);
    let scheduler = api.as_user("system:kube-scheduler", &[]);
    scheduler.patch(MERGE, &format!("{path}/status"), &stands).await.ok();
    assert_eq!(scheduler.patch(MERGE, &path, &json!({"spec": {"minMember": 1}})).await.code, 403);
    let table = view.get_as(&path, "application/json;as=Table;v=v1;g=meta.k8s.io").await.ok();
    assert_eq!(
        table["rows"][0]["cells"].as_array().unwrap()[..4],
        [json!("g"), json!(4), json!(1), json!("Scheduling")]
    );
    let refused = edit.post(&format!("{OWN}/podgroups"), &json!({"metadata": {"name": "h"}, "spec": {}})).await;
    assert_eq!(
        refused.failure(),
        "422 Invalid PodGroup.gantry.dev \"h\" is invalid: spec.minMember: Required value: how many pods start together"
    );
}

#[tokio::test]
async fn what_a_machine_lends_is_the_controllers_word() {
    let api = Api::new().await;
    let lends = |cpu: &str| json!({"metadata": {"name": "n"}, "spec": {"lendable": {"cpu": cpu}}});
    let controllers = api.as_user("system:kube-controller-manager", &[]);
    controllers.post(CAPACITIES, &lends("2")).await.ok();
    controllers.patch(MERGE, &format!("{CAPACITIES}/n"), &lends("3")).await.ok();
    let scheduler = api.as_user("system:kube-scheduler", &[]);
    assert_eq!(scheduler.get(&format!("{CAPACITIES}/n")).await.ok()["spec"]["lendable"], json!({"cpu": "3"}));
    let admin = person(&api, "admin").await;
    let agent = api.as_user("system:node:n", &["system:nodes"]);
    for other in [&scheduler, &admin, &agent] {
        assert_eq!(
            other.patch(MERGE, &format!("{CAPACITIES}/n"), &lends("9")).await.code,
            403,
            "{}",
            other.user.username
        );
    }
    assert_eq!(api.patch(MERGE, &format!("{CAPACITIES}/n"), &lends("-1")).await.code, 422);
}

#[tokio::test]
async fn whoever_sees_a_pod_may_ask_about_it_and_the_scheduler_answers() {
    let api = Api::new().await;
    let (edit, view) = (person(&api, "edit").await, person(&api, "view").await);
    let reviews = format!("{OWN}/placementreviews");
    let about = |name: &str, spec: Value| json!({"metadata": {"name": name}, "spec": spec});
    view.post(&reviews, &about("a", json!({"podName": "web-1"}))).await.ok();
    let template = json!({"spec": {"containers": [{"name": "c", "image": "i"}]}});
    let made = edit.post(&reviews, &about("b", json!({"template": template, "replicas": 200}))).await.ok();
    assert_eq!(made["spec"]["template"]["spec"]["schedulerName"], "default-scheduler");
    let unnamed = json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "typo": 1}]}}}});
    let strict = view.post(&format!("{reviews}?fieldValidation=Strict"), &unnamed).await;
    assert!(strict.failure().contains("unknown field \"spec.template.spec.containers[0].typo\""), "{}", strict.text);
    let path = format!("{reviews}/a");
    let mut watch = view.watch(&format!("{reviews}?watch=1&fieldSelector=metadata.name%3Da")).await;
    assert_eq!(watch.brief().await, "ADDED a");
    let scheduler = api.as_user("system:kube-scheduler", &[]);
    assert_eq!(names(&scheduler.get("/apis/gantry.dev/v1/placementreviews").await.ok()), ["a", "b"]);
    let status = json!({"status": {"phase": "Answered", "message": "0/3 machines", "answeredAt": "2026-01-02T03:04:05Z",
        "result": {"filters": [{"name": "NodeResourcesFit", "removed": 3}], "nearest": {"n1": {"lacks": {"cpu": "500m"}}}}}});
    let answered = scheduler.patch(MERGE, &format!("{path}/status"), &status).await.ok();
    assert_eq!(answered["status"], status["status"]);
    assert_eq!(watch.next().await.unwrap()["object"]["status"]["result"], status["status"]["result"]);
    let other = api.patch(MERGE, &path, &json!({"spec": {"podName": "web-2"}})).await;
    assert!(other.failure().contains("spec: Invalid value: \"\": field is immutable"), "{}", other.text);
    assert_eq!(view.patch(MERGE, &path, &json!({"metadata": {"labels": {"x": "y"}}})).await.code, 403);
    view.delete(&path, &Value::Null).await.ok();
    // It is kept with the Events.
    let kept =
        api.stores.events.range(gantry_store::RangeRequest::prefix("/registry/placementreviews.gantry.dev/default/"));
    assert_eq!(kept.await.unwrap().count, 1);
}
