//! SPDY/3.1 frames: bytes to frames and back. Decides which bytes are a frame and how long one may be; never what a frame means.
//!
//! Data is handed out as it comes, so a data frame of 16 MiB costs no more memory than one of 16 bytes. Everything else has a
//! length that is known, or a limit.

use super::headers::{HeaderFault, HeaderReader, HeaderWriter, Headers};
use bytes::{Buf, Bytes, BytesMut};

const VERSION: u16 = 3;
const HEAD: usize = 8;
/// The longest control frame that is read: twice what every implementation must be able to read.
pub const MAX_CONTROL: usize = 16 * 1024;
/// The longest data frame that is written.
pub const MAX_DATA: usize = 32 * 1024;
const ID: u32 = 0x7fff_ffff;
const FIN: u8 = 1;

mod kind {
    pub const SYN_STREAM: u16 = 1;
    pub const SYN_REPLY: u16 = 2;
    pub const RST_STREAM: u16 = 3;
    pub const SETTINGS: u16 = 4;
    pub const PING: u16 = 6;
    pub const GOAWAY: u16 = 7;
    pub const HEADERS: u16 = 8;
    pub const WINDOW_UPDATE: u16 = 9;
}

/// Why a stream was reset.
pub mod reset {
    pub const PROTOCOL_ERROR: u32 = 1;
    pub const INVALID_STREAM: u32 = 2;
    pub const REFUSED_STREAM: u32 = 3;
    pub const CANCEL: u32 = 5;
    #[cfg(test)]
    pub const INTERNAL_ERROR: u32 = 6;
    pub const FLOW_CONTROL_ERROR: u32 = 7;
    pub const STREAM_IN_USE: u32 = 8;
    pub const STREAM_ALREADY_CLOSED: u32 = 9;
}

/// Why a connection ends.
pub mod goaway {
    pub const OK: u32 = 0;
    pub const PROTOCOL_ERROR: u32 = 1;
}

pub mod setting {
    pub const MAX_CONCURRENT_STREAMS: u32 = 4;
    pub const INITIAL_WINDOW_SIZE: u32 = 7;
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    SynStream {
        id: u32,
        headers: Headers,
        fin: bool,
        unidirectional: bool,
    },
    SynReply {
        id: u32,
        headers: Headers,
        fin: bool,
    },
    Reset {
        id: u32,
        status: u32,
    },
    /// (number, value), in their order.
    Settings(Vec<(u32, u32)>),
    Ping(u32),
    GoAway {
        last: u32,
        status: u32,
    },
    Headers {
        id: u32,
        headers: Headers,
        fin: bool,
    },
    /// Of the whole connection when the id is 0.
    WindowUpdate {
        id: u32,
        delta: u32,
    },
    /// A part of a data frame; `fin` comes with the last.
    Data {
        id: u32,
        bytes: Bytes,
        fin: bool,
    },
}

/// These bytes are no SPDY/3.1: the connection cannot go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameFault {
    #[error("a frame of version {0}, not 3")]
    Version(u16),
    #[error("a control frame of {0} bytes, more than {MAX_CONTROL}")]
    TooLong(usize),
    #[error("a control frame of type {0} and {1} bytes, which it cannot have")]
    Length(u16, usize),
    #[error(transparent)]
    Headers(#[from] HeaderFault),
}

#[derive(Clone, Copy, Default)]
enum Reading {
    #[default]
    Head,
    Control {
        kind: u16,
        flags: u8,
        length: usize,
    },
    Data {
        id: u32,
        fin: bool,
        left: usize,
    },
    /// A control frame that later versions may have.
    Unknown {
        left: usize,
    },
}

/// Reads the frames of one direction.
#[derive(Default)]
pub struct Decoder {
    /// What has come and is not read yet.
    pub buffer: BytesMut,
    reading: Reading,
    headers: HeaderReader,
}

