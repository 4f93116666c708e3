//! A command in a container over the channels of a WebSocket: carried to the node agent as the streams of a SPDY connection.
//!
//! Decides which streams a command has and when its session is over; the bytes pass through untouched.

use super::channels::{Protocol, RESIZE, STDERR, STDIN, STDOUT, Said};
use super::relay::OPEN_WITHIN;
use super::spdy::{Connection, Gone, Headers, Part, Receiver, Sender, Stream};
use super::websocket::{FAREWELL, Socket, close, part_with, send, until_closed};
use crate::http::Query;
use bytes::Bytes;
use futures::stream::{SplitSink, SplitStream};
use futures::{SinkExt, StreamExt};
use gantry_apimachinery::status::Status;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::Message;

/// How a command ended is told in less.
const MAX_STATUS: usize = 64 * 1024;
/// Messages that wait for the client.
const QUEUE: usize = 4;

/// What a session connects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wired {
    pub stdin: bool,
    pub stdout: bool,
    pub stderr: bool,
    pub tty: bool,
}

impl Wired {
    pub fn read(query: &Query) -> Self {
        let tty = query.flag("tty");
        let flag = |name: &str| query.flag(name);
        // A terminal has one output.
        Self { stdin: flag("stdin"), stdout: flag("stdout"), stderr: flag("stderr") && !tty, tty }
    }

    /// The channel that is written first, so that the client knows that it is connected.
    fn first(self) -> u8 {
        match (self.stdout, self.stderr) {
            (true, _) => STDOUT,
            (false, true) => STDERR,
            (false, false) => super::channels::ERROR,
        }
    }
}

/// The streams of one session at the agent.
struct Streams {
    error: Stream,
    stdin: Option<Stream>,
    stdout: Option<Stream>,
    stderr: Option<Stream>,
    resize: Option<Stream>,
}

impl Streams {
    async fn open(agent: &Connection, wired: Wired) -> Result<Self, Gone> {
        let opening = |kind: &str, wanted: bool| {
            let headers: Headers = vec![("streamtype".to_owned(), kind.to_owned())];
            async move {
                match wanted {
                    true => agent.handle.opening(headers).await.map(Some),
                    false => Ok(None),
                }
            }
        };
        // All at once, in the order that runtimes know.
        let error = opening("error", true).await?;
        let stdin = opening("stdin", wired.stdin).await?;
        let stdout = opening("stdout", wired.stdout).await?;
        let stderr = opening("stderr", wired.stderr).await?;
        let resize = opening("resize", wired.tty).await?;
        let told = async |told: Option<tokio::sync::oneshot::Receiver<Result<Stream, Gone>>>| match told {
            Some(told) => told.await.map_err(|_| Gone)?.map(Some),
            None => Ok(None),
        };
        Ok(Self {
            error: told(error).await?.ok_or(Gone)?,
            stdin: told(stdin).await?,
            stdout: told(stdout).await?,
            stderr: told(stderr).await?,
            resize: told(resize).await?,
        })
    }
}

/// Runs a session to its end.
pub async fn run<T>(socket: Socket<T>, protocol: Protocol, wired: Wired, agent: Connection)
where
    T: AsyncRead + AsyncWrite + Unpin + Send,
{
    let (mut sink, mut source) = socket.split();
    let opened = timeout(OPEN_WITHIN, Streams::open(&agent, wired)).await;
    let ended = match opened {
        Ok(Ok(streams)) => session(&mut sink, &mut source, protocol, wired, streams).await,
        _ => Some(failed("the container runtime did not open the session's streams")),
    };
    drop(agent);
    if let Some(status) = ended {
        let told = match protocol.ending(&status) {
            Some(message) => matches!(timeout(FAREWELL, sink.send(message)).await, Ok(Ok(()))),
            None => true,
        };
        if told && close(&mut sink).await {
            until_closed(&mut source).await;
        }
    }
    part_with(sink, source).await;
}

