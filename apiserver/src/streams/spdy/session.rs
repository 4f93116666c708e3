//! What a SPDY/3.1 connection has agreed upon: its streams, their halves, and their windows. Pure: a frame or a wish in, effects out.
//!
//! Decides which frames make sense and what answers those that do not. The peers that matter most, those of Go's Kubernetes, send
//! without regard to windows and never open ours; so the peer's windows bind only once it has shown that it keeps some, and what it
//! sends beyond ours is not refused: whoever reads the connection bounds what it holds by not reading on.

use super::frame::{Frame, goaway, reset, setting};
use super::headers::Headers;
use bytes::Bytes;
use std::collections::BTreeMap;

/// Every window begins with this.
pub const WINDOW: i64 = 64 * 1024;
const MAX_WINDOW: i64 = 0x7fff_ffff;
const LAST_ID: u32 = 0x7fff_ffff;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Client,
    Server,
}

/// What follows from a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    Send(Frame),
    /// The peer opened a stream.
    Opened {
        id: u32,
        headers: Headers,
    },
    /// The peer took the stream that was opened to it.
    Accepted {
        id: u32,
    },
    Data {
        id: u32,
        bytes: Bytes,
    },
    /// The peer sends no more on this stream.
    Finished {
        id: u32,
    },
    /// The stream is gone, both ways.
    Reset {
        id: u32,
        status: u32,
    },
    /// So much more, or less, may be sent on a stream, or on all together when the id is 0.
    Credit {
        id: u32,
        delta: i64,
    },
    /// From now on credit counts.
    Bound,
    /// The connection is over once everything is sent.
    Ended,
}

/// The peer broke the protocol so that nothing after it can be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SessionFault {
    #[error("stream {0} was opened out of turn")]
    StreamId(u32),
    #[error("a window was opened beyond 2^31-1")]
    Window,
    #[error("more than {MAX_RESETS} frames for streams that are not there")]
    Astray,
}

/// Frames for no stream that are answered before the connection is given up.
const MAX_RESETS: u32 = 1_000;

#[derive(Clone, Copy, Debug, Default)]
struct Stream {
    ours: bool,
    replied: bool,
    we_finished: bool,
    they_finished: bool,
    /// How much it may still be sent; below zero where the peer's windows did not bind.
    credit: i64,
    /// Taken by its reader, and not given back to the peer yet.
    taken: u32,
}

#[derive(Debug)]
pub struct Session {
    role: Role,
    max_streams: usize,
    next: u32,
    /// The last one that the peer opened.
    last: u32,
    streams: BTreeMap<u32, Stream>,
    bound: bool,
    /// What a new stream's credit begins with.
    initial: i64,
    credit: i64,
    taken: u32,
    peer_allows: u32,
    astray: u32,
    /// The peer, or this side, opens no more streams.
    leaving: bool,
    ended: bool,
}

impl Session {
    pub fn new(role: Role, max_streams: usize) -> Self {
        Self {
            role,
            max_streams,
            next: if role == Role::Client { 1 } else { 2 },
            last: 0,
            streams: BTreeMap::new(),
            bound: false,
            initial: WINDOW,
            credit: WINDOW,
            taken: 0,
            peer_allows: u32::MAX,
            astray: 0,
            leaving: false,
            ended: false,
        }
    }

    pub fn role(&self) -> Role {
        self.role
    }

    pub fn has(&self, id: u32) -> bool {
        self.streams.contains_key(&id)
    }

    /// How much may be sent on a stream.
    pub fn credit(&self, id: u32) -> i64 {
        self.streams.get(&id).map_or(0, |stream| stream.credit)
    }

    fn is_ours(&self, id: u32) -> bool {
        (id % 2 == 1) == (self.role == Role::Client)
    }

    /// Takes in a frame of the peer.
    pub fn receive(&mut self, frame: Frame, effects: &mut Vec<Effect>) -> Result<(), SessionFault> {
        match frame {
            Frame::SynStream { id, headers, fin, unidirectional } => {
                self.opened(id, headers, fin, unidirectional, effects)?;
            }
            Frame::SynReply { id, fin, .. } => match self.streams.get_mut(&id).filter(|stream| stream.ours) {
                None => self.stray(id, effects)?,
                Some(stream) if stream.replied => self.break_off(id, reset::STREAM_IN_USE, effects),
                Some(stream) => {
                    stream.replied = true;
                    effects.push(Effect::Accepted { id });
                    self.they_finish(id, fin, effects);
                }
            },
            Frame::Headers { id, fin, .. } => match self.streams.get(&id) {
                None => self.stray(id, effects)?,
                // Nobody here has a use for more headers.
                Some(_) => self.they_finish(id, fin, effects),
            },
            Frame::Data { id, bytes, fin } => self.data(id, bytes, fin, effects)?,
            Frame::Reset { id, status } => {
                if self.streams.remove(&id).is_some() {
                    effects.push(Effect::Reset { id, status });
                    self.end_when_left(effects);
                }
            }
            Frame::Settings(pairs) => self.settings(&pairs, effects)?,
            // Its own come back; an answer to none of ours is nothing.
            Frame::Ping(id) if !self.is_ours(id) => effects.push(Effect::Send(Frame::Ping(id))),
            Frame::Ping(_) => {}
            Frame::GoAway { .. } => {
                self.leaving = true;
                self.end_when_left(effects);
            }
            Frame::WindowUpdate { id, delta } => self.window(id, i64::from(delta), effects)?,
        }
        Ok(())
    }

