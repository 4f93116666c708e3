//! The generator's way to the API server: one HTTP/2 connection with a client certificate, and bodies that are bytes already.
//! It reads no answer that nobody asked for.

use super::Identity;
use crate::storebench::wire::http2;
use anyhow::Context;
use bytes::Bytes;
use http::{Method, Request, StatusCode, Uri, header};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http2::SendRequest;

pub const JSON: &str = "application/json";
pub const MERGE: &str = "application/merge-patch+json";
pub const STRATEGIC: &str = "application/strategic-merge-patch+json";

/// One request, ready to be sent.
#[derive(Clone, Debug)]
pub struct Call {
    pub method: Method,
    pub path: String,
    pub content: &'static str,
    pub accept: &'static str,
    pub body: Bytes,
}

impl Call {
    pub fn get(path: impl Into<String>) -> Self {
        Self { method: Method::GET, path: path.into(), content: "", accept: JSON, body: Bytes::new() }
    }

    pub fn post(path: impl Into<String>, body: Bytes) -> Self {
        Self { method: Method::POST, path: path.into(), content: JSON, accept: JSON, body }
    }

    pub fn patch(path: impl Into<String>, content: &'static str, body: Bytes) -> Self {
        Self { method: Method::PATCH, path: path.into(), content, accept: JSON, body }
    }

    pub fn accepting(self, accept: &'static str) -> Self {
        Self { accept, ..self }
    }
}

/// An answer that was read to its end.
pub struct Answer {
    pub status: StatusCode,
    pub body: Bytes,
}

/// One connection. Clones share it.
#[derive(Clone)]
pub struct Link {
    sender: SendRequest<Full<Bytes>>,
    origin: String,
}

impl Link {
    pub async fn connect(address: &str, identity: &Identity) -> anyhow::Result<Self> {
        let sender = http2(address, identity.clone()).await.with_context(|| format!("connecting to {address}"))?;
        Ok(Self { sender, origin: format!("https://{address}") })
    }

    /// The answer's head, and its body as it comes.
    pub async fn send(&self, call: &Call) -> anyhow::Result<http::Response<Incoming>> {
        let uri: Uri = [&self.origin, &call.path[..]].concat().parse().with_context(|| call.path.clone())?;
        let mut request = Request::new(Full::new(call.body.clone()));
        *request.method_mut() = call.method.clone();
        *request.uri_mut() = uri;
        let headers = request.headers_mut();
        headers.insert(header::ACCEPT, header::HeaderValue::from_static(call.accept));
        headers.insert(header::USER_AGENT, header::HeaderValue::from_static("gantry-bench"));
        if !call.content.is_empty() {
            headers.insert(header::CONTENT_TYPE, header::HeaderValue::from_static(call.content));
        }
        Ok(self.sender.clone().send_request(request).await?)
    }

    pub async fn ask(&self, call: &Call) -> anyhow::Result<Answer> {
        let response = self.send(call).await?;
        let status = response.status();
        let body = response.into_body().collect().await?.to_bytes();
        Ok(Answer { status, body })
    }

    /// An answer that must be a success.
    pub async fn must(&self, call: &Call) -> anyhow::Result<Bytes> {
        let Answer { status, body } = self.ask(call).await?;
        let said = || String::from_utf8_lossy(&body[..body.len().min(500)]).into_owned();
        anyhow::ensure!(status.is_success(), "{} {}: {status}: {}", call.method, call.path, said());
        Ok(body)
    }

    /// Reads a successful answer to its end and keeps nothing of it but its length.
    pub async fn length(&self, call: &Call) -> anyhow::Result<u64> {
        let response = self.send(call).await?;
        let status = response.status();
        anyhow::ensure!(status.is_success(), "{} {}: {status}", call.method, call.path);
        let mut body = response.into_body();
        let mut length = 0;
        while let Some(frame) = body.frame().await {
            length += frame?.data_ref().map_or(0, |data| data.len() as u64);
        }
        Ok(length)
    }
}
