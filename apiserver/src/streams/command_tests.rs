//! Sessions between a WebSocket client and an agent, both of this process.

use super::*;
use crate::streams::channels::{ERROR, negotiate};
use crate::streams::spdy::{Limits, Role, reset, value};
use crate::streams::{STALLED, websocket};
use serde_json::Value;
use std::time::Duration;
use tokio::io::{AsyncWriteExt, DuplexStream, duplex};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol;

const PATIENCE: Duration = Duration::from_secs(20);
const IDLE: Duration = Duration::from_secs(4 * 60 * 60);
const ALL: Wired = Wired { stdin: true, stdout: true, stderr: true, tty: false };

async fn within<T>(what: impl Future<Output = T>) -> T {
    timeout(PATIENCE, what).await.expect("in time")
}

struct Session {
    client: WebSocketStream<DuplexStream>,
    agent: Connection,
    running: tokio::task::JoinHandle<()>,
}

async fn start(name: &str, wired: Wired) -> Session {
    let ((far, near), (up, down)) = (duplex(4_096), duplex(4_096));
    let limits = Limits { streams: 8, idle: IDLE, ping: None, stall: Some(STALLED) };
    let (ours, agent) = (Connection::start(up, Role::Client, limits), Connection::start(down, Role::Server, limits));
    let offers = if name.is_empty() { vec![] } else { vec![name] };
    let protocol = negotiate(&offers).unwrap();
    let running = tokio::spawn(async move { run(websocket::server(near).await, protocol, wired, ours).await });
    let client = WebSocketStream::from_raw_socket(far, protocol::Role::Client, None).await;
    Session { client, agent, running }
}

impl Session {
    /// The streams that the session opens, by type.
    async fn streams<const N: usize>(&mut self) -> [(String, Stream); N] {
        let mut all = Vec::new();
        for _ in 0..N {
            let stream = within(self.agent.incoming.recv()).await.unwrap();
            stream.sender.reply().await.unwrap();
            all.push((value(&stream.headers, "streamtype").unwrap().to_owned(), stream));
        }
        all.try_into().ok().unwrap()
    }

    async fn next(&mut self) -> Message {
        within(self.client.next()).await.unwrap().unwrap()
    }

    async fn say(&mut self, bytes: &[u8]) {
        self.client.send(Message::binary(bytes.to_vec())).await.unwrap();
    }

    /// Reads to the end: what came on each channel.
    async fn rest(&mut self) -> Vec<(u8, Vec<u8>)> {
        let mut all = Vec::new();
        loop {
            match self.next().await {
                Message::Binary(bytes) => all.push((bytes[0], bytes[1..].to_vec())),
                Message::Close(_) => return all,
                other => panic!("{other:?}"),
            }
        }
    }
}

fn binary(bytes: &[u8]) -> Message {
    Message::binary(bytes.to_vec())
}

async fn heard(receiver: &mut Receiver) -> Part {
    within(receiver.recv()).await.unwrap()
}

#[tokio::test]
async fn a_session_of_the_fifth_version() {
    let mut session = start("v5.channel.k8s.io", ALL).await;
    let [(e, error), (i, mut stdin), (o, stdout), (x, stderr)] = session.streams().await;
    assert_eq!([&*e, &*i, &*o, &*x], ["error", "stdin", "stdout", "stderr"]);
    assert_eq!(session.next().await, binary(&[STDOUT]), "it is connected");
    session.say(b"\x00one\n").await;
    assert_eq!(heard(&mut stdin.receiver).await, Part::Data(Bytes::from_static(b"one\n")));
    stdout.sender.send(Bytes::from_static(b"ONE\n")).await.unwrap();
    assert_eq!(session.next().await, binary(b"\x01ONE\n"));
    session.say(&[255, STDIN]).await;
    assert_eq!(heard(&mut stdin.receiver).await, Part::Finished, "the close signal is the end of the input");
    stderr.sender.send(Bytes::from_static(b"warned")).await.unwrap();
    assert_eq!(session.next().await, binary(b"\x02warned"));
    error.sender.send(Bytes::from_static(b"{\"status\":\"Failure\",\"reason\":\"NonZeroExitCode\"}")).await.unwrap();
    // As runtimes end: everything is reset, and the connection closed.
    for stream in [error, stdin, stdout, stderr] {
        stream.sender.reset(reset::CANCEL).await.unwrap();
    }
    let rest = session.rest().await;
    let [(ERROR, status)] = rest.as_slice() else { panic!("{rest:?}") };
    let status: Value = serde_json::from_slice(status).unwrap();
    assert_eq!((&status["status"], &status["reason"]), (&"Failure".into(), &"NonZeroExitCode".into()));
    assert!(within(session.client.next()).await.is_none());
    within(session.running).await.unwrap();
}

