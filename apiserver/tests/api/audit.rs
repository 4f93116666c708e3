//! The audit log: who did what, as a policy wants it written down.

use crate::harness::{Api, CONFIG_MAPS, MERGE};
use gantry_apiserver::{AuditConfig, LogConfig};
use http::Method;
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

struct Audited {
    api: Api,
    path: PathBuf,
    _folder: tempfile::TempDir,
}

impl Audited {
    async fn new(rules: Value) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.log");
        let policy = json!({"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"], "rules": rules});
        let log = LogConfig { path: path.clone(), ..LogConfig::default() };
        let api = Api::with(|config| config.audit = Some(AuditConfig { policy, log })).await;
        Self { api, path, _folder: folder }
    }

    /// What is written of the request with this id.
    async fn events(&self, id: &str) -> Vec<Value> {
        self.api.server.core().audit.as_ref().unwrap().flush().await;
        let text = std::fs::read_to_string(&self.path).unwrap();
        let all = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        all.filter(|event| event["auditID"] == id).collect()
    }

    async fn event(&self, id: &str) -> Value {
        let mut events = self.events(id).await;
        assert_eq!(events.len(), 1, "{events:?}");
        events.remove(0)
    }

    /// Sends JSON under an id of its own.
    async fn send(&self, api: &Api, id: &str, method: Method, path: &str, body: &Value) -> u16 {
        let kind = if method == Method::PATCH { MERGE } else { "application/json" };
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let reply =
            api.send(method, path, &[("audit-id", id), ("content-type", kind), ("user-agent", "test/1")], body).await;
        assert_eq!(reply.headers["audit-id"], id);
        reply.code
    }
}

#[tokio::test]
async fn a_policy_decides_how_much_is_written() {
    let audited = Audited::new(json!([
        {"level": "None", "users": ["quiet"]},
        {"level": "Metadata", "resources": [{"group": "", "resources": ["secrets"]}]},
        {"level": "Request", "verbs": ["patch"], "resources": [{"group": "", "resources": ["configmaps"]}]},
        {"level": "RequestResponse", "resources": [{"group": "", "resources": ["configmaps"]}], "omitManagedFields": true},
        {"level": "Metadata"},
    ]))
    .await;
    let api = &audited.api;
    assert_eq!(std::fs::metadata(&audited.path).unwrap().permissions().mode() & 0o777, 0o600);
    let secret = json!({"metadata": {"name": "s"}, "stringData": {"password": "hunter2"}});
    let secrets = "/api/v1/namespaces/default/secrets";
    assert_eq!(audited.send(api, "secret", Method::POST, secrets, &secret).await, 201);
    let event = audited.event("secret").await;
    assert_eq!(
        event["objectRef"],
        json!({"resource": "secrets", "namespace": "default", "name": "s", "apiVersion": "v1"})
    );
    assert_eq!(
        (&event["level"], &event["verb"], &event["stage"]),
        (&json!("Metadata"), &json!("create"), &json!("ResponseComplete"))
    );
    assert_eq!((&event["user"]["username"], &event["userAgent"]), (&json!("kubernetes-admin"), &json!("test/1")));
    assert_eq!(event["responseStatus"], json!({"metadata": {}, "code": 201}));
    assert_eq!(event["annotations"]["authorization.k8s.io/decision"], "allow");
    assert!(!std::fs::read_to_string(&audited.path).unwrap().contains("hunter2"), "no secret is in the log");

    let object = json!({"metadata": {"name": "c"}, "data": {"k": "v"}});
    assert_eq!(audited.send(api, "made", Method::POST, CONFIG_MAPS, &object).await, 201);
    let event = audited.event("made").await;
    assert_eq!(
        (&event["requestObject"]["data"], &event["responseObject"]["data"]),
        (&json!({"k": "v"}), &json!({"k": "v"}))
    );
    assert!(event["responseObject"]["metadata"].get("managedFields").is_none());
    let change = json!({"data": {"k": "w"}});
    assert_eq!(audited.send(api, "changed", Method::PATCH, &format!("{CONFIG_MAPS}/c"), &change).await, 200);
    let event = audited.event("changed").await;
    assert_eq!((&event["requestObject"], event.get("responseObject")), (&change, None));

    let jane = api.as_user("jane", &["dev"]);
    assert_eq!(audited.send(&jane, "refused", Method::GET, CONFIG_MAPS, &Value::Null).await, 403);
    let event = audited.event("refused").await;
    assert_eq!(event["annotations"]["authorization.k8s.io/decision"], "forbid");
    assert_eq!(
        (&event["responseStatus"]["code"], &event["responseStatus"]["reason"]),
        (&json!(403), &json!("Forbidden"))
    );
    assert_eq!(event["responseObject"]["kind"], "Status");
    let quiet = api.as_user("quiet", &["system:masters"]);
    assert_eq!(audited.send(&quiet, "quiet", Method::GET, secrets, &Value::Null).await, 200);
    assert_eq!(audited.events("quiet").await, [] as [Value; 0]);

    let headers = [("audit-id", "other"), ("impersonate-user", "bob")];
    assert_eq!(api.send(Method::GET, "/version", &headers, "").await.code, 200);
    let event = audited.event("other").await;
    assert_eq!((&event["impersonatedUser"]["username"], &event["requestURI"]), (&json!("bob"), &json!("/version")));
    assert!(api.get("/metrics").await.text.contains("\napiserver_audit_error_total 0"));
}

