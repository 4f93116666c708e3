//! Decides how protobuf's tags, varints and lengths are read and written. It never knows what a field means.

use super::ProtobufError;

/// One field's value as it lies on the wire.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Wire<'b> {
    Varint(u64),
    Fixed64(u64),
    Fixed32(u32),
    Bytes(&'b [u8]),
}

impl<'b> Wire<'b> {
    pub(crate) fn bytes(self, path: &str) -> Result<&'b [u8], ProtobufError> {
        match self {
            Wire::Bytes(bytes) => Ok(bytes),
            _ => Err(malformed(path, "a length-delimited value was expected")),
        }
    }

    pub(crate) fn varint(self, path: &str) -> Result<u64, ProtobufError> {
        match self {
            Wire::Varint(value) => Ok(value),
            _ => Err(malformed(path, "a varint was expected")),
        }
    }
}

pub(crate) fn malformed(path: &str, what: impl Into<String>) -> ProtobufError {
    ProtobufError::Malformed { path: path.to_string(), what: what.into() }
}

pub(crate) struct Reader<'b> {
    rest: &'b [u8],
}

impl<'b> Reader<'b> {
    pub(crate) fn new(bytes: &'b [u8]) -> Reader<'b> {
        Reader { rest: bytes }
    }

    /// The next field's number and value, or nothing at the end.
    pub(crate) fn next(&mut self) -> Result<Option<(u64, Wire<'b>)>, ProtobufError> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let tag = self.varint()?;
        let value = match tag & 7 {
            0 => Wire::Varint(self.varint()?),
            1 => Wire::Fixed64(u64::from_le_bytes(self.array()?)),
            2 => {
                let length = usize::try_from(self.varint()?).map_err(|_| ProtobufError::Truncated)?;
                Wire::Bytes(self.take(length)?)
            }
            5 => Wire::Fixed32(u32::from_le_bytes(self.array()?)),
            other => return Err(malformed("", format!("unknown wire type {other}"))),
        };
        Ok(Some((tag >> 3, value)))
    }

    pub(crate) fn varint(&mut self) -> Result<u64, ProtobufError> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let (byte, rest) = self.rest.split_first().ok_or(ProtobufError::Truncated)?;
            self.rest = rest;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(malformed("", "a varint is longer than ten bytes"))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    fn take(&mut self, length: usize) -> Result<&'b [u8], ProtobufError> {
        let (taken, rest) = self.rest.split_at_checked(length).ok_or(ProtobufError::Truncated)?;
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], ProtobufError> {
        let (taken, rest) = self.rest.split_first_chunk::<N>().ok_or(ProtobufError::Truncated)?;
        self.rest = rest;
        Ok(*taken)
    }
}

#[derive(Debug, Default)]
pub(crate) struct Writer {
    out: Vec<u8>,
}

impl Writer {
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.out
    }

    pub(crate) fn varint(&mut self, number: u16, value: u64) {
        self.raw_varint(u64::from(number) << 3);
        self.raw_varint(value);
    }

    pub(crate) fn fixed64(&mut self, number: u16, value: u64) {
        self.raw_varint(u64::from(number) << 3 | 1);
        self.out.extend_from_slice(&value.to_le_bytes());
    }

    pub(crate) fn bytes(&mut self, number: u16, value: &[u8]) {
        self.open(number, value.len());
        self.out.extend_from_slice(value);
    }

    /// What stands before so many bytes, which somebody else writes.
    pub(crate) fn open(&mut self, number: u16, length: usize) {
        self.raw_varint(u64::from(number) << 3 | 2);
        self.raw_varint(length as u64);
    }

    fn raw_varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.out.push((value as u8 & 0x7f) | 0x80);
            value >>= 7;
        }
        self.out.push(value as u8);
    }
}
