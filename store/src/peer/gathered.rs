//! Joins what a connection writes in one turn. HTTP/2 framing asks for a flush after every frame: an event for the hundred watches
//! of one connection would be a hundred TLS records and as many system calls. Here a flush waits for the next call that shows that
//! the turn has nothing more to say: another flush, a read, or the end.
//!
//! It decides when bytes leave; never which.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A full buffer makes the connection wait for the socket.
const ROOM: usize = 64 * 1024;
/// What an idle connection keeps of it.
const KEPT: usize = 4 * 1024;

/// A stream whose writes gather. Reads pass through. Only for who polls all of it from one task and comes back when woken, as HTTP
/// connections do: of two halves in two tasks, the one that writes would wait for ever.
pub struct Gathered<S> {
    io: S,
    buffer: Vec<u8>,
    /// What of the buffer has left.
    sent: usize,
    /// Something was written since the last flush.
    fresh: bool,
    /// Whoever drives this was asked to come back, so that what waits leaves in any case.
    woken: bool,
    /// Writing failed while reading: what has arrived is read first.
    broken: Option<io::Error>,
}

impl<S> Gathered<S> {
    pub fn new(io: S) -> Self {
        Self { io, buffer: Vec::new(), sent: 0, fresh: false, woken: false, broken: None }
    }
}

impl<S: AsyncWrite + Unpin> Gathered<S> {
    fn take(&mut self, slices: &[IoSlice<'_>], cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        if self.buffer.len() >= ROOM {
            ready!(self.drain(cx))?;
        }
        let before = self.buffer.len();
        for slice in slices {
            let room = ROOM.saturating_sub(self.buffer.len());
            self.buffer.extend_from_slice(&slice[..slice.len().min(room)]);
        }
        self.fresh = true;
        Poll::Ready(Ok(self.buffer.len() - before))
    }

    /// Empties the buffer into the socket.
    fn drain(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if let Some(broken) = self.broken.take() {
            return Poll::Ready(Err(broken));
        }
        while self.sent < self.buffer.len() {
            let wrote = ready!(Pin::new(&mut self.io).poll_write(cx, &self.buffer[self.sent..]))?;
            if wrote == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.sent += wrote;
        }
        (self.sent, self.woken) = (0, false);
        self.buffer.clear();
        // Of ten thousand connections, most are idle.
        if self.buffer.capacity() > KEPT {
            self.buffer = Vec::new();
        }
        Pin::new(&mut self.io).poll_flush(cx)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Gathered<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if !self.buffer.is_empty()
            && self.broken.is_none()
            && let Poll::Ready(Err(error)) = self.drain(cx)
        {
            self.broken = Some(error);
        }
        let before = buf.filled().len();
        let read = Pin::new(&mut self.io).poll_read(cx, buf);
        let ends = match &read {
            Poll::Ready(Ok(())) => buf.filled().len() == before,
            Poll::Ready(Err(_)) => false,
            Poll::Pending => true,
        };
        // Nothing more comes that could be read first.
        match self.broken.take_if(|_| ends) {
            Some(broken) => Poll::Ready(Err(broken)),
            None => read,
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Gathered<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.take(&[IoSlice::new(bytes)], cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.take(slices, cx)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !std::mem::take(&mut self.fresh) {
            return self.drain(cx);
        }
        if !std::mem::replace(&mut self.woken, true) {
            cx.waker().wake_by_ref();
        }
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.drain(cx))?;
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::task::{ArcWake, waker_ref};
    use std::collections::VecDeque;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    /// A socket that takes so much at a time; 0 is "not now".
    #[derive(Default)]
    struct Socket {
        takes: VecDeque<usize>,
        got: Vec<u8>,
        writes: usize,
    }

    impl AsyncWrite for Socket {
        fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
            let takes = match self.takes.pop_front() {
                Some(0) => return Poll::Pending,
                Some(takes) => takes.min(bytes.len()),
                None => bytes.len(),
            };
            self.got.extend_from_slice(&bytes[..takes]);
            self.writes += 1;
            Poll::Ready(Ok(takes))
        }
        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    impl AsyncRead for Socket {
        fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, _: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
            Poll::Pending
        }
    }

    /// A peer that sent its last words and left.
    struct Left(&'static [u8]);

    impl AsyncWrite for Left {
        fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, _: &[u8]) -> Poll<io::Result<usize>> {
            Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()))
        }
        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    impl AsyncRead for Left {
        fn poll_read(mut self: Pin<&mut Self>, _: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
            buf.put_slice(std::mem::take(&mut self.0));
            Poll::Ready(Ok(()))
        }
    }