impl Decoder {
    /// The next frame, or `None` until more has come. After a fault nothing more can be read.
    pub fn next(&mut self) -> Result<Option<Frame>, FrameFault> {
        loop {
            match self.reading {
                Reading::Head => {
                    if self.buffer.len() < HEAD {
                        return Ok(None);
                    }
                    self.reading = self.head()?;
                }
                Reading::Control { kind, flags, length } => {
                    if self.buffer.len() < length {
                        return Ok(None);
                    }
                    let body = self.buffer.split_to(length).freeze();
                    self.reading = Reading::Head;
                    return self.control(kind, flags, body).map(Some);
                }
                Reading::Data { id, fin, left } => {
                    if self.buffer.is_empty() && left > 0 {
                        return Ok(None);
                    }
                    let bytes = self.buffer.split_to(left.min(self.buffer.len())).freeze();
                    let left = left - bytes.len();
                    self.reading = if left == 0 { Reading::Head } else { Reading::Data { id, fin, left } };
                    return Ok(Some(Frame::Data { id, bytes, fin: fin && left == 0 }));
                }
                Reading::Unknown { left } => {
                    let now = left.min(self.buffer.len());
                    self.buffer.advance(now);
                    if now < left {
                        self.reading = Reading::Unknown { left: left - now };
                        return Ok(None);
                    }
                    self.reading = Reading::Head;
                }
            }
        }
    }

    fn head(&mut self) -> Result<Reading, FrameFault> {
        let (first, second) = (self.buffer.get_u32(), self.buffer.get_u32());
        let [flags, length @ ..] = second.to_be_bytes();
        let length = length.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte));
        if first & !ID == 0 {
            return Ok(Reading::Data { id: first, fin: flags & FIN != 0, left: length });
        }
        let [high, low, kind @ ..] = first.to_be_bytes();
        let (version, kind) = (u16::from_be_bytes([high & 0x7f, low]), u16::from_be_bytes(kind));
        if version != VERSION {
            return Err(FrameFault::Version(version));
        }
        if !(kind::SYN_STREAM..=kind::WINDOW_UPDATE).contains(&kind) || kind == 5 {
            return Ok(Reading::Unknown { left: length });
        }
        if length > MAX_CONTROL {
            return Err(FrameFault::TooLong(length));
        }
        let fits = match kind {
            kind::SYN_STREAM => length >= 10,
            kind::SYN_REPLY | kind::HEADERS | kind::SETTINGS => length >= 4,
            kind::PING => length == 4,
            _ => length == 8,
        };
        if !fits {
            return Err(FrameFault::Length(kind, length));
        }
        Ok(Reading::Control { kind, flags, length })
    }

    fn control(&mut self, kind: u16, flags: u8, mut body: Bytes) -> Result<Frame, FrameFault> {
        let (fin, length) = (flags & FIN != 0, body.len());
        match kind {
            kind::SYN_STREAM => {
                let id = body.get_u32() & ID;
                // The associated stream, the priority and the credential slot, which nobody here asks for.
                body.advance(6);
                Ok(Frame::SynStream { id, headers: self.headers.read(&body)?, fin, unidirectional: flags & 2 != 0 })
            }
            kind::SYN_REPLY | kind::HEADERS => {
                let id = body.get_u32() & ID;
                let headers = self.headers.read(&body)?;
                let reply = kind == kind::SYN_REPLY;
                Ok(if reply { Frame::SynReply { id, headers, fin } } else { Frame::Headers { id, headers, fin } })
            }
            kind::SETTINGS => {
                let count = body.get_u32();
                if u64::from(count) * 8 != body.len() as u64 {
                    return Err(FrameFault::Length(kind, length));
                }
                Ok(Frame::Settings((0..count).map(|_| (body.get_u32() & 0x00ff_ffff, body.get_u32())).collect()))
            }
            kind::PING => Ok(Frame::Ping(body.get_u32())),
            kind::RST_STREAM => Ok(Frame::Reset { id: body.get_u32() & ID, status: body.get_u32() }),
            kind::GOAWAY => Ok(Frame::GoAway { last: body.get_u32() & ID, status: body.get_u32() }),
            _ => Ok(Frame::WindowUpdate { id: body.get_u32() & ID, delta: body.get_u32() & ID }),
        }
    }
}

