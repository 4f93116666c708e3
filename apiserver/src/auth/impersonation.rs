//! Acting as somebody else (Kubernetes' `Impersonate-` headers). Decides what must be allowed for it, and who the request then
//! comes from.

use super::UserInfo;
use super::authz::Attributes;
use crate::http::Outcome;
use gantry_apimachinery::status::Status;
use http::HeaderMap;
use std::collections::BTreeMap;

const USER: &str = "impersonate-user";
const GROUP: &str = "impersonate-group";
const UID: &str = "impersonate-uid";
const EXTRA: &str = "impersonate-extra-";
/// Where the parts of an identity that are no objects of their own are granted.
const AUTHENTICATION: &str = "authentication.k8s.io";
const ACCOUNT: &str = "system:serviceaccount:";

/// As whom a request wants to be.
#[derive(Debug, PartialEq, Eq)]
pub struct Impersonation {
    username: String,
    groups: Vec<String>,
    uid: String,
    extra: BTreeMap<String, Vec<String>>,
}

/// Reads the headers.
pub fn asked(headers: &HeaderMap) -> Outcome<Option<Impersonation>> {
    let asked = |name: &str| name == USER || name == GROUP || name == UID || name.starts_with(EXTRA);
    let Some(first) = headers.keys().map(http::HeaderName::as_str).find(|name| asked(name)) else { return Ok(None) };
    let texts = |name: &str| -> Vec<String> {
        headers.get_all(name).iter().filter_map(|value| value.to_str().ok()).map(str::to_owned).collect()
    };
    let Some(username) = texts(USER).into_iter().next().filter(|name| !name.is_empty()) else {
        return Err(Status::bad_request(format!("requested {first} without impersonating a user")).into());
    };
    let mut extra: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for name in headers.keys().map(http::HeaderName::as_str) {
        if let Some(key) = name.strip_prefix(EXTRA) {
            extra.entry(percent_decoded(key)).or_default().extend(texts(name));
        }
    }
    let (groups, uid) = (texts(GROUP), texts(UID).into_iter().next().unwrap_or_default());
    Ok(Some(Impersonation { username, groups, uid, extra }))
}

impl Impersonation {
    /// What the caller must be allowed: every part of the identity is granted by itself.
    pub fn needed(&self) -> Vec<Attributes<'_>> {
        let part =
            |group, resource, name| Attributes { verb: "impersonate", group, resource, name, ..Attributes::default() };
        let mut all = vec![match account(&self.username) {
            Some((namespace, name)) => Attributes { namespace, ..part("", "serviceaccounts", name) },
            None => part("", "users", self.username.as_str()),
        }];
        all.extend(self.groups.iter().map(|group| part("", "groups", group.as_str())));
        for (key, values) in &self.extra {
            let value = |value| Attributes { subresource: key.as_str(), ..part(AUTHENTICATION, "userextras", value) };
            all.extend(values.iter().map(|one| value(one.as_str())));
        }
        if !self.uid.is_empty() {
            all.push(part(AUTHENTICATION, "uids", self.uid.as_str()));
        }
        all
    }

    /// Who the request then comes from.
    pub fn into_user(self) -> UserInfo {
        let groups = groups_of(&self.username, self.groups);
        UserInfo { groups, username: self.username, uid: self.uid, extra: self.extra }
    }
}

/// Namespace and name of the service account that a user name is.
fn account(username: &str) -> Option<(&str, &str)> {
    let (namespace, name) = username.strip_prefix(ACCOUNT)?.split_once(':')?;
    (!namespace.is_empty() && !name.is_empty() && !name.contains(':')).then_some((namespace, name))
}

/// The groups asked for; a service account without any gets its own. Everybody is authenticated, or is nobody.
fn groups_of(username: &str, mut groups: Vec<String>) -> Vec<String> {
    if let Some((namespace, _)) = account(username)
        && groups.is_empty()
    {
        groups = vec!["system:serviceaccounts".into(), format!("system:serviceaccounts:{namespace}")];
    }
    let known = if username == "system:anonymous" { "system:unauthenticated" } else { "system:authenticated" };
    if !groups.iter().any(|group| group == known) {
        groups.push(known.to_owned());
    }
    groups
}

/// A key of the extra information may hold what a header's name may not.
fn percent_decoded(key: &str) -> String {
    percent_encoding::percent_decode_str(key).decode_utf8_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::authz::forbidden;
    use http::{HeaderName, HeaderValue};

    fn wanted(pairs: &[(&'static str, &'static str)]) -> Outcome<Option<Impersonation>> {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        asked(&headers)
    }

    fn user(pairs: &[(&'static str, &'static str)]) -> UserInfo {
        wanted(pairs).unwrap().unwrap().into_user()
    }

    #[test]
    fn the_identity_is_the_one_asked_for() {
        let bob = user(&[(USER, "bob"), (GROUP, "a"), (GROUP, "b"), ("impersonate-extra-x%2fy", "1")]);
        assert_eq!((bob.username.as_str(), bob.groups.join(" ")), ("bob", "a b system:authenticated".to_owned()));
        assert_eq!(bob.extra["x/y"], ["1"]);
        let account = user(&[(USER, "system:serviceaccount:ns:a")]);
        assert!(account.in_group("system:serviceaccounts:ns") && !account.in_group("system:masters"));
        assert_eq!(user(&[(USER, "system:anonymous")]).groups, ["system:unauthenticated"]);
        assert_eq!(wanted(&[("accept", "x")]).unwrap(), None);
        assert_eq!(wanted(&[(GROUP, "a")]).unwrap_err().code(), 400);
    }

    #[test]
    fn every_part_of_the_identity_must_be_allowed() {
        let helper = UserInfo::new("helper", &[]);
        let check = |pairs: &[(&'static str, &'static str)], expect: &[&str]| {
            let wanted = wanted(pairs).unwrap().unwrap();
            let refusals: Vec<String> =
                wanted.needed().iter().map(|what| forbidden(&helper, what, "").message).collect();
            assert_eq!(refusals, expect);
        };
        let bob = "users \"bob\" is forbidden: User \"helper\" cannot impersonate resource \"users\" in API group \"\" at the cluster scope";
        check(&[(USER, "bob")], &[bob]);
        check(
            &[(USER, "bob"), (GROUP, "a")],
            &[
                bob,
                "groups \"a\" is forbidden: User \"helper\" cannot impersonate resource \"groups\" in API group \"\" at the cluster scope",
            ],
        );
        check(
            &[(USER, "bob"), ("impersonate-extra-scopes", "v")],
            &[
                bob,
                "userextras.authentication.k8s.io \"v\" is forbidden: User \"helper\" cannot impersonate resource \"userextras/scopes\" in API group \"authentication.k8s.io\" at the cluster scope",
            ],
        );
        check(
            &[(USER, "bob"), (UID, "u")],
            &[
                bob,
                "uids.authentication.k8s.io \"u\" is forbidden: User \"helper\" cannot impersonate resource \"uids\" in API group \"authentication.k8s.io\" at the cluster scope",
            ],
        );
        check(
            &[(USER, "system:serviceaccount:ns:a")],
            &[
                "serviceaccounts \"a\" is forbidden: User \"helper\" cannot impersonate resource \"serviceaccounts\" in API group \"\" in the namespace \"ns\"",
            ],
        );
    }
}
