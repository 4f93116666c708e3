//! Service-account tokens: bound, short-lived ES256 JWTs. Decides what a token says and whether its signature and times hold;
//! whether what it is bound to still exists is the authenticator's.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use gantry_apimachinery::time::Timestamp;
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header, Validation};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claims {
    pub iss: String,
    pub sub: String,
    pub aud: Vec<String>,
    pub exp: i64,
    pub nbf: i64,
    pub iat: i64,
    pub jti: String,
    #[serde(rename = "kubernetes.io")]
    pub bound: Bound,
}

/// What the token dies with.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bound {
    pub namespace: String,
    pub serviceaccount: Reference,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<Reference>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<Reference>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<Reference>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reference {
    pub name: String,
    pub uid: String,
}

/// The signing key or a token is not usable.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    #[error("the service-account key is not a PKCS#8 P-256 key pair in PEM: {0}")]
    Key(String),
    #[error("the token is not valid: {0}")]
    Invalid(String),
}

pub struct Tokens {
    signing: EncodingKey,
    verifying: DecodingKey,
    pub issuer: String,
    key_id: String,
    point: Vec<u8>,
}

impl Tokens {
    /// `private_pem`: PKCS#8; `public_pem`: SubjectPublicKeyInfo. Both of one P-256 key.
    pub fn new(private_pem: &str, public_pem: &str, issuer: impl Into<String>) -> Result<Self, TokenError> {
        let key = |error: jsonwebtoken::errors::Error| TokenError::Key(error.to_string());
        let signing = EncodingKey::from_ec_pem(private_pem.as_bytes()).map_err(key)?;
        let verifying = DecodingKey::from_ec_pem(public_pem.as_bytes()).map_err(key)?;
        let point = public_point(public_pem).ok_or_else(|| TokenError::Key("the public key is not P-256".into()))?;
        let key_id = URL_SAFE_NO_PAD.encode(Sha256::digest(&point));
        Ok(Self { signing, verifying, issuer: issuer.into(), key_id, point })
    }

    pub fn sign(&self, claims: &Claims) -> Result<String, TokenError> {
        let header = Header { kid: Some(self.key_id.clone()), ..Header::new(Algorithm::ES256) };
        jsonwebtoken::encode(&header, claims, &self.signing).map_err(|error| TokenError::Key(error.to_string()))
    }

    /// Checks signature, issuer, times (10 s of leeway) and that one of `audiences` is meant.
    pub fn verify(&self, token: &str, audiences: &[&str], now: Timestamp) -> Result<Claims, TokenError> {
        const LEEWAY_S: i64 = 10;
        let invalid = |why: &str| TokenError::Invalid(why.into());
        let mut validation = Validation::new(Algorithm::ES256);
        // Times are compared below, against our clock.
        validation.validate_exp = false;
        validation.validate_nbf = false;
        validation.set_issuer(&[&self.issuer]);
        validation.set_audience(audiences);
        validation.set_required_spec_claims(&["iss", "aud", "exp"]);
        let claims = jsonwebtoken::decode::<Claims>(token, &self.verifying, &validation)
            .map_err(|error| TokenError::Invalid(error.to_string()))?
            .claims;
        let now = now.secs();
        if claims.exp + LEEWAY_S < now {
            return Err(invalid("it has expired"));
        }
        if claims.nbf > now + LEEWAY_S {
            return Err(invalid("it is not valid yet"));
        }
        Ok(claims)
    }

    pub fn jwks(&self) -> Value {
        let (x, y) = self.point.split_at(32);
        json!({"keys": [{
            "kty": "EC", "crv": "P-256", "use": "sig", "alg": "ES256", "kid": self.key_id,
            "x": URL_SAFE_NO_PAD.encode(x), "y": URL_SAFE_NO_PAD.encode(y),
        }]})
    }

    pub fn discovery(&self) -> Value {
        json!({
            "issuer": self.issuer, "jwks_uri": format!("{}/openid/v1/jwks", self.issuer), "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"], "id_token_signing_alg_values_supported": ["ES256"],
        })
    }
}

/// The 64 bytes of the curve point at the end of a P-256 SubjectPublicKeyInfo.
fn public_point(pem: &str) -> Option<Vec<u8>> {
    let body: String = pem.lines().filter(|line| !line.starts_with("-----")).map(str::trim).collect();
    let der = base64::engine::general_purpose::STANDARD.decode(body).ok()?;
    let point = der.get(der.len().checked_sub(65)?..)?;
    (point[0] == 4 && der.len() == 91).then(|| point[1..].to_vec())
}
