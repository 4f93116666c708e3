//! The server's certificates, and whose certificate a client showed. Decides only that a client must have one of ours.

use std::path::Path;
use std::sync::Arc;

use rustls::RootCertStore;
use rustls::server::WebPkiClientVerifier;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::config::TlsFiles;

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect);
    read.map_err(|e| format!("{}: {e}", path.display()))
}

/// Clients may come without a certificate, for `/healthz` alone.
pub fn acceptor(files: &TlsFiles) -> Result<TlsAcceptor, String> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(&files.client_ca)? {
        roots.add(certificate).map_err(|e| e.to_string())?;
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone())
        .allow_unauthenticated()
        .build()
        .map_err(|e| e.to_string())?;
    let key = PrivateKeyDer::from_pem_file(&files.key).map_err(|e| format!("{}: {e}", files.key.display()))?;
    let mut config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|e| e.to_string())?
        .with_client_cert_verifier(verifier)
        .with_single_cert(certificates(&files.certificate)?, key)
        .map_err(|e| e.to_string())?;
    // Upgrades exist in HTTP/1.1 only.
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

pub fn common_name(stream: &TlsStream<TcpStream>) -> Option<String> {
    let leaf = stream.get_ref().1.peer_certificates()?.first()?;
    let (_, certificate) = x509_parser::parse_x509_certificate(leaf.as_ref()).ok()?;
    let name = certificate.subject().iter_common_name().next()?.as_str().ok()?;
    Some(name.to_owned())
}
