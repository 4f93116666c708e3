//! Servers that are asked who a token is (`review`) and who may do what (`access`), as Kubernetes' webhook token authentication and
//! webhook authorisation do. This file decides how one is reached; silence is never a yes.

pub mod access;
pub mod review;

use crate::config::WebhookServer;
use crate::outbound::OutboundError;
use crate::outbound::caller::Caller;
use crate::outbound::dial::{ClientIdentity, Trust};
use http::{HeaderMap, HeaderValue, header};
use serde_json::Value;
use std::time::Duration;
use tokio::sync::Semaphore;

/// An answer takes no longer, waiting for one's turn included.
const WITHIN: Duration = Duration::from_secs(10);
/// Questions at a time.
const AT_ONCE: usize = 128;

struct Asked {
    caller: Caller,
    url: String,
    headers: HeaderMap,
    turns: Semaphore,
}

impl Asked {
    fn new(server: &WebhookServer) -> Result<Self, OutboundError> {
        let identity = server.client.as_ref().map(|(cert, key)| ClientIdentity::read(cert, key)).transpose();
        let identity = identity.map_err(OutboundError::Config)?;
        let trust = if server.skip_verify { Trust::Anybody } else { Trust::Bundle(server.ca.as_bytes()) };
        let mut headers = HeaderMap::new();
        if let Some(token) = &server.bearer {
            let mut value = HeaderValue::from_str(&format!("Bearer {token}"))
                .map_err(|_| OutboundError::Config("its token is no text for a header".to_owned()))?;
            value.set_sensitive(true);
            headers.insert(header::AUTHORIZATION, value);
        }
        let caller = Caller::new(&trust, identity.as_ref())?;
        Ok(Self { caller, url: server.url.clone(), headers, turns: Semaphore::new(AT_ONCE) })
    }

    async fn ask(&self, question: &Value) -> Result<Value, OutboundError> {
        let late = || OutboundError::Late { verb: "Post", url: self.url.clone() };
        let asked = async {
            let _turn = self.turns.acquire().await.map_err(|_| late())?;
            self.caller.post(&self.url, &self.headers, question.to_string().into_bytes(), WITHIN).await
        };
        let answer = tokio::time::timeout(WITHIN, asked).await.unwrap_or_else(|_| Err(late()))?;
        serde_json::from_slice(&answer).map_err(|error| OutboundError::Unreadable(error.to_string()))
    }
}
