//! HTTP and gRPC requests of probes: one connection each, no redirects followed, certificates not verified.

use std::sync::Arc;

use bytes::Bytes;
use http_body_util::{BodyExt, Empty, Full, Limited};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

use crate::api::pod::HttpGetAction;

/// Of an answer's body at most this is read.
const BODY_LIMIT: usize = 10 << 10;

fn host_port(host: &str, port: u16) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

/// Success is an answer of 200 to 399; with `strict` off, any answer.
pub async fn get(host: &str, port: u16, action: &HttpGetAction, strict: bool) -> Result<(), String> {
    let https = action.scheme.as_deref().is_some_and(|s| s.eq_ignore_ascii_case("https"));
    let path = action.path.as_deref().filter(|p| !p.is_empty()).unwrap_or("/");
    let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
    let at = host_port(host, port);
    let url = format!("{}://{at}{path}", if https { "https" } else { "http" });
    let fail = |e: &dyn std::fmt::Display| format!("Get \"{url}\": {e}");
    let mut request = http::Request::get(&path);
    let custom = |name: &str| action.http_headers.iter().find(|h| h.name.eq_ignore_ascii_case(name));
    request = request.header("Host", custom("host").map_or(at.as_str(), |h| h.value.as_str()));
    for (name, value) in [("User-Agent", "kube-probe/1.35"), ("Accept", "*/*")] {
        if custom(name).is_none() {
            request = request.header(name, value);
        }
    }
    for h in action.http_headers.iter().filter(|h| !h.name.eq_ignore_ascii_case("host")) {
        request = request.header(&h.name, &h.value);
    }
    let request = request.header("Connection", "close").body(Empty::<Bytes>::new()).map_err(|e| fail(&e))?;
    let stream = TcpStream::connect((host, port)).await.map_err(|e| fail(&format!("dial tcp {at}: {e}")))?;
    let status = if https {
        let name = ServerName::try_from(host.to_owned()).map_err(|e| fail(&e))?;
        let tls = tokio_rustls::TlsConnector::from(Arc::new(unverified()));
        send(tls.connect(name, stream).await.map_err(|e| fail(&e))?, request).await
    } else {
        send(stream, request).await
    }
    .map_err(|e| fail(&e))?;
    if !strict || (200..400).contains(&status) {
        Ok(())
    } else {
        Err(format!("HTTP probe failed with statuscode: {status}"))
    }
}

async fn send(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    request: http::Request<Empty<Bytes>>,
) -> Result<u16, hyper::Error> {
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let connection = tokio::spawn(connection);
    let answer = sender.send_request(request).await;
    let status = match answer {
        Ok(answer) => {
            let status = answer.status().as_u16();
            // Reading some of the body lets a simple server finish its answer; what it says does not matter.
            drop(Limited::new(answer.into_body(), BODY_LIMIT).collect().await);
            Ok(status)
        }
        Err(e) => Err(e),
    };
    connection.abort();
    status
}

/// `grpc.health.v1.Health/Check` over cleartext HTTP/2; the messages are small enough to write by hand.
pub async fn grpc_health(host: &str, port: u16, service: Option<&str>) -> Result<(), String> {
    let fail = |e: &dyn std::fmt::Display| format!("error: health rpc probe failed: {e}");
    let service = service.unwrap_or_default();
    let mut message = vec![];
    if !service.is_empty() {
        message.push(0x0a);
        message.push(u8::try_from(service.len()).map_err(|e| fail(&e))?);
        message.extend_from_slice(service.as_bytes());
    }
    let length = u32::try_from(message.len()).map_err(|e| fail(&e))?;
    let frame = [&[0][..], &length.to_be_bytes(), &message].concat();
    let stream = TcpStream::connect((host, port)).await.map_err(|e| fail(&e))?;
    let handshake = hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream));
    let (mut sender, connection) = handshake.await.map_err(|e| fail(&e))?;
    let connection = tokio::spawn(connection);
    let request = http::Request::post(format!("http://{}/grpc.health.v1.Health/Check", host_port(host, port)))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .header("user-agent", "kube-probe/1.35")
        .body(Full::new(Bytes::from(frame)))
        .map_err(|e| fail(&e))?;
    let result = async {
        let answer = sender.send_request(request).await.map_err(|e| fail(&e))?;
        let body = Limited::new(answer.into_body(), BODY_LIMIT).collect().await.map_err(|e| fail(&e))?;
        // Frame header (5 bytes), then field 1 as a varint: 1 is SERVING.
        match body.to_bytes().get(5..7) {
            Some([0x08, 1]) => Ok(()),
            _ => Err("service unhealthy (responded with \"NOT_SERVING\")".to_owned()),
        }
    };
    let result = result.await;
    connection.abort();
    result
}

fn unverified() -> rustls::ClientConfig {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .expect("the provider supports the default versions");
    builder.dangerous().with_custom_certificate_verifier(Arc::new(AnyCertificate(provider))).with_no_client_auth()
}

/// A probe asks whether somebody answers, not who: Kubernetes does not verify certificates here either.
#[derive(Debug)]
struct AnyCertificate(Arc<rustls::crypto::CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
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
