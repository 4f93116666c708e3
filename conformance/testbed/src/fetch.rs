//! One HTTP/1.1 GET, resolved by `dns`. It decides only success or failure; it follows no redirect.

use crate::dns;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// The body of a 2xx answer; anything else is an error that names what went wrong.
pub fn get(url: &str, timeout_s: u64) -> Result<Vec<u8>, String> {
    let rest = url.strip_prefix("http://").ok_or("only http:// URLs")?;
    let (authority, path) = match rest.find('/') {
        Some(at) => rest.split_at(at),
        None => (rest, "/"),
    };
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) => (host, port.parse().map_err(|_| format!("bad port in {url}"))?),
        None => (authority, 80u16),
    };
    let mut last = format!("{host} has no address");
    for address in dns::lookup(host)? {
        match exchange(SocketAddr::from((address, port)), host, path, Duration::from_secs(timeout_s)) {
            Ok(answer) => return body(&answer),
            Err(error) => last = format!("{address}:{port}: {error}"),
        }
    }
    Err(last)
}

fn exchange(address: SocketAddr, host: &str, path: &str, timeout: Duration) -> std::io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect_timeout(&address, timeout)?;
    stream.set_read_timeout(Some(timeout))?;
    stream.set_write_timeout(Some(timeout))?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n")?;
    let mut answer = Vec::new();
    stream.take(16 << 20).read_to_end(&mut answer)?;
    Ok(answer)
}

fn body(answer: &[u8]) -> Result<Vec<u8>, String> {
    let end = answer.windows(4).position(|window| window == b"\r\n\r\n").ok_or("not an HTTP answer")?;
    let head = String::from_utf8_lossy(&answer[..end]);
    let status = head.split_whitespace().nth(1).unwrap_or_default();
    if status.starts_with('2') { Ok(answer[end + 4..].to_vec()) } else { Err(format!("HTTP status {status}")) }
}
