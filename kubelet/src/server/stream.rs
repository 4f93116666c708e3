//! Streaming sessions: the client's upgraded connection is joined to the runtime's, byte by byte. It decides only which
//! protocols the runtime can speak.

use bytes::Bytes;
use http::header::{CONNECTION, HeaderMap, HeaderName, UPGRADE};
use http::{Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use super::{Answer, join, text};
use crate::runtime::{Result, RuntimeError};

const WS_PROTOCOL: HeaderName = HeaderName::from_static("sec-websocket-protocol");

/// The WebSocket protocols that runtimes speak. `v5.channel.k8s.io` and SPDY inside a WebSocket they do not: a client
/// that offers only those is refused, and kubectl then comes back with SPDY.
const SPOKEN: [&str; 5] =
    ["v4.channel.k8s.io", "v4.base64.channel.k8s.io", "channel.k8s.io", "base64.channel.k8s.io", "portforward.k8s.io"];

/// The offer that goes on to the runtime, or `None` when it has to be refused.
fn offer(headers: &HeaderMap) -> Option<Option<String>> {
    let Some(offered) = headers.get(WS_PROTOCOL) else { return Some(None) };
    let offered = offered.to_str().unwrap_or_default().split(',').map(str::trim);
    let kept: Vec<&str> = offered.filter(|p| SPOKEN.contains(p)).collect();
    if kept.is_empty() { None } else { Some(Some(kept.join(", "))) }
}

pub async fn proxy(url: Result<String>, request: Request<Incoming>) -> Answer {
    let url = match url {
        Ok(url) => url,
        Err(RuntimeError::NotFound(m)) => return text(StatusCode::NOT_FOUND, m),
        Err(e) => return text(StatusCode::INTERNAL_SERVER_ERROR, e.to_string()),
    };
    if !request.headers().contains_key(UPGRADE) {
        return text(StatusCode::BAD_REQUEST, "Upgrade request required");
    }
    let Some(protocols) = offer(request.headers()) else {
        return text(StatusCode::BAD_REQUEST, "none of the WebSocket protocols offered is spoken here; SPDY/3.1 is");
    };
    match switch(&url, request, protocols).await {
        Ok(answer) => answer,
        Err(e) => text(StatusCode::BAD_GATEWAY, format!("the container runtime's stream: {e}")),
    }
}

async fn switch(
    url: &str,
    mut request: Request<Incoming>,
    protocols: Option<String>,
) -> std::result::Result<Answer, Box<dyn std::error::Error + Send + Sync>> {
    let url: Uri = url.parse()?;
    let authority = url.authority().ok_or("its address has no host")?.clone();
    let stream = TcpStream::connect((authority.host(), authority.port_u16().unwrap_or(80))).await?;
    stream.set_nodelay(true)?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection.with_upgrades());
    let mut onward = Request::builder().method(request.method().clone());
    onward = onward.uri(url.path_and_query().map_or("/", |p| p.as_str())).header("host", authority.as_str());
    for (name, value) in request.headers() {
        if name != "host" && name != WS_PROTOCOL && name != "content-length" {
            onward = onward.header(name, value);
        }
    }
    if let Some(protocols) = protocols {
        onward = onward.header(WS_PROTOCOL, protocols);
    }
    let mut answer = sender.send_request(onward.body(Empty::<Bytes>::new())?).await?;
    if answer.status() != StatusCode::SWITCHING_PROTOCOLS {
        let status = answer.status();
        let body = answer.into_body().collect().await?.to_bytes();
        return Ok(text(status, String::from_utf8_lossy(&body).into_owned()));
    }
    let (client, runtime) = (hyper::upgrade::on(&mut request), hyper::upgrade::on(&mut answer));
    tokio::spawn(async move {
        if let Ok((client, runtime)) = tokio::try_join!(client, runtime) {
            join::both(TokioIo::new(client), TokioIo::new(runtime)).await;
        }
    });
    let mut switched = Response::new(Empty::new().map_err(|never| match never {}).boxed());
    *switched.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    for (name, value) in answer.headers() {
        switched.headers_mut().append(name.clone(), value.clone());
    }
    debug_assert!(switched.headers().contains_key(CONNECTION));
    Ok(switched)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_runtime_speaks_goes_on() {
        let check = |offered: Option<&str>, expect: Option<Option<&str>>| {
            let mut headers = HeaderMap::new();
            if let Some(o) = offered {
                headers.insert(WS_PROTOCOL, o.parse().unwrap());
            }
            assert_eq!(offer(&headers), expect.map(|e| e.map(str::to_owned)), "{offered:?}");
        };
        check(None, Some(None));
        check(Some("v5.channel.k8s.io"), None);
        check(Some("SPDY/3.1+portforward.k8s.io"), None);
        check(
            Some("v5.channel.k8s.io, v4.channel.k8s.io,channel.k8s.io"),
            Some(Some("v4.channel.k8s.io, channel.k8s.io")),
        );
    }
}
