//! The flags that say who may come to an API server and whom it asks, named as kube-apiserver names them. It decides nothing.

use clap::Args;
use std::path::PathBuf;
use std::time::Duration;

/// Whose identities count besides certificates and service accounts.
#[derive(Args, Debug, Clone)]
#[command(next_help_heading = "Authentication")]
pub struct AuthenticationArgs {
    /// The OpenID Connect issuer whose tokens count (https)
    #[arg(long, value_name = "URL", requires = "oidc_client_id")]
    pub oidc_issuer_url: Option<String>,
    /// Whom its tokens must be meant for
    #[arg(long, value_name = "ID", requires = "oidc_issuer_url")]
    pub oidc_client_id: Option<String>,
    /// The claim that names the user
    #[arg(long, default_value = "sub", value_name = "CLAIM")]
    pub oidc_username_claim: String,
    /// What user names get in front; `-` for nothing [default: ISSUER#, nothing for the claim `email`]
    #[arg(long, value_name = "TEXT")]
    pub oidc_username_prefix: Option<String>,
    /// The claim that lists the user's groups
    #[arg(long, value_name = "CLAIM")]
    pub oidc_groups_claim: Option<String>,
    /// What group names get in front
    #[arg(long, value_name = "TEXT")]
    pub oidc_groups_prefix: Option<String>,
    /// A claim that tokens must have (repeatable)
    #[arg(long = "oidc-required-claim", value_name = "CLAIM=VALUE", value_parser = pair)]
    pub oidc_required_claims: Vec<(String, String)>,
    /// Algorithms that tokens may be signed by
    #[arg(long, default_value = "RS256", value_delimiter = ',', value_name = "NAME")]
    pub oidc_signing_algs: Vec<String>,
    /// The authority of the issuer's certificate (PEM) [default: this machine's list of public authorities]
    #[arg(long, value_name = "FILE")]
    pub oidc_ca_file: Option<PathBuf>,
    /// A kubeconfig of the server that reviews other tokens (TokenReview, authentication.k8s.io/v1)
    #[arg(long, value_name = "FILE")]
    pub authentication_token_webhook_config_file: Option<PathBuf>,
    /// How long its answers count
    #[arg(long, default_value = "2m", value_name = "DURATION", value_parser = duration)]
    pub authentication_token_webhook_cache_ttl: Duration,
    /// Take the tokens of Secrets `bootstrap-token-ID` in kube-system
    #[arg(long)]
    pub enable_bootstrap_token_auth: bool,
    /// The authority of proxies that say in headers whom they speak for (PEM)
    #[arg(long, value_name = "FILE")]
    pub requestheader_client_ca_file: Option<PathBuf>,
    /// The common names of those proxies' certificates [default: any]
    #[arg(long, value_delimiter = ',', value_name = "NAME")]
    pub requestheader_allowed_names: Vec<String>,
    /// Headers that name the user
    #[arg(long, default_value = "X-Remote-User", value_delimiter = ',', value_name = "HEADER")]
    pub requestheader_username_headers: Vec<String>,
    /// Headers that name the user's UID
    #[arg(long, default_value = "X-Remote-Uid", value_delimiter = ',', value_name = "HEADER")]
    pub requestheader_uid_headers: Vec<String>,
    /// Headers that name the user's groups
    #[arg(long, default_value = "X-Remote-Group", value_delimiter = ',', value_name = "HEADER")]
    pub requestheader_group_headers: Vec<String>,
    /// What headers with more about the user begin with
    #[arg(long, default_value = "X-Remote-Extra-", value_delimiter = ',', value_name = "PREFIX")]
    pub requestheader_extra_headers_prefix: Vec<String>,
}

/// Who is asked for what no role allows.
#[derive(Args, Debug, Clone)]
#[command(next_help_heading = "Authorization")]
pub struct AuthorizationArgs {
    /// A kubeconfig of the server that decides what no role allows (SubjectAccessReview, authorization.k8s.io/v1)
    #[arg(long, value_name = "FILE")]
    pub authorization_webhook_config_file: Option<PathBuf>,
    /// How long its yes counts
    #[arg(long, default_value = "5m", value_name = "DURATION", value_parser = duration)]
    pub authorization_webhook_cache_authorized_ttl: Duration,
    /// How long its no counts
    #[arg(long, default_value = "30s", value_name = "DURATION", value_parser = duration)]
    pub authorization_webhook_cache_unauthorized_ttl: Duration,
}

/// What is written down of requests.
#[derive(Args, Debug, Clone)]
#[command(next_help_heading = "Audit")]
pub struct AuditArgs {
    /// What to write down: a Policy of audit.k8s.io/v1 (YAML)
    #[arg(long, value_name = "FILE", requires = "audit_log_path")]
    pub audit_policy_file: Option<PathBuf>,
    /// Where to write it, as JSON lines, readable by its owner alone; `-` for standard output
    #[arg(long, value_name = "FILE", requires = "audit_policy_file")]
    pub audit_log_path: Option<PathBuf>,
    /// Days to keep files that were put aside; 0: for ever
    #[arg(long, default_value_t = 0, value_name = "DAYS")]
    pub audit_log_maxage: u32,
    /// Files to keep that were put aside; 0: all
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub audit_log_maxbackup: usize,
    /// Megabytes after which a file is put aside; 0: never
    #[arg(long, default_value_t = 100, value_name = "MB")]
    pub audit_log_maxsize: u64,
}

fn pair(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("CLAIM=VALUE is needed")?;
    Ok((key.to_owned(), value.to_owned()))
}

/// `90s`, `2m`, `1h30m`, `0`.
fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("{text:?} is no duration such as 30s, 5m or 1h30m");
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    let (mut seconds, mut digits) = (0_u64, String::new());
    for c in text.chars() {
        let unit = match c {
            '0'..='9' => {
                digits.push(c);
                continue;
            }
            's' => 1,
            'm' => 60,
            'h' => 3_600,
            _ => return Err(wrong()),
        };
        let number: u64 = digits.parse().map_err(|_| wrong())?;
        seconds = number.checked_mul(unit).and_then(|more| seconds.checked_add(more)).ok_or_else(wrong)?;
        digits.clear();
    }
    if text.is_empty() || !digits.is_empty() { Err(wrong()) } else { Ok(Duration::from_secs(seconds)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_kubernetes_writes_them() {
        for (text, seconds) in [("0", 0), ("90s", 90), ("2m", 120), ("1h30m", 5_400), ("2m0s", 120)] {
            assert_eq!(duration(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        for text in ["", "5", "m", "-1s", "1d", "99999999999999999999s", "9999999999999999999h"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }
}
