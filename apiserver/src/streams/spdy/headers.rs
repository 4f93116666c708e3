//! Name/value blocks of SPDY frames: compressed with one dictionary and one history for each direction of a connection.
//!
//! Decides how much a block may hold once it is unpacked; never what a header means. What is written is not compressed but merely
//! wrapped: a handful of short headers opens a stream, and nothing is gained by an attacker who can choose some of them.

use super::dictionary::{DICTIONARY_ID, dictionary};
use flate2::{Decompress, FlushDecompress, Status};

/// A block of a stream of Kubernetes has a few dozen bytes.
pub const MAX_BLOCK: usize = 32 * 1024;
pub const MAX_HEADERS: usize = 64;
/// The longest stored block of deflate.
const STORED: usize = 65_535;

/// Names in lower case; several values of one name are separated by NUL, as on the wire.
pub type Headers = Vec<(String, String)>;

/// The value of a header.
#[cfg(test)]
pub fn value<'a>(headers: &'a Headers, name: &str) -> Option<&'a str> {
    headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
}

/// Why a block cannot be read. The history is lost with it, so the connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeaderFault {
    #[error("headers are not compressed as SPDY/3 prescribes")]
    Compression,
    #[error("headers take more than {MAX_BLOCK} bytes")]
    TooLarge,
    #[error("more than {MAX_HEADERS} headers")]
    TooMany,
    #[error("headers are cut short or longer than they say")]
    Length,
    #[error("a header's name is empty, not in lower case, or there twice")]
    Name,
    #[error("a header is not UTF-8")]
    Text,
}

/// Unpacks the blocks of one direction, in their order.
pub struct HeaderReader {
    inflate: Decompress,
    unpacked: Vec<u8>,
}

impl Default for HeaderReader {
    fn default() -> Self {
        Self { inflate: Decompress::new(true), unpacked: Vec::new() }
    }
}

impl HeaderReader {
    pub fn read(&mut self, mut compressed: &[u8]) -> Result<Headers, HeaderFault> {
        self.unpacked.clear();
        let mut chunk = [0; 4 * 1024];
        loop {
            let (in_before, out_before) = (self.inflate.total_in(), self.inflate.total_out());
            let outcome = self.inflate.decompress(compressed, &mut chunk, FlushDecompress::Sync);
            let taken = usize::try_from(self.inflate.total_in() - in_before).map_err(|_| HeaderFault::Compression)?;
            let made = usize::try_from(self.inflate.total_out() - out_before).map_err(|_| HeaderFault::Compression)?;
            compressed = compressed.get(taken..).ok_or(HeaderFault::Compression)?;
            self.unpacked.extend_from_slice(&chunk[..made]);
            if self.unpacked.len() > MAX_BLOCK {
                return Err(HeaderFault::TooLarge);
            }
            match outcome {
                Err(error) if error.needs_dictionary() == Some(DICTIONARY_ID) => {
                    self.inflate.set_dictionary(&dictionary()).map_err(|_| HeaderFault::Compression)?;
                }
                Err(_) | Ok(Status::StreamEnd) => return Err(HeaderFault::Compression),
                // All is taken and the last chunk was not full: nothing is left inside.
                Ok(_) if compressed.is_empty() && made < chunk.len() => break,
                Ok(_) if taken == 0 && made == 0 => return Err(HeaderFault::Compression),
                Ok(_) => {}
            }
        }
        parse(&self.unpacked)
    }
}

fn parse(block: &[u8]) -> Result<Headers, HeaderFault> {
    let mut rest = block;
    let count = number(&mut rest)?;
    if count > MAX_HEADERS {
        return Err(HeaderFault::TooMany);
    }
    let mut headers = Headers::with_capacity(count);
    for _ in 0..count {
        let (name, value) = (text(&mut rest)?, text(&mut rest)?);
        let known = headers.iter().any(|(known, _)| *known == name);
        if name.is_empty() || known || name.bytes().any(|byte| byte.is_ascii_uppercase()) {
            return Err(HeaderFault::Name);
        }
        headers.push((name, value));
    }
    if rest.is_empty() { Ok(headers) } else { Err(HeaderFault::Length) }
}

fn number(rest: &mut &[u8]) -> Result<usize, HeaderFault> {
    let (bytes, after) = rest.split_first_chunk::<4>().ok_or(HeaderFault::Length)?;
    *rest = after;
    usize::try_from(u32::from_be_bytes(*bytes)).map_err(|_| HeaderFault::Length)
}

fn text(rest: &mut &[u8]) -> Result<String, HeaderFault> {
    let length = number(rest)?;
    let (bytes, after) = rest.split_at_checked(length).ok_or(HeaderFault::Length)?;
    *rest = after;
    String::from_utf8(bytes.to_vec()).map_err(|_| HeaderFault::Text)
}

/// Packs the blocks of one direction, in their order.
#[derive(Default)]
pub struct HeaderWriter {
    begun: bool,
}

impl HeaderWriter {
    pub fn write(&mut self, headers: &Headers) -> Vec<u8> {
        let mut block = Vec::new();
        let length = |length: usize| u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes();
        block.extend_from_slice(&length(headers.len()));
        for (name, value) in headers {
            for text in [name, value] {
                block.extend_from_slice(&length(text.len()));
                block.extend_from_slice(text.as_bytes());
            }
        }
        let mut packed = Vec::with_capacity(block.len() + 32);
        if !std::mem::replace(&mut self.begun, true) {
            // zlib's head: deflate with a window of 32 KiB, and the dictionary that both sides know.
            packed.extend_from_slice(&[0x78, 0xbb]);
            packed.extend_from_slice(&DICTIONARY_ID.to_be_bytes());
        }
        for part in block.chunks(STORED) {
            stored(part, &mut packed);
        }
        // An empty one makes a reader give out what it has.
        stored(&[], &mut packed);
        packed
    }
}

