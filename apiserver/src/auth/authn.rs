//! Authentication: a certificate, a proxy's word or a token becomes a `UserInfo`. Decides who is calling and whom to ask in which
//! order; a service account's token is worth nothing once its account, pod or node is gone.

use super::peers::Peer;
use super::tokens::{Claims, Reference};
use super::{UserInfo, bootstrap_tokens, oidc};
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

/// Whom a token stands for, and for which of the asked audiences it is meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Authenticated {
    pub user: UserInfo,
    pub audiences: Vec<String>,
}

/// The caller: whom a proxy speaks for, or the connection's own user, or a token's. A bearer token that is not valid is refused, and so
/// is a certificate that has expired since the connection was made: at every request, as in Kubernetes.
pub async fn authenticate(core: &Core, headers: &HeaderMap, peer: &Peer) -> Outcome<UserInfo> {
    let expired = peer.has_expired(core.clock.now().secs());
    if peer.is_proxy
        && !expired
        && let Some(user) = core.peers.spoken_for(headers)
    {
        return Ok(user);
    }
    let bearer = headers.get(AUTHORIZATION).and_then(|header| header.to_str().ok()).and_then(|text| {
        let (scheme, token) = text.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then_some(token.trim())
    });
    match (peer.user.as_ref().filter(|_| !expired), bearer) {
        (Some(user), _) => Ok(user.clone()),
        (None, Some(token)) => {
            let audience = core.config.audience.as_str();
            let found = by_token(core, token, &[audience]).await;
            found.map(|found| found.user).ok_or_else(|| Status::unauthorized().into())
        }
        (None, None) if expired => Err(Status::unauthorized().into()),
        (None, None) => Ok(UserInfo::anonymous()),
    }
}

/// Whom a token stands for now: a service account, a machine that joins, somebody of the OIDC issuer, or whom the webhook knows.
pub async fn by_token(core: &Core, token: &str, audiences: &[&str]) -> Option<Authenticated> {
    let now = core.clock.now();
    if let Ok(claims) = core.tokens.verify(token, audiences, now) {
        let meant = audiences.iter().filter(|asked| claims.aud.iter().any(|aud| aud == **asked));
        let audiences = meant.map(|one| (*one).to_owned()).collect();
        return alive(core, &claims).await.then(|| Authenticated { user: user(&claims), audiences });
    }
    // One of ours that is worth nothing is nobody else's business.
    if oidc::unverified(token).is_some_and(|claims| claims["iss"] == core.tokens.issuer.as_str()) {
        return None;
    }
    let own = core.config.audience.as_str();
    // These know no audiences: they are meant for this server.
    if audiences.contains(&own) {
        let found = |user| Some(Authenticated { user, audiences: vec![own.to_owned()] });
        if core.config.bootstrap_tokens
            && let Some(user) = bootstrap_tokens::user(core, token)
        {
            return found(user);
        }
        let said = match &core.oidc {
            Some(oidc) => oidc.user(token, now.secs()).await,
            None => None,
        };
        match said {
            Some(Ok(user)) => return found(user),
            Some(Err(why)) => tracing::debug!(why, "a token of the OIDC issuer is not valid"),
            None => {}
        }
    }
    core.token_reviews.as_ref()?.user(token, audiences, own, core.clock.boottime_ms()).await
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
