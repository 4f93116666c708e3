//! Webhooks: admission and conversion, asked over HTTPS.

use crate::harness::{Api, CONFIG_MAPS, MERGE};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

/// A webhook of this process.
struct Hook {
    url: String,
    ca: String,
    asked: Arc<AtomicUsize>,
}

impl Hook {
    /// Answers every question by `answer`.
    async fn start(answer: impl Fn(Value) -> Value + Clone + Send + Sync + 'static) -> Self {
        let key = rcgen::KeyPair::generate().unwrap();
        let certificate =
            rcgen::CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap().self_signed(&key).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let key = rustls_pki_types::PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key)
            .unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("https://{}/ask", listener.local_addr().unwrap());
        let asked = Arc::new(AtomicUsize::new(0));
        let count = asked.clone();
        tokio::spawn(async move {
            while let Ok((tcp, _)) = listener.accept().await {
                let (acceptor, answer, count) = (acceptor.clone(), answer.clone(), count.clone());
                tokio::spawn(async move {
                    let Ok(tls) = acceptor.accept(tcp).await else { return };
                    let serve = hyper::service::service_fn(move |request: http::Request<hyper::body::Incoming>| {
                        let (answer, count) = (answer.clone(), count.clone());
                        async move {
                            let body = request.into_body().collect().await?.to_bytes();
                            count.fetch_add(1, Ordering::SeqCst);
                            let reply = answer(serde_json::from_slice(&body).unwrap());
                            Ok::<_, hyper::Error>(http::Response::new(Full::new(Bytes::from(reply.to_string()))))
                        }
                    });
                    let _ = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(tls), serve).await;
                });
            }
        });
        Self { url, ca: STANDARD.encode(certificate.pem()), asked }
    }

    fn client_config(&self) -> Value {
        json!({"url": self.url, "caBundle": self.ca})
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

fn configuration(kind: &str, hook: &Hook, more: Value) -> Value {
    let mut one = json!({"name": "hook.example.com", "clientConfig": hook.client_config(), "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "rules": [{"operations": ["CREATE", "UPDATE", "DELETE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}]});
    for (key, value) in more.as_object().unwrap() {
        one[key] = value.clone();
    }
    json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": "hooks"}, "webhooks": [one]})
}

const MUTATING: &str = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations";
const VALIDATING: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";

fn allowed(question: &Value) -> Value {
    json!({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1",
        "response": {"uid": question["request"]["uid"], "allowed": true}})
}

fn config_map(name: &str) -> Value {
    json!({"metadata": {"name": name}, "data": {"k": "v"}})
}

#[tokio::test]
async fn a_mutating_webhook_changes_what_is_stored() {
    let api = Api::new().await;
    let hook = Hook::start(|question| {
        let mut answer = allowed(&question);
        assert_eq!(question["request"]["userInfo"]["username"], "kubernetes-admin");
        if question["request"]["operation"] == "CREATE" {
            let patch = json!([{"op": "add", "path": "/data/hook", "value": "was here"}]);
            answer["response"]["patchType"] = "JSONPatch".into();
            answer["response"]["patch"] = STANDARD.encode(patch.to_string()).into();
            answer["response"]["warnings"] = json!(["mind the gap"]);
        }
        answer
    })
    .await;
    api.post(MUTATING, &configuration("MutatingWebhookConfiguration", &hook, json!({}))).await.ok();
    // The configuration counts once it is in this server's cache.
    api.get(&format!("{MUTATING}?limit=1")).await.ok();
    let made = api.post(CONFIG_MAPS, &config_map("a")).await;
    assert_eq!(made.warnings(), ["299 - \"mind the gap\""]);
    assert_eq!(made.ok()["data"], json!({"k": "v", "hook": "was here"}));
    assert_eq!(api.get(&format!("{CONFIG_MAPS}/a")).await.ok()["data"]["hook"], "was here");
    assert_eq!(hook.asked(), 1);
    api.post("/api/v1/namespaces/default/secrets", &json!({"metadata": {"name": "s"}})).await.ok();
    assert_eq!(hook.asked(), 1, "secrets are none of its business");
}

