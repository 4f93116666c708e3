//! One question by HTTPS and its whole answer. Decides how long and how large an answer may be; never what is asked.

use super::dial::{self, ClientIdentity, Connector, Place, Trust};
use super::{OutboundError, with_sources};
use bytes::Bytes;
use http::{HeaderMap, Method, Request, Uri, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use std::sync::Arc;
use std::time::Duration;

/// As much as a request to this server may be.
const MAX_ANSWER: usize = 3 * 1024 * 1024;

/// Keeps its connections for the next question.
pub struct Caller {
    client: Client<Connector, Full<Bytes>>,
}

impl Caller {
    pub fn new(trust: &Trust<'_>, identity: Option<&ClientIdentity>) -> Result<Self, OutboundError> {
        Self::to(trust, identity, None)
    }

    /// `place`: the Service that the URLs stand for.
    pub fn to(
        trust: &Trust<'_>,
        identity: Option<&ClientIdentity>,
        place: Option<Arc<Place>>,
    ) -> Result<Self, OutboundError> {
        let connector = Connector { tls: dial::tls(trust, identity)?, place };
        let mut builder = Client::builder(TokioExecutor::new());
        Ok(Self { client: builder.pool_timer(TokioTimer::new()).pool_max_idle_per_host(16).build(connector) })
    }

    pub async fn get(&self, url: &str, within: Duration, limit: usize) -> Result<Bytes, OutboundError> {
        let mut request = Request::new(Full::default());
        *request.uri_mut() = secure(url)?;
        self.answer(request, "Get", url, within, limit).await
    }

    /// JSON for JSON.
    pub async fn post(
        &self,
        url: &str,
        headers: &HeaderMap,
        body: Vec<u8>,
        within: Duration,
    ) -> Result<Bytes, OutboundError> {
        let mut request = Request::new(Full::new(Bytes::from(body)));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = secure(url)?;
        *request.headers_mut() = headers.clone();
        let json = header::HeaderValue::from_static("application/json");
        request.headers_mut().insert(header::CONTENT_TYPE, json.clone());
        request.headers_mut().insert(header::ACCEPT, json);
        self.answer(request, "Post", url, within, MAX_ANSWER).await
    }

    async fn answer(
        &self,
        request: Request<Full<Bytes>>,
        verb: &'static str,
        url: &str,
        within: Duration,
        limit: usize,
    ) -> Result<Bytes, OutboundError> {
        let asked = async {
            let response = self.client.request(request).await.map_err(|error| OutboundError::Unreachable {
                verb,
                url: url.to_owned(),
                why: with_sources(&error),
            })?;
            let code = response.status().as_u16();
            let body = Limited::new(response.into_body(), limit).collect().await;
            let body = body.map_err(|error| OutboundError::Unreadable(error.to_string()))?.to_bytes();
            if !(200..300).contains(&code) {
                let text: String = String::from_utf8_lossy(&body).chars().take(512).collect();
                return Err(OutboundError::Refused { code, text });
            }
            Ok(body)
        };
        let late = |_| Err(OutboundError::Late { verb, url: url.to_owned() });
        tokio::time::timeout(within, asked).await.unwrap_or_else(late)
    }
}

/// What is said in the clear can be read and changed by anybody on the way.
pub fn secure(url: &str) -> Result<Uri, OutboundError> {
    let parsed: Uri = url.parse().map_err(|error| OutboundError::Config(format!("{url:?} is not a URL: {error}")))?;
    if parsed.scheme_str() != Some("https") || parsed.host().is_none() {
        return Err(OutboundError::Config(format!("{url:?} must be an https URL with a host")));
    }
    Ok(parsed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn who_never_answers_is_given_up() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("https://{}/", listener.local_addr().unwrap());
        let caller = Caller::new(&Trust::Anybody, None).unwrap();
        let error = caller.get(&url, Duration::from_secs(5), 10).await.err().unwrap().to_string();
        assert_eq!(error, format!("Get {url:?}: context deadline exceeded"));
        let open = caller.post("http://127.0.0.1/", &HeaderMap::new(), vec![], Duration::from_secs(5)).await;
        assert_eq!(open.err().unwrap().to_string(), "\"http://127.0.0.1/\" must be an https URL with a host");
    }
}
