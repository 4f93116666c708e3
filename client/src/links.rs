//! HTTP/2 over a fixed number of connections, for a program that speaks for many: what it asks for at once shares them, where an
//! ordinary client opens one connection for each. Decides which connection a request takes, and when one is opened anew.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use http::{Request, Response, Uri, Version};
use hyper::body::Incoming;
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use kube::client::{Body, ConfigExt};
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::sync::Mutex;
use tokio_rustls::TlsConnector;

use crate::error::TransportError;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Connecting takes no longer than this.
const CONNECT: Duration = Duration::from_secs(10);
/// A connection on which nothing comes for so long is asked whether it lives.
const KEEP_ALIVE: Duration = Duration::from_secs(20);

/// The connections to one server. Clones share them.
#[derive(Clone)]
pub(crate) struct Links {
    shared: Arc<Shared>,
}

struct Shared {
    tls: TlsConnector,
    name: ServerName<'static>,
    /// `host:port`.
    address: String,
    slots: Vec<Mutex<Option<SendRequest<Body>>>>,
    next: AtomicUsize,
}

impl Links {
    pub fn new(config: &kube::Config, connections: usize) -> Result<Self, TransportError> {
        let setup = |error: BoxError| TransportError::Setup(error);
        let mut tls = config.rustls_client_config().map_err(|e| setup(e.into()))?;
        tls.alpn_protocols = vec![b"h2".to_vec()];
        let uri = &config.cluster_url;
        let host = uri.host().ok_or_else(|| setup("the server's URL names no host".into()))?;
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let name = config.tls_server_name.clone().unwrap_or_else(|| host.clone());
        let name = ServerName::try_from(name).map_err(|e| setup(e.into()))?;
        let port = uri.port_u16().unwrap_or(443);
        let address = if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
        let slots = (0..connections.max(1)).map(|_| Mutex::new(None)).collect();
        let tls = TlsConnector::from(Arc::new(tls));
        Ok(Self { shared: Arc::new(Shared { tls, name, address, slots, next: AtomicUsize::new(0) }) })
    }
}

impl tower::Service<Request<Body>> for Links {
    type Response = Response<Incoming>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let shared = self.shared.clone();
        async move { shared.send(request).await }.boxed()
    }
}

impl Shared {
    async fn send(&self, mut request: Request<Body>) -> Result<Response<Incoming>, BoxError> {
        let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
        *request.uri_mut() = format!("https://{}{path}", self.address).parse::<Uri>()?;
        *request.version_mut() = Version::HTTP_2;
        let slot = self.next.fetch_add(1, Ordering::Relaxed) % self.slots.len();
        let mut sender = {
            // Held while connecting: those who come meanwhile want the same connection.
            let mut slot = self.slots[slot].lock().await;
            match slot.as_ref().filter(|sender| !sender.is_closed()) {
                Some(sender) => sender.clone(),
                None => {
                    let sender = tokio::time::timeout(CONNECT, self.connect()).await.map_err(|_| {
                        format!("connecting to {} took longer than {} s", self.address, CONNECT.as_secs())
                    })??;
                    slot.insert(sender).clone()
                }
            }
        };
        sender.ready().await?;
        Ok(sender.send_request(request).await?)
    }

    async fn connect(&self) -> Result<SendRequest<Body>, BoxError> {
        let stream = TcpStream::connect(&self.address).await?;
        stream.set_nodelay(true)?;
        let stream = self.tls.connect(self.name.clone(), stream).await?;
        let mut builder = http2::Builder::new(TokioExecutor::new());
        builder.timer(TokioTimer::new()).keep_alive_interval(KEEP_ALIVE).keep_alive_timeout(CONNECT);
        let (sender, connection) = builder.handshake(TokioIo::new(stream)).await?;
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a shared connection ended");
            }
        });
        Ok(sender)
    }
}