    fn opened(
        &mut self,
        id: u32,
        headers: Headers,
        fin: bool,
        unidirectional: bool,
        effects: &mut Vec<Effect>,
    ) -> Result<(), SessionFault> {
        if id == 0 || self.is_ours(id) || id <= self.last {
            return Err(SessionFault::StreamId(id));
        }
        self.last = id;
        if self.leaving || self.streams.len() >= self.max_streams {
            effects.push(Effect::Send(Frame::Reset { id, status: reset::REFUSED_STREAM }));
            return Ok(());
        }
        let stream = Stream { we_finished: unidirectional, credit: self.initial, ..Stream::default() };
        self.streams.insert(id, stream);
        effects.push(Effect::Opened { id, headers });
        self.they_finish(id, fin, effects);
        Ok(())
    }

    fn data(&mut self, id: u32, bytes: Bytes, fin: bool, effects: &mut Vec<Effect>) -> Result<(), SessionFault> {
        match self.streams.get(&id) {
            None => self.stray(id, effects)?,
            Some(stream) if stream.they_finished => self.break_off(id, reset::STREAM_ALREADY_CLOSED, effects),
            Some(_) => {
                if !bytes.is_empty() {
                    effects.push(Effect::Data { id, bytes });
                }
                self.they_finish(id, fin, effects);
            }
        }
        Ok(())
    }

    /// A frame for a stream that is not there. One that was is not to blame: the frame and the reset crossed.
    fn stray(&mut self, id: u32, effects: &mut Vec<Effect>) -> Result<(), SessionFault> {
        let was = id != 0 && if self.is_ours(id) { id < self.next } else { id <= self.last };
        if was {
            return Ok(());
        }
        self.astray += 1;
        if self.astray > MAX_RESETS {
            return Err(SessionFault::Astray);
        }
        effects.push(Effect::Send(Frame::Reset { id, status: reset::INVALID_STREAM }));
        Ok(())
    }

    /// Ends a stream that the peer misused, for both sides.
    fn break_off(&mut self, id: u32, status: u32, effects: &mut Vec<Effect>) {
        self.reset(id, status, effects);
        effects.push(Effect::Reset { id, status });
    }

    fn they_finish(&mut self, id: u32, fin: bool, effects: &mut Vec<Effect>) {
        let Some(stream) = self.streams.get_mut(&id).filter(|_| fin) else { return };
        if !std::mem::replace(&mut stream.they_finished, true) {
            effects.push(Effect::Finished { id });
        }
        self.remove_when_done(id, effects);
    }

    fn remove_when_done(&mut self, id: u32, effects: &mut Vec<Effect>) {
        if self.streams.get(&id).is_some_and(|stream| stream.we_finished && stream.they_finished) {
            self.streams.remove(&id);
            self.end_when_left(effects);
        }
    }

    fn end_when_left(&mut self, effects: &mut Vec<Effect>) {
        if self.leaving && self.streams.is_empty() && !std::mem::replace(&mut self.ended, true) {
            effects.push(Effect::Ended);
        }
    }

    fn settings(&mut self, pairs: &[(u32, u32)], effects: &mut Vec<Effect>) -> Result<(), SessionFault> {
        // A number that is there twice counts as it is there last: each costs something for every stream.
        let last = |number: u32| pairs.iter().rfind(|(known, _)| *known == number);
        let known = [setting::INITIAL_WINDOW_SIZE, setting::MAX_CONCURRENT_STREAMS].into_iter().filter_map(last);
        for (number, value) in known {
            match *number {
                setting::INITIAL_WINDOW_SIZE => {
                    self.bind(effects);
                    let initial = i64::from(*value).min(MAX_WINDOW);
                    let delta = initial - std::mem::replace(&mut self.initial, initial);
                    for (id, stream) in &mut self.streams {
                        stream.credit += delta;
                        if stream.credit > MAX_WINDOW {
                            return Err(SessionFault::Window);
                        }
                        effects.push(Effect::Credit { id: *id, delta });
                    }
                }
                setting::MAX_CONCURRENT_STREAMS => self.peer_allows = *value,
                _ => {}
            }
        }
        Ok(())
    }