/// Writes the frames of one direction.
#[derive(Default)]
pub struct Encoder {
    headers: HeaderWriter,
}

impl Encoder {
    pub fn write(&mut self, frame: &Frame, out: &mut BytesMut) {
        let flag = |fin: bool| u8::from(fin) * FIN;
        match frame {
            Frame::Data { id, bytes, fin } => {
                let mut parts = bytes.chunks(MAX_DATA).peekable();
                // An end without data is a frame, too.
                let none: &[u8] = &[];
                let first = parts.next().unwrap_or(none);
                data(*id, first, flag(*fin && parts.peek().is_none()), out);
                while let Some(part) = parts.next() {
                    data(*id, part, flag(*fin && parts.peek().is_none()), out);
                }
            }
            Frame::SynStream { id, headers, fin, unidirectional } => {
                let mut body = id.to_be_bytes().to_vec();
                body.extend_from_slice(&[0; 6]);
                body.extend_from_slice(&self.headers.write(headers));
                control(kind::SYN_STREAM, flag(*fin) | (u8::from(*unidirectional) * 2), &body, out);
            }
            Frame::SynReply { id, headers, fin } => {
                let body = [&id.to_be_bytes()[..], &self.headers.write(headers)].concat();
                control(kind::SYN_REPLY, flag(*fin), &body, out);
            }
            Frame::Headers { id, headers, fin } => {
                let body = [&id.to_be_bytes()[..], &self.headers.write(headers)].concat();
                control(kind::HEADERS, flag(*fin), &body, out);
            }
            Frame::Settings(pairs) => {
                let mut body = u32::try_from(pairs.len()).unwrap_or(0).to_be_bytes().to_vec();
                body.extend(pairs.iter().flat_map(|(number, value)| numbers(*number, *value)));
                control(kind::SETTINGS, 0, &body, out);
            }
            Frame::Ping(id) => control(kind::PING, 0, &id.to_be_bytes(), out),
            Frame::Reset { id, status } => control(kind::RST_STREAM, 0, &numbers(*id, *status), out),
            Frame::GoAway { last, status } => control(kind::GOAWAY, 0, &numbers(*last, *status), out),
            Frame::WindowUpdate { id, delta } => control(kind::WINDOW_UPDATE, 0, &numbers(*id, *delta), out),
        }
    }
}

fn numbers(first: u32, second: u32) -> [u8; 8] {
    (u64::from(first) << 32 | u64::from(second)).to_be_bytes()
}

fn head(first: u32, flags: u8, length: usize, out: &mut BytesMut) {
    let length = u32::try_from(length).expect("frames are written in parts of at most 64 KiB");
    out.extend_from_slice(&numbers(first, u32::from(flags) << 24 | length));
}

fn data(id: u32, part: &[u8], flags: u8, out: &mut BytesMut) {
    head(id, flags, part.len(), out);
    out.extend_from_slice(part);
}

