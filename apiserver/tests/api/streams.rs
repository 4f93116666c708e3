//! Exec, attach and port-forward, from the client's protocol to the agent's streams.

use crate::harness::PATIENCE;
use crate::machine::{LIMITS, Machine};
use bytes::Bytes;
use futures::{SinkExt, StreamExt};
use gantry_apiserver::streams::spdy::{Connection, Part, Receiver, Role, Stream};
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::{Message, protocol};

const POD: &str = "/api/v1/namespaces/default/pods/p";

async fn within<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, what).await.expect("in time")
}

type Socket = WebSocketStream<TokioIo<Upgraded>>;

async fn socket(machine: &Machine, path: &str, offer: &str) -> Result<(String, Socket), (u16, String)> {
    let mut headers = vec![
        ("connection", "Upgrade"),
        ("upgrade", "websocket"),
        ("sec-websocket-version", "13"),
        ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
    ];
    if !offer.is_empty() {
        headers.push(("sec-websocket-protocol", offer));
    }
    let (answer, transport) = machine.upgrade(path, &headers).await?;
    assert_eq!(answer["sec-websocket-accept"], "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=", "as RFC 6455 has it");
    let chosen = answer.get("sec-websocket-protocol").map_or("", |chosen| chosen.to_str().unwrap()).to_owned();
    Ok((chosen, WebSocketStream::from_raw_socket(transport, protocol::Role::Client, None).await))
}

/// Everything until the end: (channel, bytes) with one entry a message.
async fn rest(socket: &mut Socket) -> Vec<(u8, Vec<u8>)> {
    let mut all = Vec::new();
    while let Some(message) = within(socket.next()).await {
        match message.unwrap() {
            Message::Binary(bytes) => all.push((bytes[0], bytes[1..].to_vec())),
            Message::Close(_) => {}
            other => panic!("{other:?}"),
        }
    }
    all
}

fn joined(all: &[(u8, Vec<u8>)], channel: u8) -> String {
    let bytes: Vec<u8> = all.iter().filter(|(one, _)| *one == channel).flat_map(|(_, bytes)| bytes.clone()).collect();
    String::from_utf8(bytes).unwrap()
}

#[tokio::test]
async fn a_command_of_the_fifth_version_hears_the_end_of_its_input() {
    let machine = Machine::new().await;
    let path = format!("{POD}/exec?command=cat&command=a%20b&stdin=true&stdout=true&stderr=true&container=c");
    let (chosen, mut socket) = socket(&machine, &path, "v5.channel.k8s.io, v4.channel.k8s.io").await.unwrap();
    assert_eq!(chosen, "v5.channel.k8s.io");
    socket.send(Message::binary(&b"\x00to and fro"[..])).await.unwrap();
    socket.send(Message::binary(&[255_u8, 0][..])).await.unwrap();
    let all = rest(&mut socket).await;
    assert_eq!(joined(&all, 1), "to and fro");
    let status: Value = serde_json::from_str(&joined(&all, 3)).unwrap();
    assert_eq!(status["status"], "Success");
    let asked = "POST /exec/default/p/c?command=cat&command=a%20b&input=1&output=1&error=1";
    assert_eq!(machine.asked(), [asked], "the agent is asked for what the client asked for");
}

#[tokio::test]
async fn every_channel_protocol_is_spoken() {
    let machine = Machine::new().await;
    for offer in ["v5.channel.k8s.io", "v4.channel.k8s.io", "channel.k8s.io", ""] {
        let path = format!("{POD}/exec?command=exit&stdout=true");
        let (chosen, mut socket) = socket(&machine, &path, offer).await.unwrap();
        assert_eq!(chosen, offer);
        let told = joined(&rest(&mut socket).await, 3);
        if offer.starts_with('v') {
            let status: Value = serde_json::from_str(&told).unwrap();
            assert_eq!(
                (&status["reason"], &status["details"]["causes"][0]["message"]),
                (&"NonZeroExitCode".into(), &"7".into())
            );
        } else {
            assert_eq!(told, "it exited with 7");
        }
    }
}

