//! Why a write would be refused: it is asked for without being done, and the answer put in words.

use crate::Scope;
use crate::access::{Access, query};
use crate::render::cell;
use gantry_apimachinery::status::Status;
use gantry_client::ApiError;
use http::Method;
use serde_json::Value;

const APPLY: &str = "application/apply-patch+yaml";
const JSON: &str = "application/json";
/// Who a server-side apply is for; nothing is written.
const MANAGER: &str = "gantry-why";

/// The text to print about each object of a manifest.
pub async fn refused(access: &Access, manifest: &str, scope: &Scope) -> anyhow::Result<String> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(manifest)
        .map_err(|error| crate::Misused(format!("the manifest is not YAML: {error}")))?;
    let resources = access.resources().await?;
    let mut out = Vec::new();
    for object in documents.iter().filter(|object| !object.is_null()) {
        let (version, kind) = (cell(&object["apiVersion"]), cell(&object["kind"]));
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        let title = format!("{kind} {name}");
        let Some(resource) = resources.of(&version, &kind) else {
            out.push(format!("{title}: the server has no kind {kind} in {version}: its CustomResourceDefinition is missing, or not Established yet"));
            continue;
        };
        let own = object["metadata"]["namespace"].as_str().map(str::to_owned);
        let namespace = own.unwrap_or_else(|| access.namespace(scope));
        let body = serde_json::to_vec(object)?;
        let dry = [("dryRun", "All"), ("fieldManager", MANAGER)];
        let path = format!("{}{}", resource.path(&namespace, ""), query(&dry));
        let mut answer = access.client.ask(Method::POST, &path, Some((JSON, body.clone())), JSON).await;
        if matches!(answer, Err(ApiError::AlreadyExists(_))) {
            let path = format!("{}{}", resource.path(&namespace, name), query(&[dry[0], dry[1], ("force", "true")]));
            answer = access.client.ask(Method::PATCH, &path, Some((APPLY, body)), JSON).await;
        }
        match answer {
            Ok((warnings, _)) => {
                out.push(format!("{title}: it would be accepted"));
                out.extend(warnings.into_iter().map(|warning| format!("  with a warning: {warning}")));
            }
            Err(error) => match status(&error) {
                Some(status) => out.extend(explain(&title, status, &whoami(access, status).await)),
                None => return Err(error.into()),
            },
        }
    }
    Ok(out.join("\n"))
}

fn status(error: &ApiError) -> Option<&Status> {
    match error {
        ApiError::NotFound(status)
        | ApiError::AlreadyExists(status)
        | ApiError::Conflict(status)
        | ApiError::Invalid(status)
        | ApiError::Gone(status)
        | ApiError::Forbidden(status)
        | ApiError::Other(status)
        | ApiError::TooManyRequests { status, .. } => Some(status),
        ApiError::Transport(_) | ApiError::Decode(_) | ApiError::Encode(_) => None,
    }
}

/// The name and groups that the server knows whoever asks by, where rights were lacking.
async fn whoami(access: &Access, status: &Status) -> String {
    if status.code != 403 || !status.message.contains(" cannot ") {
        return String::new();
    }
    let review = serde_json::json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let path = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let answer: Value = access.client.post(path, &review).await.unwrap_or_default();
    let user = &answer["status"]["userInfo"];
    let groups: Vec<String> = user["groups"].as_array().into_iter().flatten().map(cell).collect();
    format!("{} in the groups {}", cell(&user["username"]), groups.join(", "))
}

fn explain(title: &str, status: &Status, who: &str) -> Vec<String> {
    let mut out = vec![format!("{title}: it is refused: {}", status.message)];
    let causes = status.details.iter().flat_map(|details| &details.causes);
    for cause in causes.filter(|cause| !cause.field.is_empty()) {
        out.push(format!("  {}: {}", cause.field, cause.message));
    }
    if let Some(hint) = hint(status) {
        out.push(format!("  {hint}"));
    }
    if !who.is_empty() {
        out.push(format!("  the server knows you as {who}"));
    }
    out
}

/// What to do about it.
fn hint(status: &Status) -> Option<&'static str> {
    let says = |part: &str| status.message.contains(part);
    Some(match status.code {
        403 if says("exceeded quota") => {
            "`kubectl describe quota` shows what is used: delete something, ask for less, or have the quota raised"
        }
        403 if says("must specify") => {
            "a quota counts what the object does not say: name requests or limits, or have a LimitRange set defaults"
        }
        403 if says("PodSecurity") => {
            "the namespace's label pod-security.kubernetes.io/enforce asks for this: change the pod, or the label"
        }
        403 if says("being terminated") => "`gantry why namespace NAME` shows what holds the namespace",
        403 if says("admission webhook") => {
            "the webhook decides this: its owner knows why (`kubectl get validatingwebhookconfigurations,mutatingwebhookconfigurations`)"
        }
        403 if says(" cannot ") => {
            "a Role with this verb, and a RoleBinding to you, would allow it (`kubectl auth can-i --list`)"
        }
        404 if says("namespaces") => "the namespace has to be made first",
        429 => "the server is busy with others' requests of the same level: try again later",
        500 if says("failed calling webhook") => {
            "a webhook that has to be asked does not answer: its Service or its configuration is broken"
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn failure(code: u16, message: &str, causes: Value) -> Status {
        serde_json::from_value(
            json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message,
            "reason": "Invalid", "details": {"causes": causes}, "code": code}),
        )
        .unwrap()
    }

    #[test]
    fn a_refusal_says_what_to_do() {
        let quota = failure(
            403,
            "pods \"a\" is forbidden: exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2",
            json!([]),
        );
        let lines = explain("Pod a", &quota, "");
        assert!(lines[0].starts_with("Pod a: it is refused: pods \"a\" is forbidden"));
        assert!(lines[1].contains("kubectl describe quota"));
        let invalid = failure(
            422,
            "invalid",
            json!([{"reason": "FieldValueRequired", "message": "Required value", "field": "spec.containers"}]),
        );
        assert_eq!(explain("Pod a", &invalid, "")[1..], ["  spec.containers: Required value"]);
        let rights = failure(403, "User \"ci\" cannot create resource \"pods\"", json!([]));
        assert_eq!(
            explain("Pod a", &rights, "ci in the groups dev").last().unwrap(),
            "  the server knows you as ci in the groups dev"
        );
        for (code, message, word) in [
            (403, "violates PodSecurity \"restricted\"", "label"),
            (403, "because it is being terminated", "gantry why namespace"),
            (403, "admission webhook \"x\" denied the request", "webhook"),
            (404, "namespaces \"x\" not found", "made first"),
            (500, "failed calling webhook \"x\"", "does not answer"),
        ] {
            assert!(hint(&failure(code, message, json!([]))).unwrap().contains(word), "{message}");
        }
    }
}
