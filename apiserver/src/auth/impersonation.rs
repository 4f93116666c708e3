//! Acting as somebody else (Kubernetes' `Impersonate-` headers). Decides what must be allowed for it, and who the request then
//! comes from.

use super::UserInfo;
use super::authz::{Attributes, Decision, forbidden};
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

/// Who the request comes from: the caller, or whom the caller impersonates. `allow` says what the caller may.
pub fn effective(
    headers: &HeaderMap,
    caller: UserInfo,
    allow: impl Fn(&UserInfo, &Attributes<'_>) -> Decision,
) -> Outcome<UserInfo> {
    let asked = |name: &str| name == USER || name == GROUP || name == UID || name.starts_with(EXTRA);
    let Some(first) = headers.keys().map(http::HeaderName::as_str).find(|name| asked(name)) else { return Ok(caller) };
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
    for what in needed(&username, &groups, &uid, &extra) {
        if let Decision::Deny(why) = allow(&caller, &what) {
            return Err(forbidden(&caller, &what, &why).into());
        }
    }
    Ok(UserInfo { groups: groups_of(&username, groups), username, uid, extra })
}

/// Every part of the identity is granted by itself.
fn needed<'a>(
    username: &'a str,
    groups: &'a [String],
    uid: &'a str,
    extra: &'a BTreeMap<String, Vec<String>>,
) -> Vec<Attributes<'a>> {
    let part =
        |group, resource, name| Attributes { verb: "impersonate", group, resource, name, ..Attributes::default() };
    let mut all = vec![match account(username) {
        Some((namespace, name)) => Attributes { namespace, ..part("", "serviceaccounts", name) },
        None => part("", "users", username),
    }];
    all.extend(groups.iter().map(|group| part("", "groups", group.as_str())));
    for (key, values) in extra {
        let value = |value: &'a String| Attributes { subresource: key, ..part(AUTHENTICATION, "userextras", value) };
        all.extend(values.iter().map(value));
    }
    if !uid.is_empty() {
        all.push(part(AUTHENTICATION, "uids", uid));
    }
    all
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
    use crate::auth::authz::Grant;
    use http::{HeaderName, HeaderValue};

    fn asked(caller: UserInfo, headers: &[(&'static str, &'static str)]) -> Outcome<UserInfo> {
        let pairs =
            headers.iter().map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)));
        let mut map = HeaderMap::new();
        for (name, value) in pairs {
            map.append(name, value);
        }
        effective(&map, caller, |caller, what| {
            // `helper` may be the user bob and no more.
            let bob = caller.username == "helper" && (what.resource, what.name) == ("users", "bob");
            let allowed = bob || caller.in_group("system:masters");
            if allowed { Decision::Allow(Grant::Always) } else { Decision::Deny(String::new()) }
        })
    }

    #[test]
    fn the_identity_is_the_one_asked_for() {
        let admin = || UserInfo::new("admin", &["system:masters"]);
        let bob =
            asked(admin(), &[(USER, "bob"), (GROUP, "a"), (GROUP, "b"), ("impersonate-extra-x%2fy", "1")]).unwrap();
        assert_eq!((bob.username.as_str(), bob.groups.join(" ")), ("bob", "a b system:authenticated".to_owned()));
        assert_eq!(bob.extra["x/y"], ["1"]);
        let account = asked(admin(), &[(USER, "system:serviceaccount:ns:a")]).unwrap();
        assert!(account.in_group("system:serviceaccounts:ns") && !account.in_group("system:masters"));
        assert_eq!(asked(admin(), &[(USER, "system:anonymous")]).unwrap().groups, ["system:unauthenticated"]);
        assert_eq!(asked(admin(), &[("accept", "x")]).unwrap(), admin());
        assert_eq!(asked(admin(), &[(GROUP, "a")]).unwrap_err().code(), 400);
    }

    #[test]
    fn every_part_of_the_identity_must_be_allowed() {
        let check = |more: &[(&'static str, &'static str)], expect: &str| {
            let headers = [&[(USER, "bob")], more].concat();
            let said =
                asked(UserInfo::new("helper", &[]), &headers).map_or_else(|status| status.message, |_| String::new());
            assert_eq!(said, expect);
        };
        check(&[], "");
        check(
            &[(GROUP, "a")],
            "groups \"a\" is forbidden: User \"helper\" cannot impersonate resource \"groups\" in API group \"\" at the cluster scope",
        );
        check(
            &[("impersonate-extra-scopes", "v")],
            "userextras.authentication.k8s.io \"v\" is forbidden: User \"helper\" cannot impersonate resource \"userextras/scopes\" in API group \"authentication.k8s.io\" at the cluster scope",
        );
        check(
            &[(UID, "u")],
            "uids.authentication.k8s.io \"u\" is forbidden: User \"helper\" cannot impersonate resource \"uids\" in API group \"authentication.k8s.io\" at the cluster scope",
        );
        let account = asked(UserInfo::new("helper", &[]), &[(USER, "system:serviceaccount:ns:a")]).unwrap_err();
        assert_eq!(
            account.message,
            "serviceaccounts \"a\" is forbidden: User \"helper\" cannot impersonate resource \"serviceaccounts\" in API group \"\" in the namespace \"ns\""
        );
    }
}
