//! `/metrics` of a role that runs in a process of its own and serves nothing else. Decides who may read it; the numbers are the
//! role's.

use crate::cli::MetricsArgs;
use crate::preflight;
use crate::roles::api::read;
use anyhow::Context;
use gantry_client::Metrics;
use http::{Method, Request, Response, StatusCode, header};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;

/// Whoever collects metrics needs one or two.
const CONNECTIONS: usize = 16;
const HANDSHAKE: Duration = Duration::from_secs(10);
/// A connection that asks nothing for so long is closed.
const IDLE: Duration = Duration::from_secs(120);
/// Pause after an accept that failed: file descriptors come back.
const RETRY: Duration = Duration::from_millis(100);
/// As Kubernetes' default roles have it.
const READERS: [&str; 2] = ["system:monitoring", "system:masters"];

/// Serves until cancelled, if it is asked for. Returns once it listens.
pub async fn serve(args: &MetricsArgs, metrics: Metrics, cancel: CancellationToken) -> anyhow::Result<()> {
    let (Some(listen), Some(cert), Some(key), Some(ca)) =
        (args.metrics_listen, &args.tls_cert, &args.tls_key, &args.client_ca)
    else {
        return Ok(());
    };
    preflight::check_ports(&[(listen, "--metrics-listen")])?;
    let mut tls = gantry_apiserver::server_config(&read(cert)?, &read(key)?, &read(ca)?)
        .context("--tls-cert, --tls-key or --client-ca cannot be used")?;
    Arc::make_mut(&mut tls).alpn_protocols = vec![b"http/1.1".to_vec()];
    let listener = TcpListener::bind(listen).await.with_context(|| format!("listening on {listen}"))?;
    tracing::info!(%listen, "shows its metrics");
    let accepting = accept(listener, TlsAcceptor::from(tls), metrics);
    tokio::spawn(async move { cancel.run_until_cancelled(accepting).await });
    Ok(())
}

async fn accept(listener: TcpListener, acceptor: TlsAcceptor, metrics: Metrics) {
    let room = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let Ok(permit) = room.clone().acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, _)) => {
                let connection = connection(stream, acceptor.clone(), metrics.clone());
                tokio::spawn(async move {
                    connection.await;
                    drop(permit);
                });
            }
            Err(_) => tokio::time::sleep(RETRY).await,
        }
    }
}

async fn connection(stream: TcpStream, acceptor: TlsAcceptor, metrics: Metrics) {
    let Ok(Ok(stream)) = tokio::time::timeout(HANDSHAKE, acceptor.accept(stream)).await else { return };
    let may_read = groups(&stream).iter().any(|group| READERS.contains(&&**group));
    let service = service_fn(move |request: Request<Incoming>| {
        let answer = answer(request.method(), request.uri().path(), may_read, &metrics);
        async move { Ok::<_, Infallible>(answer) }
    });
    let mut server = hyper::server::conn::http1::Builder::new();
    server.timer(TokioTimer::new()).header_read_timeout(IDLE);
    // A client that went away is no error of ours.
    drop(server.serve_connection(TokioIo::new(stream), service).await);
}

/// The groups that the client's certificate names.
fn groups(stream: &TlsStream<TcpStream>) -> Vec<String> {
    let leaf = stream.get_ref().1.peer_certificates().and_then(|chain| chain.first());
    let parsed = leaf.and_then(|leaf| x509_parser::parse_x509_certificate(leaf.as_ref()).ok());
    let Some((_, certificate)) = parsed else { return Vec::new() };
    certificate.subject().iter_organization().filter_map(|group| Some(group.as_str().ok()?.to_owned())).collect()
}

fn answer(method: &Method, path: &str, may_read: bool, metrics: &Metrics) -> Response<String> {
    const PLAIN: &str = "text/plain; charset=utf-8";
    let (code, kind, text) = match (method, path) {
        _ if !may_read => {
            let why =
                format!("Forbidden: a client certificate with one of the groups {} may look\n", READERS.join(", "));
            (StatusCode::FORBIDDEN, PLAIN, why)
        }
        (&Method::GET | &Method::HEAD, "/metrics") => {
            (StatusCode::OK, "application/openmetrics-text; version=1.0.0; charset=utf-8", metrics.encode())
        }
        (_, "/metrics") => (StatusCode::METHOD_NOT_ALLOWED, PLAIN, "only GET\n".to_owned()),
        _ => (StatusCode::NOT_FOUND, PLAIN, "404 page not found: only /metrics is here\n".to_owned()),
    };
    let mut response = Response::new(text);
    *response.status_mut() = code;
    response.headers_mut().insert(header::CONTENT_TYPE, http::HeaderValue::from_static(kind));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_may_not_read_learns_nothing() {
        let metrics = Metrics::new();
        let check = |method: Method, path: &str, may_read: bool, code: u16| {
            let answer = answer(&method, path, may_read, &metrics);
            assert_eq!(answer.status().as_u16(), code, "{method} {path}");
            assert_eq!(answer.body().contains("gantry_"), code == 200);
        };
        check(Method::GET, "/metrics", true, 200);
        check(Method::GET, "/metrics", false, 403);
        check(Method::GET, "/else", false, 403);
        check(Method::GET, "/else", true, 404);
        check(Method::POST, "/metrics", true, 405);
    }
}
