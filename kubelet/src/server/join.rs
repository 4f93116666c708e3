//! Joins two connections byte by byte until both have ended. It decides what an end means; the bytes pass through untouched.
//!
//! A runtime closes as soon as it has told how a command ended, whatever is still on its way to it. So a side that hears nothing any
//! more is read to its end nevertheless, and a side that was told the end is waited for: dropped before, it would lose what it was told last.

use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;

const PIECE: usize = 16 << 10;
/// When one side broke off, what is on its way to the other arrives by then.
const FAREWELL: Duration = Duration::from_secs(60);

pub async fn both<A, B>(one: A, other: B)
where
    A: AsyncRead + AsyncWrite + Send,
    B: AsyncRead + AsyncWrite + Send,
{
    let ((mut from_one, mut to_one), (mut from_other, mut to_other)) = (tokio::io::split(one), tokio::io::split(other));
    let there = one_way(&mut from_one, &mut to_other);
    let back = one_way(&mut from_other, &mut to_one);
    tokio::pin!(there, back);
    let (clean, rest): (bool, std::pin::Pin<&mut (dyn Future<Output = bool> + Send)>) = tokio::select! {
        clean = there.as_mut() => (clean, back),
        clean = back.as_mut() => (clean, there),
    };
    if clean {
        // One side said all that it had to say; the other may go on.
        rest.await;
    } else {
        drop(timeout(FAREWELL, rest).await);
    }
}

/// Until there are no more bytes; true when that was told.
async fn one_way<R: AsyncRead + Unpin + Send, W: AsyncWrite + Unpin + Send>(from: &mut R, to: &mut W) -> bool {
    let (mut buffer, mut hears) = (vec![0; PIECE], true);
    loop {
        match from.read(&mut buffer).await {
            Ok(length @ 1..) if hears => {
                hears = to.write_all(&buffer[..length]).await.is_ok() && to.flush().await.is_ok();
            }
            Ok(1..) => {}
            end => {
                drop(to.shutdown().await);
                return end.is_ok();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{DuplexStream, duplex};

    const PATIENCE: Duration = Duration::from_secs(20);

    fn joined() -> (DuplexStream, DuplexStream) {
        let ((one, near), (far, other)) = (duplex(64), duplex(64));
        tokio::spawn(both(near, far));
        (one, other)
    }

    async fn all<T: AsyncRead + Unpin>(from: &mut T) -> String {
        let mut text = String::new();
        timeout(PATIENCE, from.read_to_string(&mut text)).await.expect("in time").unwrap();
        text
    }

    #[tokio::test]
    async fn halves_end_one_by_one() {
        let (mut one, mut other) = joined();
        one.write_all(b"question").await.unwrap();
        one.shutdown().await.unwrap();
        assert_eq!(all(&mut other).await, "question");
        other.write_all(b"answer").await.unwrap();
        drop(other);
        assert_eq!(all(&mut one).await, "answer");
    }

    /// A runtime that said its last and reads nothing more.
    #[tokio::test]
    async fn what_was_said_last_arrives_though_nobody_listens() {
        let (mut said, reader) = duplex(1_000);
        said.write_all(&[b'x'; 1_000]).await.unwrap();
        drop(said);
        let (gone, writer) = duplex(1);
        drop(gone);
        let (mut one, near) = duplex(8);
        one.write_all(b"too late").await.unwrap();
        tokio::spawn(both(near, tokio::io::join(reader, writer)));
        assert_eq!(all(&mut one).await.len(), 1_000);
    }
}
