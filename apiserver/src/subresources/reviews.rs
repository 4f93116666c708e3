//! Reviews: questions that are posted and answered, never stored. Decides how each question reads; the answers are the
//! authenticator's and the authorizer's.

use crate::auth::UserInfo;
use crate::auth::authn::token_user;
use crate::auth::authz::{Attributes, Decision};
use crate::core::Core;
use crate::http::Outcome;
use crate::kinds::value::{at, items, str_at};
use gantry_apimachinery::status::Status;
use serde_json::{Value, json};

/// Answers a review of the given kind. `namespace` is the path's, for the local form.
pub async fn answer(core: &Core, user: &UserInfo, kind: &str, namespace: &str, mut body: Value) -> Outcome<Value> {
    let status = match kind {
        "SelfSubjectReview" => json!({"userInfo": user_json(user)}),
        "TokenReview" => token(core, &body).await?,
        "SelfSubjectAccessReview" => access(core, user, &body["spec"]),
        "SubjectAccessReview" => access(core, &subject(&body), &body["spec"]),
        "LocalSubjectAccessReview" => {
            let asked = str_at(&body, "spec.resourceAttributes.namespace");
            if asked != namespace {
                let text = format!(
                    "spec.resourceAttributes.namespace: must match the namespace of the request ({namespace:?})"
                );
                return Err(Status::bad_request(text).into());
            }
            access(core, &subject(&body), &body["spec"])
        }
        "SelfSubjectRulesReview" => rules(core, user, str_at(&body, "spec.namespace")),
        _ => return Err(Status::no_such_resource().into()),
    };
    body["status"] = status;
    Ok(body)
}

fn user_json(user: &UserInfo) -> Value {
    serde_json::to_value(user).unwrap_or_default()
}

fn subject(body: &Value) -> UserInfo {
    let groups = items(body, "spec.groups").iter().filter_map(Value::as_str).map(str::to_owned).collect();
    UserInfo {
        username: str_at(body, "spec.user").to_owned(),
        uid: str_at(body, "spec.uid").to_owned(),
        groups,
        ..UserInfo::default()
    }
}

fn access(core: &Core, user: &UserInfo, spec: &Value) -> Value {
    let (resource, other) = (&spec["resourceAttributes"], &spec["nonResourceAttributes"]);
    let what = if other.is_object() {
        Attributes { verb: str_at(other, "verb"), path: Some(str_at(other, "path")), ..Attributes::default() }
    } else {
        Attributes {
            verb: str_at(resource, "verb"),
            group: str_at(resource, "group"),
            resource: str_at(resource, "resource"),
            subresource: str_at(resource, "subresource"),
            namespace: str_at(resource, "namespace"),
            name: str_at(resource, "name"),
            ..Attributes::default()
        }
    };
    match core.authorizer.authorize(core, user, &what) {
        Decision::Allow => json!({"allowed": true}),
        Decision::Deny(reason) => json!({"allowed": false, "reason": reason}),
    }
}

async fn token(core: &Core, body: &Value) -> Outcome<Value> {
    let text = str_at(body, "spec.token");
    if text.is_empty() {
        return Err(Status::bad_request("token is required for TokenReview in authentication").into());
    }
    let asked: Vec<&str> = items(body, "spec.audiences").iter().filter_map(Value::as_str).collect();
    let audiences = if asked.is_empty() { vec![core.config.audience.as_str()] } else { asked };
    Ok(match token_user(core, text, &audiences).await {
        Some(user) => json!({"authenticated": true, "user": user_json(&user), "audiences": audiences}),
        None => json!({"authenticated": false, "error": "the token is not valid"}),
    })
}

/// The static table cannot be listed rule by rule; what is certain is said, and `incomplete` says that there may be more.
fn rules(core: &Core, user: &UserInfo, namespace: &str) -> Value {
    let any = Attributes { verb: "*", group: "*", resource: "*", namespace, ..Attributes::default() };
    if core.authorizer.authorize(core, user, &any) == Decision::Allow && at(&user_json(user), "groups").is_some() {
        return json!({
            "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
            "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}], "incomplete": false,
        });
    }
    let reviews = json!({"verbs": ["create"], "apiGroups": ["authorization.k8s.io", "authentication.k8s.io"],
        "resources": ["selfsubjectaccessreviews", "selfsubjectrulesreviews", "selfsubjectreviews"]});
    let paths = json!({"verbs": ["get"], "nonResourceURLs": ["/api", "/api/*", "/apis", "/apis/*", "/healthz", "/livez", "/openapi",
        "/openapi/*", "/readyz", "/version", "/version/"]});
    json!({"resourceRules": [reviews], "nonResourceRules": [paths], "incomplete": true})
}
