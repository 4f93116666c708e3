//! A WebSocket whose binary messages are pieces of one byte stream, and that byte stream. Decides how much is read ahead; the bytes
//! pass through untouched.

use super::websocket::{Socket, close, part_with, send, until_closed};
use bytes::{Bytes, BytesMut};
use futures::StreamExt;
use futures::stream::{SplitSink, SplitStream};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, ReadHalf, WriteHalf};
use tokio_tungstenite::tungstenite::Message;

const PIPE: usize = 64 * 1024;
const PIECE: usize = 32 * 1024;

/// The byte stream inside.
pub fn tunnel<T>(socket: Socket<T>) -> DuplexStream
where
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (near, far) = tokio::io::duplex(PIPE);
    tokio::spawn(carry(socket, far));
    near
}

async fn carry<T: AsyncRead + AsyncWrite + Unpin>(socket: Socket<T>, pipe: DuplexStream) {
    let (mut sink, mut source) = socket.split();
    let (mut from, mut to) = tokio::io::split(pipe);
    let ours = tokio::select! {
        () = inwards(&mut source, &mut to) => false,
        told = outwards(&mut from, &mut sink) => told,
    };
    if ours && close(&mut sink).await {
        until_closed(&mut source).await;
    }
    part_with(sink, source).await;
}

/// Until the client ends, or says something that is no part of the stream.
async fn inwards<T: AsyncRead + AsyncWrite + Unpin>(
    source: &mut SplitStream<Socket<T>>,
    to: &mut WriteHalf<DuplexStream>,
) {
    loop {
        match source.next().await {
            Some(Ok(Message::Binary(bytes))) => {
                if to.write_all(&bytes).await.is_err() {
                    // Nobody reads it any more; the end is told by the other way.
                    return std::future::pending().await;
                }
            }
            Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
            _ => return,
        }
    }
}

/// Until the stream inside has ended: true, or the client takes nothing any more.
async fn outwards<T: AsyncRead + AsyncWrite + Unpin>(
    from: &mut ReadHalf<DuplexStream>,
    sink: &mut SplitSink<Socket<T>, Message>,
) -> bool {
    let mut buffer = BytesMut::with_capacity(PIECE);
    loop {
        buffer.reserve(PIECE);
        match from.read_buf(&mut buffer).await {
            Ok(1..) => {
                let piece: Bytes = buffer.split().freeze();
                if !send(sink, Message::Binary(piece)).await {
                    return false;
                }
            }
            _ => return true,
        }
    }
}
