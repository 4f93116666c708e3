//! OpenID Connect: tokens of another issuer. Decides which key verifies a token; what its claims mean is decided in `claims`, and
//! keys are fetched in `keys`.

mod claims;
mod keys;

use super::UserInfo;
use crate::config::OidcConfig;
use crate::core::StartError;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use gantry_apimachinery::clock::Clock;
use jsonwebtoken::{Algorithm, DecodingKey, Validation};
use keys::Keys;
use serde_json::Value;
use std::str::FromStr;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// Verifies tokens of one issuer.
pub struct Oidc {
    config: OidcConfig,
    algorithms: Vec<Algorithm>,
    keys: Keys,
}

impl Oidc {
    pub fn new(config: &OidcConfig, clock: Arc<dyn Clock>) -> Result<Self, StartError> {
        let bad = |why: String| StartError::Oidc(why);
        if !config.issuer_url.starts_with("https://") {
            return Err(bad(format!("the issuer {:?} must be an https URL", config.issuer_url)));
        }
        let algorithm = |name: &String| {
            let known = Algorithm::from_str(name).ok();
            // Whoever knows a shared secret could make tokens.
            let known = known.filter(|one| !matches!(one, Algorithm::HS256 | Algorithm::HS384 | Algorithm::HS512));
            known.ok_or_else(|| bad(format!("the signing algorithm {name:?} is not supported")))
        };
        let algorithms = config.signing_algs.iter().map(algorithm).collect::<Result<Vec<_>, _>>()?;
        let keys = Keys::new(&config.issuer_url, &config.ca, clock).map_err(|error| bad(error.to_string()))?;
        Ok(Self { config: config.clone(), algorithms, keys })
    }

    /// Fetches the issuer's keys, now and then again, until cancelled.
    pub async fn run(&self, cancel: CancellationToken) {
        self.keys.run(cancel).await;
    }

    /// Whom the token stands for; `None` when it is not of this issuer.
    pub async fn user(&self, token: &str, now_s: i64) -> Option<Result<UserInfo, String>> {
        if unverified(token)?["iss"] != self.config.issuer_url.as_str() {
            return None;
        }
        Some(self.verified(token).await.and_then(|claims| claims::user(&claims, &self.config, now_s)))
    }

    async fn verified(&self, token: &str) -> Result<Value, String> {
        let header = jsonwebtoken::decode_header(token).map_err(|error| error.to_string())?;
        if !self.algorithms.contains(&header.alg) {
            return Err(format!("it is signed by {:?}, which --oidc-signing-algs does not name", header.alg));
        }
        let kid = header.kid.as_deref();
        // The issuer may have changed its keys.
        self.keys.until(|| try_keys(token, header.alg, &self.keys.named(kid))).await
    }
}

fn try_keys(token: &str, algorithm: Algorithm, keys: &[Arc<DecodingKey>]) -> Result<Value, String> {
    let mut validation = Validation::new(algorithm);
    // All claims are checked in `claims`, against our clock.
    validation.validate_exp = false;
    validation.validate_nbf = false;
    validation.validate_aud = false;
    validation.required_spec_claims.clear();
    let mut last = "none of the issuer's keys is the one that it names".to_owned();
    for key in keys {
        match jsonwebtoken::decode::<Value>(token, key, &validation) {
            Ok(decoded) => return Ok(decoded.claims),
            Err(error) => last = error.to_string(),
        }
    }
    Err(last)
}

/// What a token says of itself.
pub fn unverified(token: &str) -> Option<Value> {
    let mut parts = token.split('.');
    let (_, payload, _) = (parts.next()?, parts.next()?, parts.next()?);
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(payload).ok()?).ok()
}