#[tokio::test]
async fn a_validating_webhook_refuses_in_its_words() {
    let api = Api::new().await;
    let hook = Hook::start(|question| {
        let mut answer = allowed(&question);
        let object = if question["request"]["operation"] == "DELETE" { "oldObject" } else { "object" };
        if question["request"][object]["data"]["k"] == "bad" {
            answer["response"]["allowed"] = false.into();
            answer["response"]["status"] = json!({"message": "k must not be bad", "code": 403, "reason": "Forbidden"});
        }
        answer
    })
    .await;
    api.post(CONFIG_MAPS, &json!({"metadata": {"name": "old"}, "data": {"k": "bad"}})).await.ok();
    api.post(VALIDATING, &configuration("ValidatingWebhookConfiguration", &hook, json!({}))).await.ok();
    api.get(&format!("{VALIDATING}?limit=1")).await.ok();
    api.post(CONFIG_MAPS, &config_map("a")).await.ok();
    let expect = "403 Forbidden admission webhook \"hook.example.com\" denied the request: k must not be bad";
    let path = format!("{CONFIG_MAPS}/a");
    assert_eq!(api.patch(MERGE, &path, &json!({"data": {"k": "bad"}})).await.failure(), expect);
    assert_eq!(api.get(&path).await.ok()["data"]["k"], "v");
    assert_eq!(api.delete(&format!("{CONFIG_MAPS}/old"), &Value::Null).await.failure(), expect);
    let dry =
        api.post(&format!("{CONFIG_MAPS}?dryRun=All"), &json!({"metadata": {"name": "b"}, "data": {"k": "bad"}})).await;
    assert_eq!(dry.failure(), expect);
}

#[tokio::test]
async fn a_webhook_that_is_not_there_fails_the_request_or_is_missed() {
    let api = Api::new().await;
    let hook = Hook::start(|_| json!({"garbage": true})).await;
    let path = format!("{VALIDATING}/hooks");
    api.post(VALIDATING, &configuration("ValidatingWebhookConfiguration", &hook, json!({}))).await.ok();
    api.get(&format!("{VALIDATING}?limit=1")).await.ok();
    let refused = api.post(CONFIG_MAPS, &config_map("a")).await.failure();
    assert!(refused.starts_with("500 InternalError"), "{refused}");
    assert!(refused.contains("failed calling webhook \"hook.example.com\""), "{refused}");
    let ignore = configuration("ValidatingWebhookConfiguration", &hook, json!({"failurePolicy": "Ignore"}));
    api.patch(MERGE, &path, &ignore).await.ok();
    api.get(&format!("{VALIDATING}?limit=1")).await.ok();
    api.post(CONFIG_MAPS, &config_map("a")).await.ok();
    // Another authority vouches for it: it is not believed.
    let other = Hook::start(|question| allowed(&question)).await;
    let mut forged = configuration("ValidatingWebhookConfiguration", &hook, json!({"failurePolicy": "Fail"}));
    forged["webhooks"][0]["clientConfig"]["caBundle"] = other.ca.as_str().into();
    api.patch(MERGE, &path, &forged).await.ok();
    api.get(&format!("{VALIDATING}?limit=1")).await.ok();
    assert_eq!(api.post(CONFIG_MAPS, &config_map("b")).await.code, 500);
    // What configures webhooks is never asked about: it can be mended.
    api.delete(&path, &Value::Null).await.ok();
}

