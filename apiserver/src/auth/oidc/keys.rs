//! The keys of an issuer, fetched and renewed. Decides when they are fetched again: every ten minutes, and when a token comes that none
//! of them verifies, which waits for it. Fetches for tokens are a second apart; those that bring nothing new, up to five.

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
use std::time::Duration;
use tokio::sync::{Semaphore, watch};
use tokio_util::sync::CancellationToken;

const RENEW_EVERY: Duration = Duration::from_secs(600);
/// After a failure.
const AGAIN_AFTER: Duration = Duration::from_secs(10);
/// Between two fetches for tokens: a token may be anybody's, and the issuer is not to suffer for it.
const APART: Duration = Duration::from_secs(1);
const MOST_APART: Duration = Duration::from_secs(5);
/// Requests that wait for keys at a time; others are refused at once.
const MOST_WAITING: usize = 256;
/// One question to the issuer.
const WITHIN: Duration = Duration::from_secs(5);
/// How long a request waits for keys: its turn, and both questions.
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
    /// Fetches have numbers: the last one that began, the last one that ended, and the last one that somebody waits for.
    begun: watch::Sender<u64>,
    ended: watch::Sender<u64>,
    wanted: watch::Sender<u64>,
    waiting: Semaphore,
}

impl Keys {
    pub fn new(issuer: &str, ca: &str, clock: Arc<dyn Clock>) -> Result<Self, OutboundError> {
        Ok(Self {
            issuer: issuer.to_owned(),
            caller: Caller::new(&Trust::Bundle(ca.as_bytes()), None)?,
            held: ArcSwap::default(),
            clock,
            begun: watch::Sender::new(0),
            ended: watch::Sender::new(0),
            wanted: watch::Sender::new(0),
            waiting: Semaphore::new(MOST_WAITING),
        })
    }

    /// The keys that a token may mean.
    pub fn named(&self, id: Option<&str>) -> Vec<Arc<DecodingKey>> {
        let held = self.held.load();
        let meant = |one: &&Named| id.is_none() || one.id.is_none() || one.id.as_deref() == id;
        held.iter().filter(meant).map(|one| one.key.clone()).collect()
    }

    /// Tries until it succeeds or has failed with keys that were asked for after this call.
    pub async fn until<T>(&self, attempt: impl Fn() -> Result<T, String>) -> Result<T, String> {
        let first = attempt();
        if first.is_ok() {
            return first;
        }
        let Ok(_place) = self.waiting.try_acquire() else { return first };
        let (before, mut ended) = (*self.begun.borrow(), self.ended.subscribe());
        let newer = async {
            loop {
                let last = *ended.borrow_and_update();
                let tried = attempt();
                if tried.is_ok() || last > before {
                    return tried;
                }
                // One that is under way may bring them, or may have asked too early.
                if last == before {
                    self.wanted.send_if_modified(|wanted| {
                        let more = *wanted <= before;
                        *wanted = (*wanted).max(before + 1);
                        more
                    });
                }
                if ended.changed().await.is_err() {
                    return tried;
                }
            }
        };
        tokio::time::timeout(PATIENCE, newer).await.unwrap_or(first)
    }

    pub async fn run(&self, cancel: CancellationToken) {
        let (mut wanted, mut last, mut apart) = (self.wanted.subscribe(), Value::Null, APART);
        for number in 1.. {
            let begun_ms = self.clock.boottime_ms();
            self.begun.send_replace(number);
            let fetched = tokio::select! {
                () = cancel.cancelled() => return,
                fetched = self.fetch() => fetched,
            };
            let (wait, new) = match fetched {
                Ok(set) => {
                    let new = set != last;
                    self.held.store(Arc::new(read(&set)));
                    last = set;
                    (RENEW_EVERY, new)
                }
                Err(why) => {
                    tracing::warn!(issuer = self.issuer, why, "the keys of the OIDC issuer could not be fetched");
                    (AGAIN_AFTER, false)
                }
            };
            apart = if new { APART } else { (apart * 2).min(MOST_APART) };
            self.ended.send_replace(number);
            tokio::select! {
                () = cancel.cancelled() => return,
                () = tokio::time::sleep(wait) => apart = APART,
                () = async { drop(wanted.wait_for(|wanted| *wanted > number).await) } => {
                    let since = Duration::from_millis(self.clock.boottime_ms().saturating_sub(begun_ms));
                    tokio::select! {
                        () = cancel.cancelled() => return,
                        () = tokio::time::sleep(apart.saturating_sub(since)) => {}
                    }
                }
            }
        }
    }

    async fn fetch(&self) -> Result<Value, String> {
        let discovery = format!("{}/.well-known/openid-configuration", self.issuer.trim_end_matches('/'));
        let document = self.json(&discovery).await?;
        if str_at(&document, "issuer") != self.issuer {
            return Err(format!("{discovery} is of another issuer: {}", document["issuer"]));
        }
        self.json(str_at(&document, "jwks_uri")).await
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
