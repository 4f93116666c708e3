//! The rules of a CertificateSigningRequest, in Kubernetes' words. Decides what a request, a signer's name and conditions must look
//! like, and which door may change what.

use crate::kinds::value::{i64_at, items, str_at};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use gantry_apimachinery::names;
use gantry_apimachinery::status::FieldErrors;
use serde_json::Value;
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::pem::Pem;
use x509_parser::prelude::FromDer;

const USAGES: &[&str] = &[
    "any",
    "cert sign",
    "client auth",
    "code signing",
    "content commitment",
    "crl sign",
    "data encipherment",
    "decipher only",
    "digital signature",
    "email protection",
    "encipher only",
    "ipsec end system",
    "ipsec tunnel",
    "ipsec user",
    "key agreement",
    "key encipherment",
    "microsoft sgc",
    "netscape sgc",
    "ocsp signing",
    "s/mime",
    "server auth",
    "signing",
    "timestamping",
];
const MIN_SECONDS: i64 = 600;
const LEGACY: &str = "kubernetes.io/legacy-unknown";
/// Conditions that are there or not; there is no other status of them.
const FINAL: [&str; 3] = ["Approved", "Denied", "Failed"];

/// What the server itself reads of a request.
pub struct Request {
    pub organizations: Vec<String>,
}

/// Reads `spec.request`: a PEM block in base64.
pub fn parse_request(text: &str) -> Result<Request, String> {
    const TYPE: &str = "PEM block type must be 'CERTIFICATE REQUEST'";
    let bytes = STANDARD.decode(text).map_err(|error| error.to_string())?;
    let (_, pem) = x509_parser::pem::parse_x509_pem(&bytes).map_err(|_| TYPE.to_owned())?;
    if pem.label != "CERTIFICATE REQUEST" {
        return Err(TYPE.to_owned());
    }
    let (rest, request) = X509CertificationRequest::from_der(&pem.contents).map_err(|error| error.to_string())?;
    if !rest.is_empty() {
        return Err("trailing data after the certificate request".to_owned());
    }
    let subject = &request.certification_request_info.subject;
    let organizations = subject.iter_organization().filter_map(|one| one.as_str().ok()).map(str::to_owned);
    Ok(Request { organizations: organizations.collect() })
}

/// `door`: the subresource that is written to, if any.
pub fn validate(new: &Value, old: Option<&Value>, door: Option<&str>, errors: &mut FieldErrors) {
    // The spec never changes: an old one passed the rules of its time.
    if old.is_none() {
        spec(&new["spec"], errors);
    }
    conditions(new, errors);
    if let Err(why) = certificate(str_at(new, "status.certificate")) {
        errors.invalid("status.certificate", "<certificate data>", why);
    }
    if let Some(old) = old {
        changes(new, old, door, errors);
    }
}

fn spec(spec: &Value, errors: &mut FieldErrors) {
    let request = str_at(spec, "request");
    if let Err(why) = parse_request(request) {
        errors.invalid("spec.request", request, why);
    }
    let usages = items(spec, "usages");
    if usages.is_empty() {
        errors.required_because("spec.usages", "usages must be provided");
    }
    for (i, usage) in usages.iter().enumerate() {
        let text = usage.as_str().unwrap_or("");
        if !USAGES.contains(&text) {
            errors.not_supported(format!("spec.usages[{i}]"), text, USAGES);
        }
        if usages[..i].contains(usage) {
            errors.duplicate(format!("spec.usages[{i}]"), text);
        }
    }
    match str_at(spec, "signerName") {
        LEGACY => {
            errors.invalid("spec.signerName", LEGACY, "the legacy signerName is not allowed via this API version");
        }
        name => signer(name, errors),
    }
    if let Some(seconds) = i64_at(spec, "expirationSeconds").filter(|seconds| *seconds < MIN_SECONDS) {
        let why = "may not specify a duration less than 600 seconds (10 minutes)";
        errors.invalid("spec.expirationSeconds", seconds, why);
    }
}