#[tokio::test]
async fn selectors_choose_objects_and_namespaces() {
    let api = Api::new().await;
    let hook = Hook::start(|question| allowed(&question)).await;
    let chosen = json!({"objectSelector": {"matchLabels": {"checked": "yes"}},
        "namespaceSelector": {"matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["kube-system"]}]}});
    api.post(VALIDATING, &configuration("ValidatingWebhookConfiguration", &hook, chosen)).await.ok();
    api.get(&format!("{VALIDATING}?limit=1")).await.ok();
    let labelled = |name: &str| json!({"metadata": {"name": name, "labels": {"checked": "yes"}}});
    api.post(CONFIG_MAPS, &config_map("a")).await.ok();
    api.post("/api/v1/namespaces/kube-system/configmaps", &labelled("b")).await.ok();
    assert_eq!(hook.asked(), 0);
    api.post(CONFIG_MAPS, &labelled("c")).await.ok();
    assert_eq!(hook.asked(), 1);
}

#[tokio::test]
async fn objects_are_converted_by_a_webhook() {
    let api = Api::new().await;
    let hook = Hook::start(|question| {
        let request = &question["request"];
        let objects: Vec<Value> = request["objects"]
            .as_array()
            .unwrap()
            .iter()
            .map(|object| {
                let mut object = object.clone();
                object["apiVersion"] = request["desiredAPIVersion"].clone();
                // v1 counts pieces, v2 pairs.
                let spec = object["spec"].as_object_mut().unwrap();
                if request["desiredAPIVersion"] == "example.com/v2" {
                    let pieces = spec.remove("pieces").unwrap().as_i64().unwrap();
                    spec.insert("pairs".into(), (pieces / 2).into());
                } else {
                    let pairs = spec.remove("pairs").unwrap().as_i64().unwrap();
                    spec.insert("pieces".into(), (pairs * 2).into());
                }
                object
            })
            .collect();
        json!({"kind": "ConversionReview", "apiVersion": "apiextensions.k8s.io/v1",
            "response": {"uid": request["uid"], "result": {"status": "Success"}, "convertedObjects": objects}})
    })
    .await;
    let version = |name: &str, field: &str, storage: bool| {
        json!({"name": name, "served": true, "storage": storage, "schema": {"openAPIV3Schema": {"type": "object",
            "properties": {"spec": {"type": "object", "properties": {field: {"type": "integer"}}}}}}})
    };
    let definition = json!({"metadata": {"name": "shoes.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": {"plural": "shoes", "kind": "Shoe"},
            "conversion": {"strategy": "Webhook", "webhook": {"clientConfig": hook.client_config(), "conversionReviewVersions": ["v1"]}},
            "versions": [version("v1", "pieces", true), version("v2", "pairs", false)]}});
    api.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &definition).await.ok();
    let (first, second) =
        ("/apis/example.com/v1/namespaces/default/shoes", "/apis/example.com/v2/namespaces/default/shoes");
    api.post(
        first,
        &json!({"apiVersion": "example.com/v1", "kind": "Shoe", "metadata": {"name": "a"}, "spec": {"pieces": 8}}),
    )
    .await
    .ok();
    assert_eq!(api.get(&format!("{second}/a")).await.ok()["spec"], json!({"pairs": 4}));
    let patched = api.patch(MERGE, &format!("{second}/a"), &json!({"spec": {"pairs": 5}})).await.ok();
    assert_eq!((&patched["apiVersion"], &patched["spec"]), (&json!("example.com/v2"), &json!({"pairs": 5})));
    assert_eq!(api.get(&format!("{first}/a")).await.ok()["spec"], json!({"pieces": 10}));
    let list = api.get(&format!("{second}?resourceVersion=0")).await.ok();
    assert_eq!(list["items"][0]["spec"], json!({"pairs": 5}));
    let mut watch = api.watch(&format!("{second}?watch=1&resourceVersion=0")).await;
    assert_eq!(watch.next().await.unwrap()["object"]["spec"], json!({"pairs": 5}));
}

#[tokio::test]
async fn match_conditions_and_policies_are_expressions() {
    let api = Api::new().await;
    let hook = Hook::start(|question| allowed(&question)).await;
    let condition =
        json!({"matchConditions": [{"name": "big", "expression": "has(object.data.k) && object.data.k.size() > 3"}]});
    api.post(VALIDATING, &configuration("ValidatingWebhookConfiguration", &hook, condition)).await.ok();
    api.get(&format!("{VALIDATING}?limit=1")).await.ok();
    api.post(CONFIG_MAPS, &config_map("small")).await.ok();
    assert_eq!(hook.asked(), 0);
    api.post(CONFIG_MAPS, &json!({"metadata": {"name": "big"}, "data": {"k": "long enough"}})).await.ok();
    assert_eq!(hook.asked(), 1);

    let group = "/apis/admissionregistration.k8s.io/v1";
    let policy = json!({"metadata": {"name": "no-x"}, "spec": {"failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": ["configmaps"]}]},
        "validations": [{"expression": "!has(object.data.x)", "message": "x is not for us"}]}});
    api.post(&format!("{group}/validatingadmissionpolicies"), &policy).await.ok();
    let binding =
        json!({"metadata": {"name": "everywhere"}, "spec": {"policyName": "no-x", "validationActions": ["Deny"]}});
    api.post(&format!("{group}/validatingadmissionpolicybindings"), &binding).await.ok();
    api.get(&format!("{group}/validatingadmissionpolicybindings?limit=1")).await.ok();
    let refused = api.post(CONFIG_MAPS, &json!({"metadata": {"name": "c"}, "data": {"x": "1"}})).await;
    assert_eq!(
        refused.failure(),
        "422 Invalid configmaps \"c\" is forbidden: ValidatingAdmissionPolicy 'no-x' with binding 'everywhere' denied request: x is not for us"
    );
    api.post(CONFIG_MAPS, &json!({"metadata": {"name": "c"}, "data": {"y": "1"}})).await.ok();
}