#[tokio::test]
async fn output_comes_whole_before_the_end() {
    let mut session = start("v4.channel.k8s.io", Wired { stdin: false, stderr: false, ..ALL }).await;
    let [(_, error), (_, stdout)] = session.streams().await;
    error.sender.send(Bytes::from_static(b"{\"status\":\"Success\"}")).await.unwrap();
    error.sender.finish().await.unwrap();
    let writing = tokio::spawn(async move {
        stdout.sender.send(vec![b'x'; 700_000].into()).await.unwrap();
        stdout.sender.finish().await.unwrap();
    });
    let rest = session.rest().await;
    let length: usize = rest.iter().filter(|(channel, _)| *channel == STDOUT).map(|(_, bytes)| bytes.len()).sum();
    assert_eq!((length, rest.last().unwrap().0), (700_000, ERROR));
    within(writing).await.unwrap();
}

#[tokio::test]
async fn a_terminal_has_a_size_and_one_output() {
    let query = Query::parse(Some("stdin=true&stdout=true&stderr=true&tty=true"));
    let mut session = start("v4.channel.k8s.io", Wired::read(&query)).await;
    let [(_, _error), (_, _stdin), (_, _stdout), (r, mut resize)] = session.streams().await;
    assert_eq!(r, "resize");
    session.say(b"\x04{\"Width\":80,\"Height\":24}").await;
    let size = Part::Data(Bytes::from_static(b"{\"Width\":80,\"Height\":24}"));
    assert_eq!(heard(&mut resize.receiver).await, size);
}

#[tokio::test]
async fn the_oldest_tell_failures_alone_and_in_words() {
    for (status, expect) in
        [("{\"status\":\"Success\"}", None), ("{\"status\":\"Failure\",\"message\":\"died\"}", Some("died"))]
    {
        let mut session = start("", Wired { stdout: false, stderr: false, ..ALL }).await;
        let [(_, error), (_, _stdin)] = session.streams().await;
        error.sender.send(Bytes::from(status)).await.unwrap();
        error.sender.finish().await.unwrap();
        let rest = session.rest().await;
        assert_eq!(rest[0], (ERROR, vec![]), "it is connected");
        let told = rest.get(1).map(|(_, text)| String::from_utf8_lossy(text).into_owned());
        assert_eq!(told.as_deref(), expect);
    }
}

#[tokio::test]
async fn base64_is_text() {
    let mut session = start("base64.channel.k8s.io", Wired { stderr: false, ..ALL }).await;
    let [(_, _error), (_, mut stdin), (_, stdout)] = session.streams().await;
    assert_eq!(session.next().await, Message::text("1"));
    session.client.send(Message::text("0aGk=")).await.unwrap();
    assert_eq!(heard(&mut stdin.receiver).await, Part::Data(Bytes::from_static(b"hi")));
    stdout.sender.send(Bytes::from_static(b"hi")).await.unwrap();
    assert_eq!(session.next().await, Message::text("1aGk="));
}

#[tokio::test]
async fn a_client_that_goes_ends_the_command() {
    let mut session = start("v5.channel.k8s.io", ALL).await;
    let [(_, _error), (_, mut stdin), (_, _stdout), (_, _stderr)] = session.streams().await;
    session.client.close(None).await.unwrap();
    let end = within(stdin.receiver.recv()).await;
    assert!(matches!(end, None | Some(Part::Reset(_))), "{end:?}");
    within(session.running).await.unwrap();
}

#[tokio::test]
async fn a_message_that_is_none_ends_the_session_with_the_reason() {
    let mut session = start("v5.channel.k8s.io", ALL).await;
    let _streams: [_; 4] = session.streams().await;
    session.say(&[]).await;
    let rest = session.rest().await;
    let (channel, status) = rest.last().unwrap();
    let status: Value = serde_json::from_slice(status).unwrap();
    assert_eq!((*channel, status["message"].as_str()), (ERROR, Some("v5.channel.k8s.io: a message without a channel")));
}

#[tokio::test]
async fn a_lost_agent_is_a_failure() {
    let mut session = start("v5.channel.k8s.io", Wired { stdin: false, stderr: false, ..ALL }).await;
    let streams: [_; 2] = session.streams().await;
    let Session { agent, mut client, running } = session;
    drop((streams, agent));
    let mut last = None;
    while let Some(Ok(Message::Binary(bytes))) = within(client.next()).await {
        last = Some(bytes);
    }
    let status: Value = serde_json::from_slice(&last.unwrap()[1..]).unwrap();
    assert_eq!((&status["status"], &status["code"]), (&"Failure".into(), &500.into()));
    assert!(within(client.next()).await.is_none());
    within(running).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_client_that_reads_nothing_is_given_up_though_it_goes_on_talking() {
    let mut session = start("v5.channel.k8s.io", ALL).await;
    let [(_, error), (_, stdin), (_, stdout), (_, stderr)] = session.streams().await;
    let writing = tokio::spawn(async move { while stdout.sender.send(vec![b'x'; 4_096].into()).await.is_ok() {} });
    let talking = tokio::spawn(async move {
        // Its side of the pipe is never read, only written to.
        while session.client.get_mut().write_all(&[0x82, 0x82, 0, 0, 0, 0, STDIN, b'x']).await.is_ok() {
            tokio::time::sleep(STALLED / 10).await;
        }
    });
    timeout(2 * STALLED, session.running).await.expect("the session has ended").unwrap();
    timeout(STALLED, talking).await.expect("the client was told").unwrap();
    timeout(STALLED, writing).await.expect("the agent was told").unwrap();
    drop((error, stdin, stderr));
}
