//! `POST serviceaccounts/NAME/token`. Decides what a token may be bound to, for whom and for how long.

use crate::auth::tokens::{Bound, Claims, Reference};
use crate::http::Outcome;
use crate::kinds::value::{i64_at, items, str_at};
use crate::rest::call::Call;
use gantry_apimachinery::kinds::{Kind, NODE, POD, SECRET};
use gantry_apimachinery::status::{FieldErrors, Status};
use serde_json::{Value, json};

const MIN_SECONDS: i64 = 600;
const MAX_SECONDS: i64 = 1 << 32;

/// Answers the request with its token.
pub async fn request(call: &Call<'_>, mut body: Value) -> Outcome<Value> {
    let account =
        call.core.latest(call.kind(), call.namespace, call.name, false).await?.ok_or_else(|| call.not_found())?;
    let config = &call.core.config;
    let mut audiences: Vec<String> =
        items(&body, "spec.audiences").iter().filter_map(Value::as_str).map(str::to_owned).collect();
    if audiences.is_empty() {
        audiences.push(config.audience.clone());
    }
    let seconds = i64_at(&body, "spec.expirationSeconds").unwrap_or(3_600);
    let mut errors = FieldErrors::new();
    if seconds < MIN_SECONDS {
        errors.invalid("spec.expirationSeconds", seconds, "may not specify a duration less than 10 minutes");
    } else if seconds > MAX_SECONDS {
        errors.invalid("spec.expirationSeconds", seconds, "may not specify a duration larger than 2^32 seconds");
    }
    if !errors.is_empty() {
        return Err(Status::invalid("TokenRequest.authentication.k8s.io", "", &errors).into());
    }
    let mut bound = Bound {
        namespace: call.namespace.to_owned(),
        serviceaccount: Reference {
            name: call.name.to_owned(),
            uid: str_at(&account.value, "metadata.uid").to_owned(),
        },
        ..Bound::default()
    };
    let reference = &body["spec"]["boundObjectRef"];
    of_a_pod(call, reference)?;
    bind(call, reference, &mut bound).await?;
    let now = call.now.secs();
    let claims = Claims {
        iss: call.core.tokens.issuer.clone(),
        sub: format!("system:serviceaccount:{}:{}", call.namespace, call.name),
        aud: audiences.clone(),
        exp: now + seconds,
        nbf: now,
        iat: now,
        jti: uuid::Uuid::new_v4().to_string(),
        bound,
    };
    let token = call.core.tokens.sign(&claims).map_err(Status::internal)?;
    let metadata = &mut body["metadata"];
    metadata["name"] = call.name.into();
    metadata["namespace"] = call.namespace.into();
    metadata["creationTimestamp"] = call.now.to_string().into();
    body["spec"]["audiences"] = audiences.into();
    body["spec"]["expirationSeconds"] = seconds.into();
    body["status"] = json!({"token": token, "expirationTimestamp": call.now.add_secs(seconds).to_string()});
    Ok(body)
}

/// A machine's agent gets tokens for its pods only.
fn of_a_pod(call: &Call<'_>, reference: &Value) -> Outcome<()> {
    let Some(node) = call.user.node_name() else { return Ok(()) };
    let why = match (str_at(reference, "kind"), str_at(reference, "uid")) {
        ("Pod", "") => format!("node {node:?} requested a token bound to a pod without its uid"),
        ("Pod", _) => return Ok(()),
        _ => format!("node {node:?} requested a token that is not bound to a pod"),
    };
    Err(Status::forbidden("serviceaccounts", call.name, &why).into())
}

async fn bind(call: &Call<'_>, reference: &Value, bound: &mut Bound) -> Outcome<()> {
    if reference.is_null() {
        return Ok(());
    }
    let kind: &Kind = match str_at(reference, "kind") {
        "Pod" => &POD,
        "Secret" => &SECRET,
        "Node" => &NODE,
        other => return Err(Status::bad_request(format!("cannot bind token to object of type {other:?}")).into()),
    };
    let name = str_at(reference, "name");
    let found = call.core.latest(kind, call.namespace, name, false).await?;
    let found = found.ok_or_else(|| Status::not_found(kind.plural, name))?.value;
    let uid = str_at(&found, "metadata.uid").to_owned();
    let wanted = str_at(reference, "uid");
    if !wanted.is_empty() && wanted != uid {
        let why = format!(
            "the UID in the bound object reference ({wanted}) does not match the UID in record. The object might have been deleted and then recreated"
        );
        return Err(Status::conflict_because(kind.plural, name, &why).into());
    }
    let reference = Some(Reference { name: name.to_owned(), uid });
    match kind.kind {
        "Pod" => {
            if str_at(&found, "spec.serviceAccountName") != call.name {
                let why = format!(
                    "cannot bind token for serviceaccount {:?} to pod running with different serviceaccount name.",
                    call.name
                );
                return Err(Status::bad_request(why).into());
            }
            let node = str_at(&found, "spec.nodeName");
            if call.user.node_name().is_some_and(|agent| agent != node) {
                let why = format!("the pod {name:?} does not run on the machine that asks for its token");
                return Err(Status::forbidden("serviceaccounts", call.name, &why).into());
            }
            if let Some(node) = call.core.cached(&NODE, "", node) {
                bound.node = Some(Reference { name: node.name.to_string(), uid: node.uid.to_string() });
            }
            bound.pod = reference;
        }
        "Secret" => bound.secret = reference,
        _ => bound.node = reference,
    }
    Ok(())
}
