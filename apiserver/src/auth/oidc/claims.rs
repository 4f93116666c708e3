//! The claims of a token whose signature holds. Decides whom it stands for, as Kubernetes' `--oidc-*` options say; it has no clock.

use crate::auth::UserInfo;
use crate::config::OidcConfig;
use serde_json::Value;

/// Issuers' clocks may be ahead by this much.
const EARLY_S: f64 = 300.0;

/// `claims`: of the right issuer.
pub fn user(claims: &Value, config: &OidcConfig, now_s: i64) -> Result<UserInfo, String> {
    let meant = match &claims["aud"] {
        Value::String(one) => *one == config.client_id,
        Value::Array(several) => several.iter().any(|one| one == config.client_id.as_str()),
        _ => false,
    };
    if !meant {
        return Err(format!("it is not meant for {:?}", config.client_id));
    }
    times(claims, now_s as f64)?;
    for (claim, wanted) in &config.required_claims {
        if claims[claim].as_str() != Some(wanted) {
            return Err(format!("its claim {claim:?} is not {wanted:?}"));
        }
    }
    let groups: Vec<String> = match &claims[&config.groups_claim] {
        _ if config.groups_claim.is_empty() => Vec::new(),
        Value::Null => Vec::new(),
        Value::String(one) => vec![one.clone()],
        Value::Array(several) => several.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        _ => return Err(format!("its claim {:?} is no list of groups", config.groups_claim)),
    };
    let groups: Vec<String> = groups.iter().map(|group| format!("{}{group}", config.groups_prefix)).collect();
    let groups: Vec<&str> = groups.iter().map(String::as_str).collect();
    let mut user = UserInfo::new(username(claims, config)?, &groups);
    if let Some(id) = claims["jti"].as_str() {
        user.extra.insert("authentication.kubernetes.io/credential-id".into(), vec![format!("JTI={id}")]);
    }
    Ok(user)
}

fn times(claims: &Value, now_s: f64) -> Result<(), String> {
    let Some(expires) = claims["exp"].as_f64() else { return Err("it never ends: it has no \"exp\"".to_owned()) };
    if expires <= now_s {
        return Err("it has expired".to_owned());
    }
    if claims["nbf"].as_f64().is_some_and(|begins| begins > now_s + EARLY_S) {
        return Err("it is not valid yet".to_owned());
    }
    Ok(())
}

fn username(claims: &Value, config: &OidcConfig) -> Result<String, String> {
    let claim = config.username_claim.as_str();
    let Some(name) = claims[claim].as_str().filter(|name| !name.is_empty()) else {
        return Err(format!("it has no claim {claim:?}, which names the user"));
    };
    // An address that nobody proved is nobody's name.
    if claim == "email" && claims.get("email_verified").is_some_and(|verified| verified != true) {
        return Err("its email address is not verified".to_owned());
    }
    let prefix = match config.username_prefix.as_deref() {
        Some("-") => String::new(),
        Some(prefix) => prefix.to_owned(),
        None if claim == "email" => String::new(),
        // A name of another issuer must not be one of ours.
        None => format!("{}#", config.issuer_url),
    };
    Ok(format!("{prefix}{name}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn config(change: impl FnOnce(&mut OidcConfig)) -> OidcConfig {
        let mut config = OidcConfig {
            issuer_url: "https://i.example.org".into(),
            client_id: "gantry".into(),
            username_claim: "sub".into(),
            groups_claim: "groups".into(),
            groups_prefix: "oidc:".into(),
            ..OidcConfig::default()
        };
        change(&mut config);
        config
    }

    #[test]
    fn claims_become_a_user_or_a_reason() {
        let check = |config: OidcConfig, change: &dyn Fn(&mut Value), expect: &str| {
            let mut claims = json!({"sub": "jane", "aud": ["other", "gantry"], "exp": 1_000, "groups": ["dev"],
                "email": "j@example.org", "hd": "example.org"});
            change(&mut claims);
            let text = match user(&claims, &config, 900) {
                Ok(user) => format!("{} {}", user.username, user.groups.join(",")),
                Err(why) => why,
            };
            assert_eq!(text, expect);
        };
        let plain = || config(|_| {});
        check(plain(), &|_| {}, "https://i.example.org#jane oidc:dev,system:authenticated");
        check(plain(), &|c| c["aud"] = "gantry".into(), "https://i.example.org#jane oidc:dev,system:authenticated");
        check(plain(), &|c| c["aud"] = "other".into(), "it is not meant for \"gantry\"");
        check(plain(), &|c| c["exp"] = 900.into(), "it has expired");
        check(plain(), &|c| c["exp"] = "never".into(), "it never ends: it has no \"exp\"");
        check(plain(), &|c| c["nbf"] = 1_300.into(), "it is not valid yet");
        check(plain(), &|c| c["sub"] = 7.into(), "it has no claim \"sub\", which names the user");
        check(plain(), &|c| c["groups"] = "ops".into(), "https://i.example.org#jane oidc:ops,system:authenticated");
        check(plain(), &|c| c["groups"] = 7.into(), "its claim \"groups\" is no list of groups");
        check(config(|c| c.username_prefix = Some("-".into())), &|_| {}, "jane oidc:dev,system:authenticated");
        let email = || config(|c| c.username_claim = "email".into());
        check(email(), &|_| {}, "j@example.org oidc:dev,system:authenticated");
        check(email(), &|c| c["email_verified"] = true.into(), "j@example.org oidc:dev,system:authenticated");
        check(email(), &|c| c["email_verified"] = false.into(), "its email address is not verified");
        let required = || config(|c| c.required_claims = [("hd".to_owned(), "example.org".to_owned())].into());
        check(required(), &|_| {}, "https://i.example.org#jane oidc:dev,system:authenticated");
        check(required(), &|c| c["hd"] = "evil.org".into(), "its claim \"hd\" is not \"example.org\"");
        check(config(|c| c.groups_claim = String::new()), &|_| {}, "https://i.example.org#jane system:authenticated");
    }
}