    fn bind(&mut self, effects: &mut Vec<Effect>) {
        if !std::mem::replace(&mut self.bound, true) {
            effects.push(Effect::Bound);
        }
    }

    fn window(&mut self, id: u32, delta: i64, effects: &mut Vec<Effect>) -> Result<(), SessionFault> {
        self.bind(effects);
        if id == 0 {
            self.credit += delta;
            if delta == 0 || self.credit > MAX_WINDOW {
                return Err(SessionFault::Window);
            }
            effects.push(Effect::Credit { id, delta });
            return Ok(());
        }
        match self.streams.get_mut(&id) {
            None => return self.stray(id, effects),
            Some(_) if delta == 0 => self.break_off(id, reset::PROTOCOL_ERROR, effects),
            Some(stream) if stream.credit + delta > MAX_WINDOW => {
                self.break_off(id, reset::FLOW_CONTROL_ERROR, effects);
            }
            Some(stream) => {
                stream.credit += delta;
                effects.push(Effect::Credit { id, delta });
            }
        }
        Ok(())
    }

    /// Opens a stream; `None` when no more can be.
    pub fn open(&mut self, headers: Headers, effects: &mut Vec<Effect>) -> Option<u32> {
        let ours = self.streams.values().filter(|stream| stream.ours).count();
        let full = ours >= usize::try_from(self.peer_allows).unwrap_or(usize::MAX);
        if self.leaving || self.next > LAST_ID || self.streams.len() >= self.max_streams || full {
            return None;
        }
        let id = self.next;
        self.next += 2;
        self.streams.insert(id, Stream { ours: true, credit: self.initial, ..Stream::default() });
        effects.push(Effect::Send(Frame::SynStream { id, headers, fin: false, unidirectional: false }));
        Some(id)
    }

    /// Takes a stream that the peer opened.
    pub fn reply(&mut self, id: u32, effects: &mut Vec<Effect>) {
        let stream = self.streams.get_mut(&id).filter(|stream| !stream.ours && !stream.replied);
        if let Some(stream) = stream {
            stream.replied = true;
            effects.push(Effect::Send(Frame::SynReply { id, headers: Headers::new(), fin: false }));
        }
    }

    /// Sends data, or the end of it, or both. What goes to a stream that is gone is dropped.
    pub fn send(&mut self, id: u32, bytes: Bytes, fin: bool, effects: &mut Vec<Effect>) {
        let Some(stream) = self.streams.get_mut(&id).filter(|stream| !stream.we_finished) else { return };
        let length = i64::try_from(bytes.len()).unwrap_or(MAX_WINDOW);
        stream.credit -= length;
        self.credit -= length;
        stream.we_finished = fin;
        effects.push(Effect::Send(Frame::Data { id, bytes, fin }));
        self.remove_when_done(id, effects);
    }

    pub fn reset(&mut self, id: u32, status: u32, effects: &mut Vec<Effect>) {
        if self.streams.remove(&id).is_some() {
            effects.push(Effect::Send(Frame::Reset { id, status }));
            self.end_when_left(effects);
        }
    }

    /// A reader took so many bytes: the windows open again, half a window at a time. A server that keeps none itself is told nothing:
    /// runtimes close without reading what is left, and what they said last is lost with it.
    pub fn took(&mut self, id: u32, bytes: u32, effects: &mut Vec<Effect>) {
        const HALF: u32 = 32 * 1024;
        let told = self.bound || self.role == Role::Server;
        let mut open = |id: u32, taken: &mut u32| {
            *taken = taken.saturating_add(bytes);
            if told && *taken >= HALF {
                let delta = std::mem::take(taken);
                effects.push(Effect::Send(Frame::WindowUpdate { id, delta }));
            }
        };
        open(0, &mut self.taken);
        if let Some(stream) = self.streams.get_mut(&id).filter(|stream| !stream.they_finished) {
            open(id, &mut stream.taken);
        }
    }

    /// Opens no more streams, and ends when those that are there have ended.
    pub fn leave(&mut self, status: u32, effects: &mut Vec<Effect>) {
        if !std::mem::replace(&mut self.leaving, true) || status != goaway::OK {
            effects.push(Effect::Send(Frame::GoAway { last: self.last, status }));
        }
        self.end_when_left(effects);
    }

    /// What must be true after every step.
    #[cfg(test)]
    pub fn validate(&self) {
        assert!(self.streams.len() <= self.max_streams);
        assert!(!self.ended || self.leaving && self.streams.is_empty());
        for (id, stream) in &self.streams {
            assert_eq!(stream.ours, self.is_ours(*id), "{id}");
            assert!(!(stream.we_finished && stream.they_finished), "{id} is done and still there");
            assert!(if stream.ours { *id < self.next } else { *id <= self.last }, "{id}");
            assert!(stream.credit <= MAX_WINDOW);
        }
    }
}

#[cfg(test)]
#[path = "session_tests.rs"]
mod tests;
