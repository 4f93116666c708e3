//! The server's end of a WebSocket: how long a message may be, and how it is parted with.

use super::STALLED;
use futures::stream::{SplitSink, SplitStream};
use futures::{SinkExt, StreamExt};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};

pub type Socket<T> = WebSocketStream<T>;

/// The longest message that is read.
pub const MAX_MESSAGE: usize = 4 * 1024 * 1024;
/// A client that reads slowly has this long for what is still on its way when the session is over.
pub const FAREWELL: Duration = Duration::from_secs(300);

/// Behind a handshake that was answered.
pub async fn server<T: AsyncRead + AsyncWrite + Unpin>(transport: T) -> Socket<T> {
    let config = WebSocketConfig::default()
        .max_message_size(Some(MAX_MESSAGE))
        .max_frame_size(Some(MAX_MESSAGE))
        .read_buffer_size(16 * 1024)
        .write_buffer_size(0)
        .max_write_buffer_size(MAX_MESSAGE);
    WebSocketStream::from_raw_socket(transport, Role::Server, Some(config)).await
}

/// False when the client is gone, or takes nothing any more.
pub async fn send<T>(sink: &mut SplitSink<Socket<T>, Message>, message: Message) -> bool
where
    T: AsyncRead + AsyncWrite + Unpin,
{
    matches!(timeout(STALLED, sink.send(message)).await, Ok(Ok(())))
}

/// Says that nothing more comes. False when the client is gone already.
pub async fn close<T: AsyncRead + AsyncWrite + Unpin>(sink: &mut SplitSink<Socket<T>, Message>) -> bool {
    let normal = CloseFrame { code: CloseCode::Normal, reason: "".into() };
    matches!(timeout(FAREWELL, sink.send(Message::Close(Some(normal)))).await, Ok(Ok(())))
}

/// Ends the connection below.
pub async fn part_with<T: AsyncRead + AsyncWrite + Unpin>(
    sink: SplitSink<Socket<T>, Message>,
    source: SplitStream<Socket<T>>,
) {
    if let Ok(mut socket) = source.reunite(sink) {
        let _ = timeout(Duration::from_secs(5), socket.get_mut().shutdown()).await;
    }
}

/// Reads on until the client has closed, too.
pub async fn until_closed<T: AsyncRead + AsyncWrite + Unpin>(source: &mut SplitStream<Socket<T>>) {
    let _ = timeout(FAREWELL, async { while matches!(source.next().await, Some(Ok(_))) {} }).await;
}
