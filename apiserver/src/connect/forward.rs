//! One HTTP/1.1 exchange with a backend whose connection is there: the request goes on, the answer comes back, both bodies stream,
//! and an upgraded connection is joined byte by byte. Decides which headers are one hop's business.

use super::IDLE;
use crate::http::body::{Body, BoxError, boxed};
use crate::http::{Request, Response};
use crate::streams::STALLED;
use crate::streams::upgrade::BEARER_PREFIX;
use http::header::{
    AUTHORIZATION, CONNECTION, HeaderMap, HeaderName, HeaderValue, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION,
    SEC_WEBSOCKET_PROTOCOL, TE, TRAILER, TRANSFER_ENCODING, UPGRADE,
};
use http::{StatusCode, Uri};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");
const PROXY_CONNECTION: HeaderName = HeaderName::from_static("proxy-connection");
const HOP_BY_HOP: [HeaderName; 9] = [
    CONNECTION,
    KEEP_ALIVE,
    PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION,
    PROXY_CONNECTION,
    TE,
    TRAILER,
    TRANSFER_ENCODING,
    UPGRADE,
];

const PIECE: usize = 16 * 1024;
/// When one side broke off, what is on its way to the other arrives by then.
const FAREWELL: Duration = Duration::from_secs(60);
/// How long one side may go on after the other said that it is done.
const HALF: Duration = Duration::from_secs(10 * 60);

/// An answer whose body is still coming, and, when protocols were switched, the backend's side of the connection.
pub struct Answer {
    pub response: http::Response<hyper::body::Incoming>,
    client: Option<OnUpgrade>,
}

/// Sends a request on. Its target becomes `path`, its `Host` what `host` says, if anything; who the client is stays here.
pub async fn send<T>(transport: T, path: &str, host: Option<&str>, mut request: Request) -> Result<Answer, BoxError>
where
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (mut sender, connection) = hyper::client::conn::http1::handshake::<_, Body>(TokioIo::new(transport)).await?;
    tokio::spawn(async move {
        if let Err(error) = connection.with_upgrades().await {
            tracing::debug!(%error, "a connection to a backend ended");
        }
    });
    let client = request.headers().contains_key(UPGRADE).then(|| hyper::upgrade::on(&mut request));
    let (parts, body) = request.into_parts();
    let mut onward = http::Request::new(body);
    *onward.method_mut() = parts.method;
    *onward.uri_mut() = path.parse::<Uri>()?;
    *onward.headers_mut() = onward_headers(&parts.headers, client.is_some());
    match (host, parts.uri.authority()) {
        (Some(host), _) => drop(onward.headers_mut().insert(http::header::HOST, HeaderValue::from_str(host)?)),
        // HTTP/2 has it in the target.
        (None, Some(host)) if !onward.headers().contains_key(http::header::HOST) => {
            onward.headers_mut().insert(http::header::HOST, HeaderValue::from_str(host.as_str())?);
        }
        (None, _) => {}
    }
    Ok(Answer { response: sender.send_request(onward).await?, client })
}

impl Answer {
    pub fn switches(&self) -> bool {
        self.response.status() == StatusCode::SWITCHING_PROTOCOLS
    }

    /// The answer for the client. Where protocols are switched, both sides are joined until either is done; `held` is let go then,
    /// or when the body has ended.
    pub fn pass_on<H: Send + 'static>(mut self, held: H) -> Response {
        let switches = self.switches();
        if switches && let Some(client) = self.client.take() {
            let backend = hyper::upgrade::on(&mut self.response);
            tokio::spawn(async move {
                join(client, backend).await;
                drop(held);
            });
            let mut answer = http::Response::new(crate::http::empty());
            *answer.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
            *answer.headers_mut() = backward_headers(self.response.headers(), true);
            return answer;
        }
        let (parts, body) = self.response.into_parts();
        let mut answer = http::Response::new(boxed(Held { body, _held: held }));
        *answer.status_mut() = parts.status;
        *answer.headers_mut() = backward_headers(&parts.headers, false);
        answer
    }
}

/// A body that keeps something until it has ended.
struct Held<H> {
    body: hyper::body::Incoming,
    _held: H,
}

