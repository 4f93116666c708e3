//! Tables of what a request is, becomes and may not become.

use super::*;
use crate::kinds::testing::{created, errors, errors_of, row, updated};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

fn request() -> String {
    let key = rcgen::KeyPair::generate().unwrap();
    let pem = rcgen::CertificateParams::default().serialize_request(&key).unwrap().pem().unwrap();
    STANDARD.encode(pem)
}

fn csr(change: impl FnOnce(&mut Value)) -> Value {
    let mut csr = json!({"spec": {"request": request(), "signerName": "example.com/sign", "usages": ["client auth"]}});
    change(&mut csr);
    csr
}

#[test]
fn a_request_is_well_formed() {
    let check = |change: &dyn Fn(&mut Value), expect: &str| {
        assert_eq!(errors(&CertificateSigningRequest, &csr(change), None), expect);
    };
    check(&|_| {}, "[]");
    check(&|c| c["spec"]["expirationSeconds"] = 600.into(), "[]");
    check(
        &|c| c["spec"]["expirationSeconds"] = 599.into(),
        "spec.expirationSeconds: Invalid value: 599: may not specify a duration less than 600 seconds (10 minutes)",
    );
    check(
        &|c| c["spec"]["request"] = "eA==".into(),
        "spec.request: Invalid value: \"eA==\": PEM block type must be 'CERTIFICATE REQUEST'",
    );
    check(&|c| c["spec"]["usages"] = json!([]), "spec.usages: Required value: usages must be provided");
    check(
        &|c| c["spec"]["usages"] = json!(["signing", "signing"]),
        "spec.usages[1]: Duplicate value: \"signing\"",
    );
    check(&|c| c["spec"]["signerName"] = "".into(), "spec.signerName: Required value");
    check(
        &|c| c["spec"]["signerName"] = "kubernetes.io/legacy-unknown".into(),
        "spec.signerName: Invalid value: \"kubernetes.io/legacy-unknown\": the legacy signerName is not allowed via this API version",
    );
    check(
        &|c| c["spec"]["signerName"] = "sign".into(),
        "spec.signerName: Invalid value: \"sign\": must be a fully qualified domain and path of the form 'example.com/signer-name'",
    );
    check(
        &|c| c["spec"]["signerName"] = "com/x".into(),
        "spec.signerName: Invalid value: \"com\": should be a domain with at least two segments separated by dots",
    );
    let unknown = errors(&CertificateSigningRequest, &csr(|c| c["spec"]["usages"] = json!(["fun"])), None);
    assert!(unknown.starts_with("spec.usages[0]: Unsupported value: \"fun\": supported values: \"any\""), "{unknown}");
}

#[test]
fn the_caller_is_who_asks_and_what_is_asked_stays() {
    let made = created(&CertificateSigningRequest, &csr(|c| c["spec"]["username"] = "somebody".into()));
    assert_eq!(made["spec"]["username"], "kubernetes-admin");
    assert_eq!(made["spec"]["groups"], json!(["system:masters", "system:authenticated"]));
    let new = csr(|c| c["status"] = json!({"certificate": "x", "conditions": [{"type": "Approved", "status": "True"}]}));
    let approved = updated(&CertificateSigningRequest, &new, &made, Some("approval"));
    assert_eq!(approved["spec"], made["spec"]);
    let time = "1970-01-01T00:16:40Z";
    let condition = json!({"type": "Approved", "status": "True", "lastTransitionTime": time, "lastUpdateTime": time});
    assert_eq!(approved["status"], json!({"conditions": [condition]}));
}

#[test]
fn every_door_changes_its_own_part() {
    let with = |conditions: Value, certificate: &str| json!({"status": {"conditions": conditions, "certificate": certificate}});
    let check = |new: &Value, old: &Value, door: Option<&str>, expect: &str| {
        assert_eq!(errors_of(&CertificateSigningRequest, new, Some(old), door), expect);
    };
    let approved = json!([{"type": "Approved", "status": "True"}]);
    let denied = json!([{"type": "Denied", "status": "True"}]);
    let (new, yes) = (with(json!([]), ""), with(approved.clone(), ""));
    check(&yes, &new, Some("approval"), "[]");
    check(&yes, &new, Some("status"), "status.conditions: Forbidden: updates may not add a condition of type \"Approved\"");
    check(&new, &yes, Some("approval"), "status.conditions: Forbidden: updates may not remove a condition of type \"Approved\"");
    check(
        &with(denied, ""),
        &yes,
        Some("approval"),
        "status.conditions: Forbidden: updates may not remove a condition of type \"Approved\"",
    );
    check(
        &with(json!([{"type": "Approved", "status": "False"}]), ""),
        &new,
        Some("approval"),
        "status.conditions[0].status: Unsupported value: \"False\": supported values: \"True\"",
    );
    let key = rcgen::KeyPair::generate().unwrap();
    let issued = STANDARD.encode(rcgen::CertificateParams::default().self_signed(&key).unwrap().pem());
    let signed = with(approved.clone(), &issued);
    check(&signed, &yes, Some("status"), "[]");
    check(&signed, &yes, Some("approval"), "status.certificate: Forbidden: updates may not set certificate content");
    check(&yes, &signed, Some("status"), "status.certificate: Forbidden: updates may not modify existing certificate content");
    let not_one = STANDARD.encode(key.serialize_pem());
    check(
        &with(approved, &not_one),
        &yes,
        Some("status"),
        "status.certificate: Invalid value: \"<certificate data>\": only CERTIFICATE PEM blocks are allowed, found \"PRIVATE KEY\"",
    );
}

#[test]
fn the_row_tells_what_became_of_it() {
    let check = |status: Value, expect: &str| {
        let object = json!({"spec": {"signerName": "a.b/c", "username": "jane", "expirationSeconds": 3600}, "status": status});
        assert_eq!(row(&CertificateSigningRequest, &object), json!(["x", "5s", "a.b/c", "jane", "60m", expect]));
    };
    check(json!({}), "Pending");
    check(json!({"conditions": [{"type": "Approved"}], "certificate": "x"}), "Approved,Issued");
    check(json!({"conditions": [{"type": "Denied"}]}), "Denied");
    check(json!({"conditions": [{"type": "Approved"}, {"type": "Failed"}]}), "Approved,Failed");
}
