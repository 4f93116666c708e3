//! PEM files → what rustls wants for store members: both sides prove themselves with one authority's certificates.

use crate::problem::Problem;
use anyhow::Context;
use gantry_store::StoreTls;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use std::path::Path;
use std::sync::Arc;

fn certificates(path: &Path) -> anyhow::Result<Vec<CertificateDer<'static>>> {
    let unreadable = |error: rustls::pki_types::pem::Error| Problem::new(format!("{}: {error}", path.display()));
    let found: Result<Vec<_>, _> = CertificateDer::pem_file_iter(path).map_err(unreadable)?.collect();
    let found = found.map_err(unreadable)?;
    anyhow::ensure!(!found.is_empty(), Problem::new(format!("{}: there is no certificate in it", path.display())));
    Ok(found)
}

/// A member serves and calls with the same certificate.
pub fn store(certificate: &Path, key: &Path, authority: &Path) -> anyhow::Result<StoreTls> {
    let chain = certificates(certificate)?;
    let load_key =
        || PrivateKeyDer::from_pem_file(key).map_err(|error| Problem::new(format!("{}: {error}", key.display())));
    let unfit = |error: rustls::Error| {
        let (key, certificate) = (key.display(), certificate.display());
        Problem::new(match error {
            rustls::Error::InconsistentKeys(_) => {
                format!("{key} is not the key of {certificate}: name the two that were made together")
            }
            error => format!("{certificate} and {key} cannot be used: {error}"),
        })
    };
    let mut roots = RootCertStore::empty();
    for certificate in certificates(authority)? {
        roots.add(certificate).with_context(|| format!("reading {}", authority.display()))?;
    }
    let roots = Arc::new(roots);
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let verifier = WebPkiClientVerifier::builder_with_provider(roots.clone(), provider.clone()).build()?;
    let mut server = ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()?
        .with_client_cert_verifier(verifier)
        .with_single_cert(chain.clone(), load_key()?)
        .map_err(unfit)?;
    let mut client = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_client_auth_cert(chain, load_key()?)
        .map_err(unfit)?;
    // HTTP/1 is for those who only look at the metrics.
    server.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    client.alpn_protocols = vec![b"h2".to_vec()];
    Ok(StoreTls { server: Arc::new(server), client: Arc::new(client) })
}
