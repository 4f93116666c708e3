//! HTTPS to what extends the API: conversion and admission webhooks. Decides where a `clientConfig` leads and how long an answer may
//! be; never what is asked.
//!
//! A Service is reached through one of its ready endpoints, or its cluster IP when it has none, and must prove to be
//! `NAME.NAMESPACE.svc`. Connections are kept for the next question.

use crate::cache::{Group, in_namespace};
use crate::http::body::BoxError;
use crate::kinds::value::{items, str_at};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures::future::BoxFuture;
use gantry_apimachinery::kinds::{ENDPOINT_SLICE, SERVICE};
use http::{Method, Request, Uri, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, ServerName};
use serde_json::Value;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

const DIAL_TIMEOUT: Duration = Duration::from_secs(10);
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
            let target = Target { namespace: namespace.into(), name: name.into(), port, group: group.clone() };
            (format!("https://{name}.{namespace}.svc:{port}/{path}"), Some(target))
        } else {
            (str_at(config, "url").to_owned(), None)
        };
        let parsed: Uri = url.parse().map_err(|error| bad(format!("{url:?} is not a URL: {error}")))?;
        if parsed.scheme_str() != Some("https") || parsed.host().is_none() {
            return Err(bad(format!("{url:?} must be an https URL with a host")));
        }
        let roots = roots(str_at(config, "caBundle"))?;
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut tls = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| bad(error.to_string()))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        tls.alpn_protocols = vec![b"http/1.1".to_vec()];
        let connector = Connector { tls: TlsConnector::from(Arc::new(tls)), place: place.map(Arc::new) };
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

fn with_sources(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        text = format!("{text}: {inner}");
        source = inner.source();
    }
    text
}

/// Whom to trust: the bundle alone. Without one, nobody: this server has no list of public authorities.
fn roots(bundle: &str) -> Result<rustls::RootCertStore, OutboundError> {
    let bad = |why: String| OutboundError::Config(format!("caBundle: {why}"));
    let pem = STANDARD.decode(bundle).map_err(|error| bad(error.to_string()))?;
    let mut roots = rustls::RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&pem) {
        let certificate = certificate.map_err(|error| bad(error.to_string()))?;
        roots.add(certificate).map_err(|error| bad(error.to_string()))?;
    }
    Ok(roots)
}

/// A Service that a webhook stands behind.
struct Target {
    namespace: Box<str>,
    name: Box<str>,
    port: u16,
    group: Arc<Group>,
}

impl Target {
    /// An address to dial.
    fn address(&self) -> Result<(String, u16), String> {
        let what = format!("service {}/{}", self.namespace, self.name);
        let services = self.group.built_in(&SERVICE).ok_or("this store has no services")?;
        let service = services.get(&format!("{}/{}", self.namespace, self.name)).ok_or(format!("{what} not found"))?;
        let service = service.value().map_err(|error| error.to_string())?;
        let ports = items(&service, "spec.ports");
        let port = ports.iter().find(|port| port["port"] == self.port);
        let port = port.ok_or(format!("{what} has no port {}", self.port))?;
        if let Some(found) = self.endpoint(str_at(port, "name")) {
            return Ok(found);
        }
        match str_at(&service, "spec.clusterIP") {
            "" | "None" => Err(format!("no endpoints available for {what}")),
            ip => Ok((ip.to_owned(), self.port)),
        }
    }

    fn endpoint(&self, port_name: &str) -> Option<(String, u16)> {
        let slices = self.group.built_in(&ENDPOINT_SLICE)?.snapshot();
        slices.tree.range(in_namespace(&self.namespace)).find_map(|(_, slice)| {
            if slice.labels.get("kubernetes.io/service-name").map(String::as_str) != Some(&*self.name) {
                return None;
            }
            let slice = slice.value().ok()?;
            let port = items(&slice, "ports").iter().find(|port| str_at(port, "name") == port_name)?;
            let port = u16::try_from(port["port"].as_u64()?).ok()?;
            let ready = items(&slice, "endpoints").iter().find(|one| one["conditions"]["ready"] != false)?;
            Some((items(ready, "addresses").first()?.as_str()?.to_owned(), port))
        })
    }
}

#[derive(Clone)]
struct Connector {
    tls: TlsConnector,
    place: Option<Arc<Target>>,
}

impl tower::Service<Uri> for Connector {
    type Response = TokioIo<Stream>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, url: Uri) -> Self::Future {
        let this = self.clone();
        Box::pin(async move {
            let host = url.host().unwrap_or_default().trim_matches(['[', ']']).to_owned();
            let (to, port) = match &this.place {
                Some(target) => target.address()?,
                None => (host.clone(), url.port_u16().unwrap_or(443)),
            };
            let connect = async {
                let tcp = TcpStream::connect((to.as_str(), port)).await?;
                tcp.set_nodelay(true)?;
                Ok::<_, BoxError>(this.tls.connect(ServerName::try_from(host)?, tcp).await?)
            };
            let tls = tokio::time::timeout(DIAL_TIMEOUT, connect).await??;
            Ok(TokioIo::new(Stream(tls)))
        })
    }
}

struct Stream(TlsStream<TcpStream>);

impl Connection for Stream {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}

impl AsyncRead for Stream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl AsyncWrite for Stream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, buf)
    }
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}