#[tokio::test]
async fn a_terminal_is_resized() {
    let machine = Machine::new().await;
    let path = format!("{POD}/exec?command=size&stdout=true&tty=true");
    let (_, mut socket) = socket(&machine, &path, "v5.channel.k8s.io").await.unwrap();
    socket.send(Message::binary(&b"\x04{\"Width\":80}"[..])).await.unwrap();
    assert_eq!(joined(&rest(&mut socket).await, 1), "{\"Width\":80}");
}

#[tokio::test]
async fn attaching_asks_the_agent_to_attach() {
    let machine = Machine::new().await;
    let path = format!("{POD}/attach?stdin=true&stdout=true&stderr=true&tty=true");
    let (_, mut socket) = socket(&machine, &path, "base64.channel.k8s.io").await.unwrap();
    socket.send(Message::text("0aGk=")).await.unwrap();
    for expect in ["1", "1aGk="] {
        assert_eq!(within(socket.next()).await.unwrap().unwrap(), Message::text(expect));
    }
    assert_eq!(machine.asked(), ["POST /attach/default/p/c?input=1&output=1&error=1&tty=1"]);
}

#[tokio::test]
async fn refusals_say_why() {
    let machine = Machine::new().await;
    let refused = async |path: &str, offer: &str| {
        let (code, text) = socket(&machine, path, offer).await.err().unwrap();
        let status: Value = serde_json::from_str(&text).unwrap();
        format!("{code} {} {}", status["reason"].as_str().unwrap(), status["message"].as_str().unwrap())
    };
    let exec = format!("{POD}/exec?command=cat&stdout=true");
    let unknown = refused(&exec, "chat.example.com").await;
    assert!(
        unknown.starts_with(
            "403 Forbidden unable to upgrade: requested protocol(s) are not supported: [chat.example.com]"
        ),
        "{unknown}"
    );
    let refusal = refused(&format!("{POD}/exec?command=refuse&stdout=true"), "v5.channel.k8s.io").await;
    assert_eq!(refusal, "404 NotFound container not found (\"c\")");
    assert_eq!(
        refused("/api/v1/namespaces/default/pods/q/exec", "v5.channel.k8s.io").await,
        "404 NotFound pods \"q\" not found"
    );
    let plain = machine.api.get(&exec).await.failure();
    assert_eq!(plain, "400 BadRequest Upgrade request required");
}

async fn spdy(machine: &Machine, path: &str, version: &str) -> Connection {
    let headers = [("connection", "Upgrade"), ("upgrade", "SPDY/3.1"), ("x-stream-protocol-version", version)];
    let (answer, transport) = machine.upgrade(path, &headers).await.unwrap();
    assert_eq!(
        (&answer["upgrade"], &answer["x-stream-protocol-version"]),
        (&"SPDY/3.1".parse().unwrap(), &version.parse().unwrap())
    );
    Connection::start(transport, Role::Client, LIMITS)
}

async fn open(connection: &Connection, pairs: &[(&str, &str)]) -> Stream {
    let headers = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    within(connection.handle.open(headers)).await.unwrap()
}

async fn all(receiver: &mut Receiver) -> (String, Option<Part>) {
    let mut all = Vec::new();
    loop {
        match within(receiver.recv()).await {
            Some(Part::Data(bytes)) => all.extend_from_slice(&bytes),
            end => return (String::from_utf8(all).unwrap(), end),
        }
    }
}

#[tokio::test]
async fn a_command_over_spdy() {
    let machine = Machine::new().await;
    let path = format!("{POD}/exec?command=cat&stdin=true&stdout=true");
    let connection = spdy(&machine, &path, "v4.channel.k8s.io").await;
    let mut error = open(&connection, &[("streamtype", "error")]).await;
    let stdin = open(&connection, &[("streamtype", "stdin")]).await;
    let mut stdout = open(&connection, &[("streamtype", "stdout")]).await;
    stdin.sender.send(Bytes::from("x".repeat(200_000))).await.unwrap();
    stdin.sender.finish().await.unwrap();
    assert_eq!(all(&mut stdout.receiver).await.0.len(), 200_000);
    assert!(all(&mut error.receiver).await.0.contains("\"status\":\"Success\""));
}

