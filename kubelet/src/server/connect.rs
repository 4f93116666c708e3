//! Joins the API server's connection to a port of a pod of this machine, for who cannot reach the pods' network. It decides the
//! address by what it knows of the pod; nobody can name another.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use http::header::{CONNECTION, HeaderValue, UPGRADE};
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Empty};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::{Answer, join, text};
use crate::api::PodStatus;

const PROTOCOL: &str = "tcp";
/// A pod answers, or refuses, by then.
const DIAL_WITHIN: Duration = Duration::from_secs(10);

/// The pod's address and the port, or why there is none.
fn address(status: &PodStatus, port: &str) -> Result<SocketAddr, (StatusCode, String)> {
    let bad = |what: String| (StatusCode::BAD_REQUEST, what);
    let port =
        port.parse::<u16>().ok().filter(|port| *port > 0).ok_or_else(|| bad(format!("{port:?} is not a port")))?;
    let ip = status.pod_ip.as_deref().and_then(|ip| ip.parse::<IpAddr>().ok());
    let ip = ip.ok_or_else(|| (StatusCode::SERVICE_UNAVAILABLE, "the pod has no address".to_owned()))?;
    Ok(SocketAddr::new(ip, port))
}

pub async fn serve<B>(status: &PodStatus, port: &str, mut request: Request<B>) -> Answer {
    if request.headers().get(UPGRADE).is_none_or(|wanted| wanted != PROTOCOL) {
        return text(StatusCode::BAD_REQUEST, format!("a connection is asked for by \"Upgrade: {PROTOCOL}\""));
    }
    let address = match address(status, port) {
        Ok(address) => address,
        Err((code, why)) => return text(code, why),
    };
    let dialed = match timeout(DIAL_WITHIN, TcpStream::connect(address)).await {
        Ok(Ok(stream)) => stream.set_nodelay(true).map(|()| stream),
        Ok(Err(e)) => Err(e),
        Err(late) => Err(late.into()),
    };
    let pod = match dialed {
        Ok(stream) => stream,
        Err(e) => return text(StatusCode::BAD_GATEWAY, format!("dial tcp {address}: {e}")),
    };
    let upgraded = hyper::upgrade::on(&mut request);
    tokio::spawn(async move {
        if let Ok(asker) = upgraded.await {
            join::both(TokioIo::new(asker), pod).await;
        }
    });
    let mut switched = Response::new(Empty::new().map_err(|never| match never {}).boxed());
    *switched.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    switched.headers_mut().insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    switched.headers_mut().insert(UPGRADE, HeaderValue::from_static(PROTOCOL));
    switched
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use http_body_util::Full;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    fn pod(ip: Option<&str>) -> PodStatus {
        PodStatus { pod_ip: ip.map(str::to_owned), ..PodStatus::default() }
    }

    #[test]
    fn only_the_pods_own_address_is_dialed() {
        let check = |ip: Option<&str>, port: &str, expect: Result<&str, u16>| {
            let found = address(&pod(ip), port).map(|found| found.to_string()).map_err(|(code, _)| code.as_u16());
            assert_eq!(found, expect.map(str::to_owned), "{ip:?} {port}");
        };
        check(Some("10.1.2.3"), "80", Ok("10.1.2.3:80"));
        check(Some("fd00::1"), "80", Ok("[fd00::1]:80"));
        check(Some("10.1.2.3"), "0", Err(400));
        check(Some("10.1.2.3"), "80@evil", Err(400));
        check(Some("10.1.2.3"), "", Err(400));
        check(None, "80", Err(503));
    }

    /// The agent's server on one end of a pipe; what the other end hears after it said `words`.
    async fn asked(status: PodStatus, port: String, words: &[u8], until: &str) -> String {
        let (mut asker, near) = tokio::io::duplex(4_096);
        let service = hyper::service::service_fn(move |request| {
            let (status, port) = (status.clone(), port.clone());
            async move { Ok::<_, std::convert::Infallible>(serve(&status, &port, request).await) }
        });
        tokio::spawn(
            hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(near), service).with_upgrades(),
        );
        asker.write_all(words).await.unwrap();
        let mut heard = Vec::new();
        while !String::from_utf8_lossy(&heard).contains(until) {
            let read = timeout(Duration::from_secs(20), asker.read_buf(&mut heard)).await.unwrap().unwrap();
            assert!(read > 0, "{:?}", String::from_utf8_lossy(&heard));
        }
        String::from_utf8(heard).unwrap()
    }

    const ASK: &[u8] = b"POST / HTTP/1.1\r\nhost: a\r\nconnection: Upgrade\r\nupgrade: tcp\r\n\r\n";

    #[tokio::test]
    async fn bytes_go_both_ways() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port().to_string();
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut heard = [0; 5];
            stream.read_exact(&mut heard).await.unwrap();
            heard.reverse();
            stream.write_all(&heard).await.unwrap();
        });
        let heard = asked(pod(Some("127.0.0.1")), port, &[ASK, b"hello"].concat(), "olleh").await;
        assert!(heard.starts_with("HTTP/1.1 101 "), "{heard}");
    }

    #[tokio::test]
    async fn what_cannot_be_reached_is_said() {
        let free = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
        let heard = asked(pod(Some("127.0.0.1")), free.port().to_string(), ASK, "refused").await;
        assert!(heard.starts_with("HTTP/1.1 502 ") && heard.contains(&format!("dial tcp {free}")), "{heard}");
        let plain = Request::new(Full::new(Bytes::new()));
        assert_eq!(serve(&pod(Some("127.0.0.1")), "80", plain).await.status(), 400);
    }
}