/// `example.com/name`
fn signer(name: &str, errors: &mut FieldErrors) {
    const PATH: &str = "spec.signerName";
    if name.is_empty() {
        return errors.required(PATH);
    }
    let parts: Vec<&str> = name.split('/').collect();
    let [domain, path] = parts[..] else {
        let why = "must be a fully qualified domain and path of the form 'example.com/signer-name'";
        return errors.invalid(PATH, name, why);
    };
    let wrong = |label: &str, why: String| format!("validating label {label:?}: {why}");
    if let Some((label, why)) = domain.split('.').find_map(|label| Some((label, names::dns1123_label(label).err()?))) {
        errors.invalid(PATH, domain, wrong(label, why));
    }
    if !domain.contains('.') {
        errors.invalid(PATH, domain, "should be a domain with at least two segments separated by dots");
    }
    if let Some((label, why)) = path.split('.').find_map(|label| Some((label, names::dns1123_subdomain(label).err()?))) {
        errors.invalid(PATH, path, wrong(label, why));
    }
}

fn conditions(new: &Value, errors: &mut FieldErrors) {
    const ANY: &[&str] = &["False", "True", "Unknown"];
    let all = items(new, "status.conditions");
    let has = |kind: &str| all.iter().any(|condition| condition["type"] == kind);
    for (i, condition) in all.iter().enumerate() {
        let path = format!("status.conditions[{i}]");
        let (kind, status) = (str_at(condition, "type"), str_at(condition, "status"));
        if kind.is_empty() {
            errors.required(format!("{path}.type"));
        }
        let allowed: &[&str] = if FINAL.contains(&kind) { &["True"] } else { ANY };
        if status.is_empty() {
            errors.required(format!("{path}.status"));
        } else if !allowed.contains(&status) {
            errors.not_supported(format!("{path}.status"), status, allowed);
        }
        if has("Approved") && has("Denied") && ["Approved", "Denied"].contains(&kind) {
            errors.invalid(format!("{path}.type"), kind, "Approved and Denied conditions are mutually exclusive");
        }
        if all[..i].iter().any(|other| other["type"] == condition["type"]) {
            errors.duplicate(format!("{path}.type"), kind);
        }
    }
}

/// A chain of certificates in PEM, in base64; or nothing yet.
fn certificate(text: &str) -> Result<(), String> {
    if text.is_empty() {
        return Ok(());
    }
    let bytes = STANDARD.decode(text).map_err(|error| error.to_string())?;
    let mut found = 0;
    for block in Pem::iter_from_buffer(&bytes) {
        let block = block.map_err(|error| error.to_string())?;
        if block.label != "CERTIFICATE" {
            return Err(format!("only CERTIFICATE PEM blocks are allowed, found {:?}", block.label));
        }
        block.parse_x509().map_err(|error| error.to_string())?;
        found += 1;
    }
    if found == 0 { Err("must contain at least one CERTIFICATE PEM block".to_owned()) } else { Ok(()) }
}

fn changes(new: &Value, old: &Value, door: Option<&str>, errors: &mut FieldErrors) {
    let of = |object: &Value, kind: &str| -> Vec<Value> {
        let all = items(object, "status.conditions").iter();
        all.filter(|condition| condition["type"] == kind).cloned().collect()
    };
    for kind in FINAL {
        if of(new, kind).len() < of(old, kind).len() {
            errors.forbidden("status.conditions", format!("updates may not remove a condition of type {kind:?}"));
        }
    }
    if door != Some("approval") {
        for kind in ["Approved", "Denied"] {
            let (before, after) = (of(old, kind), of(new, kind));
            if after.len() > before.len() {
                errors.forbidden("status.conditions", format!("updates may not add a condition of type {kind:?}"));
            } else if after.len() == before.len() && after != before {
                errors.forbidden("status.conditions", format!("updates may not modify a condition of type {kind:?}"));
            }
        }
    }
    let certificate = |object: &Value| str_at(object, "status.certificate").to_owned();
    let (before, after) = (certificate(old), certificate(new));
    if before != after {
        if door != Some("status") {
            errors.forbidden("status.certificate", "updates may not set certificate content");
        } else if !before.is_empty() {
            errors.forbidden("status.certificate", "updates may not modify existing certificate content");
        }
    }
}
