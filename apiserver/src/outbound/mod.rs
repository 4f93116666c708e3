//! HTTPS to what extends the API. Webhooks are asked here; `dial` reaches the servers of other groups too. Decides where a
//! `clientConfig` leads and how long an answer may be; never what is asked.
//!
//! A Service must prove to be `NAME.NAMESPACE.svc`. Connections are kept for the next question.

pub mod dial;

use crate::cache::Group;
use crate::kinds::value::str_at;
use bytes::Bytes;
use dial::{Connector, Place, Trust, decoded_bundle};
use http::{Method, Request, Uri, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;

/// As much as a request to this server may be.
const MAX_ANSWER: usize = 3 * 1024 * 1024;

/// Why there is no answer, in words for who wrote the webhook.
#[derive(Debug, thiserror::Error)]
pub enum OutboundError {
    #[error("{0}")]
    Config(String),
    /// The text says "deadline", which clients look for.
    #[error("Post {url:?}: context deadline exceeded")]
    Late { url: String },
    #[error("Post {url:?}: {why}")]
    Unreachable { url: String, why: String },
    #[error("the server answered {code}: {text}")]
    Refused { code: u16, text: String },
    #[error("the answer is not what was asked for: {0}")]
    Unreadable(String),
}

/// One webhook's address and how it proves who it is.
pub struct Endpoint {
    client: Client<Connector, Full<Bytes>>,
    url: Uri,
    shown: String,
}

impl std::fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Endpoint").field(&self.shown).finish()
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
        let parsed: Uri = url.parse().map_err(|error| bad(format!("{url:?} is not a URL: {error}")))?;
        if parsed.scheme_str() != Some("https") || parsed.host().is_none() {
            return Err(bad(format!("{url:?} must be an https URL with a host")));
        }
        let tls = dial::tls(&Trust::Bundle(&decoded_bundle(str_at(config, "caBundle"))?), None)?;
        let connector = Connector { tls, place: place.map(Arc::new) };
        let client = Client::builder(TokioExecutor::new()).pool_max_idle_per_host(16).build(connector);
        Ok(Self { client, url: parsed, shown: url })
    }

    /// Posts a question and reads the answer, both JSON.
    pub async fn ask(&self, question: &Value, within: Duration) -> Result<Value, OutboundError> {
        let body = serde_json::to_vec(question).map_err(|error| OutboundError::Unreadable(error.to_string()))?;
        let asked = tokio::time::timeout(within, self.post(body)).await;
        asked.unwrap_or_else(|_| Err(OutboundError::Late { url: self.shown.clone() }))
    }

    async fn post(&self, body: Vec<u8>) -> Result<Value, OutboundError> {
        let request = Request::builder()
            .method(Method::POST)
            .uri(self.url.clone())
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::ACCEPT, "application/json")
            .body(Full::new(Bytes::from(body)))
            .map_err(|error| OutboundError::Config(error.to_string()))?;
        let unreachable = |error: &dyn std::error::Error| OutboundError::Unreachable {
            url: self.shown.clone(),
            why: with_sources(error),
        };
        let response = self.client.request(request).await.map_err(|error| unreachable(&error))?;
        let code = response.status().as_u16();
        let body = Limited::new(response.into_body(), MAX_ANSWER).collect().await;
        let body = body.map_err(|error| OutboundError::Unreadable(error.to_string()))?.to_bytes();
        if !(200..300).contains(&code) {
            let text: String = String::from_utf8_lossy(&body).chars().take(512).collect();
            return Err(OutboundError::Refused { code, text });
        }
        serde_json::from_slice(&body).map_err(|error| OutboundError::Unreadable(error.to_string()))
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