fn control(kind: u16, flags: u8, body: &[u8], out: &mut BytesMut) {
    head(0x8000_0000 | u32::from(VERSION) << 16 | u32::from(kind), flags, body.len(), out);
    out.extend_from_slice(body);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn decode(bytes: &[u8]) -> Result<Vec<Frame>, FrameFault> {
        let mut decoder = Decoder::default();
        decoder.buffer.extend_from_slice(bytes);
        let mut frames = Vec::new();
        while let Some(frame) = decoder.next()? {
            frames.push(frame);
        }
        Ok(frames)
    }

    #[test]
    fn bytes_as_the_protocol_describes_them() {
        let frames = decode(&[
            0x80, 3, 0, 6, 0, 0, 0, 4, 0, 0, 0, 9, // PING 9
            0, 0, 0, 5, 1, 0, 0, 2, b'h', b'i', // DATA of stream 5, the last
            0x80, 3, 0, 3, 0, 0, 0, 8, 0, 0, 0, 7, 0, 0, 0, 5, // RST_STREAM 7, cancel
            0x80, 3, 0, 99, 0, 0, 0, 3, 1, 2, 3, // of a type that is not known
            0x80, 3, 0, 4, 0, 0, 0, 12, 0, 0, 0, 1, 1, 0, 0, 7, 0, 1, 0, 0, // SETTINGS: window of 65536
            0x80, 3, 0, 9, 0, 0, 0, 8, 0x80, 0, 0, 0, 0, 0, 1, 0, // WINDOW_UPDATE of the connection
            0x80, 3, 0, 7, 0, 0, 0, 8, 0, 0, 0, 7, 0, 0, 0, 1, // GOAWAY
        ]);
        let expect = vec![
            Frame::Ping(9),
            Frame::Data { id: 5, bytes: Bytes::from_static(b"hi"), fin: true },
            Frame::Reset { id: 7, status: reset::CANCEL },
            Frame::Settings(vec![(setting::INITIAL_WINDOW_SIZE, 65_536)]),
            Frame::WindowUpdate { id: 0, delta: 256 },
            Frame::GoAway { last: 7, status: goaway::PROTOCOL_ERROR },
        ];
        assert_eq!(frames, Ok(expect));
    }

    #[test]
    fn wrong_lengths_and_versions_are_refused() {
        let check = |bytes: &[u8], expect: FrameFault| assert_eq!(decode(bytes), Err(expect));
        check(&[0x80, 2, 0, 6, 0, 0, 0, 4], FrameFault::Version(2));
        check(b"\xffGET / HTTP/1.1", FrameFault::Version(0x7f47));
        check(&[0x80, 3, 0, 6, 0, 0, 0, 3, 0, 0, 9], FrameFault::Length(6, 3));
        check(&[0x80, 3, 0, 1, 0, 0, 0, 2, 0, 0], FrameFault::Length(1, 2));
        check(&[0x80, 3, 0, 2, 0, 0, 0, 0], FrameFault::Length(2, 0));
        check(&[0x80, 3, 0, 3, 0, 0, 0, 4, 0, 0, 0, 1], FrameFault::Length(3, 4));
        check(&[0x80, 3, 0, 7, 0, 0, 0, 4, 0, 0, 0, 1], FrameFault::Length(7, 4));
        check(&[0x80, 3, 0, 9, 0, 0, 0, 4, 0, 0, 0, 1], FrameFault::Length(9, 4));
        // More settings than the frame has room for.
        check(&[0x80, 3, 0, 4, 0, 0, 0, 4, 0xff, 0xff, 0xff, 0xff], FrameFault::Length(4, 4));
        // Refused by its head: nothing of it is waited for.
        check(&[0x80, 3, 0, 1, 0, 0xff, 0xff, 0xff], FrameFault::TooLong(0x00ff_ffff));
    }

    #[test]
    fn data_is_handed_out_as_it_comes() {
        let mut decoder = Decoder::default();
        decoder.buffer.extend_from_slice(&[0, 0, 0, 1, 1, 0xff, 0xff, 0xff]);
        assert_eq!(decoder.next(), Ok(None));
        let mut left = 0x00ff_ffff;
        while left > 0 {
            let now = left.min(1 << 20);
            decoder.buffer.extend_from_slice(&vec![7; now]);
            left -= now;
            match decoder.next().unwrap() {
                Some(Frame::Data { id: 1, bytes, fin }) => assert_eq!((bytes.len(), fin), (now, left == 0)),
                other => panic!("{other:?}"),
            }
            assert_eq!(decoder.next(), Ok(None));
            assert!(decoder.buffer.is_empty());
        }
    }

    fn headers() -> impl Strategy<Value = Headers> {
        proptest::collection::btree_map("[a-z]{1,8}", "[ -~]{0,20}", 0..5).prop_map(|map| map.into_iter().collect())
    }

    fn frame() -> impl Strategy<Value = Frame> {
        let id = 0_u32..=ID;
        prop_oneof![
            (id.clone(), headers(), any::<bool>(), any::<bool>()).prop_map(|(id, headers, fin, unidirectional)| {
                Frame::SynStream { id, headers, fin, unidirectional }
            }),
            (id.clone(), headers(), any::<bool>()).prop_map(|(id, headers, fin)| Frame::SynReply { id, headers, fin }),
            (id.clone(), headers(), any::<bool>()).prop_map(|(id, headers, fin)| Frame::Headers { id, headers, fin }),
            (id.clone(), any::<u32>()).prop_map(|(id, status)| Frame::Reset { id, status }),
            proptest::collection::vec((0_u32..1 << 24, any::<u32>()), 0..9).prop_map(Frame::Settings),
            any::<u32>().prop_map(Frame::Ping),
            (id.clone(), any::<u32>()).prop_map(|(last, status)| Frame::GoAway { last, status }),
            (id.clone(), id.clone()).prop_map(|(id, delta)| Frame::WindowUpdate { id, delta }),
            (id, proptest::collection::vec(any::<u8>(), 0..40), any::<bool>())
                .prop_map(|(id, bytes, fin)| Frame::Data { id, bytes: bytes.into(), fin }),
        ]
    }

    /// Parts of one data frame as one.
    fn joined(frames: Vec<Frame>) -> Vec<Frame> {
        let mut all: Vec<Frame> = Vec::new();
        let mut open = false;
        for frame in frames {
            match (all.last_mut(), &frame) {
                (Some(Frame::Data { bytes, fin, .. }), Frame::Data { bytes: more, fin: last, .. }) if open => {
                    *bytes = [&bytes[..], &more[..]].concat().into();
                    *fin = *last;
                }
                _ => all.push(frame.clone()),
            }
            open = matches!(&frame, Frame::Data { bytes, fin: false, .. } if !bytes.is_empty());
        }
        all
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_however_it_is_cut(frames in proptest::collection::vec(frame(), 0..12), cut in 1_usize..50) {
            let (mut encoder, mut out) = (Encoder::default(), BytesMut::new());
            // Between two data frames another one, so that their parts are told apart.
            let frames: Vec<Frame> = frames.into_iter().flat_map(|frame| [frame, Frame::Ping(1)]).collect();
            frames.iter().for_each(|frame| encoder.write(frame, &mut out));
            let (mut decoder, mut read) = (Decoder::default(), Vec::new());
            for part in out.chunks(cut) {
                decoder.buffer.extend_from_slice(part);
                while let Some(frame) = decoder.next().unwrap() {
                    read.push(frame);
                }
            }
            prop_assert_eq!(joined(read), frames);
        }

        #[test]
        fn any_bytes_have_a_bounded_answer(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            let _ = decode(&bytes);
            // The same behind a valid head, which gets further.
            for kind in 1..10 {
                let mut framed = BytesMut::new();
                control(kind, bytes.first().copied().unwrap_or(0), &bytes, &mut framed);
                let _ = decode(&framed);
            }
        }
    }

    #[test]
    fn long_data_is_written_in_parts_and_ends_once() {
        let mut out = BytesMut::new();
        let sent = Frame::Data { id: 3, bytes: vec![1; 2 * MAX_DATA + 5].into(), fin: true };
        Encoder::default().write(&sent, &mut out);
        let parts = decode(&out).unwrap();
        let shape: Vec<(usize, bool)> = parts
            .iter()
            .map(|part| match part {
                Frame::Data { bytes, fin, .. } => (bytes.len(), *fin),
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(shape, [(MAX_DATA, false), (MAX_DATA, false), (5, true)]);
    }
}
