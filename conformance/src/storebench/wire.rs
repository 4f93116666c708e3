//! The generator's way to a server: etcd v3's gRPC over one HTTP/2 connection with mutual TLS, the same to every peer. A
//! link that broke stays broken; whoever wants another one connects again.

use anyhow::Context as _;
use futures::future::BoxFuture;
use hyper::body::Incoming;
use hyper::client::conn::http2::{Builder, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use std::path::Path;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tonic::body::Body;

/// The generated clients.
pub mod pb {
    #![allow(clippy::all, clippy::pedantic, clippy::allow_attributes_without_reason, reason = "generated code")]
    tonic::include_proto!("etcdserverpb");
}

use pb::cluster_client::ClusterClient;
use pb::kv_client::KvClient;
use pb::lease_client::LeaseClient;
use pb::maintenance_client::MaintenanceClient;
use pb::watch_client::WatchClient;

/// What one connection buffers of answers.
const CONNECTION_WINDOW: u32 = 16 << 20;
const STREAM_WINDOW: u32 = 4 << 20;

/// Members of one group, and what to show them.
#[derive(Clone)]
pub struct Target {
    pub addresses: Vec<String>,
    pub tls: Arc<rustls::ClientConfig>,
}

impl Target {
    /// The same group with one member only.
    pub fn only(&self, member: usize) -> Self {
        Self { addresses: vec![self.addresses[member].clone()], tls: self.tls.clone() }
    }

    /// A connection to the `number`th member, counted round and round.
    pub async fn connect(&self, number: usize) -> anyhow::Result<Link> {
        let address = &self.addresses[number % self.addresses.len()];
        Link::connect(address, self.tls.clone()).await.with_context(|| format!("connecting to {address}"))
    }
}

/// The client's side of the certificates that `gantry pki init` makes: whom to trust, and as whom to appear.
pub fn tls(pki: &Path, authority: &str, identity: &str) -> anyhow::Result<Arc<rustls::ClientConfig>> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(pki.join(format!("{authority}.crt")))?)?;
    let certificate = CertificateDer::from_pem_file(pki.join(format!("{identity}.crt")))?;
    let key = PrivateKeyDer::from_pem_file(pki.join(format!("{identity}.key")))?;
    let mut config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_client_auth_cert(vec![certificate], key)?;
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(Arc::new(config))
}

/// An HTTP/2 connection to `host:port`. How it ends is seen by the requests on it.
pub async fn http2<B>(address: &str, tls: Arc<rustls::ClientConfig>) -> anyhow::Result<SendRequest<B>>
where
    B: hyper::body::Body<Error: Into<Box<dyn std::error::Error + Send + Sync>>> + Send + Unpin + 'static,
    B::Data: Send,
{
    let (host, _) = address.rsplit_once(':').context("an address has a port")?;
    let name = ServerName::try_from(host.to_owned())?;
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let stream = TlsConnector::from(tls).connect(name, stream).await?;
    let (sender, connection) = Builder::new(TokioExecutor::new())
        .initial_connection_window_size(CONNECTION_WINDOW)
        .initial_stream_window_size(STREAM_WINDOW)
        .handshake(TokioIo::new(stream))
        .await?;
    tokio::spawn(async move { drop(connection.await) });
    Ok(sender)
}

/// One connection. Clones share it.
#[derive(Clone)]
pub struct Link {
    sender: SendRequest<Body>,
    origin: http::Uri,
}

impl Link {
    async fn connect(address: &str, tls: Arc<rustls::ClientConfig>) -> anyhow::Result<Self> {
        Ok(Self { sender: http2(address, tls).await?, origin: format!("https://{address}").parse()? })
    }

    pub fn kv(&self) -> KvClient<Self> {
        KvClient::with_origin(self.clone(), self.origin.clone())
    }

    pub fn watch(&self) -> WatchClient<Self> {
        WatchClient::with_origin(self.clone(), self.origin.clone())
    }

    pub fn lease(&self) -> LeaseClient<Self> {
        LeaseClient::with_origin(self.clone(), self.origin.clone())
    }

    pub fn cluster(&self) -> ClusterClient<Self> {
        ClusterClient::with_origin(self.clone(), self.origin.clone())
    }

    pub fn maintenance(&self) -> MaintenanceClient<Self> {
        MaintenanceClient::with_origin(self.clone(), self.origin.clone())
    }
}

impl tower::Service<http::Request<Body>> for Link {
    type Response = http::Response<Incoming>;
    type Error = hyper::Error;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.sender.poll_ready(cx)
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        Box::pin(self.sender.send_request(request))
    }
}
