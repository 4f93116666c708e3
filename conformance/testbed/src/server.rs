//! The web service of the demo: which path answers what, and how a test makes it sick. State lives in memory only.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

const PATHS: &str = "\
/          this text, the host's name and $GREETING
/hostname  the host's name
/healthz   200, or 500 after /break
/readyz    200, or 503 after /unready
/ready, /unready, /break, /mend   change those answers
/env/NAME  one environment variable
/file/P    the file /P
/exit/N    exit with code N
/count     requests so far
";

#[derive(Default)]
struct State {
    unready: AtomicBool,
    broken: AtomicBool,
    requests: AtomicU64,
}

/// Serves until the process ends. At most 256 connections at once; more wait in the listen queue.
pub fn serve(port: u16) -> Result<(), String> {
    let listener = TcpListener::bind(("0.0.0.0", port)).map_err(|error| format!("port {port}: {error}"))?;
    println!("serving on port {port}");
    let state = Arc::new(State::default());
    let active = Arc::new(AtomicU64::new(0));
    for stream in listener.incoming().flatten() {
        let (state, active) = (Arc::clone(&state), Arc::clone(&active));
        if active.fetch_add(1, Ordering::SeqCst) >= 256 {
            active.fetch_sub(1, Ordering::SeqCst);
            continue;
        }
        std::thread::spawn(move || {
            if let Err(error) = connection(stream, &state) {
                eprintln!("connection: {error}");
            }
            active.fetch_sub(1, Ordering::SeqCst);
        });
    }
    Ok(())
}

fn connection(mut stream: TcpStream, state: &State) -> std::io::Result<()> {
    stream.set_read_timeout(Some(Duration::from_secs(60)))?;
    let mut reader = BufReader::new(stream.try_clone()?);
    loop {
        let mut request = String::new();
        if reader.by_ref().take(8192).read_line(&mut request)? == 0 {
            return Ok(());
        }
        let mut keep_alive = request.contains("HTTP/1.1");
        loop {
            let mut header = String::new();
            if reader.by_ref().take(8192).read_line(&mut header)? == 0 || header.trim().is_empty() {
                break;
            }
            if header.to_ascii_lowercase().starts_with("connection: close") {
                keep_alive = false;
            }
        }
        let path = request.split_whitespace().nth(1).unwrap_or("/");
        let (code, body) = answer(path, state);
        let connection = if keep_alive { "keep-alive" } else { "close" };
        write!(
            stream,
            "HTTP/1.1 {code}\r\nContent-Type: text/plain\r\nContent-Length: {}\r\nConnection: {connection}\r\n\r\n",
            body.len()
        )?;
        stream.write_all(&body)?;
        if let Some(code) = path.strip_prefix("/exit/") {
            std::process::exit(code.parse().unwrap_or(1));
        }
        if !keep_alive {
            return Ok(());
        }
    }
}

fn answer(path: &str, state: &State) -> (&'static str, Vec<u8>) {
    state.requests.fetch_add(1, Ordering::Relaxed);
    let flag = |flag: &AtomicBool, value: bool| {
        flag.store(value, Ordering::SeqCst);
        ("200 OK", b"ok\n".to_vec())
    };
    match path {
        "/" => ("200 OK", format!("{}\n{}\n\n{PATHS}", hostname(), variable("GREETING")).into_bytes()),
        "/hostname" => ("200 OK", format!("{}\n", hostname()).into_bytes()),
        "/healthz" if state.broken.load(Ordering::SeqCst) => ("500 Internal Server Error", b"broken\n".to_vec()),
        "/readyz" if state.unready.load(Ordering::SeqCst) => ("503 Service Unavailable", b"not ready\n".to_vec()),
        "/healthz" | "/readyz" => ("200 OK", b"ok\n".to_vec()),
        "/ready" => flag(&state.unready, false),
        "/unready" => flag(&state.unready, true),
        "/mend" => flag(&state.broken, false),
        "/break" => flag(&state.broken, true),
        "/count" => ("200 OK", format!("{}\n", state.requests.load(Ordering::Relaxed)).into_bytes()),
        _ if path.starts_with("/exit/") => ("200 OK", b"bye\n".to_vec()),
        _ => match (path.strip_prefix("/env/"), path.strip_prefix("/file")) {
            (Some(name), _) => ("200 OK", format!("{}\n", variable(name)).into_bytes()),
            (None, Some(file)) => match std::fs::read(file) {
                Ok(bytes) => ("200 OK", bytes),
                Err(error) => ("404 Not Found", format!("{file}: {error}\n").into_bytes()),
            },
            _ => ("404 Not Found", format!("no such path\n\n{PATHS}").into_bytes()),
        },
    }
}

fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_default()
}

fn hostname() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname")
        .map_or_else(|_| variable("HOSTNAME"), |name| name.trim().to_owned())
}