    #[tokio::test]
    async fn what_a_peer_said_before_it_left_is_read() {
        let mut io = Gathered::new(Left(b"bye"));
        io.write_all(b"more").await.unwrap();
        let mut said = [0; 8];
        assert_eq!(io.read(&mut said).await.unwrap(), 3);
        assert_eq!(io.read(&mut said).await.unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    }

    #[derive(Default)]
    struct Wakes(AtomicUsize);

    impl ArcWake for Wakes {
        fn wake_by_ref(this: &Arc<Self>) {
            this.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Writes frames as HTTP/2 does: a flush after each, and one at the end of the turn. How many bytes were taken.
    fn turn(io: &mut Gathered<Socket>, cx: &mut Context<'_>, mut frames: &[u8], frame: usize) -> usize {
        let mut taken = 0;
        while !frames.is_empty() {
            let piece = &frames[..frames.len().min(frame)];
            match Pin::new(&mut *io).poll_write(cx, piece) {
                Poll::Ready(wrote) => {
                    let wrote = wrote.unwrap();
                    (taken, frames) = (taken + wrote, &frames[wrote..]);
                }
                Poll::Pending => return taken,
            }
            assert!(Pin::new(&mut *io).poll_flush(cx).is_ready());
        }
        let _ = Pin::new(io).poll_flush(cx);
        taken
    }

    #[test]
    fn the_frames_of_a_turn_leave_together() {
        let (mut io, wakes) = (Gathered::new(Socket::default()), Arc::new(Wakes::default()));
        let waker = waker_ref(&wakes);
        let cx = &mut Context::from_waker(&waker);
        turn(&mut io, cx, &[7; 5_000], 100);
        assert_eq!((io.io.got.len(), io.io.writes, wakes.0.load(Ordering::Relaxed)), (5_000, 1, 1));
    }

    #[test]
    fn a_lonely_flush_is_made_good_when_the_driver_comes_back() {
        let (mut io, wakes) = (Gathered::new(Socket::default()), Arc::new(Wakes::default()));
        let waker = waker_ref(&wakes);
        let cx = &mut Context::from_waker(&waker);
        assert!(Pin::new(&mut io).poll_write(cx, b"hello").is_ready());
        assert!(Pin::new(&mut io).poll_flush(cx).is_ready());
        assert_eq!((io.io.writes, wakes.0.load(Ordering::Relaxed)), (0, 1), "it is called again");
        assert!(Pin::new(&mut io).poll_read(cx, &mut ReadBuf::new(&mut [0])).is_pending());
        assert_eq!(io.io.got, b"hello");
    }

    #[test]
    fn a_socket_that_is_full_makes_the_connection_wait_and_nothing_is_lost() {
        let socket = Socket { takes: [1_000, 0, 0, 5, 0, 0].into(), ..Socket::default() };
        let (mut io, wakes) = (Gathered::new(socket), Arc::new(Wakes::default()));
        let waker = waker_ref(&wakes);
        let cx = &mut Context::from_waker(&waker);
        let all: Vec<u8> = (0..3 * ROOM).map(|at| (at % 251) as u8).collect();
        let mut taken = 0;
        for _ in 0..20 {
            taken += turn(&mut io, cx, &all[taken..], ROOM / 2 + 7);
            assert!(io.buffer.len() <= ROOM, "what waits is bounded");
        }
        assert!(io.io.got == all);
    }

    #[tokio::test]
    async fn the_end_sends_what_was_gathered() {
        let (client, mut server) = tokio::io::duplex(64);
        let mut io = Gathered::new(client);
        io.write_all(b"bye").await.unwrap();
        io.shutdown().await.unwrap();
        let mut got = Vec::new();
        server.read_to_end(&mut got).await.unwrap();
        assert_eq!(got, b"bye");
    }
}
