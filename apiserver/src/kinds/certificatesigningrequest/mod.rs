//! What a CertificateSigningRequest means to the API: a request in somebody's name that never changes, approved or denied through
//! one door and signed through another. Who may approve and sign is admission's; signing is the signer's.

mod validate;

pub use validate::parse_request;

use super::value::{at, i64_at, items, items_mut, remove, str_at};
use super::{Column, Ctx, Selectable, Strategy, columns};
use gantry_apimachinery::status::FieldErrors;
use gantry_apimachinery::time::{Timestamp, human_duration};
use serde_json::Value;

pub struct CertificateSigningRequest;

impl Strategy for CertificateSigningRequest {
    fn prepare_create(&self, object: &mut Value, ctx: &Ctx) {
        let spec = &mut object["spec"];
        for field in ["username", "uid", "groups", "extra"] {
            remove(spec, field);
        }
        // Whoever signs relies on it that these are the caller's own.
        let user = serde_json::to_value(ctx.user).unwrap_or_default();
        for field in ["username", "uid", "groups", "extra"] {
            if let Some(value) = at(&user, field) {
                spec[field] = value.clone();
            }
        }
    }

    fn prepare_update(&self, new: &mut Value, old: &Value, ctx: &Ctx) {
        new["spec"] = old["spec"].clone();
        if ctx.subresource == Some("approval") {
            let certificate = old["status"].get("certificate").cloned();
            remove(&mut new["status"], "certificate");
            if let Some(certificate) = certificate {
                new["status"]["certificate"] = certificate;
            }
        }
        if ctx.subresource.is_some() {
            date_conditions(new, old, ctx.now);
        }
    }

    fn validate(&self, new: &Value, old: Option<&Value>, ctx: &Ctx, errors: &mut FieldErrors) {
        validate::validate(new, old, ctx.subresource, errors);
    }

    fn warnings(&self, new: &Value, old: Option<&Value>) -> Vec<String> {
        let signer = str_at(new, "spec.signerName");
        let nobody = old.is_none() && signer.starts_with("kubernetes.io/");
        nobody.then(|| format!("spec.signerName: {signer} is stored, but not acted upon yet")).into_iter().collect()
    }

    fn columns(&self) -> &'static [Column] {
        const COLUMNS: &[Column] = &[
            Column::NAME,
            Column::AGE,
            Column::text("SignerName", "The signer that is asked."),
            Column::text("Requestor", "Who asks."),
            Column::text("RequestedDuration", "For how long the certificate is to hold."),
            Column::text("Condition", "What became of the request."),
        ];
        COLUMNS
    }

    fn row(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        let duration = i64_at(object, "spec.expirationSeconds").map_or("<none>".to_owned(), human_duration);
        vec![
            columns::name(object),
            columns::age(object, now),
            str_at(object, "spec.signerName").into(),
            str_at(object, "spec.username").into(),
            duration.into(),
            condition(object).into(),
        ]
    }

    fn selectable(&self) -> &'static [Selectable] {
        const FIELDS: &[Selectable] = &[Selectable::path("spec.signerName")];
        FIELDS
    }
}

fn condition(object: &Value) -> String {
    let has = |kind: &str| items(object, "status.conditions").iter().any(|condition| condition["type"] == kind);
    let mut text = match (has("Denied"), has("Approved")) {
        (true, _) => "Denied",
        (false, true) => "Approved",
        (false, false) => "Pending",
    }
    .to_owned();
    if has("Failed") {
        text.push_str(",Failed");
    }
    if !str_at(object, "status.certificate").is_empty() {
        text.push_str(",Issued");
    }
    text
}

/// Times that the writer left out: a condition that stays as it was keeps its time.
fn date_conditions(new: &mut Value, old: &Value, now: Timestamp) {
    let before = items(old, "status.conditions");
    for condition in items_mut(&mut new["status"], "conditions") {
        let same = before.iter().find(|one| one["type"] == condition["type"] && one["status"] == condition["status"]);
        if at(condition, "lastTransitionTime").is_none() {
            let kept = same.and_then(|one| at(one, "lastTransitionTime")).cloned();
            condition["lastTransitionTime"] = kept.unwrap_or_else(|| now.to_string().into());
        }
        if at(condition, "lastUpdateTime").is_none() {
            condition["lastUpdateTime"] = now.to_string().into();
        }
    }
}

#[cfg(test)]
mod tests;