fn stored(part: &[u8], packed: &mut Vec<u8>) {
    let length = u16::try_from(part.len()).expect("parts are of at most 65535 bytes");
    packed.push(0);
    packed.extend_from_slice(&length.to_le_bytes());
    packed.extend_from_slice(&(!length).to_le_bytes());
    packed.extend_from_slice(part);
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::{Compress, Compression, FlushCompress};
    use proptest::prelude::*;

    fn headers(pairs: &[(&str, &str)]) -> Headers {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    /// As other implementations compress.
    struct Deflater(Compress);

    impl Deflater {
        fn new() -> Self {
            let mut compress = Compress::new(Compression::best(), true);
            compress.set_dictionary(&dictionary()).unwrap();
            Self(compress)
        }

        fn pack(&mut self, block: &[u8]) -> Vec<u8> {
            let mut packed = Vec::with_capacity(block.len() + 1024);
            self.0.compress_vec(block, &mut packed, FlushCompress::Sync).unwrap();
            packed
        }
    }

    fn plain(headers: &Headers) -> Vec<u8> {
        let mut block = u32::try_from(headers.len()).unwrap().to_be_bytes().to_vec();
        for text in headers.iter().flat_map(|(name, value)| [name, value]) {
            block.extend(u32::try_from(text.len()).unwrap().to_be_bytes());
            block.extend(text.as_bytes());
        }
        block
    }

    #[test]
    fn what_others_compress_is_read_with_one_history() {
        let (mut deflater, mut reader) = (Deflater::new(), HeaderReader::default());
        for (kind, port) in [("error", "80"), ("data", "80"), ("data", "8080")] {
            let sent = headers(&[("streamtype", kind), ("port", port), ("requestid", "0")]);
            assert_eq!(reader.read(&deflater.pack(&plain(&sent))).unwrap(), sent);
        }
        assert_eq!(reader.read(&deflater.pack(&plain(&headers(&[])))).unwrap(), headers(&[]));
    }

    #[test]
    fn what_is_written_is_read() {
        let (mut writer, mut reader) = (HeaderWriter::default(), HeaderReader::default());
        for value in ["", "a\0b", "long".repeat(2_000).as_str()] {
            let sent = headers(&[("streamtype", "error"), ("x", value)]);
            assert_eq!(reader.read(&writer.write(&sent)).unwrap(), sent);
        }
    }

    #[test]
    fn hostile_blocks_are_refused() {
        let check = |block: &[u8], expect: HeaderFault| {
            let mut reader = HeaderReader::default();
            assert_eq!(reader.read(&Deflater::new().pack(block)), Err(expect));
        };
        check(&vec![0; 8 << 20], HeaderFault::TooLarge);
        check(&u32::MAX.to_be_bytes(), HeaderFault::TooMany);
        check(&[0, 0, 0], HeaderFault::Length);
        check(&[], HeaderFault::Length);
        check(&[&plain(&headers(&[("a", "b")]))[..], b"x"].concat(), HeaderFault::Length);
        check(&[0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff, b'a'], HeaderFault::Length);
        check(&plain(&headers(&[("A", "b")])), HeaderFault::Name);
        check(&plain(&headers(&[("", "b")])), HeaderFault::Name);
        check(&plain(&headers(&[("a", "b"), ("a", "c")])), HeaderFault::Name);
        check(&[0, 0, 0, 1, 0, 0, 0, 1, 0xff, 0, 0, 0, 0], HeaderFault::Text);
        let raw = |bytes: &[u8]| HeaderReader::default().read(bytes);
        assert_eq!(raw(b"GET / HTTP/1.1"), Err(HeaderFault::Compression));
        // Another dictionary, and none at all.
        assert_eq!(raw(&[0x78, 0xbb, 1, 2, 3, 4, 0, 0, 0, 0xff, 0xff]), Err(HeaderFault::Compression));
        let mut without = Compress::new(Compression::best(), true);
        let mut ended = Vec::with_capacity(256);
        without.compress_vec(&plain(&headers(&[])), &mut ended, FlushCompress::Finish).unwrap();
        assert_eq!(raw(&ended), Err(HeaderFault::Compression), "a stream that ends has no next block");
    }

    proptest! {
        #[test]
        fn any_bytes_have_a_bounded_answer(blocks in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..256), 1..4)) {
            let mut reader = HeaderReader::default();
            for block in blocks {
                if let Ok(headers) = reader.read(&block) {
                    prop_assert!(headers.len() <= MAX_HEADERS);
                }
                prop_assert!(reader.unpacked.capacity() <= 2 * (MAX_BLOCK + 4 * 1024));
            }
        }

        #[test]
        fn any_unpacked_bytes_have_an_answer(block in proptest::collection::vec(any::<u8>(), 0..256)) {
            let _ = HeaderReader::default().read(&Deflater::new().pack(&block));
        }

        #[test]
        fn all_headers_come_back(pairs in proptest::collection::btree_map("[a-z:-]{1,12}", "\\PC{0,40}", 0..20)) {
            let sent: Headers = pairs.into_iter().collect();
            let ours = HeaderReader::default().read(&HeaderWriter::default().write(&sent));
            prop_assert_eq!(ours.as_ref(), Ok(&sent));
            let theirs = HeaderReader::default().read(&Deflater::new().pack(&plain(&sent)));
            prop_assert_eq!(theirs.as_ref(), Ok(&sent));
        }
    }
}
