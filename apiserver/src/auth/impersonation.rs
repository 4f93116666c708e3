//! Acting as somebody else (Kubernetes' `Impersonate-` headers). Decides who may, and who the request then comes from.

use super::UserInfo;
use crate::http::Outcome;
use gantry_apimachinery::status::{Reason, Status};
use http::HeaderMap;
use std::collections::BTreeMap;

const USER: &str = "impersonate-user";
const GROUP: &str = "impersonate-group";
const UID: &str = "impersonate-uid";
const EXTRA: &str = "impersonate-extra-";
/// Until there are rules that grant it, only those who may do anything may be somebody else.
const MAY: &str = "system:masters";

/// Who the request comes from: the caller, or whom the caller impersonates.
pub fn effective(headers: &HeaderMap, caller: UserInfo) -> Outcome<UserInfo> {
    let asked = |name: &str| name == USER || name == GROUP || name == UID || name.starts_with(EXTRA);
    let Some(first) = headers.keys().map(http::HeaderName::as_str).find(|name| asked(name)) else { return Ok(caller) };
    let texts = |name: &str| -> Vec<String> {
        headers.get_all(name).iter().filter_map(|value| value.to_str().ok()).map(str::to_owned).collect()
    };
    let Some(username) = texts(USER).into_iter().next().filter(|name| !name.is_empty()) else {
        return Err(Status::bad_request(format!("requested {first} without impersonating a user")).into());
    };
    if !caller.in_group(MAY) {
        let who = &caller.username;
        let why = format!("User {who:?} cannot impersonate resource \"users\" in API group \"\" at the cluster scope");
        let text = format!("users {username:?} is forbidden: {why}");
        return Err(Status::failure(Reason::Forbidden, text, None).into());
    }
    let mut extra: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for name in headers.keys().map(http::HeaderName::as_str) {
        if let Some(key) = name.strip_prefix(EXTRA) {
            extra.insert(percent_decoded(key), texts(name));
        }
    }
    let groups = groups_of(&username, texts(GROUP));
    Ok(UserInfo { username, uid: texts(UID).into_iter().next().unwrap_or_default(), groups, extra })
}

/// The groups asked for; a service account without any gets its own. Everybody is authenticated, or is nobody.
fn groups_of(username: &str, mut groups: Vec<String>) -> Vec<String> {
    if let Some((namespace, _)) = username.strip_prefix("system:serviceaccount:").and_then(|rest| rest.split_once(':'))
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
    use http::{HeaderName, HeaderValue};

    fn asked(caller: UserInfo, headers: &[(&'static str, &'static str)]) -> Outcome<UserInfo> {
        let pairs =
            headers.iter().map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)));
        let mut map = HeaderMap::new();
        for (name, value) in pairs {
            map.append(name, value);
        }
        effective(&map, caller)
    }

    #[test]
    fn only_masters_act_as_somebody_else() {
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
        let refused = asked(UserInfo::new("eve", &[]), &[(USER, "admin")]).unwrap_err();
        assert_eq!(refused.code(), 403);
        assert!(refused.message.contains("User \"eve\" cannot impersonate"), "{}", refused.message);
    }
}
