//! The channel protocols that exec and attach speak over WebSockets. Pure: a message is a channel's number and its bytes.
//!
//! Decides which protocol is spoken and how its messages read; never what is done with them.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::{Bytes, BytesMut};
use serde_json::Value;
use tokio_tungstenite::tungstenite::Message;

pub const STDIN: u8 = 0;
pub const STDOUT: u8 = 1;
pub const STDERR: u8 = 2;
pub const ERROR: u8 = 3;
pub const RESIZE: u8 = 4;
/// Says that the channel of the next byte gets no more (from the fifth version on).
const CLOSE: u8 = 255;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Protocol {
    pub name: &'static str,
    base64: bool,
    /// Channels can be closed.
    closes: bool,
    /// The error channel ends with a Status in JSON, also after success; else with a text, after failures alone.
    status: bool,
}

const fn protocol(name: &'static str, base64: bool, closes: bool, status: bool) -> Protocol {
    Protocol { name, base64, closes, status }
}

pub const PROTOCOLS: [Protocol; 5] = [
    protocol("v5.channel.k8s.io", false, true, true),
    protocol("v4.channel.k8s.io", false, false, true),
    protocol("v4.base64.channel.k8s.io", true, false, true),
    protocol("channel.k8s.io", false, false, false),
    protocol("base64.channel.k8s.io", true, false, false),
];

/// The first of the client's offers that is spoken here. Who offers none speaks the oldest.
pub fn negotiate(offers: &[&str]) -> Option<Protocol> {
    if offers.is_empty() {
        return Some(Protocol { name: "", ..PROTOCOLS[3] });
    }
    offers.iter().find_map(|offer| PROTOCOLS.into_iter().find(|known| known.name == *offer))
}

/// What a client says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said {
    Data(u8, Bytes),
    /// The channel gets no more.
    Closed(u8),
    /// The session is over.
    Over,
    /// Nothing that concerns a channel.
    Nothing,
}

/// The message is none of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChannelFault {
    #[error("a message without a channel")]
    Empty,
    #[error("a message of the wrong type: this protocol has {0} messages")]
    Type(&'static str),
    #[error("a message that is not base64")]
    Base64,
}

impl Protocol {
    pub fn read(self, message: Message) -> Result<Said, ChannelFault> {
        match message {
            Message::Binary(bytes) if !self.base64 => {
                let (&channel, rest) = bytes.split_first().ok_or(ChannelFault::Empty)?;
                match rest {
                    [closed] if self.closes && channel == CLOSE => Ok(Said::Closed(*closed)),
                    _ => Ok(Said::Data(channel, bytes.slice(1..))),
                }
            }
            Message::Text(text) if self.base64 => {
                let (channel, rest) = text.as_bytes().split_first().ok_or(ChannelFault::Empty)?;
                let bytes = STANDARD.decode(rest).map_err(|_| ChannelFault::Base64)?;
                Ok(Said::Data(channel.wrapping_sub(b'0'), bytes.into()))
            }
            // Kubernetes reads either type of message, whatever the protocol says of it.
            Message::Text(text) => {
                let bytes = Bytes::from(text);
                let channel = *bytes.first().ok_or(ChannelFault::Empty)?;
                Ok(Said::Data(channel, bytes.slice(1..)))
            }
            Message::Binary(_) => Err(ChannelFault::Type("text")),
            Message::Close(_) => Ok(Said::Over),
            Message::Ping(_) | Message::Pong(_) | Message::Frame(_) => Ok(Said::Nothing),
        }
    }

    pub fn write(self, channel: u8, bytes: &[u8]) -> Message {
        if self.base64 {
            let mut text = String::with_capacity(1 + bytes.len().div_ceil(3) * 4);
            text.push(char::from(b'0'.wrapping_add(channel)));
            STANDARD.encode_string(bytes, &mut text);
            return Message::text(text);
        }
        let mut message = BytesMut::with_capacity(1 + bytes.len());
        message.extend_from_slice(&[channel]);
        message.extend_from_slice(bytes);
        Message::Binary(message.freeze())
    }

