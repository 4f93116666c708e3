//! Moves the bytes of one SPDY connection between a transport and the users of its streams. One task owns the session; it reads no
//! more while too much waits for its users, and takes no more from them while too much waits for the peer.
//!
//! Decides how much may wait and how long silence may last; never what a stream is for.

use super::frame::{Decoder, Encoder, Frame, goaway, reset};
use super::headers::Headers;
use super::session::{Effect, Role, Session, WINDOW};
use super::stream::{Command, Credit, Gone, Inlet, Part, Receiver, Sender, Shared, Stream};
use bytes::BytesMut;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep_until, timeout};

/// Bytes that may wait for the users of all streams together.
const MAX_UNREAD: usize = 256 * 1024;
/// Bytes of data that may wait for the peer; as many again for what answers its frames.
const MAX_UNSENT: usize = 256 * 1024;
const READ: usize = 32 * 1024;
const COMMANDS: usize = 16;
/// What was said last must arrive by then.
const FAREWELL: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Streams at a time.
    pub streams: usize,
    /// A connection on which no data moves ends.
    pub idle: Duration,
    /// A peer that is silent for so long is asked whether it is there, and given up after three times as long.
    pub ping: Option<Duration>,
    /// A peer that takes nothing of what waits for it for so long is given up.
    pub stall: Option<Duration>,
}

/// Opens streams. The connection ends when it, and every stream's sender, is dropped.
#[derive(Clone)]
pub struct Handle {
    commands: mpsc::Sender<Command>,
}

impl Handle {
    /// Opens a stream and waits until the peer takes it.
    pub async fn open(&self, headers: Headers) -> Result<Stream, Gone> {
        self.opening(headers).await?.await.map_err(|_| Gone)?
    }

    /// Opens a stream; whether the peer takes it is told later, so that several can be opened at once.
    pub async fn opening(&self, headers: Headers) -> Result<oneshot::Receiver<Result<Stream, Gone>>, Gone> {
        let (answer, told) = oneshot::channel();
        self.commands.send(Command::Open { headers, answer }).await.map_err(|_| Gone)?;
        Ok(told)
    }
}

pub struct Connection {
    pub handle: Handle,
    /// The streams that the peer opens.
    pub incoming: mpsc::Receiver<Stream>,
}

impl Connection {
    /// Starts the connection's task.
    pub fn start<T>(transport: T, role: Role, limits: Limits) -> Self
    where
        T: AsyncRead + AsyncWrite + Send + 'static,
    {
        let (commands, wishes) = mpsc::channel(COMMANDS);
        let (opened, incoming) = mpsc::channel(limits.streams);
        let (reader, writer) = tokio::io::split(transport);
        let shared = Arc::new(Shared { credit: Credit::new(WINDOW), ..Shared::default() });
        let now = Instant::now();
        let task = Task {
            session: Session::new(role, limits.streams),
            decoder: Decoder::default(),
            encoder: Encoder::default(),
            out: BytesMut::new(),
            inlets: BTreeMap::new(),
            commands: commands.downgrade(),
            opened,
            shared,
            limits,
            moved: now,
            heard: now,
            ended: None,
            deaf: None,
            blocked: None,
        };
        tokio::spawn(task.run(reader, writer, wishes));
        Self { handle: Handle { commands }, incoming }
    }
}

struct Task {
    session: Session,
    decoder: Decoder,
    encoder: Encoder,
    out: BytesMut,
    inlets: BTreeMap<u32, Inlet>,
    commands: mpsc::WeakSender<Command>,
    opened: mpsc::Sender<Stream>,
    shared: Arc<Shared>,
    limits: Limits,
    /// When data last went either way, and when anything last came.
    moved: Instant,
    heard: Instant,
    /// When the connection was found to be over.
    ended: Option<Instant>,
    /// When the peer was found to hear nothing any more. What it said before is still read: runtimes close as soon as they have told
    /// how a command ended, whatever is on its way to them.
    deaf: Option<Instant>,
    /// Since when the transport has taken nothing of what waits for the peer.
    blocked: Option<Instant>,
}

