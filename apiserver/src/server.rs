//! Connections: TLS, HTTP/1.1 and HTTP/2, client certificates, graceful end. Decides windows and stream limits; never what a
//! request means.

use crate::auth::peers::Peer;
use crate::core::Core;
use crate::http::Response;
use crate::http::body::{BoxError, boxed};
use crate::pipeline::{Lifetime, handle};
use gantry_store::Gathered;
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use rustls_pki_types::UnixTime;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;

/// Thousands of watches share one connection of an in-house client.
const MAX_STREAMS: u32 = 10_000;
/// A stalled watch must not stop its siblings: the connection's window is many times a stream's.
const STREAM_WINDOW: u32 = 256 * 1024;
const CONNECTION_WINDOW: u32 = 64 * 1024 * 1024;
const SEND_BUFFER: usize = 256 * 1024;
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// A request's headers and path: a client may be many groups, or ask for one of hundreds of names.
const MAX_HEADERS: u32 = 256 * 1024;
const MAX_HEADER_LINES: usize = 512;
const HEADER_TIMEOUT: Duration = Duration::from_secs(30);
const KEEP_ALIVE: Duration = Duration::from_secs(30);
/// How long open requests may take to end after the server was told to stop.
const GRACE: Duration = Duration::from_secs(10);
const MAX_CONNECTIONS: usize = 65_536;
/// Handshakes are the expensive part of a connection; this many run at once.
const MAX_HANDSHAKES: usize = 256;

type Stream = TlsStream<TcpStream>;

/// Accepts until cancelled, then lets open requests end.
pub async fn serve(core: Arc<Core>, listener: TcpListener, tls: Arc<rustls::ServerConfig>, cancel: CancellationToken) {
    let acceptor = TlsAcceptor::from(tls);
    let lifetime = Lifetime { shutdown: cancel.child_token() };
    let connections = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let handshakes = Arc::new(Semaphore::new(MAX_HANDSHAKES));
    let tasks = tokio_util::task::TaskTracker::new();
    loop {
        let accepted = tokio::select! {
            () = cancel.cancelled() => break,
            accepted = listener.accept() => accepted,
        };
        let tcp = match accepted {
            Ok((tcp, _)) => tcp,
            Err(error) => {
                // Out of file descriptors or the peer went away: wait a moment rather than spin.
                tracing::warn!(%error, "accepting a connection failed");
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        let Ok(slot) = connections.clone().try_acquire_owned() else {
            tracing::warn!("too many connections: one was turned away");
            continue;
        };
        let (core, acceptor, lifetime, handshakes) =
            (core.clone(), acceptor.clone(), lifetime.clone(), handshakes.clone());
        tasks.spawn(async move {
            connection(core, tcp, acceptor, lifetime, handshakes).await;
            drop(slot);
        });
    }
    drop(listener);
    tasks.close();
    if tokio::time::timeout(GRACE, tasks.wait()).await.is_err() {
        tracing::warn!("some connections did not end in time");
    }
}

async fn connection(
    core: Arc<Core>,
    tcp: TcpStream,
    acceptor: TlsAcceptor,
    lifetime: Lifetime,
    handshakes: Arc<Semaphore>,
) {
    // Small frames go out at once: a watch event must not wait for the next.
    let _ = tcp.set_nodelay(true);
    let accepted = {
        let Ok(_turn) = handshakes.acquire().await else { return };
        tokio::time::timeout(HANDSHAKE_TIMEOUT, acceptor.accept(tcp)).await
    };
    let stream = match accepted {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return tracing::debug!(%error, "a TLS handshake failed"),
        Err(_) => return tracing::debug!("a TLS handshake took too long"),
    };
    let now = UnixTime::since_unix_epoch(Duration::from_secs(u64::try_from(core.clock.now().secs()).unwrap_or(0)));
    let chain = stream.get_ref().1.peer_certificates().unwrap_or_default();
    let address = stream.get_ref().0.peer_addr().ok().map(|address| address.ip());
    let peer = Arc::new(Peer { address, ..core.peers.identify(chain, now) });
    let shutdown = lifetime.shutdown.clone();
    let service = service_fn(move |request: http::Request<hyper::body::Incoming>| {
        let (core, peer, lifetime) = (core.clone(), peer.clone(), lifetime.clone());
        async move { Ok::<_, Infallible>(handle(&core, &peer, &lifetime, request.map(boxed)).await) }
    });
    let outcome = match stream.get_ref().1.alpn_protocol() {
        Some(b"h2") => http2(stream, service, &shutdown).await,
        _ => any_http(stream, service, &shutdown).await,
    };
    if let Err(error) = outcome {
        tracing::debug!(%error, "a connection ended");
    }
}

/// Ends when its last stream does after `shutdown`.
async fn http2<S>(stream: Stream, service: S, shutdown: &CancellationToken) -> Result<(), BoxError>
where
    S: Service<http::Request<Incoming>, Response = Response, Error = Infallible> + Send,
    S::Future: Send + 'static,
{
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .max_concurrent_streams(MAX_STREAMS)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_send_buf_size(SEND_BUFFER)
        .max_header_list_size(MAX_HEADERS)
        .keep_alive_interval(KEEP_ALIVE);
    let io = TokioIo::new(Gathered::new(stream));
    let mut connection = std::pin::pin!(builder.serve_connection(io, service));
    tokio::select! {
        outcome = connection.as_mut() => return Ok(outcome?),
        () = shutdown.cancelled() => connection.as_mut().graceful_shutdown(),
    }
    Ok(connection.await?)
}

/// A client that did not say which HTTP it speaks, or that it is HTTP/1.1, which alone can be upgraded.
async fn any_http<S>(stream: Stream, service: S, shutdown: &CancellationToken) -> Result<(), BoxError>
where
    S: Service<http::Request<Incoming>, Response = Response, Error = Infallible> + Send,
    S::Future: Send + 'static,
{
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEADER_TIMEOUT).max_headers(MAX_HEADER_LINES);
    builder.http2().timer(TokioTimer::new()).keep_alive_interval(KEEP_ALIVE).max_header_list_size(MAX_HEADERS);
    let mut connection = std::pin::pin!(builder.serve_connection_with_upgrades(TokioIo::new(stream), service));
    tokio::select! {
        outcome = connection.as_mut() => return outcome,
        () = shutdown.cancelled() => connection.as_mut().graceful_shutdown(),
    }
    connection.await
}
