//! Behaviours below a well-behaved client: raw connections, bodies that never end, watchers that never read.

use super::broken;
use crate::connect::{Credentials, Server};
use crate::exchange::Failure;
use crate::run::Session;
use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use rustls::pki_types::ServerName;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// Longer than a server may take to see that nothing sensible comes.
const PATIENCE: Duration = Duration::from_secs(90);

/// A TLS connection with one's own certificate that speaks HTTP/1.1, and the server's name.
async fn dial(session: &Session<'_>) -> Result<(TlsStream<TcpStream>, String), Failure> {
    let server = &session.world.server;
    let failed = |error: String| broken(format!("connecting to {}", server.access.server), error);
    let uri: http::Uri = server.access.server.parse().map_err(|error| failed(format!("{error}")))?;
    let host = uri.host().unwrap_or_default().to_owned();
    let mut tls = server.tls(true).map_err(|error| failed(format!("{error:#}")))?;
    tls.alpn_protocols = vec![b"http/1.1".to_vec()];
    let stream = TcpStream::connect((host.as_str(), uri.port_u16().unwrap_or(443))).await;
    let stream = stream.map_err(|error| failed(error.to_string()))?;
    let name = ServerName::try_from(host.clone()).map_err(|error| failed(error.to_string()))?;
    let stream = TlsConnector::from(Arc::new(tls)).connect(name, stream).await;
    Ok((stream.map_err(|error| failed(error.to_string()))?, host))
}

/// The lines of one's credentials, for requests written by hand.
fn authorization(session: &Session<'_>) -> String {
    session
        .world
        .server
        .access
        .token
        .as_ref()
        .map_or_else(String::new, |token| format!("Authorization: Bearer {token}\r\n"))
}

