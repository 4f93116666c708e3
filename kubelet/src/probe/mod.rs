//! Carries out one probe or hook: a command, an HTTP request, a connection. Decides only what counts as success;
//! thresholds are the pod machine's.

mod http;

use std::time::Duration;

use serde_json::Value;
use tokio::net::TcpStream;

use crate::api::Container;
use crate::api::pod::Handler;
use crate::pod::Outcome;
use crate::runtime::{Runtime, RuntimeError};

/// What a probe or hook acts on.
pub struct Target<'a> {
    pub container: &'a Container,
    pub container_id: &'a str,
    /// The pod's address, where the handler names no host.
    pub ip: &'a str,
}

/// Runs a probe's handler within its time.
pub async fn probe(runtime: &dyn Runtime, t: Target<'_>, handler: &Handler, timeout_s: u64) -> Outcome {
    match run(runtime, t, handler, timeout_s, true).await {
        Ok(()) => Outcome::Success,
        Err(message) => Outcome::Failure(message),
    }
}

/// Runs a lifecycle hook; any HTTP answer is fine there.
pub async fn hook(runtime: &dyn Runtime, t: Target<'_>, handler: &Handler, limit_s: u64) -> Result<(), String> {
    if let Some(sleep) = &handler.sleep {
        let wanted = u64::try_from(sleep.seconds).unwrap_or(0);
        tokio::time::sleep(Duration::from_secs(wanted.min(limit_s))).await;
        return Ok(());
    }
    run(runtime, t, handler, limit_s, false).await
}

async fn run(runtime: &dyn Runtime, t: Target<'_>, h: &Handler, timeout_s: u64, strict: bool) -> Result<(), String> {
    let limit = Duration::from_secs(timeout_s);
    if let Some(exec) = &h.exec {
        return command(runtime, t.container_id, &exec.command, timeout_s).await;
    }
    let work = async {
        if let Some(get) = &h.http_get {
            let host = get.host.as_deref().filter(|h| !h.is_empty()).unwrap_or(t.ip);
            let port = port(&get.port, t.container)?;
            return http::get(host, port, get, strict).await;
        }
        if let Some(tcp) = &h.tcp_socket {
            let host = tcp.host.as_deref().filter(|h| !h.is_empty()).unwrap_or(t.ip);
            let port = port(&tcp.port, t.container)?;
            let connected = TcpStream::connect((host, port)).await;
            return connected.map(drop).map_err(|e| format!("dial tcp {host}:{port}: {e}"));
        }
        if let Some(grpc) = &h.grpc {
            return http::grpc_health(t.ip, u16::try_from(grpc.port).unwrap_or(0), grpc.service.as_deref()).await;
        }
        Err("missing probe handler".to_owned())
    };
    match tokio::time::timeout(limit, work).await {
        Ok(result) => result,
        Err(_) => Err(format!("timed out after {timeout_s}s")),
    }
}

async fn command(runtime: &dyn Runtime, id: &str, command: &[String], timeout_s: u64) -> Result<(), String> {
    match runtime.exec_sync(id, command, timeout_s).await {
        Ok(out) if out.exit_code == 0 => Ok(()),
        Ok(out) => {
            let text = [out.stdout, out.stderr].concat();
            let text: String = String::from_utf8_lossy(&text).chars().take(1024).collect();
            Err(if text.trim().is_empty() { format!("command exited with {}", out.exit_code) } else { text })
        }
        Err(RuntimeError::Failed(m) | RuntimeError::NotFound(m) | RuntimeError::Unknown(m)) => Err(m),
    }
}

/// A port by number or by the name that the container gives it.
fn port(value: &Value, c: &Container) -> Result<u16, String> {
    let number = match value {
        Value::Number(n) => n.as_i64(),
        Value::String(s) => s.parse().ok().or_else(|| {
            let named = c.ports.iter().find(|p| p.name.as_deref() == Some(s));
            named.map(|p| i64::from(p.container_port))
        }),
        _ => None,
    };
    let number = number.and_then(|n| u16::try_from(n).ok()).filter(|n| *n > 0);
    number.ok_or_else(|| format!("couldn't find port: {value}"))
}
