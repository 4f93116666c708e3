//! Connections: TCP with mutual TLS when it is configured. Certificates come from the caller; this only applies them.

use super::door::{Door, Guest, Kind, Shares, raise_files};
use super::gathered::Gathered;
use super::{PeerService, trust};
use crate::etcd::{BATCH_SERVICE, EtcdServices, errors, health};
use crate::proto::etcd;
use crate::proto::health::health_server;
use crate::proto::peer_server::{self, PeerServer};
use futures::future::BoxFuture;
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use rustls_pki_types::ServerName;
use std::convert::Infallible;
use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::{TlsAcceptor, TlsConnector};
use tokio_util::sync::CancellationToken;
use tonic::transport::{Channel, Endpoint, Uri};

/// Until a connection is encrypted and has said its first byte.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// A client that is silent for as long is asked whether it is still there, and gone if it does not answer in time.
const ASK_AFTER: Duration = Duration::from_secs(20);
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// What members (and API servers that run apart) prove themselves with. The server side should require client certificates.
#[derive(Clone)]
pub struct StoreTls {
    pub server: Arc<rustls::ServerConfig>,
    pub client: Arc<rustls::ClientConfig>,
}

#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("{0:?} is not an address of the form host:port")]
    Address(String),
}

/// No connection could be made, so nothing was sent.
#[derive(Debug, thiserror::Error)]
#[error("cannot connect to {address}")]
pub struct ConnectFailed {
    address: String,
    #[source]
    source: io::Error,
}

#[cfg(test)]
impl ConnectFailed {
    pub fn new(address: &str) -> Self {
        Self { address: address.to_owned(), source: io::ErrorKind::ConnectionRefused.into() }
    }
}

/// A TCP or TLS stream.
pub enum Io {
    Plain(TcpStream),
    Server(Box<tokio_rustls::server::TlsStream<TcpStream>>),
    Client(Box<tokio_rustls::client::TlsStream<TcpStream>>),
}

/// A channel that connects when it is used, and again after it broke.
pub fn channel(address: &str, tls: Option<&StoreTls>) -> Result<Channel, TlsError> {
    let bad = || TlsError::Address(address.to_owned());
    let (host, port) = address.rsplit_once(':').ok_or_else(bad)?;
    port.parse::<u16>().map_err(|_| bad())?;
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let name = ServerName::try_from(host.to_owned()).map_err(|_| bad())?;
    let tls = tls.map(|tls| (TlsConnector::from(tls.client.clone()), name));
    let target = address.to_owned();
    let connector = tower::service_fn(move |_: Uri| connect(target.clone(), tls.clone()));
    let endpoint = Endpoint::from_shared(format!("http://{address}")).map_err(|_| bad())?;
    let endpoint = endpoint
        .connect_timeout(CONNECT_TIMEOUT)
        .http2_keep_alive_interval(Duration::from_secs(10))
        .keep_alive_timeout(Duration::from_secs(5))
        .initial_stream_window_size(4 << 20)
        .initial_connection_window_size(16 << 20);
    Ok(endpoint.connect_with_connector_lazy(connector))
}