/// Writes and reads what comes until the server closes, or until `enough` says so.
async fn talk(session: &Session<'_>, request: &str, enough: impl Fn(&str) -> bool) -> Result<String, Failure> {
    let (mut stream, _) = dial(session).await?;
    let what = request.chars().take(80).collect::<String>();
    // A server that has heard enough closes; that is an answer, too.
    drop(stream.write_all(request.as_bytes()).await);
    let mut answer = Vec::new();
    let read = async {
        let mut buffer = [0; 4096];
        loop {
            match stream.read(&mut buffer).await {
                Ok(0) | Err(_) => break,
                Ok(count) => answer.extend_from_slice(&buffer[..count]),
            }
            if enough(&String::from_utf8_lossy(&answer)) {
                break;
            }
        }
    };
    if tokio::time::timeout(PATIENCE, read).await.is_err() {
        return Err(broken(what, format!("neither an answer nor an end within {} s", PATIENCE.as_secs())));
    }
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

async fn still_serves(session: &Session<'_>) -> Result<(), Failure> {
    session.say(json!({"do": "GET /api/v1/namespaces/default", "expect": 200})).await.map(drop)
}

pub fn slow_body<'s>(session: &'s Session<'_>) -> BoxFuture<'s, Result<(), Failure>> {
    async move {
        let authorization = authorization(session);
        let begun = format!(
            "POST /api/v1/namespaces/default/configmaps HTTP/1.1\r\nHost: x\r\n{authorization}Content-Type: application/json\r\nContent-Length: 1000\r\n\r\n{{"
        );
        // Many bodies that never come hold nobody else up.
        let mut open = Vec::new();
        for _ in 0..40 {
            let (mut stream, _) = dial(session).await?;
            stream.write_all(begun.as_bytes()).await.map_err(|error| broken("a body that does not come", error.to_string()))?;
            open.push(stream);
        }
        still_serves(session).await?;
        let answer = talk(session, &begun, |text| text.contains("\r\n")).await?;
        let code = answer.split(' ').nth(1).unwrap_or_default();
        if answer.is_empty() || code.starts_with('4') || code.starts_with('5') {
            return Ok(());
        }
        Err(broken("a body that does not come", format!("answered {answer:?}")))
    }
    .boxed()
}

pub fn not_http<'s>(session: &'s Session<'_>) -> BoxFuture<'s, Result<(), Failure>> {
    async move {
        for nonsense in [
            "\0\0\0\0\0\0\0\0\r\n\r\n",
            "HELLO\r\n\r\n",
            "GET / HTTP/9.9\r\n\r\n",
            "GET /\u{7f} HTTP/1.1\r\nHost: x\r\n\r\n",
        ] {
            let answer = talk(session, nonsense, |text| text.contains("\r\n")).await?;
            if !(answer.is_empty()
                || answer.starts_with("HTTP/1.1 4")
                || answer.starts_with("HTTP/1.0 4")
                || answer.starts_with("HTTP/1.1 505"))
            {
                return Err(broken(format!("{nonsense:?}"), format!("answered {answer:?}")));
            }
        }
        still_serves(session).await
    }
    .boxed()
}

pub fn http1<'s>(session: &'s Session<'_>) -> BoxFuture<'s, Result<(), Failure>> {
    async move {
        let authorization = authorization(session);
        let get = format!("GET /version HTTP/1.1\r\nHost: x\r\n{authorization}\r\n");
        let close = format!("GET /version HTTP/1.1\r\nHost: x\r\n{authorization}Connection: close\r\n\r\n");
        let answer = talk(session, &format!("{get}{get}{close}"), |_| false).await?;
        let answers = answer.matches("HTTP/1.1 200").count();
        if answers == 3 {
            Ok(())
        } else {
            Err(broken("three requests on one HTTP/1.1 connection", format!("{answers} answers: {answer}")))
        }
    }
    .boxed()
}

pub fn many_headers<'s>(session: &'s Session<'_>) -> BoxFuture<'s, Result<(), Failure>> {
    async move {
        let header = format!("X-Long: {}\r\n", "x".repeat(8_000));
        let request = format!("GET /version HTTP/1.1\r\nHost: x\r\n{}\r\n", header.repeat(500));
        let answer = talk(session, &request, |text| text.contains("\r\n")).await?;
        if answer.is_empty() || answer.starts_with("HTTP/1.1 4") {
            return still_serves(session).await;
        }
        Err(broken("four megabytes of headers", format!("answered {answer:?}")))
    }
    .boxed()
}

/// A watcher that never reads does not hold up writers or other watchers.
pub fn silent_watcher<'s>(session: &'s Session<'_>) -> BoxFuture<'s, Result<(), Failure>> {
    async move {
        let namespace = &session.namespaces[0];
        let path = format!("/api/v1/namespaces/{namespace}/configmaps");
        let authorization = authorization(session);
        let (mut stream, _) = dial(session).await?;
        let watch = format!("GET {path}?watch=true HTTP/1.1\r\nHost: x\r\n{authorization}\r\n");
        stream.write_all(watch.as_bytes()).await.map_err(|error| broken("a watch", error.to_string()))?;
        let text = "x".repeat(100_000);
        for n in 0..100 {
            let body = json!({"metadata": {"name": format!("a{n}")}, "data": {"k": text}});
            session.say(json!({"do": format!("POST {path}"), "body": body, "expect": 201})).await?;
        }
        still_serves(session).await
    }
    .boxed()
}

/// Requests that are given up before their answers leave nothing behind that hinders others.
pub fn cancelled_requests<'s>(session: &'s Session<'_>) -> BoxFuture<'s, Result<(), Failure>> {
    async move {
        // On connections of its own: a server may close one on which so many requests were given up.
        let server = Server::new(session.world.server.access.as_ref().clone());
        let server = server.map_err(|error| broken("connecting", format!("{error:#}")))?;
        for _ in 0..200 {
            let watch =
                server.open(&Credentials::Own, http::Request::builder(), "/api/v1/configmaps?watch=true", Bytes::new());
            // Given up at whatever point it is after a moment.
            drop(tokio::time::timeout(Duration::from_millis(2), watch).await);
        }
        still_serves(session).await
    }
    .boxed()
}
