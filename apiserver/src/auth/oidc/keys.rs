//! The keys of an issuer, fetched and renewed. Decides when they are fetched again: every ten minutes, and when a token names one that
//! is not there, but never twice within ten seconds.

use crate::kinds::value::str_at;
use crate::outbound::OutboundError;
use crate::outbound::caller::Caller;
use crate::outbound::dial::Trust;
use arc_swap::ArcSwap;
use gantry_apimachinery::clock::Clock;
use jsonwebtoken::DecodingKey;
use jsonwebtoken::jwk::Jwk;
use serde_json::Value;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

const RENEW_EVERY: Duration = Duration::from_secs(600);
/// After a failure.
const AGAIN_AFTER: Duration = Duration::from_secs(10);
const NOT_BEFORE_MS: u64 = 10_000;
/// One question to the issuer.
const WITHIN: Duration = Duration::from_secs(5);
/// How long a request waits for keys: both questions.
const PATIENCE: Duration = Duration::from_secs(10);
const MAX_DOCUMENT: usize = 1024 * 1024;
const MAX_KEYS: usize = 64;

struct Named {
    id: Option<String>,
    key: Arc<DecodingKey>,
}

pub struct Keys {
    issuer: String,
    caller: Caller,
    held: ArcSwap<Vec<Named>>,
    clock: Arc<dyn Clock>,
    /// When the last attempt began, by the clock's boot time; 0: never.
    begun_ms: AtomicU64,
    wanted: Notify,
    /// Counts attempts that ended.
    ended: watch::Sender<u64>,
}

impl Keys {
    pub fn new(issuer: &str, ca: &str, clock: Arc<dyn Clock>) -> Result<Self, OutboundError> {
        Ok(Self {
            issuer: issuer.to_owned(),
            caller: Caller::new(&Trust::Bundle(ca.as_bytes()), None)?,
            held: ArcSwap::default(),
            clock,
            begun_ms: AtomicU64::new(0),
            wanted: Notify::new(),
            ended: watch::Sender::new(0),
        })
    }

    /// The keys that a token may mean.
    pub fn named(&self, id: Option<&str>) -> Vec<Arc<DecodingKey>> {
        let held = self.held.load();
        let meant = |one: &&Named| id.is_none() || one.id.is_none() || one.id.as_deref() == id;
        held.iter().filter(meant).map(|one| one.key.clone()).collect()
    }

    /// Waits for newer keys, and says whether there may be some. They were asked for a moment ago: then no.
    pub async fn renewed(&self) -> bool {
        let mut ended = self.ended.subscribe();
        let begun = self.begun_ms.load(Ordering::SeqCst);
        if begun != 0 && self.clock.boottime_ms().saturating_sub(begun) < NOT_BEFORE_MS && *ended.borrow() > 0 {
            return false;
        }
        let before = *ended.borrow_and_update();
        self.wanted.notify_one();
        let newer = ended.wait_for(|count| *count > before);
        tokio::time::timeout(PATIENCE, newer).await.is_ok_and(|newer| newer.is_ok())
    }

    pub async fn run(&self, cancel: CancellationToken) {
        loop {
            self.begun_ms.store(self.clock.boottime_ms().max(1), Ordering::SeqCst);
            let fetched = tokio::select! {
                () = cancel.cancelled() => return,
                fetched = self.fetch() => fetched,
            };
            let wait = match fetched {
                Ok(keys) => {
                    self.held.store(Arc::new(keys));
                    RENEW_EVERY
                }
                Err(why) => {
                    tracing::warn!(issuer = self.issuer, why, "the keys of the OIDC issuer could not be fetched");
                    AGAIN_AFTER
                }
            };
            self.ended.send_modify(|count| *count += 1);
            tokio::select! {
                () = cancel.cancelled() => return,
                () = tokio::time::sleep(wait) => {}
                () = self.wanted.notified() => {}
            }
        }
    }

    async fn fetch(&self) -> Result<Vec<Named>, String> {
        let discovery = format!("{}/.well-known/openid-configuration", self.issuer.trim_end_matches('/'));
        let document = self.json(&discovery).await?;
        if str_at(&document, "issuer") != self.issuer {
            return Err(format!("{discovery} is of another issuer: {}", document["issuer"]));
        }
        let set = self.json(str_at(&document, "jwks_uri")).await?;
        Ok(read(&set))
    }

    async fn json(&self, url: &str) -> Result<Value, String> {
        let answer = self.caller.get(url, WITHIN, MAX_DOCUMENT).await.map_err(|error| error.to_string())?;
        serde_json::from_slice(&answer).map_err(|error| format!("{url}: {error}"))
    }
}

/// The keys of a set that can verify; others are passed over.
fn read(set: &Value) -> Vec<Named> {
    let keys = set["keys"].as_array().into_iter().flatten().take(MAX_KEYS);
    let one = |key: &Value| {
        let signs = key.get("use").is_none_or(|purpose| purpose == "sig");
        let parsed: Jwk = serde_json::from_value(key.clone()).ok().filter(|_| signs)?;
        let key = Arc::new(DecodingKey::from_jwk(&parsed).ok()?);
        Some(Named { id: parsed.common.key_id, key })
    };
    keys.filter_map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn keys_that_do_not_verify_are_passed_over() {
        let ec = |id: &str, purpose: &str| {
            json!({"kty": "EC", "crv": "P-256", "use": purpose, "kid": id,
                "x": "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU", "y": "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"})
        };
        let set = json!({"keys": [ec("a", "sig"), ec("b", "enc"), {"kty": "odd"}, 7]});
        let ids: Vec<_> = read(&set).into_iter().map(|one| one.id).collect();
        assert_eq!(ids, [Some("a".to_owned())]);
        assert_eq!(read(&json!("nothing")).len(), 0);
        let many: Vec<Value> = (0..1_000).map(|n| ec(&n.to_string(), "sig")).collect();
        assert_eq!(read(&json!({"keys": many})).len(), MAX_KEYS);
    }
}
