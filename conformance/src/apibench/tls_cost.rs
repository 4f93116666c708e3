//! What TLS alone costs: the same library, cipher and record size as the server's, over memory. It is subtracted where a goal
//! leaves TLS aside.

use super::Lab;
use anyhow::Context;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use std::io::Write;
use std::sync::Arc;

/// A record's, and an HTTP/2 data frame's, most.
const PIECE: usize = 16 << 10;
const BYTES: usize = 512 << 20;

/// Processor seconds for each 10⁹ bytes that a server encrypts.
pub fn seconds_per_gb(lab: &Lab) -> anyhow::Result<f64> {
    let (mut server, mut client) = (server(lab)?, client(lab)?);
    while server.is_handshaking() || client.is_handshaking() {
        let mut wire = Vec::new();
        client.write_tls(&mut wire)?;
        read(&mut server, &wire)?;
        wire.clear();
        server.write_tls(&mut wire)?;
        let mut rest = &wire[..];
        while !rest.is_empty() {
            client.read_tls(&mut rest)?;
            client.process_new_packets()?;
        }
    }
    let piece = vec![7; PIECE];
    let mut wire = Vec::with_capacity(2 * PIECE);
    let before = cpu_s();
    for _ in 0..BYTES / PIECE {
        server.writer().write_all(&piece)?;
        while server.wants_write() {
            server.write_tls(&mut wire)?;
        }
        wire.clear();
    }
    Ok((cpu_s() - before) / (BYTES as f64 / 1e9))
}

fn read(server: &mut rustls::ServerConnection, mut wire: &[u8]) -> anyhow::Result<()> {
    while !wire.is_empty() {
        server.read_tls(&mut wire)?;
        server.process_new_packets()?;
    }
    Ok(())
}

/// This thread's.
fn cpu_s() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

fn server(lab: &Lab) -> anyhow::Result<rustls::ServerConnection> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let certificate = CertificateDer::from_pem_file(lab.store.pki("apiserver.crt"))?;
    let key = PrivateKeyDer::from_pem_file(lab.store.pki("apiserver.key"))?;
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)?;
    rustls::ServerConnection::new(Arc::new(config)).context("a TLS server")
}

fn client(lab: &Lab) -> anyhow::Result<rustls::ClientConnection> {
    let name = ServerName::try_from("127.0.0.1")?;
    rustls::ClientConnection::new(lab.admin()?, name).context("a TLS client")
}
