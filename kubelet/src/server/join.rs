//! Joins two connections byte by byte until both have ended. It decides what an end means and how long silence may last, as the API
//! server's own joint does (`connect/forward.rs` there: no crate that both see knows a transport); the bytes pass through untouched.
//!
//! A runtime closes as soon as it has told how a command ended, whatever is still on its way to it. So a side that hears nothing any
//! more is read to its end nevertheless, and a side that was told the end is waited for: dropped before, it would lose what it was told last.

use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;

const PIECE: usize = 16 << 10;
/// When one side broke off, what is on its way to the other arrives by then.
const FAREWELL: Duration = Duration::from_secs(60);
/// How long one side may go on after the other said that it is done.
const HALF: Duration = Duration::from_secs(10 * 60);
/// A side that says nothing for so long is gone, as with every session.
const IDLE: Duration = Duration::from_secs(4 * 60 * 60);
/// An asker that takes nothing for so long is given up.
const STALLED: Duration = Duration::from_secs(15 * 60);

/// `asker`: who opened the session.
pub async fn both<A, B>(asker: A, runtime: B)
where
    A: AsyncRead + AsyncWrite + Send,
    B: AsyncRead + AsyncWrite + Send,
{
    let ((mut from_one, mut to_one), (mut from_other, mut to_other)) =
        (tokio::io::split(asker), tokio::io::split(runtime));
    // A container may read when it likes; who asked has to.
    let there = one_way(&mut from_one, &mut to_other, IDLE);
    let back = one_way(&mut from_other, &mut to_one, STALLED);
    tokio::pin!(there, back);
    let (clean, rest): (bool, std::pin::Pin<&mut (dyn Future<Output = bool> + Send)>) = tokio::select! {
        clean = there.as_mut() => (clean, back),
        clean = back.as_mut() => (clean, there),
    };
    if clean {
        // One side said all that it had to say; the other may go on, but not for ever.
        drop(timeout(HALF, rest).await);
    } else {
        drop(timeout(FAREWELL, rest).await);
    }
}

/// Until there are no more bytes; true when that was told. Who takes nothing for as long as `stall` is given up.
async fn one_way<R, W>(from: &mut R, to: &mut W, stall: Duration) -> bool
where
    R: AsyncRead + Unpin + Send,
    W: AsyncWrite + Unpin + Send,
{
    let (mut buffer, mut hears) = (vec![0; PIECE], true);
    loop {
        let Ok(read) = timeout(IDLE, from.read(&mut buffer)).await else { return false };
        match read {
            Ok(length @ 1..) if hears => {
                let writing = async { to.write_all(&buffer[..length]).await.is_ok() && to.flush().await.is_ok() };
                match timeout(stall, writing).await {
                    Ok(wrote) => hears = wrote,
                    Err(_) => return false,
                }
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

    /// Both ends of a joint, until it has ended by itself.
    async fn ended_after(within: Duration, use_it: impl AsyncFnOnce(&mut DuplexStream, &mut DuplexStream)) {
        let ((mut one, near), (far, mut other)) = (duplex(64), duplex(64));
        let joint = tokio::spawn(both(near, far));
        use_it(&mut one, &mut other).await;
        timeout(within, joint).await.expect("it has ended").unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_is_waited_for_for_ever() {
        // Silence on both sides.
        ended_after(IDLE + 2 * FAREWELL, async |_, _| {}).await;
        // One said that it is done, the other goes on and says nothing.
        ended_after(HALF + 2 * FAREWELL, async |one, _| one.shutdown().await.unwrap()).await;
        // More than fits is said to who reads nothing.
        ended_after(STALLED + 2 * FAREWELL, async |_, other| other.write_all(&[b'x'; 150]).await.unwrap()).await;
    }
}