#[tokio::test]
async fn a_watch_is_complete_when_it_ends() {
    let audited = Audited::new(json!([{"level": "Metadata"}])).await;
    let request = http::Request::builder().uri(format!("{CONFIG_MAPS}?watch=1")).header("audit-id", "w");
    let response = audited.api.raw(request.body(http_body_util::Full::default()).unwrap()).await;
    let stages =
        async || -> Vec<Value> { audited.events("w").await.iter().map(|event| event["stage"].clone()).collect() };
    assert_eq!(stages().await, ["ResponseStarted"]);
    drop(response);
    assert_eq!(stages().await, ["ResponseStarted", "ResponseComplete"]);
}

#[tokio::test]
async fn admission_has_its_say() {
    let audited = Audited::new(json!([{"level": "Metadata"}])).await;
    let api = &audited.api;
    let group = "/apis/admissionregistration.k8s.io/v1";
    let policy = json!({"metadata": {"name": "p.example.org"}, "spec": {"failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}]},
        "validations": [{"expression": "!has(object.data.x)", "message": "no x"}],
        "auditAnnotations": [{"key": "size", "valueExpression": "string(object.data.size())"}]}});
    api.post(&format!("{group}/validatingadmissionpolicies"), &policy).await.ok();
    let binding =
        json!({"metadata": {"name": "b"}, "spec": {"policyName": "p.example.org", "validationActions": ["Audit"]}});
    api.post(&format!("{group}/validatingadmissionpolicybindings"), &binding).await.ok();
    api.get(&format!("{group}/validatingadmissionpolicybindings")).await.ok();
    let object = json!({"metadata": {"name": "c"}, "data": {"x": "1", "y": "2"}});
    assert_eq!(audited.send(api, "c", Method::POST, CONFIG_MAPS, &object).await, 201);
    let annotations = audited.event("c").await["annotations"].clone();
    assert_eq!(annotations["p.example.org/size"], "2");
    let failure: Value =
        serde_json::from_str(annotations["validation.policy.admission.k8s.io/validation_failure"].as_str().unwrap())
            .unwrap();
    assert_eq!(
        failure,
        json!([{"message": "no x", "policy": "p.example.org", "binding": "b", "validationActions": ["Audit"]}])
    );

    let labels = json!({"metadata": {"labels": {"pod-security.kubernetes.io/audit": "baseline"}}});
    api.patch(MERGE, "/api/v1/namespaces/default", &labels).await.ok();
    api.get("/api/v1/namespaces").await.ok();
    let pod = json!({"metadata": {"name": "p"}, "spec": {"hostNetwork": true, "containers": [{"name": "a", "image": "i"}], "automountServiceAccountToken": false}});
    api.post("/api/v1/namespaces/default/serviceaccounts", &json!({"metadata": {"name": "default"}})).await.ok();
    api.get("/api/v1/serviceaccounts").await.ok();
    assert_eq!(audited.send(api, "p", Method::POST, "/api/v1/namespaces/default/pods", &pod).await, 201);
    let annotations = audited.event("p").await["annotations"].clone();
    assert_eq!(annotations["pod-security.kubernetes.io/enforce-policy"], "privileged:latest");
    let violations = annotations["pod-security.kubernetes.io/audit-violations"].as_str().unwrap();
    assert!(violations.starts_with("would violate PodSecurity \"baseline:latest\": host namespaces"), "{violations}");
}

#[tokio::test]
async fn who_goes_away_is_told_of_nevertheless() {
    let audited = Audited::new(json!([{"level": "Metadata"}])).await;
    // It waits for a version that does not come.
    let path = format!("{CONFIG_MAPS}?resourceVersion=1000000");
    let mut asked = Box::pin(audited.send(&audited.api, "gone", Method::GET, &path, &Value::Null));
    assert!(futures::poll!(&mut asked).is_pending());
    drop(asked);
    let event = audited.event("gone").await;
    assert_eq!((&event["stage"], &event["responseStatus"]["code"]), (&json!("ResponseComplete"), &json!(499)));
}

#[tokio::test]
async fn what_waits_when_the_server_ends_is_written() {
    let audited = Audited::new(json!([{"level": "Metadata"}])).await;
    let pki = crate::wire::Pki::new();
    let served = ended(&pki, &audited.api, 2_000).await;
    assert!(served < std::time::Duration::from_secs(5));
    let lines = std::fs::read_to_string(&audited.path).unwrap();
    let asked = lines.lines().filter(|line| line.contains("\"requestURI\":\"/version\"")).count();
    assert_eq!(asked, 2_000);
}

/// How long a server takes to end after it was asked so many things.
async fn ended(pki: &crate::wire::Pki, api: &Api, asked: usize) -> std::time::Duration {
    let (_, stop, serving) = crate::wire::serving(pki, api, &pki.ca.pem()).await;
    for _ in 0..asked {
        api.get("/version").await.ok();
    }
    let begun = tokio::time::Instant::now();
    stop.cancel();
    serving.await.unwrap();
    begun.elapsed()
}

#[tokio::test]
async fn a_log_that_takes_nothing_keeps_no_server_from_ending() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
    // Somebody has it open and never reads.
    let _reader = std::fs::OpenOptions::new().read(true).write(true).open(&path).unwrap();
    let policy = json!({"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": [{"level": "Metadata"}]});
    let log = LogConfig { path, ..LogConfig::default() };
    let api = Api::with(|config| config.audit = Some(AuditConfig { policy, log })).await;
    let took = tokio::time::timeout(crate::harness::PATIENCE, ended(&crate::wire::Pki::new(), &api, 500)).await;
    assert!(took.expect("it ends").as_secs() >= 5, "it waited for the log first");
}