#[tokio::test]
async fn what_a_webhook_adds_to_a_role_is_granted_too() {
    const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
    let api = Api::new().await;
    let hook = Hook::start(|question| {
        let mut answer = allowed(&question);
        let rule = json!({"verbs": ["get"], "apiGroups": [""], "resources": ["secrets"]});
        answer["response"]["patchType"] = "JSONPatch".into();
        let patch = json!([{"op": "add", "path": "/rules/-", "value": rule}]);
        answer["response"]["patch"] = STANDARD.encode(patch.to_string()).into();
        answer
    })
    .await;
    let pods = json!({"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]});
    let roles = json!({"verbs": ["create"], "apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles"]});
    let role = json!({"metadata": {"name": "maker"}, "rules": [pods, roles]});
    api.post(&format!("{RBAC}/clusterroles"), &role).await.ok();
    let binding = json!({"metadata": {"name": "maker"}, "roleRef": {"kind": "ClusterRole", "name": "maker"},
        "subjects": [{"kind": "User", "name": "joe"}]});
    api.post(&format!("{RBAC}/clusterrolebindings"), &binding).await.ok();
    api.get(&format!("{RBAC}/clusterrolebindings")).await.ok();
    let joe = api.as_user("joe", &[]);
    let path = format!("{RBAC}/namespaces/default/roles");
    joe.post(&path, &json!({"metadata": {"name": "a"}, "rules": [pods]})).await.ok();
    let rules = json!([{"operations": ["CREATE"], "apiGroups": ["rbac.authorization.k8s.io"], "apiVersions": ["v1"], "resources": ["roles"]}]);
    api.post(MUTATING, &configuration("MutatingWebhookConfiguration", &hook, json!({"rules": rules}))).await.ok();
    api.get(&format!("{MUTATING}?limit=1")).await.ok();
    let refused = joe.post(&path, &json!({"metadata": {"name": "b"}, "rules": [pods]})).await.failure();
    assert!(refused.contains("{APIGroups:[\"\"], Resources:[\"secrets\"], Verbs:[\"get\"]}"), "{refused}");
    assert_eq!(hook.asked(), 1);
}
