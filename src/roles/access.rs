//! From flags and the files that they name to what the API server is told of identities and permissions. Decides how a kubeconfig of a
//! webhook is read; never who may do what.

use crate::cli::{AuditArgs, AuthenticationArgs, AuthorizationArgs};
use crate::problem::Problem;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use gantry_apiserver::{
    AccessWebhook, AuditConfig, Config, LogConfig, OidcConfig, RequestHeaderConfig, TokenWebhook, WebhookServer,
};
use serde_json::Value;
use std::path::Path;

/// Where distributions keep their lists of public authorities.
const PUBLIC_AUTHORITIES: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// What the flags say; files are read now, so that what is wrong with them is said at once.
pub fn apply(who: &AuthenticationArgs, what: &AuthorizationArgs, config: &mut Config) -> anyhow::Result<()> {
    config.bootstrap_tokens = who.enable_bootstrap_token_auth;
    config.oidc = oidc(who)?;
    config.request_header = request_header(who)?;
    if let Some(file) = &who.authentication_token_webhook_config_file {
        let cache_s = who.authentication_token_webhook_cache_ttl.as_secs();
        let server = webhook(file, "--authentication-token-webhook-config-file")?;
        config.token_webhook = Some(TokenWebhook { server, cache_s });
    }
    if let Some(file) = &what.authorization_webhook_config_file {
        config.access_webhook = Some(AccessWebhook {
            server: webhook(file, "--authorization-webhook-config-file")?,
            allowed_s: what.authorization_webhook_cache_authorized_ttl.as_secs(),
            denied_s: what.authorization_webhook_cache_unauthorized_ttl.as_secs(),
        });
    }
    Ok(())
}

/// What the audit log is to hold, and where.
pub fn audit(args: &AuditArgs) -> anyhow::Result<Option<AuditConfig>> {
    let (Some(file), Some(path)) = (&args.audit_policy_file, &args.audit_log_path) else { return Ok(None) };
    let text = read(file, "--audit-policy-file")?;
    let policy: Value = serde_saphyr::from_str(&text)
        .map_err(|error| Problem::new(format!("--audit-policy-file {}: {error}", file.display())))?;
    let log = LogConfig {
        path: path.clone(),
        max_age_days: args.audit_log_maxage,
        max_backups: args.audit_log_maxbackup,
        max_size_mb: args.audit_log_maxsize,
    };
    Ok(Some(AuditConfig { policy, log }))
}

fn oidc(who: &AuthenticationArgs) -> anyhow::Result<Option<OidcConfig>> {
    let (Some(issuer_url), Some(client_id)) = (&who.oidc_issuer_url, &who.oidc_client_id) else { return Ok(None) };
    let ca = match &who.oidc_ca_file {
        Some(file) => read(file, "--oidc-ca-file")?,
        None => public_authorities()?,
    };
    Ok(Some(OidcConfig {
        issuer_url: issuer_url.clone(),
        client_id: client_id.clone(),
        username_claim: who.oidc_username_claim.clone(),
        username_prefix: who.oidc_username_prefix.clone(),
        groups_claim: who.oidc_groups_claim.clone().unwrap_or_default(),
        groups_prefix: who.oidc_groups_prefix.clone().unwrap_or_default(),
        required_claims: who.oidc_required_claims.iter().cloned().collect(),
        signing_algs: who.oidc_signing_algs.clone(),
        ca,
    }))
}

fn public_authorities() -> anyhow::Result<String> {
    let found = PUBLIC_AUTHORITIES.iter().find_map(|path| std::fs::read_to_string(path).ok());
    found.ok_or_else(|| {
        Problem::new("--oidc-ca-file: this machine has no list of public authorities, so the issuer's is needed").into()
    })
}

fn request_header(who: &AuthenticationArgs) -> anyhow::Result<Option<RequestHeaderConfig>> {
    let Some(file) = &who.requestheader_client_ca_file else { return Ok(None) };
    Ok(Some(RequestHeaderConfig {
        ca: read(file, "--requestheader-client-ca-file")?,
        allowed_names: who.requestheader_allowed_names.clone(),
        username_headers: who.requestheader_username_headers.clone(),
        uid_headers: who.requestheader_uid_headers.clone(),
        group_headers: who.requestheader_group_headers.clone(),
        extra_prefixes: who.requestheader_extra_headers_prefix.clone(),
    }))
}

fn read(path: &Path, flag: &str) -> anyhow::Result<String> {
    std::fs::read_to_string(path).map_err(|error| Problem::new(format!("{flag} {}: {error}", path.display())).into())
}