    /// How the end of the session reads on the error channel, if it is told at all. `status`: a Status in JSON.
    pub fn ending(self, status: &Value) -> Option<Message> {
        if self.status {
            return Some(self.write(ERROR, status.to_string().as_bytes()));
        }
        let message = status["message"].as_str().unwrap_or("unknown error");
        (status["status"] != "Success").then(|| self.write(ERROR, message.as_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn named(name: &str) -> Protocol {
        negotiate(&[name]).unwrap()
    }

    #[test]
    fn the_clients_order_counts() {
        let check = |offers: &[&str], expect: Option<&str>| {
            assert_eq!(negotiate(offers).map(|found| found.name), expect, "{offers:?}");
        };
        check(&["v5.channel.k8s.io"], Some("v5.channel.k8s.io"));
        check(&["v4.channel.k8s.io", "v5.channel.k8s.io"], Some("v4.channel.k8s.io"));
        check(&["v9.channel.k8s.io", "base64.channel.k8s.io"], Some("base64.channel.k8s.io"));
        check(&["SPDY/3.1+portforward.k8s.io"], None);
        check(&["V5.channel.k8s.io", ""], None);
        check(&[], Some(""));
    }

    #[test]
    fn messages_as_clients_send_them() {
        let check = |protocol: &str, message: Message, expect: Result<Said, ChannelFault>| {
            assert_eq!(named(protocol).read(message), expect);
        };
        let data = |channel, text: &'static str| Ok(Said::Data(channel, Bytes::from_static(text.as_bytes())));
        let binary = |bytes: &[u8]| Message::binary(bytes.to_vec());
        check("v5.channel.k8s.io", binary(b"\x00ls"), data(STDIN, "ls"));
        check("v5.channel.k8s.io", binary(&[CLOSE, STDIN]), Ok(Said::Closed(STDIN)));
        check("v5.channel.k8s.io", binary(&[RESIZE]), data(RESIZE, ""));
        check("v5.channel.k8s.io", binary(&[]), Err(ChannelFault::Empty));
        check("v4.channel.k8s.io", binary(&[CLOSE, STDIN]), data(CLOSE, "\0"));
        check("v4.channel.k8s.io", Message::text("\0ls"), data(STDIN, "ls"));
        check("base64.channel.k8s.io", Message::text("0bHM="), data(STDIN, "ls"));
        check("v4.base64.channel.k8s.io", Message::text("4!"), Err(ChannelFault::Base64));
        check("v4.base64.channel.k8s.io", Message::text(""), Err(ChannelFault::Empty));
        check("v4.base64.channel.k8s.io", binary(b"\0ls"), Err(ChannelFault::Type("text")));
        check("channel.k8s.io", Message::Close(None), Ok(Said::Over));
        check("channel.k8s.io", Message::Ping(Bytes::new()), Ok(Said::Nothing));
    }

    #[test]
    fn the_end_reads_as_the_protocol_has_it() {
        let failed = json!({"status": "Failure", "message": "no", "reason": "NonZeroExitCode"});
        assert_eq!(named("channel.k8s.io").ending(&failed), Some(Message::binary(b"\x03no".to_vec())));
        assert_eq!(named("channel.k8s.io").ending(&json!({"status": "Success"})), None);
        let Some(Message::Binary(told)) = named("v5.channel.k8s.io").ending(&failed) else { panic!() };
        let status: Value = serde_json::from_slice(&told[1..]).unwrap();
        assert_eq!((told[0], status), (ERROR, failed), "as the runtime told it");
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(which in 0_usize..5, channel in 0_u8..10, bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            let protocol = PROTOCOLS[which];
            let read = protocol.read(protocol.write(channel, &bytes));
            prop_assert_eq!(read, Ok(Said::Data(channel, bytes.into())));
        }

        #[test]
        fn any_message_has_an_answer(which in 0_usize..5, bytes in proptest::collection::vec(any::<u8>(), 0..60), text in "\\PC{0,20}") {
            let _ = PROTOCOLS[which].read(Message::binary(bytes));
            let _ = PROTOCOLS[which].read(Message::text(text));
        }
    }
}