impl<H: Send + 'static> http_body::Body for Held<H> {
    type Data = bytes::Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        self: std::pin::Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<hyper::body::Frame<Self::Data>, Self::Error>>> {
        // What is held is never pinned.
        std::pin::Pin::new(&mut self.get_mut().body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> http_body::SizeHint {
        self.body.size_hint()
    }
}

impl<H> Unpin for Held<H> {}

/// Without what concerns one hop alone; what an upgrade needs stays.
fn end_to_end(headers: &HeaderMap, upgrades: bool) -> HeaderMap {
    let values = headers.get_all(CONNECTION).iter().filter_map(|value| value.to_str().ok());
    let named: Vec<HeaderName> =
        values.flat_map(|value| value.split(',')).filter_map(|name| name.trim().parse().ok()).collect();
    let mut kept = HeaderMap::with_capacity(headers.len());
    for (name, value) in headers {
        if !HOP_BY_HOP.contains(name) && !named.contains(name) {
            kept.append(name.clone(), value.clone());
        }
    }
    if upgrades && let Some(protocol) = headers.get(UPGRADE) {
        kept.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
        kept.insert(UPGRADE, protocol.clone());
    }
    kept
}

/// The client's headers for a backend: never what proves, or claims, who the client is.
pub fn onward_headers(headers: &HeaderMap, upgrades: bool) -> HeaderMap {
    let mut kept = end_to_end(headers, upgrades);
    kept.remove(AUTHORIZATION);
    let claims: Vec<HeaderName> = kept.keys().filter(|name| claims_identity(name)).cloned().collect();
    for name in claims {
        kept.remove(name);
    }
    if let http::header::Entry::Occupied(mut offers) = kept.entry(SEC_WEBSOCKET_PROTOCOL) {
        let text = offers.iter().filter_map(|value| value.to_str().ok()).collect::<Vec<_>>().join(",");
        let rest: Vec<&str> = text.split(',').map(str::trim).filter(|one| !one.starts_with(BEARER_PREFIX)).collect();
        match HeaderValue::from_str(&rest.join(", ")) {
            Ok(rest) if !rest.is_empty() => {
                offers.insert(rest);
            }
            _ => {
                offers.remove();
            }
        }
    }
    kept
}

fn claims_identity(name: &HeaderName) -> bool {
    ["impersonate-", "x-remote-"].iter().any(|prefix| name.as_str().starts_with(prefix))
}

/// A backend's headers for the client.
pub fn backward_headers(headers: &HeaderMap, upgrades: bool) -> HeaderMap {
    end_to_end(headers, upgrades)
}

/// Carries bytes both ways until one side is done.
pub async fn join(client: OnUpgrade, backend: OnUpgrade) {
    match tokio::try_join!(client, backend) {
        Ok((client, backend)) => both(TokioIo::new(client), TokioIo::new(backend)).await,
        Err(error) => tracing::debug!(%error, "an upgrade did not happen"),
    }
}

async fn both<C, B>(client: C, backend: B)
where
    C: AsyncRead + AsyncWrite + Send,
    B: AsyncRead + AsyncWrite + Send,
{
    let ((mut from_client, mut to_client), (mut from_backend, mut to_backend)) =
        (tokio::io::split(client), tokio::io::split(backend));
    // A backend may read when it likes; a client has to.
    let there = one_way(&mut from_client, &mut to_backend, IDLE);
    let back = one_way(&mut from_backend, &mut to_client, STALLED);
    tokio::pin!(there, back);
    let (clean, rest): (bool, std::pin::Pin<&mut (dyn Future<Output = bool> + Send)>) = tokio::select! {
        clean = there.as_mut() => (clean, back),
        clean = back.as_mut() => (clean, there),
    };
    if clean {
        // One side said all that it had to say; the other may go on, but not for ever.
        let _ = tokio::time::timeout(HALF, rest).await;
    } else {
        let _ = tokio::time::timeout(FAREWELL, rest).await;
    }
}

/// Carries bytes until there are no more; true when that was told. Who hears nothing any more is read from nevertheless: a side
/// that is dropped before it is read takes back what it said last. Who takes nothing for as long as `stall` is given up.
async fn one_way<R, W>(from: &mut R, to: &mut W, stall: Duration) -> bool
where
    R: AsyncRead + Unpin + Send,
    W: AsyncWrite + Unpin + Send,
{
    let (mut buffer, mut hears) = (vec![0; PIECE], true);
    loop {
        let Ok(read) = tokio::time::timeout(IDLE, from.read(&mut buffer)).await else { return false };
        match read {
            Ok(length @ 1..) if hears => {
                let writing = async { to.write_all(&buffer[..length]).await.is_ok() && to.flush().await.is_ok() };
                match tokio::time::timeout(stall, writing).await {
                    Ok(wrote) => hears = wrote,
                    Err(_) => return false,
                }
            }
            Ok(1..) => {}
            end => {
                let _ = to.shutdown().await;
                return end.is_ok();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::duplex;
    use tokio::time::timeout;

    #[tokio::test(start_paused = true)]
    async fn a_client_that_reads_nothing_is_given_up() {
        let ((mut client, near), (far, backend)) = (duplex(64), duplex(64));
        let joined = tokio::spawn(both(near, far));
        let (mut asked, mut answer) = tokio::io::split(backend);
        let writing = tokio::spawn(async move { while answer.write_all(&[b'x'; 64]).await.is_ok() {} });
        let reading = tokio::spawn(async move { while matches!(asked.read(&mut [0; 64]).await, Ok(1..)) {} });
        let talking = tokio::spawn(async move {
            while client.write_all(b"on and on").await.is_ok() {
                tokio::time::sleep(STALLED / 10).await;
            }
        });
        timeout(2 * STALLED, joined).await.expect("it has ended").unwrap();
        for one in [writing, reading, talking] {
            timeout(STALLED, one).await.expect("both sides were told").unwrap();
        }
    }

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut all = HeaderMap::new();
        for (name, value) in pairs {
            all.append(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        all
    }

    #[test]
    fn what_is_one_hops_business_stays_there() {
        let sent = headers(&[
            ("connection", "keep-alive, X-Secret"),
            ("x-secret", "1"),
            ("keep-alive", "timeout=5"),
            ("te", "trailers"),
            ("transfer-encoding", "chunked"),
            ("upgrade", "h2c"),
            ("accept", "text/html"),
        ]);
        assert_eq!(end_to_end(&sent, false), headers(&[("accept", "text/html")]));
    }

    #[test]
    fn who_the_client_is_goes_nowhere() {
        let sent = headers(&[
            ("authorization", "Bearer t"),
            ("impersonate-user", "root"),
            ("impersonate-extra-a", "b"),
            ("x-remote-user", "root"),
            ("cookie", "a=b"),
            ("connection", "upgrade"),
            ("upgrade", "websocket"),
            ("sec-websocket-protocol", "base64url.bearer.authorization.k8s.io.dG9rZW4, chat"),
        ]);
        let expect = headers(&[
            ("cookie", "a=b"),
            ("sec-websocket-protocol", "chat"),
            ("connection", "Upgrade"),
            ("upgrade", "websocket"),
        ]);
        assert_eq!(onward_headers(&sent, true), expect);
    }
}
