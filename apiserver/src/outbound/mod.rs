//! HTTPS to what extends the API. Webhooks are asked here; `caller` asks anybody, `dial` reaches the servers of other groups
//! too. Decides where a `clientConfig` leads; never what is asked.
//!
//! A Service must prove to be `NAME.NAMESPACE.svc`. Connections are kept for the next question.

pub mod caller;
pub mod dial;

use crate::cache::Group;
use crate::kinds::value::str_at;
use caller::Caller;
use dial::{Place, Trust, decoded_bundle};
use http::HeaderMap;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;

/// Why there is no answer, in words for who wrote the webhook.
#[derive(Debug, thiserror::Error)]
pub enum OutboundError {
    #[error("{0}")]
    Config(String),
    /// The text says "deadline", which clients look for.
    #[error("{verb} {url:?}: context deadline exceeded")]
    Late { verb: &'static str, url: String },
    #[error("{verb} {url:?}: {why}")]
    Unreachable { verb: &'static str, url: String, why: String },
    #[error("the server answered {code}: {text}")]
    Refused { code: u16, text: String },
    #[error("the answer is not what was asked for: {0}")]
    Unreadable(String),
}

/// One webhook's address and how it proves who it is.
pub struct Endpoint {
    caller: Caller,
    url: String,
}

impl std::fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Endpoint").field(&self.url).finish()
    }
}

impl Endpoint {
    /// From a `clientConfig`: `url`, or `service` and its `path`; `caBundle`.
    pub fn read(config: &Value, group: &Arc<Group>) -> Result<Self, OutboundError> {
        let bad = |what: String| OutboundError::Config(what);
        let service = &config["service"];
        let (url, place) = if service.is_object() {
            let (namespace, name) = (str_at(service, "namespace"), str_at(service, "name"));
            let port = service["port"].as_u64().unwrap_or(443);
            let path = str_at(service, "path").trim_start_matches('/');
            let port = u16::try_from(port).map_err(|_| bad(format!("service port {port} is not a port")))?;
            let place = Place::new(namespace, name, port, group.clone());
            (format!("{}/{path}", place.url()), Some(place))
        } else {
            (str_at(config, "url").to_owned(), None)
        };
        caller::secure(&url)?;
        let bundle = decoded_bundle(str_at(config, "caBundle"))?;
        let caller = Caller::to(&Trust::Bundle(&bundle), None, place.map(Arc::new))?;
        Ok(Self { caller, url })
    }

    /// Posts a question and reads the answer, both JSON.
    pub async fn ask(&self, question: &Value, within: Duration) -> Result<Value, OutboundError> {
        let unreadable = |error: serde_json::Error| OutboundError::Unreadable(error.to_string());
        let body = serde_json::to_vec(question).map_err(unreadable)?;
        let answer = self.caller.post(&self.url, &HeaderMap::new(), body, within).await?;
        serde_json::from_slice(&answer).map_err(unreadable)
    }
}

pub fn with_sources(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        text = format!("{text}: {inner}");
        source = inner.source();
    }
    text
}
