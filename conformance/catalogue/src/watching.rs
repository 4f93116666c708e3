//! An open watch: its events one by one, as they come. It frames bytes; it does not judge events.

use http_body_util::BodyExt;
use hyper::body::Incoming;
use serde_json::Value;
use std::time::Duration;

pub struct Watch {
    body: Incoming,
    lines: Lines,
}

/// What came of waiting for an event.
#[derive(Debug, PartialEq)]
pub enum Next {
    Event(Value),
    /// The server ended the stream.
    End,
    /// Nothing came in time.
    Silence,
    Broken(String),
}

impl Watch {
    pub fn new(body: Incoming) -> Self {
        Self { body, lines: Lines::default() }
    }

    pub async fn next(&mut self, patience: Duration) -> Next {
        tokio::time::timeout(patience, self.read()).await.unwrap_or(Next::Silence)
    }

    async fn read(&mut self) -> Next {
        loop {
            if let Some(line) = self.lines.next() {
                return match serde_json::from_slice(&line) {
                    Ok(event) => Next::Event(event),
                    Err(error) => Next::Broken(format!("{error}: {}", String::from_utf8_lossy(&line))),
                };
            }
            match self.body.frame().await {
                None => return Next::End,
                Some(Err(error)) => return Next::Broken(crate::connect::chain(&error)),
                Some(Ok(frame)) => self.lines.push(frame.data_ref().map_or(&[][..], |data| data)),
            }
        }
    }
}

#[derive(Default)]
struct Lines {
    buffer: Vec<u8>,
}

impl Lines {
    fn push(&mut self, data: &[u8]) {
        self.buffer.extend_from_slice(data);
    }

    fn next(&mut self) -> Option<Vec<u8>> {
        let end = self.buffer.iter().position(|byte| *byte == b'\n')?;
        let mut line: Vec<u8> = self.buffer.drain(..=end).collect();
        line.pop();
        Some(line)
    }
}

/// An event as the catalogue may write it shortly: `ADDED name`.
pub fn pattern(written: &Value) -> Value {
    match written.as_str().and_then(|text| text.split_once(' ')) {
        Some((kind, name)) => serde_json::json!({"type": kind, "object": {"metadata": {"name": name}}}),
        None => written.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::{Lines, pattern};
    use serde_json::json;

    #[test]
    fn events_are_lines_however_they_arrive() {
        let mut lines = Lines::default();
        lines.push(b"{\"a\"");
        assert_eq!(lines.next(), None);
        lines.push(b":1}\n{\"b\":2}\n{");
        assert_eq!(lines.next().as_deref(), Some(&b"{\"a\":1}"[..]));
        assert_eq!(lines.next().as_deref(), Some(&b"{\"b\":2}"[..]));
        assert_eq!(lines.next(), None);
    }

    #[test]
    fn an_event_may_be_said_shortly() {
        assert_eq!(pattern(&json!("ADDED a")), json!({"type": "ADDED", "object": {"metadata": {"name": "a"}}}));
        assert_eq!(pattern(&json!({"type": "ERROR"})), json!({"type": "ERROR"}));
    }
}
