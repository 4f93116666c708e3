//! Requests for certificates: in whose name they are, and who may approve and sign them.

use crate::harness::{Api, MERGE};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

const CSRS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";

fn csr(name: &str, signer: &str, organization: &str) -> Value {
    let mut params = rcgen::CertificateParams::default();
    params.distinguished_name.push(rcgen::DnType::OrganizationName, organization);
    let pem = params.serialize_request(&rcgen::KeyPair::generate().unwrap()).unwrap().pem().unwrap();
    let spec =
        json!({"request": STANDARD.encode(pem), "signerName": signer, "usages": ["client auth"], "username": "root"});
    json!({"metadata": {"name": name}, "spec": spec})
}

/// Lets a user do these things with requests and signers.
async fn allow(api: &Api, user: &str, rules: Value) {
    let role = json!({"metadata": {"name": user}, "rules": rules});
    api.post(&format!("{RBAC}/clusterroles"), &role).await.ok();
    let binding = json!({
        "metadata": {"name": user}, "roleRef": {"kind": "ClusterRole", "name": user}, "subjects": [{"kind": "User", "name": user}],
    });
    api.post(&format!("{RBAC}/clusterrolebindings"), &binding).await.ok();
    api.get(&format!("{RBAC}/clusterrolebindings")).await.ok();
}

fn on(resource: &str, verbs: &[&str], names: &[&str]) -> Value {
    json!({"verbs": verbs, "apiGroups": ["certificates.k8s.io"], "resources": [resource], "resourceNames": names})
}

fn condition(kind: &str) -> Value {
    json!({"status": {"conditions": [{"type": kind, "status": "True", "reason": "Test"}]}})
}

#[tokio::test]
async fn a_request_is_asked_approved_and_signed_by_those_who_may() {
    let api = Api::new().await;
    allow(&api, "asker", json!([on("certificatesigningrequests", &["create"], &[])])).await;
    let doors = json!(["certificatesigningrequests/approval", "certificatesigningrequests/status"]);
    let both = json!({"verbs": ["patch", "update"], "apiGroups": ["certificates.k8s.io"], "resources": doors});
    allow(&api, "approver", json!([both.clone(), on("signers", &["approve"], &["example.com/*"])])).await;
    allow(&api, "signer", json!([both.clone(), on("signers", &["sign"], &["example.com/one"])])).await;
    allow(&api, "nobody", json!([both])).await;
    let as_user = |name: &str| api.as_user(name, &[]);
    let made = as_user("asker").post(CSRS, &csr("a", "example.com/one", "dev")).await.ok();
    assert_eq!(made["spec"]["username"], "asker");
    assert_eq!(made["spec"]["groups"], json!(["system:authenticated"]));
    let (approval, status) = (format!("{CSRS}/a/approval"), format!("{CSRS}/a/status"));
    assert_eq!(
        as_user("nobody").patch(MERGE, &approval, &condition("Approved")).await.failure(),
        "403 Forbidden certificatesigningrequests.certificates.k8s.io \"a\" is forbidden: user not permitted to approve requests with signerName \"example.com/one\""
    );
    assert_eq!(as_user("signer").patch(MERGE, &approval, &condition("Approved")).await.code, 403);
    // Approved through its own door only.
    assert_eq!(api.patch(MERGE, &status, &condition("Approved")).await.code, 422);
    let approved = as_user("approver").patch(MERGE, &approval, &condition("Approved")).await.ok();
    assert_eq!(approved["status"]["conditions"][0]["type"], "Approved");
    assert!(approved["status"]["conditions"][0]["lastTransitionTime"].is_string());
    assert_eq!(api.get(&approval).await.ok()["status"], approved["status"]);
    let key = rcgen::KeyPair::generate().unwrap();
    let pem = rcgen::CertificateParams::default().self_signed(&key).unwrap().pem();
    let signed = json!({"status": {"certificate": STANDARD.encode(pem)}});
    let refused = as_user("approver").patch(MERGE, &status, &signed).await.failure();
    assert!(refused.ends_with("user not permitted to sign requests with signerName \"example.com/one\""), "{refused}");
    let issued = as_user("signer").patch(MERGE, &status, &signed).await.ok();
    assert_eq!((&issued["status"]["certificate"], &issued["spec"]), (&signed["status"]["certificate"], &made["spec"]));
    // What was asked for stays, whatever a write says.
    let other = json!({"spec": {"username": "root", "signerName": "example.com/two"}});
    assert_eq!(api.patch(MERGE, &format!("{CSRS}/a"), &other).await.ok()["spec"], made["spec"]);
    let list = api.get(&format!("{CSRS}?fieldSelector=spec.signerName%3Dexample.com/one")).await.ok();
    assert_eq!(crate::harness::names(&list), ["a"]);
}

#[tokio::test]
async fn nobody_asks_for_the_masters_group_of_the_client_signer() {
    let api = Api::new().await;
    let client = "kubernetes.io/kube-apiserver-client";
    let refused = api.post(CSRS, &csr("a", client, "system:masters")).await.failure();
    assert!(
        refused.ends_with(&format!("use of {client} signer with system:masters group is not allowed")),
        "{refused}"
    );
    let made = api.post(CSRS, &csr("a", client, "dev")).await;
    assert_eq!(made.warnings().len(), 1, "nobody signs it yet: {:?}", made.warnings());
    made.ok();
    api.post(CSRS, &csr("b", "example.com/x", "system:masters")).await.ok();
}
