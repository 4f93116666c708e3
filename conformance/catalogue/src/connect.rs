//! Connections to the server: with one's credentials, and without any. It sends what it is given and judges nothing.

use crate::expect::Reply;
use crate::kubeconfig::Access;
use anyhow::Context;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::{Client, connect::HttpConnector};
use hyper_util::rt::TokioExecutor;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use serde_json::Value;
use std::io::Read;
use std::sync::Arc;
use std::time::Duration;

/// The server itself gives up after a minute.
const PATIENCE: Duration = Duration::from_secs(65);

type Https = Client<HttpsConnector<HttpConnector>, Full<Bytes>>;

/// Cheap to clone; all clones share their connections.
#[derive(Clone)]
pub struct Server {
    pub access: Arc<Access>,
    own: Https,
    bare: Https,
}

/// Whose credentials a request has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Credentials {
    Own,
    Token(String),
    None,
}

impl Server {
    pub fn new(access: Access) -> anyhow::Result<Self> {
        let own = client(tls(&access, true)?);
        let bare = client(tls(&access, false)?);
        Ok(Self { access: Arc::new(access), own, bare })
    }

    /// Sends and returns the head of the answer; its body may be a stream.
    pub async fn open(
        &self,
        who: &Credentials,
        request: http::request::Builder,
        path: &str,
        body: Bytes,
    ) -> anyhow::Result<Response<Incoming>> {
        let mut request = request.uri(format!("{}{path}", self.access.server));
        let token = match who {
            Credentials::Own => self.access.token.as_deref(),
            Credentials::Token(token) => Some(token.as_str()),
            Credentials::None => None,
        };
        if let Some(token) = token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        let request: Request<Full<Bytes>> = request.body(Full::new(body)).context("the request cannot be built")?;
        let client = if *who == Credentials::Own { &self.own } else { &self.bare };
        match tokio::time::timeout(PATIENCE, client.request(request)).await {
            Ok(answer) => answer.map_err(|error| anyhow::anyhow!("no answer: {}", chain(&error))),
            Err(_) => anyhow::bail!("no answer within {} s", PATIENCE.as_secs()),
        }
    }

    /// Sends and reads the whole answer.
    pub async fn send(
        &self,
        who: &Credentials,
        request: http::request::Builder,
        path: &str,
        body: Bytes,
    ) -> anyhow::Result<Reply> {
        let answer = self.open(who, request, path, body).await?;
        read(answer).await
    }

    /// A configuration for connections of one's own, for what is below HTTP.
    pub fn tls(&self, with_certificate: bool) -> anyhow::Result<ClientConfig> {
        tls(&self.access, with_certificate)
    }
}

pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        text = format!("{text}: {cause}");
        next = cause.source();
    }
    text
}

fn client(tls: ClientConfig) -> Https {
    let https = HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http().enable_all_versions().build();
    Client::builder(TokioExecutor::new()).build(https)
}

fn tls(access: &Access, with_certificate: bool) -> anyhow::Result<ClientConfig> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    let builder = match &access.authority {
        _ if access.insecure => builder.dangerous().with_custom_certificate_verifier(Arc::new(Anyone)),
        Some(pem) => {
            let mut roots = RootCertStore::empty();
            for certificate in CertificateDer::pem_slice_iter(pem) {
                roots.add(certificate.context("the authority's certificate")?)?;
            }
            builder.with_root_certificates(roots)
        }
        None => {
            anyhow::bail!("the kubeconfig names no certificate-authority and does not say insecure-skip-tls-verify")
        }
    };
    match access.certificate.as_ref().filter(|_| with_certificate) {
        None => Ok(builder.with_no_client_auth()),
        Some((certificate, key)) => {
            let certificates = CertificateDer::pem_slice_iter(certificate)
                .collect::<Result<_, _>>()
                .context("the client's certificate")?;
            let key = PrivateKeyDer::from_pem_slice(key).context("the client's key")?;
            Ok(builder.with_client_auth_cert(certificates, key)?)
        }
    }
}

/// Takes any certificate, because the kubeconfig says so.
#[derive(Debug)]
struct Anyone;

impl ServerCertVerifier for Anyone {
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
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }
    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }
    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        rustls::crypto::aws_lc_rs::default_provider().signature_verification_algorithms.supported_schemes()
    }
}

/// The head of an answer, without its body.
pub fn head(answer: &Response<Incoming>) -> Reply {
    let text = |value: &http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    let headers = answer.headers().iter().map(|(name, value)| (name.as_str().to_owned(), text(value))).collect();
    Reply { status: answer.status().as_u16(), headers, ..Reply::default() }
}

/// The whole answer; a gzipped body is unpacked, its header stays.
pub async fn read(answer: Response<Incoming>) -> anyhow::Result<Reply> {
    let mut reply = head(&answer);
    let body = tokio::time::timeout(PATIENCE, answer.into_body().collect());
    let body = body
        .await
        .context("the body did not end in time")?
        .map_err(|error| anyhow::anyhow!("the body broke off: {}", chain(&error)))?;
    let mut bytes = body.to_bytes().to_vec();
    if reply.header("content-encoding") == Some("gzip") {
        let mut plain = Vec::new();
        flate2::read::GzDecoder::new(&bytes[..]).read_to_end(&mut plain).context("the gzipped body")?;
        bytes = plain;
    }
    reply.text = String::from_utf8_lossy(&bytes).into_owned();
    let media_type = reply.header("content-type").unwrap_or_default();
    reply.value = if media_type.starts_with("application/json") || media_type.ends_with("+json") {
        serde_json::from_slice(&bytes).unwrap_or(Value::Null)
    } else if media_type.starts_with("application/yaml") {
        serde_saphyr::from_str(&reply.text).unwrap_or(Value::Null)
    } else {
        Value::Null
    };
    Ok(reply)
}
