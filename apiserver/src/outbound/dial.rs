//! Connections to what extends the API. Decides which address stands for a Service, whom to trust, and as whom this server
//! comes; never what is said.
//!
//! A Service is reached through one of its ready endpoints, in turn, or its cluster IP when it has none.

use super::OutboundError;
use crate::cache::{Group, in_namespace};
use crate::http::body::BoxError;
use crate::kinds::value::{items, str_at};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use futures::future::BoxFuture;
use gantry_apimachinery::kinds::{ENDPOINT_SLICE, SERVICE};
use http::Uri;
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::rt::TokioIo;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use serde_json::Value;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

const DIAL_TIMEOUT: Duration = Duration::from_secs(10);

/// A Service that something stands behind.
pub struct Place {
    pub namespace: Box<str>,
    pub name: Box<str>,
    pub port: u16,
    group: Arc<Group>,
    turn: AtomicUsize,
}

impl Place {
    pub fn new(namespace: &str, name: &str, port: u16, group: Arc<Group>) -> Self {
        Self { namespace: namespace.into(), name: name.into(), port, group, turn: AtomicUsize::new(0) }
    }

    /// The URL of the Service's root, by the name that its certificate must have.
    pub fn url(&self) -> String {
        format!("https://{}.{}.svc:{}", self.name, self.namespace, self.port)
    }

    /// The Service, if it is there.
    pub fn service(&self) -> Option<Value> {
        self.group.built_in(&SERVICE)?.get(&format!("{}/{}", self.namespace, self.name))?.value().ok()
    }

    /// The EndpointSlices of the Service.
    pub fn slices(&self) -> Vec<Value> {
        let Some(all) = self.group.built_in(&ENDPOINT_SLICE) else { return Vec::new() };
        let snapshot = all.snapshot();
        let own = snapshot.tree.range(in_namespace(&self.namespace)).filter(|(_, slice)| {
            slice.labels.get("kubernetes.io/service-name").map(String::as_str) == Some(&*self.name)
        });
        own.filter_map(|(_, slice)| slice.value().ok()).collect()
    }

    /// An address to dial.
    fn address(&self) -> Result<(String, u16), String> {
        let what = format!("service {}/{}", self.namespace, self.name);
        let service = self.service().ok_or(format!("{what} not found"))?;
        if str_at(&service, "spec.type") == "ExternalName" {
            return Ok((str_at(&service, "spec.externalName").to_owned(), self.port));
        }
        let port = port_of(&service, self.port).ok_or(format!("{what} has no port {}", self.port))?;
        let ready = ready_addresses(&self.slices(), str_at(port, "name"));
        if !ready.is_empty() {
            let turn = self.turn.fetch_add(1, Ordering::Relaxed);
            return Ok(ready[turn % ready.len()].clone());
        }
        match str_at(&service, "spec.clusterIP") {
            "" | "None" => Err(format!("no endpoints available for {what}")),
            ip => Ok((ip.to_owned(), self.port)),
        }
    }
}

/// The entry of a Service's port.
pub fn port_of(service: &Value, port: u16) -> Option<&Value> {
    items(service, "spec.ports").iter().find(|entry| entry["port"] == port)
}

/// Where ready endpoints listen for the port of this name.
fn ready_addresses(slices: &[Value], port_name: &str) -> Vec<(String, u16)> {
    let mut found = Vec::new();
    for slice in slices {
        let port = items(slice, "ports").iter().find(|port| str_at(port, "name") == port_name);
        let Some(port) = port.and_then(|port| u16::try_from(port["port"].as_u64()?).ok()) else { continue };
        let ready = items(slice, "endpoints").iter().filter(|one| one["conditions"]["ready"] != false);
        let first = |one: &Value| Some((items(one, "addresses").first()?.as_str()?.to_owned(), port));
        found.extend(ready.filter_map(first));
    }
    found
}

/// Whom to believe.
pub enum Trust<'a> {
    /// The authorities of a PEM bundle, alone: this server has no list of public ones.
    Bundle(&'a [u8]),
    /// Anybody, as `insecureSkipTLSVerify` asks.
    Anybody,
}

/// A bundle as objects hold it.
pub fn decoded_bundle(base64: &str) -> Result<Vec<u8>, OutboundError> {
    STANDARD.decode(base64).map_err(|error| OutboundError::Config(format!("caBundle: {error}")))
}

/// As whom this server comes.
pub struct ClientIdentity {
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
}

impl ClientIdentity {
    /// From PEM texts.
    pub fn read(cert: &str, key: &str) -> Result<Self, String> {
        let chain = CertificateDer::pem_slice_iter(cert.as_bytes()).collect::<Result<Vec<_>, _>>();
        let chain = chain.map_err(|error| error.to_string())?;
        if chain.is_empty() {
            return Err("there is no certificate in it".to_owned());
        }
        let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).map_err(|error| error.to_string())?;
        Ok(Self { chain, key })
    }
}

pub fn tls(trust: &Trust<'_>, identity: Option<&ClientIdentity>) -> Result<TlsConnector, OutboundError> {
    let bad = |error: rustls::Error| OutboundError::Config(error.to_string());
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(provider.clone());
    let builder = builder.with_safe_default_protocol_versions().map_err(bad)?;
    let builder = match trust {
        Trust::Bundle(pem) => builder.with_root_certificates(roots(pem)?),
        Trust::Anybody => builder.dangerous().with_custom_certificate_verifier(Arc::new(Unverified(provider))),
    };
    let mut config = match identity {
        Some(own) => builder.with_client_auth_cert(own.chain.clone(), own.key.clone_key()).map_err(bad)?,
        None => builder.with_no_client_auth(),
    };
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsConnector::from(Arc::new(config)))
}

fn roots(pem: &[u8]) -> Result<rustls::RootCertStore, OutboundError> {
    let bad = |why: String| OutboundError::Config(format!("caBundle: {why}"));
    let mut roots = rustls::RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        let certificate = certificate.map_err(|error| bad(error.to_string()))?;
        roots.add(certificate).map_err(|error| bad(error.to_string()))?;
    }
    Ok(roots)
}

/// Takes any certificate; that the other side has its key is checked all the same.
#[derive(Debug)]
struct Unverified(Arc<CryptoProvider>);

impl ServerCertVerifier for Unverified {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &rustls::DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls12_signature(message, cert, dss, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &rustls::DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls13_signature(message, cert, dss, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<rustls::SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

/// Dials for an HTTP client: the host of the URL, or the Service that it stands for.
#[derive(Clone)]
pub struct Connector {
    pub tls: TlsConnector,
    pub place: Option<Arc<Place>>,
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
                Some(place) => place.address()?,
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

pub struct Stream(TlsStream<TcpStream>);

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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn ready_endpoints_are_found_by_the_name_of_the_port() {
        let slices = [
            json!({"ports": [{"name": "https", "port": 8443}, {"name": "other", "port": 1}],
                "endpoints": [{"addresses": ["10.0.0.1"]}, {"addresses": ["10.0.0.2"], "conditions": {"ready": false}}]}),
            json!({"ports": [{"name": "https", "port": 9443}], "endpoints": [{"addresses": ["10.0.0.3"], "conditions": {"ready": true}}]}),
            json!({"ports": [{"name": "none"}], "endpoints": [{"addresses": ["10.0.0.4"]}]}),
        ];
        let found = ready_addresses(&slices, "https");
        assert_eq!(found, [("10.0.0.1".to_owned(), 8443), ("10.0.0.3".to_owned(), 9443)]);
        assert_eq!(ready_addresses(&slices, "none"), []);
    }
}
