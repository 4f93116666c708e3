//! Bootstrap tokens: `ID.SECRET`, kept in Secrets of `kube-system`, with which a machine asks for its first certificate. Decides whom
//! one stands for, and when it does not.

use super::UserInfo;
use crate::core::Core;
use crate::kinds::value::{at, str_at};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use gantry_apimachinery::kinds::SECRET;
use gantry_apimachinery::time::Timestamp;
use serde_json::Value;

const NAMESPACE: &str = "kube-system";
const PREFIX: &str = "bootstrap-token-";
const TYPE: &str = "bootstrap.kubernetes.io/token";
const GROUP: &str = "system:bootstrappers";

/// Whom the token stands for now.
pub fn user(core: &Core, token: &str) -> Option<UserInfo> {
    let (id, secret) = parts(token)?;
    let object = core.cached(&SECRET, NAMESPACE, &format!("{PREFIX}{id}"))?.value().ok()?;
    holds(&object, id, secret, core.clock.now())
}

/// The two parts of what may be such a token.
fn parts(token: &str) -> Option<(&str, &str)> {
    let fits = |text: &str, length: usize| {
        text.len() == length && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
    };
    token.split_once('.').filter(|(id, secret)| fits(id, 6) && fits(secret, 16))
}

fn holds(object: &Value, id: &str, secret: &str, now: Timestamp) -> Option<UserInfo> {
    let data =
        |key: &str| -> Option<String> { String::from_utf8(STANDARD.decode(object["data"][key].as_str()?).ok()?).ok() };
    if str_at(object, "type") != TYPE || at(object, "metadata.deletionTimestamp").is_some() {
        return None;
    }
    if data("token-id")? != id || !same(data("token-secret")?.as_bytes(), secret.as_bytes()) {
        return None;
    }
    if data("usage-bootstrap-authentication")? != "true" {
        return None;
    }
    if let Some(expiration) = data("expiration").filter(|text| !text.is_empty())
        && Timestamp::parse(&expiration).ok()? <= now
    {
        return None;
    }
    let mut groups = vec![GROUP.to_owned()];
    for group in data("auth-extra-groups").unwrap_or_default().split(',').map(str::trim).filter(|text| !text.is_empty())
    {
        // One group that nobody should have makes the whole token worthless, as in Kubernetes.
        if !is_group(group) {
            return None;
        }
        groups.push(group.to_owned());
    }
    let groups: Vec<&str> = groups.iter().map(String::as_str).collect();
    Some(UserInfo::new(format!("system:bootstrap:{id}"), &groups))
}

/// `system:bootstrappers:` and what may follow.
fn is_group(group: &str) -> bool {
    group.strip_prefix(GROUP).and_then(|rest| rest.strip_prefix(':')).is_some_and(|rest| {
        let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b":-".contains(&byte);
        rest.len() <= 256
            && rest.bytes().all(inner)
            && rest.bytes().last().is_some_and(|byte| byte.is_ascii_alphanumeric())
    })
}

/// Compares in a time that tells nothing of where they differ.
fn same(one: &[u8], other: &[u8]) -> bool {
    let differs = one.iter().zip(other).fold(0, |differs, (a, b)| std::hint::black_box(differs | (a ^ b)));
    one.len() == other.len() && differs == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn secret(change: impl FnOnce(&mut Value)) -> Value {
        let mut data = json!({"token-id": "abcdef", "token-secret": "0123456789abcdef", "usage-bootstrap-authentication": "true",
            "expiration": "2026-01-01T00:00:00Z", "auth-extra-groups": "system:bootstrappers:kubeadm:default-node-token"});
        change(&mut data);
        let encoded: serde_json::Map<String, Value> = data
            .as_object()
            .unwrap()
            .iter()
            .map(|(key, value)| (key.clone(), STANDARD.encode(value.as_str().unwrap_or("")).into()))
            .collect();
        json!({"type": TYPE, "metadata": {}, "data": encoded})
    }

    #[test]
    fn a_token_stands_for_its_machine_while_it_holds() {
        let now = Timestamp::parse("2025-12-31T23:59:59Z").unwrap();
        let check = |object: &Value, secret: &str, now: Timestamp, expect: Option<&str>| {
            let user = holds(object, "abcdef", secret, now);
            assert_eq!(user.map(|user| format!("{} {}", user.username, user.groups.join(","))).as_deref(), expect);
        };
        let right = "0123456789abcdef";
        let who = "system:bootstrap:abcdef system:bootstrappers,system:bootstrappers:kubeadm:default-node-token,system:authenticated";
        check(&secret(|_| {}), right, now, Some(who));
        check(&secret(|_| {}), "0123456789abcdee", now, None);
        check(&secret(|_| {}), right, Timestamp::parse("2026-01-01T00:00:00Z").unwrap(), None);
        check(&secret(|data| data["expiration"] = "soon".into()), right, now, None);
        check(&secret(|data| data["usage-bootstrap-authentication"] = "false".into()), right, now, None);
        check(&secret(|data| data["token-id"] = "other1".into()), right, now, None);
        check(&secret(|data| data["auth-extra-groups"] = "system:masters".into()), right, now, None);
        check(&secret(|data| data["auth-extra-groups"] = "system:bootstrappers:".into()), right, now, None);
        let mut other = secret(|_| {});
        other["type"] = "Opaque".into();
        check(&other, right, now, None);
        let mut going = secret(|_| {});
        going["metadata"]["deletionTimestamp"] = "2025-01-01T00:00:00Z".into();
        check(&going, right, now, None);
    }

    #[test]
    fn what_is_no_such_token_is_not_looked_up() {
        assert_eq!(parts("abcdef.0123456789abcdef"), Some(("abcdef", "0123456789abcdef")));
        for text in
            ["abcdef", "abcdef.0123", "ABCDEF.0123456789abcdef", "../xyz.0123456789abcdef", "abcdef.0123456789abcdef."]
        {
            assert_eq!(parts(text), None, "{text}");
        }
        assert!(same(b"ab", b"ab") && !same(b"ab", b"ac") && !same(b"ab", b"abc"));
    }
}