async fn ports(connection: &Connection) {
    let headers = |kind, port, request| [("streamtype", kind), ("port", port), ("requestid", request)];
    for (port, id) in [("80", "0"), ("8080", "1")] {
        let mut error = open(connection, &headers("error", port, id)).await;
        error.sender.finish().await.unwrap();
        let mut data = open(connection, &headers("data", port, id)).await;
        data.sender.send(Bytes::from_static(b"get /")).await.unwrap();
        data.sender.finish().await.unwrap();
        assert_eq!(all(&mut data.receiver).await, ("GET /".to_owned(), Some(Part::Finished)));
        assert_eq!(all(&mut error.receiver).await, (String::new(), Some(Part::Finished)));
    }
    let mut error = open(connection, &headers("error", "81", "2")).await;
    assert_eq!(all(&mut error.receiver).await.0, "connection refused");
}

#[tokio::test]
async fn ports_over_spdy() {
    let machine = Machine::new().await;
    ports(&spdy(&machine, &format!("{POD}/portforward"), "portforward.k8s.io").await).await;
}

#[tokio::test]
async fn ports_over_spdy_inside_a_websocket() {
    let machine = Machine::new().await;
    let offer = "SPDY/3.1+portforward.k8s.io";
    let (chosen, mut socket) = socket(&machine, &format!("{POD}/portforward"), offer).await.unwrap();
    assert_eq!(chosen, offer);
    // The messages are pieces of one byte stream, cut anywhere.
    let (near, far) = tokio::io::duplex(64 * 1024);
    let connection = Connection::start(near, Role::Client, LIMITS);
    let carrying = tokio::spawn(async move {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let (mut from, mut to) = tokio::io::split(far);
        let mut piece = [0; 7];
        loop {
            tokio::select! {
                read = from.read(&mut piece) => match read {
                    Ok(length @ 1..) => socket.send(Message::binary(piece[..length].to_vec())).await.unwrap(),
                    _ => break,
                },
                message = socket.next() => match message {
                    Some(Ok(Message::Binary(bytes))) => to.write_all(&bytes).await.unwrap(),
                    Some(Ok(Message::Close(_))) | None => break,
                    other => panic!("{other:?}"),
                },
            }
        }
    });
    ports(&connection).await;
    drop(connection);
    within(carrying).await.unwrap();
}

#[tokio::test]
async fn nobody_has_all_sessions() {
    let machine = Machine::new().await;
    let jane = machine.api.as_user("jane", &["system:masters"]);
    let sessions = &machine.api.server.core().sessions;
    let hers: Vec<_> = std::iter::from_fn(|| sessions.enter(&jane.user).ok()).collect();
    assert_eq!(hers.len(), 512);
    let mine = "\"jane\" has 512 sessions and proxied requests open, the most of one user";
    for path in [format!("{POD}/log"), format!("{POD}/proxy/")] {
        let refused = jane.get(&path).await;
        assert_eq!(refused.failure(), format!("429 TooManyRequests {mine}"), "{path}");
        assert_eq!(refused.headers["retry-after"], "1");
        assert_ne!(machine.api.get(&path).await.code, 429, "{path} for somebody else");
    }
    let names = ["a", "b", "c"].map(|name| machine.api.as_user(name, &[]).user);
    let all: Vec<_> = names.iter().flat_map(|user| std::iter::from_fn(|| sessions.enter(user).ok())).collect();
    assert_eq!(all.len(), 3 * 512);
    let everything = "2048 sessions and proxied requests are open, the most of this server";
    let refused = machine.api.get(&format!("{POD}/log")).await;
    assert_eq!(refused.failure(), format!("429 TooManyRequests {everything}"));
}
