//! Authentication: a client certificate or a bound service-account token becomes a `UserInfo`. Decides who is calling; a token is
//! worth nothing once its account, pod or node is gone.

use super::UserInfo;
use super::tokens::{Claims, Reference};
use crate::core::Core;
use crate::http::Outcome;
use gantry_apimachinery::kinds::{Kind, NODE, POD, SECRET, SERVICE_ACCOUNT};
use gantry_apimachinery::status::Status;
use http::HeaderMap;
use http::header::AUTHORIZATION;

/// The identity in a verified client certificate: common name and organisations.
pub fn from_certificate(der: &[u8]) -> Option<UserInfo> {
    let (_, certificate) = x509_parser::parse_x509_certificate(der).ok()?;
    let subject = certificate.subject();
    let name = subject.iter_common_name().next()?.as_str().ok()?;
    let groups: Vec<&str> = subject.iter_organization().filter_map(|organization| organization.as_str().ok()).collect();
    (!name.is_empty()).then(|| UserInfo::new(name, &groups))
}

/// The caller. A bearer token that is not valid is refused, also when the connection has a certificate's identity.
pub async fn authenticate(core: &Core, headers: &HeaderMap, connection: Option<&UserInfo>) -> Outcome<UserInfo> {
    let bearer = headers.get(AUTHORIZATION).and_then(|header| header.to_str().ok()).and_then(|text| {
        let (scheme, token) = text.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then_some(token.trim())
    });
    match (connection, bearer) {
        (Some(user), _) => Ok(user.clone()),
        (None, Some(token)) => {
            let audience = core.config.audience.clone();
            token_user(core, token, &[&audience]).await.ok_or_else(|| Status::unauthorized().into())
        }
        (None, None) => Ok(UserInfo::anonymous()),
    }
}

/// The account that a token speaks for, if it is valid now.
pub async fn token_user(core: &Core, token: &str, audiences: &[&str]) -> Option<UserInfo> {
    let claims = core.tokens.verify(token, audiences, core.clock.now()).ok()?;
    alive(core, &claims).await.then(|| user(&claims))
}

async fn alive(core: &Core, claims: &Claims) -> bool {
    let bound = &claims.bound;
    let namespace = bound.namespace.as_str();
    let mut all: Vec<(&Kind, &str, &Reference)> = vec![(&SERVICE_ACCOUNT, namespace, &bound.serviceaccount)];
    all.extend(bound.pod.iter().map(|pod| (&POD, namespace, pod)));
    all.extend(bound.secret.iter().map(|secret| (&SECRET, namespace, secret)));
    for (kind, namespace, reference) in all {
        if !exists(core, kind, namespace, reference).await {
            return false;
        }
    }
    // A pod's token names its node; the token's life is bound to the pod, not to the node.
    match (&bound.node, &bound.pod) {
        (Some(node), None) => exists(core, &NODE, "", node).await,
        _ => true,
    }
}

/// From the cache; a miss is looked up in the store, for the token may be younger than the cache.
async fn exists(core: &Core, kind: &Kind, namespace: &str, reference: &Reference) -> bool {
    if let Some(object) = core.cached(kind, namespace, &reference.name)
        && *object.uid == *reference.uid
    {
        return true;
    }
    let live = core.live(kind, namespace, &reference.name).await;
    live.is_ok_and(|found| found.is_some_and(|stored| stored.value["metadata"]["uid"] == reference.uid.as_str()))
}

fn user(claims: &Claims) -> UserInfo {
    let bound = &claims.bound;
    let namespace_group = format!("system:serviceaccounts:{}", bound.namespace);
    let mut user = UserInfo::new(claims.sub.clone(), &["system:serviceaccounts", &namespace_group]);
    user.uid = bound.serviceaccount.uid.clone();
    let mut extra = |key: &str, value: &str| {
        user.extra.insert(format!("authentication.kubernetes.io/{key}"), vec![value.to_owned()]);
    };
    extra("credential-id", &format!("JTI={}", claims.jti));
    if let Some(pod) = &bound.pod {
        extra("pod-name", &pod.name);
        extra("pod-uid", &pod.uid);
    }
    if let Some(node) = &bound.node {
        extra("node-name", &node.name);
        extra("node-uid", &node.uid);
    }
    user
}
