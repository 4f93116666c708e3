//! One plain HTTP request, for what pods and proxies answer. It knows no TLS and no redirects.

use anyhow::{Context, ensure};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// One HTTP GET from the machine itself.
pub fn http_get(address: &str, port: u16, path: &str) -> anyhow::Result<String> {
    let target = format!("{address}:{port}").parse()?;
    let mut stream =
        TcpStream::connect_timeout(&target, Duration::from_secs(2)).with_context(|| format!("{target}"))?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").context("not an HTTP answer")?;
    ensure!(head.contains(" 200 "), "{target}{path}: {head}");
    Ok(body.to_owned())
}
