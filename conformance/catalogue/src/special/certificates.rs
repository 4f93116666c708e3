//! Behaviours of certificate requests: their keys are made here.

use super::broken;
use crate::exchange::Failure;
use crate::run::Session;
use base64::Engine;
use futures::FutureExt;
use futures::future::BoxFuture;
use rcgen::{CertificateParams, DnType, KeyPair};
use serde_json::{Value, json};

const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";

/// A request in PEM, as base64.
fn request(name: &str) -> Result<String, rcgen::Error> {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, name);
    let pem = params.serialize_request(&KeyPair::generate()?)?.pem()?;
    Ok(base64::engine::general_purpose::STANDARD.encode(pem))
}

pub fn approval<'s>(session: &'s Session<'_>) -> BoxFuture<'s, Result<(), Failure>> {
    async move {
        let text = request(&session.id).map_err(|error| broken("making a request", error.to_string()))?;
        let name = &session.id;
        let body = json!({
            "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": {"name": name},
            "spec": {"signerName": "example.org/none", "usages": ["client auth"], "request": text, "username": "forged"},
        });
        let who = json!({"username": {"<not>": "forged"}, "groups": {"<contains>": ["system:authenticated"]}});
        let made = json!({"do": format!("POST {REQUESTS}"), "body": body, "expect": {"status": 201, "body": {"spec": who}}});
        let mut object = session.say(made).await?.value;
        let condition = json!({"type": "Approved", "status": "True", "reason": "Catalogue", "message": "m"});
        object["status"] = json!({"conditions": [condition]});
        let spec_only = json!({"do": format!("PUT {REQUESTS}/{name}"), "body": object, "expect": {"status": 200}});
        let unchanged = session.say(spec_only).await?.value;
        if unchanged["status"]["conditions"] != Value::Null {
            return Err(broken("PUT of the object", "it approved the request; only the approval subresource may"));
        }
        object["metadata"]["resourceVersion"] = unchanged["metadata"]["resourceVersion"].clone();
        let expect = json!({"status": 200, "at": {"status.conditions[type=Approved].status": "True", "status.conditions[type=Approved].lastTransitionTime": "<time>"}});
        let approve = json!({"do": format!("PUT {REQUESTS}/{name}/approval"), "body": object, "expect": expect});
        let approved = session.say(approve).await?.value;
        // An approval cannot be taken back or be turned into a denial.
        let mut denied = approved;
        denied["status"]["conditions"] = json!([{"type": "Denied", "status": "True", "reason": "r", "message": "m"}]);
        session.say(json!({"do": format!("PUT {REQUESTS}/{name}/approval"), "body": denied, "expect": 422})).await?;
        Ok(())
    }
    .boxed()
}