impl Task {
    async fn run<T: AsyncRead + AsyncWrite>(
        mut self,
        mut reader: ReadHalf<T>,
        mut writer: WriteHalf<T>,
        mut wishes: mpsc::Receiver<Command>,
    ) {
        let (mut flushed, mut asked) = (true, false);
        while self.ended.is_none() || !self.out.is_empty() || !flushed {
            let open = self.ended.is_none();
            let room = self.out.len() < MAX_UNSENT;
            // Its own data must not keep this side from reading, or two such sides would wait for each other.
            let reads =
                open && self.out.len() < 2 * MAX_UNSENT && self.shared.unread.load(Ordering::Acquire) < MAX_UNREAD;
            if self.out.is_empty() && flushed {
                self.blocked = None;
            } else {
                self.blocked.get_or_insert_with(Instant::now);
            }
            let deadline = self.deadline(reads, asked);
            tokio::select! {
                read = read(&mut reader, &mut self.decoder.buffer), if reads => {
                    if !matches!(read, Ok(1..)) {
                        break;
                    }
                    asked = false;
                    self.heard = Instant::now();
                    self.frames();
                }
                wrote = write(&mut writer, &mut self.out), if !self.out.is_empty() || !flushed => {
                    self.blocked = None;
                    match wrote {
                        Ok(done) => flushed = done,
                        Err(_) => self.deaf = Some(Instant::now()),
                    }
                }
                wish = wishes.recv(), if open && room => match wish {
                    Some(wish) => self.obey(wish),
                    None => {
                        self.apply(|session, effects| session.leave(goaway::OK, effects));
                        self.ended.get_or_insert_with(Instant::now);
                    }
                },
                () = self.shared.wake.notified() => self.give_back(),
                () = sleep_until(deadline) => {
                    let idle = self.moved.elapsed() >= self.limits.idle;
                    if asked || self.ended.or(self.deaf).is_some() || idle || self.stalls_at().is_some_and(|at| at <= Instant::now()) {
                        break;
                    }
                    asked = true;
                    // Ours are odd or even, as our streams are.
                    let id = if self.session.role() == Role::Client { 1 } else { 2 };
                    self.send(&Frame::Ping(id));
                }
            }
            if self.deaf.is_some() {
                self.out.clear();
                flushed = true;
            }
            flushed &= self.out.is_empty();
        }
        self.end();
        drop(wishes);
        let _ = timeout(FAREWELL, farewell(&mut reader, &mut writer)).await;
    }

    fn deadline(&self, reads: bool, asked: bool) -> Instant {
        if let Some(over) = self.ended.or(self.deaf) {
            return over + FAREWELL;
        }
        let idle = self.moved + self.limits.idle;
        let idle = self.stalls_at().map_or(idle, |at| at.min(idle));
        match self.limits.ping.filter(|_| reads) {
            Some(ping) => idle.min(self.heard + if asked { ping * 3 } else { ping }),
            None => idle,
        }
    }

    /// When the peer is given up if it takes nothing until then.
    fn stalls_at(&self) -> Option<Instant> {
        Some(self.blocked? + self.limits.stall?)
    }

    fn send(&mut self, frame: &Frame) {
        self.encoder.write(frame, &mut self.out);
    }

    fn apply(&mut self, step: impl FnOnce(&mut Session, &mut Vec<Effect>)) {
        let mut effects = Vec::new();
        step(&mut self.session, &mut effects);
        effects.into_iter().for_each(|effect| self.effect(effect));
    }

    /// Everything that has come.
    fn frames(&mut self) {
        while self.ended.is_none() {
            let fault: String = match self.decoder.next() {
                Ok(None) => return,
                Ok(Some(frame)) => {
                    let mut effects = Vec::new();
                    let outcome = self.session.receive(frame, &mut effects);
                    effects.into_iter().for_each(|effect| self.effect(effect));
                    match outcome {
                        Ok(()) => continue,
                        Err(fault) => fault.to_string(),
                    }
                }
                Err(fault) => fault.to_string(),
            };
            tracing::debug!(fault, "a SPDY connection is broken off");
            self.apply(|session, effects| session.leave(goaway::PROTOCOL_ERROR, effects));
            self.ended.get_or_insert_with(Instant::now);
        }
    }

    fn effect(&mut self, effect: Effect) {
        match effect {
            Effect::Send(frame) => self.send(&frame),
            Effect::Opened { id, headers } => self.take_in(id, headers),
            Effect::Accepted { id } => {
                let opening = self.inlets.get_mut(&id).and_then(|inlet| inlet.opening.take());
                let accepted = opening.and_then(|(answer, headers, receiver)| {
                    let stream = Stream { headers, sender: self.sender(id)?, receiver };
                    answer.send(Ok(stream)).ok()
                });
                if accepted.is_none() {
                    // Who opened it does not wait for it any more.
                    self.apply(|session, effects| session.reset(id, reset::CANCEL, effects));
                    self.forget(id);
                }
            }
            Effect::Data { id, bytes } => {
                self.moved = Instant::now();
                let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
                let put = self.inlets.get(&id).is_some_and(|inlet| inlet.put(bytes, &self.shared));
                if !put {
                    self.forget(id);
                    self.apply(|session, effects| {
                        session.took(id, length, effects);
                        session.reset(id, reset::CANCEL, effects);
                    });
                }
            }
            Effect::Finished { id } => {
                if let Some(inlet) = self.inlets.get(&id) {
                    let _ = inlet.parts.send(Part::Finished);
                }
                self.forget_if_done(id);
            }
            Effect::Reset { id, status } => {
                if let Some(inlet) = self.inlets.get(&id) {
                    let _ = inlet.parts.send(Part::Reset(status));
                }
                self.forget(id);
            }
            Effect::Credit { id: 0, delta } => self.shared.credit.add(delta),
            Effect::Credit { id, delta } => {
                if let Some(inlet) = self.inlets.get(&id) {
                    inlet.credit.add(delta);
                }
            }
            Effect::Bound => self.shared.bound.store(true, Ordering::Release),
            Effect::Ended => {
                self.ended.get_or_insert_with(Instant::now);
            }
        }
    }