/// How the command ended, or `None` when the client went first, or took nothing any more.
async fn session<T>(
    sink: &mut SplitSink<Socket<T>, Message>,
    source: &mut SplitStream<Socket<T>>,
    protocol: Protocol,
    wired: Wired,
    streams: Streams,
) -> Option<Value>
where
    T: AsyncRead + AsyncWrite + Unpin + Send,
{
    let Streams { error, stdin, stdout, stderr, resize } = streams;
    let (messages, mut queue) = mpsc::channel(QUEUE);
    let receiver = |stream: Option<Stream>| stream.map(|stream| (stream.receiver, stream.sender));
    let (stdout, stderr) = (receiver(stdout), receiver(stderr));
    let outputs = async {
        let told = messages.send(protocol.write(wired.first(), b"")).await;
        let (_, _, status) = tokio::join!(
            output(stdout, protocol, STDOUT, &messages),
            output(stderr, protocol, STDERR, &messages),
            ending(error.receiver)
        );
        drop((messages, told));
        Ok(status)
    };
    let writing = async {
        while let Some(message) = queue.recv().await {
            if !send(sink, message).await {
                return Err(Gone);
            }
        }
        Ok(())
    };
    // What the agent says for a client that is gone is not waited for.
    let all = async { tokio::try_join!(outputs, writing).ok().map(|(status, ())| status) };
    tokio::select! {
        status = all => status,
        fault = input(source, protocol, stdin, resize) => fault,
    }
}

/// What the agent writes on a stream, to the client.
async fn output(stream: Option<(Receiver, Sender)>, protocol: Protocol, channel: u8, messages: &mpsc::Sender<Message>) {
    // The sender is kept: an end of this side's half would say nothing, and may find the agent gone.
    let Some((mut receiver, _sender)) = stream else { return };
    while let Some(Part::Data(bytes)) = receiver.recv().await {
        if messages.send(protocol.write(channel, &bytes)).await.is_err() {
            return;
        }
    }
}

/// How the command ended, in the agent's own words: a Status.
async fn ending(mut error: Receiver) -> Value {
    let mut told = Vec::new();
    while let Some(Part::Data(bytes)) = error.recv().await {
        told.extend_from_slice(&bytes);
        if told.len() > MAX_STATUS {
            return failed("the container runtime's status is too long");
        }
    }
    match serde_json::from_slice::<Value>(&told) {
        Ok(status) if status["status"].is_string() => status,
        _ if told.is_empty() => failed("the connection to the container runtime was lost"),
        _ => failed(String::from_utf8_lossy(&told)),
    }
}

fn failed(why: impl std::fmt::Display) -> Value {
    serde_json::to_value(Status::internal(why)).unwrap_or_default()
}

/// What the client says, to the agent, until the client goes: then `None`, or what was wrong with what it said.
async fn input<T: AsyncRead + AsyncWrite + Unpin>(
    source: &mut SplitStream<Socket<T>>,
    protocol: Protocol,
    stdin: Option<Stream>,
    resize: Option<Stream>,
) -> Option<Value> {
    let ends = |stream: Option<Stream>| stream.map(|stream| stream.sender);
    let (stdin, resize) = (ends(stdin), ends(resize));
    let pass = async |to: &Option<Sender>, bytes: Bytes| {
        if let Some(sender) = to {
            // A command that reads no more does not end the session.
            let _ = sender.send(bytes).await;
        }
    };
    while let Some(Ok(message)) = source.next().await {
        match protocol.read(message) {
            Ok(Said::Data(STDIN, bytes)) => pass(&stdin, bytes).await,
            Ok(Said::Data(RESIZE, bytes)) => pass(&resize, bytes).await,
            Ok(Said::Closed(STDIN)) => {
                if let Some(sender) = &stdin {
                    let _ = sender.finish().await;
                }
            }
            // As Kubernetes: what is said on a channel that is not the client's is not heard.
            Ok(Said::Data(..) | Said::Closed(_) | Said::Nothing) => {}
            Ok(Said::Over) => return None,
            Err(fault) => {
                let status = Status::bad_request(format!("{}: {fault}", protocol.name));
                return serde_json::to_value(status).ok();
            }
        }
    }
    None
}

#[cfg(test)]
#[path = "command_tests.rs"]
mod tests;
