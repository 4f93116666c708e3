//! One question to a webhook (`AdmissionReview` v1) and its answer. Decides what a webhook sees, and what a refusal, a patch or a
//! missing answer does to the request.

use super::hook::Hook;
use crate::admission::Attributes;
use crate::admission::matching::request;
use crate::http::Outcome;
use crate::kinds::value::{items, str_at};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use gantry_apimachinery::patch::json;
use gantry_apimachinery::schema::decode;
use gantry_apimachinery::status::{Reason, Status};
use serde_json::{Value, json};

/// Texts that one webhook may add to an answer.
const MOST_WARNINGS: usize = 20;

/// The object as the webhook would have it, when that differs. A refusal is an error; so is a missing answer, unless the webhook may
/// be missed.
pub async fn ask(hook: &Hook, attributes: &Attributes<'_>, object: Option<&Value>) -> Outcome<Option<Value>> {
    let uid = uuid::Uuid::new_v4().to_string();
    let question = question(attributes, object, &uid);
    let answer = match &hook.endpoint {
        Ok(endpoint) => endpoint.ask(&question, hook.within).await.map_err(|error| error.to_string()),
        Err(error) => Err(error.to_string()),
    };
    let read = answer.and_then(|answer| {
        let response = answer["response"].clone();
        check(&response, &uid).map(|()| response)
    });
    let response = match read {
        Ok(response) => response,
        Err(why) if hook.ignores_failure => {
            tracing::warn!(webhook = %hook.name, %why, "a webhook that may be missed gave no answer");
            return Ok(None);
        }
        Err(why) => {
            let text = format!("failed calling webhook {:?}: failed to call webhook: {why}", hook.name);
            return Err(Status::internal(text).into());
        }
    };
    let warnings = items(&response, "warnings").iter().filter_map(Value::as_str);
    attributes.call.warn(warnings.take(MOST_WARNINGS).map(str::to_owned));
    if response["allowed"] != true {
        return Err(refusal(&hook.name, &response).into());
    }
    patched(hook, attributes, object, &response)
}

fn check(response: &Value, uid: &str) -> Result<(), String> {
    if !response.is_object() {
        return Err("expected webhook response, got none".to_owned());
    }
    if str_at(response, "uid") != uid {
        return Err(format!("expected response.uid={uid:?}, got {:?}", str_at(response, "uid")));
    }
    if response["patch"].is_string() && str_at(response, "patchType") != "JSONPatch" {
        return Err(format!(
            "webhook returned response.patch with an unknown patchType {:?}",
            str_at(response, "patchType")
        ));
    }
    Ok(())
}

fn question(attributes: &Attributes<'_>, object: Option<&Value>, uid: &str) -> Value {
    let mut request = request(attributes);
    request["uid"] = uid.into();
    request["object"] = object.cloned().unwrap_or_default();
    request["oldObject"] = attributes.old.cloned().unwrap_or_default();
    json!({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request})
}

/// A webhook's no, in its words.
fn refusal(name: &str, response: &Value) -> Status {
    let denied = format!("admission webhook {name:?} denied the request");
    let (message, reason) = (str_at(response, "status.message"), str_at(response, "status.reason"));
    let text = match (message, reason) {
        ("", "") => format!("{denied} without explanation"),
        ("", reason) => format!("{denied}: {reason}"),
        (message, _) => format!("{denied}: {message}"),
    };
    let mut status: Status = serde_json::from_value(response["status"].clone())
        .ok()
        .filter(|status: &Status| !status.is_success())
        .unwrap_or_else(|| Status::failure(Reason::Unknown, "", None));
    status.kind = "Status".into();
    status.message = text;
    let code = response["status"]["code"].as_u64().and_then(|code| u16::try_from(code).ok());
    status.code = code.filter(|code| (400..600).contains(code)).unwrap_or(400);
    status
}

fn patched(
    hook: &Hook,
    attributes: &Attributes<'_>,
    object: Option<&Value>,
    response: &Value,
) -> Outcome<Option<Value>> {
    let (Some(text), Some(object)) = (response["patch"].as_str(), object) else { return Ok(None) };
    let bad = |why: String| {
        Status::internal(format!("admission webhook {:?} sent a patch that cannot be applied: {why}", hook.name))
    };
    let bytes = STANDARD.decode(text).map_err(|error| bad(error.to_string()))?;
    let patch = decode::untyped(&bytes).map_err(|error| bad(error.to_string()))?;
    let mut changed = object.clone();
    json::apply(&mut changed, &patch).map_err(|error| bad(error.to_string()))?;
    let call = attributes.call;
    // What is no field of the kind is dropped, as if the client had sent it; of a wrong type, it is the webhook's mistake.
    let settled = match call.served.as_custom() {
        Some(version) => {
            version.pruned(decode::Decoded { object: changed, unknown: Vec::new(), duplicate: Vec::new() }).object
        }
        None => decode::from_value(changed, call.served.schema()).map_err(|error| bad(error.to_string()))?.object,
    };
    Ok(Some(settled))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_worded_as_kubernetes_words_it() {
        let check = |response: Value, code: u16, text: &str| {
            let status = refusal("a.b.c", &response);
            assert_eq!((status.code(), status.message.as_str()), (code, text));
        };
        check(json!({"allowed": false}), 400, "admission webhook \"a.b.c\" denied the request without explanation");
        check(json!({"status": {"reason": "Because"}}), 400, "admission webhook \"a.b.c\" denied the request: Because");
        check(
            json!({"status": {"message": "no", "code": 403}}),
            403,
            "admission webhook \"a.b.c\" denied the request: no",
        );
        check(
            json!({"status": {"message": "no", "code": 200}}),
            400,
            "admission webhook \"a.b.c\" denied the request: no",
        );
    }

    #[test]
    fn answers_name_their_question() {
        assert!(check(&json!({"uid": "1", "allowed": true}), "1").is_ok());
        assert!(check(&json!({"uid": "2"}), "1").is_err());
        assert!(check(&Value::Null, "1").is_err());
        assert!(check(&json!({"uid": "1", "patch": "e30="}), "1").is_err());
    }
}