    fn forget(&mut self, id: u32) {
        if let Some(inlet) = self.inlets.remove(&id) {
            inlet.credit.close();
        }
    }

    fn forget_if_done(&mut self, id: u32) {
        if !self.session.has(id) {
            self.forget(id);
        }
    }

    fn receiver(&mut self, id: u32) -> Receiver {
        let (inlet, parts) = mpsc::unbounded_channel();
        let credit = Arc::new(Credit::new(self.session.credit(id)));
        self.inlets.insert(id, Inlet { parts: inlet, credit, opening: None });
        Receiver { id, parts, shared: self.shared.clone() }
    }

    fn sender(&self, id: u32) -> Option<Sender> {
        let (commands, shared) = (self.commands.upgrade()?, self.shared.clone());
        Some(Sender { id, commands, shared, credit: self.inlets.get(&id)?.credit.clone() })
    }

    fn take_in(&mut self, id: u32, headers: Headers) {
        let receiver = self.receiver(id);
        let stream = self.sender(id).map(|sender| Stream { headers, sender, receiver });
        if stream.is_none_or(|stream| self.opened.try_send(stream).is_err()) {
            self.apply(|session, effects| session.reset(id, reset::REFUSED_STREAM, effects));
            self.forget(id);
        }
    }

    fn obey(&mut self, wish: Command) {
        match wish {
            Command::Open { headers, answer } => {
                let mut effects = Vec::new();
                match self.session.open(headers.clone(), &mut effects) {
                    Some(id) => {
                        let receiver = self.receiver(id);
                        if let Some(inlet) = self.inlets.get_mut(&id) {
                            inlet.opening = Some((answer, headers, receiver));
                        }
                    }
                    None => drop(answer.send(Err(Gone))),
                }
                effects.into_iter().for_each(|effect| self.effect(effect));
            }
            Command::Reply(id) => self.apply(|session, effects| session.reply(id, effects)),
            Command::Data { id, bytes, fin } => {
                self.moved = Instant::now();
                self.apply(|session, effects| session.send(id, bytes, fin, effects));
                self.forget_if_done(id);
            }
            Command::Reset { id, status } => {
                self.apply(|session, effects| session.reset(id, status, effects));
                self.forget(id);
            }
        }
    }

    fn give_back(&mut self) {
        let taken = std::mem::take(&mut *self.shared.taken.lock());
        for (id, bytes) in taken {
            self.apply(|session, effects| session.took(id, bytes, effects));
        }
    }

    /// Nobody waits for this connection any more.
    fn end(&mut self) {
        for inlet in std::mem::take(&mut self.inlets).into_values() {
            inlet.credit.close();
        }
        let (closed, _) = mpsc::channel(1);
        self.opened = closed;
    }
}

async fn read<T: AsyncRead>(reader: &mut ReadHalf<T>, buffer: &mut BytesMut) -> std::io::Result<usize> {
    // Not for every few bytes: whoever holds them holds the whole piece of memory.
    if buffer.capacity() - buffer.len() < READ / 8 {
        buffer.reserve(READ);
    }
    reader.read_buf(buffer).await
}

/// Writes what there is; says whether the transport has passed all of it on.
async fn write<T: AsyncWrite>(writer: &mut WriteHalf<T>, out: &mut BytesMut) -> std::io::Result<bool> {
    if out.is_empty() {
        return writer.flush().await.map(|()| true);
    }
    writer.write_buf(out).await.map(|_| false)
}

/// Ends our half, and reads on until the peer ended its own: a transport that is dropped before may take back what is still on its way.
async fn farewell<T: AsyncRead + AsyncWrite>(reader: &mut ReadHalf<T>, writer: &mut WriteHalf<T>) {
    if writer.shutdown().await.is_ok() {
        let mut unread = [0; 4 * 1024];
        while matches!(reader.read(&mut unread).await, Ok(1..)) {}
    }
}

#[cfg(test)]
#[path = "connection_tests.rs"]
mod tests;