/// The server and the user of a kubeconfig's current context.
fn webhook(path: &Path, flag: &str) -> anyhow::Result<WebhookServer> {
    let text = read(path, flag)?;
    let folder = path.parent().unwrap_or(Path::new("."));
    let parsed = serde_saphyr::from_str(&text).map_err(|error| error.to_string());
    parsed
        .and_then(|config| server(&config, folder))
        .map_err(|why| Problem::new(format!("{flag} {}: {why}", path.display())).into())
}

fn server(config: &Value, folder: &Path) -> Result<WebhookServer, String> {
    let named = |list: &str, name: &str, field: &str| -> Option<Value> {
        let all = config[list].as_array()?;
        let one = all.iter().find(|one| one["name"] == name).or(if name.is_empty() { all.first() } else { None })?;
        Some(one[field].clone())
    };
    let text = |value: &Value, field: &str| value[field].as_str().unwrap_or("").to_owned();
    let context = named("contexts", &text(config, "current-context"), "context").unwrap_or(Value::Null);
    let cluster = named("clusters", &text(&context, "cluster"), "cluster");
    let cluster = cluster.ok_or("its current context names no cluster")?;
    let user = named("users", &text(&context, "user"), "user").unwrap_or(Value::Null);
    let url = text(&cluster, "server");
    if !url.starts_with("https://") {
        return Err(format!("the server {url:?} must be an https URL"));
    }
    // Given in the file, or as a file beside it.
    let content = |value: &Value, field: &str| -> Result<String, String> {
        let data = text(value, &format!("{field}-data"));
        if !data.is_empty() {
            let bytes = STANDARD.decode(data).map_err(|error| format!("{field}-data: {error}"))?;
            return String::from_utf8(bytes).map_err(|error| format!("{field}-data: {error}"));
        }
        match text(value, field) {
            name if name.is_empty() => Ok(String::new()),
            name => std::fs::read_to_string(folder.join(&name)).map_err(|error| format!("{name}: {error}")),
        }
    };
    let (cert, key) = (content(&user, "client-certificate")?, content(&user, "client-key")?);
    if cert.is_empty() != key.is_empty() {
        return Err("a client certificate needs its key, and a key its certificate".to_owned());
    }
    let token = match text(&user, "token") {
        token if token.is_empty() => content(&user, "tokenFile")?.trim().to_owned(),
        token => token,
    };
    Ok(WebhookServer {
        url,
        ca: content(&cluster, "certificate-authority")?,
        skip_verify: cluster["insecure-skip-tls-verify"] == true,
        client: (!cert.is_empty()).then_some((cert, key)),
        bearer: (!token.is_empty()).then_some(token),
    })
}

/// The authorities whose certificates the listener takes: of clients, and of proxies.
pub fn accepted_authorities(client_ca: &str, config: &Config) -> String {
    let proxies = config.request_header.as_ref().map_or("", |header| header.ca.as_str());
    format!("{client_ca}\n{proxies}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str, folder: &Path) -> Result<WebhookServer, String> {
        server(&serde_saphyr::from_str(text).unwrap(), folder)
    }

    #[test]
    fn a_kubeconfig_says_whom_to_ask_and_as_whom() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("ca.pem"), "CA").unwrap();
        let text = "
clusters: [{name: other, cluster: {server: 'https://other'}}, {name: c, cluster: {server: 'https://h:1/p', certificate-authority: ca.pem}}]
users: [{name: u, user: {client-certificate-data: Qw==, client-key-data: Sw==, token: t}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x";
        let read = parsed(text, folder.path()).unwrap();
        assert_eq!((read.url.as_str(), read.ca.as_str(), read.skip_verify), ("https://h:1/p", "CA", false));
        assert_eq!((read.client, read.bearer.as_deref()), (Some(("C".into(), "K".into())), Some("t")));
        let alone =
            parsed("clusters: [{cluster: {server: 'https://h', insecure-skip-tls-verify: true}}]", folder.path());
        assert!(alone.is_ok_and(|one| one.skip_verify && one.client.is_none()));
    }

    #[test]
    fn what_is_wrong_with_one_is_said() {
        let check = |text: &str, expect: &str| {
            assert_eq!(parsed(text, Path::new("/nowhere")).err().as_deref(), Some(expect));
        };
        check("{}", "its current context names no cluster");
        check("clusters: [{cluster: {server: 'http://h'}}]", "the server \"http://h\" must be an https URL");
        let missing = "clusters: [{cluster: {server: 'https://h', certificate-authority: none.pem}}]";
        check(missing, "none.pem: No such file or directory (os error 2)");
        let half = "clusters: [{cluster: {server: 'https://h'}}]\nusers: [{user: {client-certificate-data: Qw==}}]";
        check(half, "a client certificate needs its key, and a key its certificate");
    }
}
