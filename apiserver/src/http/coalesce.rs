//! Joins what an HTTP/2 connection writes in one turn. The framing below asks for a flush after every frame: an event for the
//! hundred watches of one connection would be a hundred TLS records and as many system calls. Here frames gather in a buffer that
//! leaves when the connection has nothing more to say for now, or when it is full.
//!
//! It decides when bytes leave; never which.

use super::body::BoxError;
use parking_lot::Mutex;
use std::future::Future;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A full buffer makes the connection wait for the socket.
const ROOM: usize = 64 * 1024;
/// What an idle connection keeps of it.
const KEPT: usize = 4 * 1024;

struct Shared<S> {
    io: S,
    buffer: Vec<u8>,
    /// What of the buffer has left.
    sent: usize,
    /// The connection was told to wait for room.
    waits: bool,
}

impl<S: AsyncWrite + Unpin> Shared<S> {
    fn take(&mut self, slices: &[IoSlice<'_>], cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        if self.buffer.len() >= ROOM
            && let Poll::Pending = self.drain(cx)?
        {
            self.waits = true;
            return Poll::Pending;
        }
        let before = self.buffer.len();
        for slice in slices {
            let room = ROOM.saturating_sub(self.buffer.len());
            self.buffer.extend_from_slice(&slice[..slice.len().min(room)]);
        }
        Poll::Ready(Ok(self.buffer.len() - before))
    }

    /// Empties the buffer into the socket.
    fn drain(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.sent < self.buffer.len() {
            let wrote = ready!(Pin::new(&mut self.io).poll_write(cx, &self.buffer[self.sent..]))?;
            if wrote == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.sent += wrote;
        }
        self.sent = 0;
        self.buffer.clear();
        // Of ten thousand connections, most are idle.
        if self.buffer.capacity() > KEPT {
            self.buffer = Vec::new();
        }
        Pin::new(&mut self.io).poll_flush(cx)
    }
}

/// The connection's side. Reads pass through.
pub struct Gathered<S>(Arc<Mutex<Shared<S>>>);

/// Sends what was gathered; [`Driven`] holds it.
pub struct Sender<S>(Arc<Mutex<Shared<S>>>);

pub fn gathered<S>(io: S) -> (Gathered<S>, Sender<S>) {
    let shared = Arc::new(Mutex::new(Shared { io, buffer: Vec::new(), sent: 0, waits: false }));
    (Gathered(shared.clone()), Sender(shared))
}

impl<S: AsyncRead + Unpin> AsyncRead for Gathered<S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0.lock().io).poll_read(cx, buf)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Gathered<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.0.lock().take(&[IoSlice::new(bytes)], cx)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.0.lock().take(slices, cx)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    /// The end of the turn flushes.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut shared = self.0.lock();
        ready!(shared.drain(cx))?;
        Pin::new(&mut shared.io).poll_shutdown(cx)
    }
}

/// A connection whose every turn ends with sending what it wrote.
pub struct Driven<C, S> {
    pub connection: Pin<Box<C>>,
    pub sender: Sender<S>,
}

impl<C, S, E> Future for Driven<C, S>
where
    C: Future<Output = Result<(), E>>,
    S: AsyncWrite + Unpin,
    E: Into<BoxError>,
{
    type Output = Result<(), BoxError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        loop {
            if let Poll::Ready(ended) = self.connection.as_mut().poll(cx) {
                return Poll::Ready(ended.map_err(Into::into));
            }
            let mut shared = self.sender.0.lock();
            ready!(shared.drain(cx))?;
            if !std::mem::take(&mut shared.waits) {
                return Poll::Pending;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::task::noop_waker_ref;
    use std::collections::VecDeque;

    /// A socket that takes so much at a time, then nothing once.
    #[derive(Default)]
    struct Socket {
        takes: VecDeque<usize>,
        got: Vec<u8>,
        writes: usize,
        flushes: usize,
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
        fn poll_flush(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            self.flushes += 1;
            Poll::Ready(Ok(()))
        }
        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    /// Writes these bytes frame by frame, flushing after each as HTTP/2 does, then waits for ever.
    struct Frames(Gathered<Socket>, VecDeque<Vec<u8>>);

    impl Future for Frames {
        type Output = Result<(), io::Error>;
        fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
            while let Some(mut frame) = self.1.pop_front() {
                match Pin::new(&mut self.0).poll_write(cx, &frame)? {
                    Poll::Ready(wrote) if wrote < frame.len() => self.1.push_front(frame.split_off(wrote)),
                    Poll::Ready(_) => {}
                    Poll::Pending => {
                        self.1.push_front(frame);
                        return Poll::Pending;
                    }
                }
                ready!(Pin::new(&mut self.0).poll_flush(cx))?;
            }
            Poll::Pending
        }
    }

    fn driven(takes: &[usize], frames: &[usize]) -> (Driven<Frames, Socket>, Vec<u8>) {
        let socket = Socket { takes: takes.iter().copied().collect(), ..Socket::default() };
        let (io, sender) = gathered(socket);
        let frames: VecDeque<Vec<u8>> = frames.iter().enumerate().map(|(at, size)| vec![at as u8; *size]).collect();
        let all = frames.iter().flatten().copied().collect();
        (Driven { connection: Box::pin(Frames(io, frames)), sender }, all)
    }

    fn turn(driven: &mut Driven<Frames, Socket>) {
        assert!(Pin::new(driven).poll(&mut Context::from_waker(noop_waker_ref())).is_pending());
    }

    #[test]
    fn the_frames_of_a_turn_leave_together() {
        let (mut driven, all) = driven(&[], &[100; 50]);
        turn(&mut driven);
        let shared = driven.sender.0.lock();
        assert_eq!((shared.io.got == all, shared.io.writes, shared.io.flushes), (true, 1, 1));
    }

    #[test]
    fn more_than_fits_is_sent_in_order_and_nothing_is_kept_back() {
        let (mut driven, all) = driven(&[], &[ROOM - 7, 20, 3 * ROOM, 1]);
        turn(&mut driven);
        let shared = driven.sender.0.lock();
        assert!(shared.io.got == all && shared.buffer.is_empty());
    }

    #[test]
    fn a_socket_that_is_full_makes_the_connection_wait_and_go_on() {
        let (mut driven, all) = driven(&[1_000, 0, 0, 5, 0, 0], &[ROOM, ROOM]);
        turn(&mut driven);
        assert_eq!(driven.sender.0.lock().io.got.len(), 1_000);
        assert!(driven.sender.0.lock().buffer.len() <= ROOM, "what waits is bounded");
        turn(&mut driven);
        assert_eq!(driven.sender.0.lock().io.got.len(), 1_005);
        turn(&mut driven);
        assert!(driven.sender.0.lock().io.got == all);
    }

    #[test]
    fn the_end_sends_what_was_gathered() {
        let (mut io, sender) = gathered(Socket::default());
        let cx = &mut Context::from_waker(noop_waker_ref());
        assert!(Pin::new(&mut io).poll_write(cx, b"bye").is_ready());
        assert!(sender.0.lock().io.got.is_empty());
        assert!(Pin::new(&mut io).poll_shutdown(cx).is_ready());
        assert_eq!(sender.0.lock().io.got, b"bye");
    }
}