async fn connect(
    address: String,
    tls: Option<(TlsConnector, ServerName<'static>)>,
) -> Result<TokioIo<Gathered<Io>>, ConnectFailed> {
    let connected = async {
        let stream = TcpStream::connect(&address).await?;
        stream.set_nodelay(true)?;
        Ok(match tls {
            None => Io::Plain(stream),
            Some((connector, name)) => Io::Client(Box::new(connector.connect(name, stream).await?)),
        })
    };
    let connected: io::Result<Io> = connected.await;
    connected.map(|io| TokioIo::new(Gathered::new(io))).map_err(|source| {
        trust::warn(&address, &source);
        ConnectFailed { address, source }
    })
}

/// Accepts connections and serves gRPC on each until `cancel`. Handshakes run beside each other; a failed connection only
/// ends itself.
pub async fn serve(listener: TcpListener, tls: Option<StoreTls>, services: Services, cancel: CancellationToken) {
    let acceptor = tls.map(|tls| TlsAcceptor::from(tls.server));
    let door = Door::new(Shares::of(raise_files()));
    loop {
        let stream = tokio::select! {
            () = cancel.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        match stream {
            Ok((stream, from)) => {
                let (acceptor, services, cancel) = (acceptor.clone(), services.clone(), cancel.clone());
                let guest = Arc::new(door.enter());
                tokio::spawn(async move {
                    if let Err(error) = serve_connection((stream, from.ip()), acceptor, services, guest, cancel).await {
                        tracing::debug!(error, "a connection to the store ended");
                    }
                });
            }
            Err(error) => {
                tracing::warn!(%error, "the store cannot accept a connection");
                // Out of files, most likely: do not spin.
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn serve_connection(
    (stream, from): (TcpStream, IpAddr),
    acceptor: Option<TlsAcceptor>,
    services: Services,
    guest: Arc<Guest>,
    cancel: CancellationToken,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let ended = async {
        tokio::select! {
            () = guest.gone() => {}
            () = cancel.cancelled() => {}
        }
    };
    let served = async {
        let shaken = tokio::time::timeout(HANDSHAKE_TIMEOUT, handshake(stream, acceptor)).await?;
        let io = shaken.inspect_err(|error| trust::warn(&from.to_string(), error))?;
        // HTTP/1 is for those who only look at the metrics.
        let mut builder = auto::Builder::new(TokioExecutor::new());
        builder.http1().timer(TokioTimer::new()).header_read_timeout(HANDSHAKE_TIMEOUT);
        let mut http2 = builder.http2();
        http2.timer(TokioTimer::new()).keep_alive_interval(ASK_AFTER).keep_alive_timeout(ANSWER_WITHIN);
        http2.initial_stream_window_size(4 << 20).initial_connection_window_size(16 << 20);
        let noted = NotedServices { services, guest: guest.clone() };
        builder.serve_connection(TokioIo::new(Gathered::new(io)), TowerToHyperService::new(noted)).await
    };
    tokio::select! {
        result = served => result,
        () = ended => Ok(()),
    }
}

/// What one connection asks for, which the door hears.
#[derive(Clone)]
struct NotedServices {
    services: Services,
    guest: Arc<Guest>,
}

impl tower::Service<http::Request<Incoming>> for NotedServices {
    type Response = http::Response<tonic::body::Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Incoming>) -> Self::Future {
        let member = service(&request) == Some(peer_server::SERVICE_NAME);
        self.guest.asks(if member { Kind::Member } else { Kind::Client });
        self.services.call(request)
    }
}

/// The first part of a request's path.
fn service(request: &http::Request<Incoming>) -> Option<&str> {
    request.uri().path().trim_start_matches('/').split('/').next()
}

/// The services of one listener, told apart by their paths.
#[derive(Clone)]
pub struct Services {
    pub peer: PeerServer<PeerService>,
    pub etcd: EtcdServices,
    /// What `/metrics` answers.
    pub metrics: Arc<dyn Fn() -> String + Send + Sync>,
}

impl tower::Service<http::Request<Incoming>> for Services {
    type Response = http::Response<tonic::body::Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Incoming>) -> Self::Future {
        match service(&request) {
            Some("metrics") => {
                let text = (self.metrics)();
                Box::pin(async move { Ok(metrics(text)) })
            }
            Some(peer_server::SERVICE_NAME) => self.peer.call(request),
            Some("health") => {
                let (face, query) = (self.etcd.face.clone(), request.uri().query().unwrap_or_default().to_owned());
                Box::pin(async move {
                    let (code, text) = face.health(&query).await;
                    Ok(json(code, text))
                })
            }
            Some("version") => Box::pin(async { Ok(json(http::StatusCode::OK, health::version())) }),
            Some(health_server::SERVICE_NAME) => self.etcd.health.call(request),
            _ if let Err(refusal) = self.etcd.face.check_leader(request.headers()) => {
                Box::pin(async move { Ok(refusal.into_http()) })
            }
            Some(etcd::watch_server::SERVICE_NAME) => self.etcd.watch.call(request),
            Some(etcd::lease_server::SERVICE_NAME) => self.etcd.lease.call(request),
            Some(etcd::cluster_server::SERVICE_NAME) => self.etcd.cluster.call(request),
            Some(etcd::maintenance_server::SERVICE_NAME) => self.etcd.maintenance.call(request),
            Some(BATCH_SERVICE) => self.etcd.batch.call(request),
            Some(etcd::auth_server::SERVICE_NAME) => self.etcd.auth.call(request),
            // Answers "unimplemented" to what it does not know.
            _ => {
                let answer = self.etcd.kv.call(request);
                Box::pin(async move { Ok(errors::in_etcds_words(answer.await?)) })
            }
        }
    }
}

fn json(code: http::StatusCode, text: String) -> http::Response<tonic::body::Body> {
    let mut response = http::Response::new(tonic::body::Body::new(http_body_util::Full::from(text)));
    *response.status_mut() = code;
    response.headers_mut().insert(http::header::CONTENT_TYPE, http::HeaderValue::from_static("application/json"));
    response
}

fn metrics(text: String) -> http::Response<tonic::body::Body> {
    let kind = http::HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    let mut response = http::Response::new(tonic::body::Body::new(http_body_util::Full::from(text)));
    response.headers_mut().insert(http::header::CONTENT_TYPE, kind);
    response
}

async fn handshake(stream: TcpStream, acceptor: Option<TlsAcceptor>) -> io::Result<Io> {
    stream.set_nodelay(true)?;
    match acceptor {
        None => {
            stream.peek(&mut [0]).await?;
            Ok(Io::Plain(stream))
        }
        Some(acceptor) => Ok(Io::Server(Box::new(acceptor.accept(stream).await?))),
    }
}

macro_rules! delegate {
    ($self:ident, $stream:ident => $call:expr) => {
        match $self.get_mut() {
            Io::Plain($stream) => $call,
            Io::Server($stream) => $call,
            Io::Client($stream) => $call,
        }
    };
}

impl AsyncRead for Io {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        delegate!(self, stream => Pin::new(stream).poll_read(cx, buf))
    }
}

impl AsyncWrite for Io {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        delegate!(self, stream => Pin::new(stream).poll_write(cx, buf))
    }
    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        delegate!(self, stream => Pin::new(stream).poll_flush(cx))
    }
    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        delegate!(self, stream => Pin::new(stream).poll_shutdown(cx))
    }
}
