//! Cuts a watch's byte stream into lines. Never reads anything itself.

use bytes::{Bytes, BytesMut};

/// No object is larger than the store's limit of 1.5 MiB; an event wraps one in little more.
pub(super) const MAX_LINE: usize = 16 << 20;

#[derive(Default)]
pub(super) struct Lines {
    buffer: BytesMut,
    scanned: usize,
}

impl Lines {
    pub fn push(&mut self, chunk: &[u8]) {
        self.buffer.extend_from_slice(chunk);
    }

    /// The next whole line without its end; empty lines are left out.
    pub fn next(&mut self) -> Option<Bytes> {
        loop {
            let Some(at) = self.buffer[self.scanned..].iter().position(|b| *b == b'\n') else {
                self.scanned = self.buffer.len();
                return None;
            };
            let line = self.buffer.split_to(self.scanned + at + 1).freeze();
            self.scanned = 0;
            let line = line.slice(..line.len() - 1);
            if !line.trim_ascii().is_empty() {
                return Some(line);
            }
        }
    }

    pub fn is_too_long(&self) -> bool {
        self.buffer.len() > MAX_LINE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_survive_any_cut() {
        let text = b"one\n\ntwo\r\nthree\nrest";
        for size in 1..=text.len() {
            let (mut lines, mut seen) = (Lines::default(), Vec::new());
            for chunk in text.chunks(size) {
                lines.push(chunk);
                while let Some(line) = lines.next() {
                    seen.push(String::from_utf8(line.trim_ascii().to_vec()).unwrap());
                }
            }
            assert_eq!(seen, ["one", "two", "three"], "chunks of {size}");
            assert_eq!(&lines.buffer[..], b"rest");
        }
    }
}
