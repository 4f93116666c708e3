//! Reviews: questions that are posted and answered, never stored. Decides how each question reads; the answers are the
//! authenticator's and the authoriser's.

use crate::auth::UserInfo;
use crate::auth::authn::by_token;
use crate::auth::authz::{Attributes, Decision};
use crate::auth::rbac::rule::Rule;
use crate::core::Core;
use crate::http::Outcome;
use crate::kinds::value::{items, str_at};
use gantry_apimachinery::status::{FieldErrors, Status};
use serde_json::{Value, json};

/// Answers a review of the given kind. `namespace` is the path's, for the local form.
pub async fn answer(core: &Core, user: &UserInfo, kind: &str, namespace: &str, mut body: Value) -> Outcome<Value> {
    let status = match kind {
        "SelfSubjectReview" => json!({"userInfo": user_json(user)}),
        "TokenReview" => token(core, &body).await?,
        "SelfSubjectAccessReview" => {
            valid(kind, &body["spec"], true)?;
            access(core, user, &body["spec"]).await
        }
        "SubjectAccessReview" => {
            valid(kind, &body["spec"], false)?;
            access(core, &subject(&body), &body["spec"]).await
        }
        "LocalSubjectAccessReview" => {
            valid(kind, &body["spec"], false)?;
            if str_at(&body, "spec.resourceAttributes.namespace") != namespace {
                let text = format!("spec.resourceAttributes.namespace must match namespace: {namespace}");
                return Err(Status::bad_request(text).into());
            }
            access(core, &subject(&body), &body["spec"]).await
        }
        "SelfSubjectRulesReview" => match str_at(&body, "spec.namespace") {
            "" => return Err(Status::bad_request("no namespace on request").into()),
            namespace => rules(core, user, namespace),
        },
        _ => return Err(Status::no_such_resource().into()),
    };
    body["status"] = status;
    Ok(body)
}

/// One question, about somebody.
fn valid(kind: &str, spec: &Value, about_self: bool) -> Outcome<()> {
    let mut errors = FieldErrors::new();
    let (resource, other) = (&spec["resourceAttributes"], &spec["nonResourceAttributes"]);
    if !resource.is_null() && !other.is_null() {
        let why = "cannot be specified in combination with resourceAttributes";
        errors.invalid("spec.nonResourceAttributes", other.clone(), why);
    }
    if resource.is_null() && other.is_null() {
        let why = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
        errors.invalid("spec.resourceAttributes", Value::Null, why);
    }
    if !about_self && str_at(spec, "user").is_empty() && items(spec, "groups").is_empty() {
        errors.invalid("spec.user", "", "at least one of user or group must be specified");
    }
    if errors.is_empty() {
        return Ok(());
    }
    Err(Status::invalid(&format!("{kind}.authorization.k8s.io"), "", &errors).into())
}

fn user_json(user: &UserInfo) -> Value {
    serde_json::to_value(user).unwrap_or_default()
}

fn subject(body: &Value) -> UserInfo {
    let texts = |list: &[Value]| list.iter().filter_map(Value::as_str).map(str::to_owned).collect::<Vec<_>>();
    let extra = body["spec"]["extra"].as_object().into_iter().flatten();
    UserInfo {
        username: str_at(body, "spec.user").to_owned(),
        uid: str_at(body, "spec.uid").to_owned(),
        groups: texts(items(body, "spec.groups")),
        extra: extra.map(|(key, values)| (key.clone(), texts(values.as_array().map_or(&[], Vec::as_slice)))).collect(),
    }
}

async fn access(core: &Core, user: &UserInfo, spec: &Value) -> Value {
    let (resource, other) = (&spec["resourceAttributes"], &spec["nonResourceAttributes"]);
    let what = if other.is_object() {
        Attributes { verb: str_at(other, "verb"), path: Some(str_at(other, "path")), ..Attributes::default() }
    } else {
        Attributes {
            verb: str_at(resource, "verb"),
            group: str_at(resource, "group"),
            version: str_at(resource, "version"),
            resource: str_at(resource, "resource"),
            subresource: str_at(resource, "subresource"),
            namespace: str_at(resource, "namespace"),
            name: str_at(resource, "name"),
            node_selector: selected_node(resource),
            ..Attributes::default()
        }
    };
    let (allowed, reason) = match core.authorize(user, &what).await {
        Decision::Allow(grant) => (true, grant.to_string()),
        Decision::Deny(why) => (false, why),
    };
    let mut status = json!({"allowed": allowed});
    if !reason.is_empty() {
        status["reason"] = reason.into();
    }
    status
}

/// The machine that the asked list is limited to.
fn selected_node(resource: &Value) -> Option<&str> {
    let requirements = items(resource, "fieldSelector.requirements").iter();
    let mut about = requirements.filter(|one| one["key"] == "spec.nodeName" && one["operator"] == "In");
    match items(about.next()?, "values") {
        [one] => one.as_str(),
        _ => None,
    }
}

async fn token(core: &Core, body: &Value) -> Outcome<Value> {
    let text = str_at(body, "spec.token");
    if text.is_empty() {
        return Err(Status::bad_request("token is required for TokenReview in authentication").into());
    }
    let asked: Vec<&str> = items(body, "spec.audiences").iter().filter_map(Value::as_str).collect();
    let audiences = if asked.is_empty() { vec![core.config.audience.as_str()] } else { asked };
    Ok(match by_token(core, text, &audiences).await {
        Some(found) => json!({"authenticated": true, "user": user_json(&found.user), "audiences": found.audiences}),
        None => json!({"authenticated": false, "error": "the token is not valid"}),
    })
}

/// All rules that the caller's roles give in a namespace. What a node agent may besides depends on its pods and is no list.
fn rules(core: &Core, user: &UserInfo, namespace: &str) -> Value {
    let held = core.rbac.held(user, namespace);
    let (paths, resources): (Vec<_>, Vec<_>) = held.rules.iter().partition(|rule| !rule.urls.is_empty());
    let json = |rules: Vec<&Rule>| -> Vec<Value> { rules.into_iter().map(Rule::json).collect() };
    let mut trouble = held.missing;
    let agent = user.node_name().is_some();
    if agent {
        trouble.insert(0, "node authorizer does not support user rule resolution".to_owned());
    }
    let elsewhere = core.config.access_webhook.is_some();
    if elsewhere {
        trouble.push("webhook authorizer does not support user rule resolution".to_owned());
    }
    let mut status = json!({"resourceRules": json(resources), "nonResourceRules": json(paths), "incomplete": agent});
    if !trouble.is_empty() {
        status["incomplete"] = true.into();
        status["evaluationError"] = trouble.join(", ").into();
    }
    status
}
