//! Reads and writes the headers of SPDY frames: they are compressed with zlib over the whole connection, starting from
//! a dictionary that the protocol defines.
//!
//! Only headers from clients are really compressed. Our own headers are few, and zlib also allows blocks that are
//! stored uncompressed. **Invariant:** one block inflates to a bounded size, no matter what the client sends.

use miniz_oxide::inflate::TINFLStatus;
use miniz_oxide::inflate::core::inflate_flags::TINFL_FLAG_HAS_MORE_INPUT;
use miniz_oxide::inflate::core::{DecompressorOxide, decompress};

use super::frame::SpdyError;

/// The maximum size of an inflated block. Kubernetes' blocks have about a hundred bytes.
const BLOCK_BYTES_MAX: usize = 16 * 1024;
/// The largest distance of a back-reference in zlib.
const WINDOW_BYTES: usize = 32 * 1024;
/// zlib's header for no compression, and the flag that says a dictionary is used.
const ZLIB_HEADER: [u8; 2] = [0x78, 0x01];
const HAS_DICTIONARY: u8 = 0x20;
/// The maximum size of a stored block.
const STORED_BYTES_MAX: usize = 0xffff;

/// An empty block, which ends every zlib flush. Go's reader waits for it before it returns the data.
const FLUSH: [u8; 5] = [0, 0, 0, 0xff, 0xff];

/// The words of the dictionary, each preceded by its length.
const WORDS: &str = "options head post put delete trace accept accept-charset accept-encoding accept-language \
    accept-ranges age allow authorization cache-control connection content-base content-encoding content-language \
    content-length content-location content-md5 content-range content-type date etag expect expires from host if-match \
    if-modified-since if-none-match if-range if-unmodified-since last-modified location max-forwards pragma \
    proxy-authenticate proxy-authorization range referer retry-after server te trailer transfer-encoding upgrade \
    user-agent vary via warning www-authenticate method get status 200_OK version HTTP/1.1 url public set-cookie \
    keep-alive origin";
/// The end of the dictionary.
const WORDS_END: &str = "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505203 \
    Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized403 Forbidden404 \
    Not Found500 Internal Server Error501 Not Implemented503 Service UnavailableJan Feb Mar Apr May Jun Jul Aug Sept \
    Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, \
    GMTchunked,text/html,image/png,image/jpg,image/gif,application/xml,application/xhtml+xml,text/plain,\
    text/javascript,publicprivatemax-age=gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0.";

fn dictionary() -> Vec<u8> {
    let mut bytes = Vec::new();
    for word in WORDS.split_whitespace() {
        bytes.extend_from_slice(&[0, 0, 0, u8::try_from(word.len()).unwrap_or_default()]);
        bytes.extend(word.bytes().map(|byte| if byte == b'_' { b' ' } else { byte }));
    }
    bytes.extend_from_slice(WORDS_END.as_bytes());
    bytes
}

/// Headers by name.
pub(crate) type Headers = Vec<(String, String)>;

/// Inflates the headers of one connection.
pub(crate) struct HeaderReader {
    zlib: Box<DecompressorOxide>,
    window: Vec<u8>,
    position: usize,
    has_begun: bool,
}

impl HeaderReader {
    pub(crate) fn new() -> Self {
        Self { zlib: Box::default(), window: vec![0; WINDOW_BYTES], position: 0, has_begun: false }
    }

    /// Reads one block.
    pub(crate) fn read(&mut self, mut block: &[u8]) -> Result<Headers, SpdyError> {
        if !self.has_begun {
            block = self.begin(block)?;
        }
        let mut inflated = Vec::new();
        loop {
            let flags = TINFL_FLAG_HAS_MORE_INPUT;
            let (status, read, written) =
                decompress(&mut self.zlib, block, &mut self.window, self.position, flags);
            inflated.extend_from_slice(&self.window[self.position..self.position + written]);
            self.position = (self.position + written) % WINDOW_BYTES;
            block = &block[read..];
            if inflated.len() > BLOCK_BYTES_MAX {
                return Err(SpdyError("a header block is too large"));
            }
            match status {
                TINFLStatus::HasMoreOutput => {}
                TINFLStatus::NeedsMoreInput if block.is_empty() => break,
                _ => return Err(SpdyError("a header block is not compressed as it must be")),
            }
        }
        parse(&inflated).ok_or(SpdyError("a header block is not complete"))
    }

    /// Reads zlib's own header, and prepares the dictionary if it is used.
    fn begin<'a>(&mut self, block: &'a [u8]) -> Result<&'a [u8], SpdyError> {
        let [_, flags, rest @ ..] = block else {
            return Err(SpdyError("the first header block is too short"));
        };
        self.has_begun = true;
        if flags & HAS_DICTIONARY == 0 {
            return Ok(rest);
        }
        let words = dictionary();
        self.window[..words.len()].copy_from_slice(&words);
        self.position = words.len();
        rest.get(4..).ok_or(SpdyError("the first header block is too short"))
    }
}

fn parse(mut bytes: &[u8]) -> Option<Headers> {
    let count = take_number(&mut bytes)?;
    let mut headers = Headers::new();
    for _ in 0..count {
        let name = take_text(&mut bytes)?;
        headers.push((name, take_text(&mut bytes)?));
    }
    Some(headers)
}

fn take_number(bytes: &mut &[u8]) -> Option<usize> {
    let (number, rest) = bytes.split_first_chunk::<4>()?;
    *bytes = rest;
    usize::try_from(u32::from_be_bytes(*number)).ok()
}

fn take_text(bytes: &mut &[u8]) -> Option<String> {
    let length = take_number(bytes)?;
    let (text, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    Some(String::from_utf8_lossy(text).into_owned())
}

/// Writes the headers of one connection.
#[derive(Default)]
pub(crate) struct HeaderWriter {
    has_begun: bool,
}

impl HeaderWriter {
    /// Returns a block without headers, which is all that a Kubernetes server sends.
    pub(crate) fn write_empty(&mut self) -> Vec<u8> {
        self.write(&0u32.to_be_bytes())
    }

    fn write(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut block = Vec::new();
        if !std::mem::replace(&mut self.has_begun, true) {
            block.extend_from_slice(&ZLIB_HEADER);
        }
        for part in bytes.chunks(STORED_BYTES_MAX) {
            let length = u16::try_from(part.len()).unwrap_or(u16::MAX);
            block.push(0);
            block.extend_from_slice(&length.to_le_bytes());
            block.extend_from_slice(&(!length).to_le_bytes());
            block.extend_from_slice(part);
        }
        block.extend_from_slice(&FLUSH);
        block
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_dictionary_is_that_of_the_protocol() {
        let words = dictionary();
        assert_eq!(words.len(), 1423);
        // The checksum of the dictionary, which every client sends.
        let (a, b) = words.iter().fold((1u32, 0u32), |(a, b), byte| {
            let a = (a + u32::from(*byte)) % 65521;
            (a, (b + a) % 65521)
        });
        assert_eq!((b << 16) | a, 0xe3c6_a7c2);
    }

    #[test]
    fn blocks_share_one_compression() {
        // Created by zlib with the dictionary: {streamtype: error, port: 80}, flushed, then {streamtype: data, port:
        // 80}.
        let first = hex("78f9e3c6a7c202e50e703a2b294a4dcc851625aca9a0808614cb45a024cc646100000000ffff");
        let second = hex("c2aa1054e624a2aa03000000ffff");
        let mut reader = HeaderReader::new();
        let row = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(reader.read(&first).unwrap(), [row("streamtype", "error"), row("port", "80")]);
        assert_eq!(reader.read(&second).unwrap(), [row("streamtype", "data"), row("port", "80")]);
    }

    #[test]
    fn our_blocks_are_read_without_a_dictionary() {
        let mut writer = HeaderWriter::default();
        let mut reader = HeaderReader::new();
        assert_eq!(reader.read(&writer.write_empty()).unwrap(), []);
        assert_eq!(reader.read(&writer.write_empty()).unwrap(), []);
    }

    #[test]
    fn a_block_has_a_largest_size() {
        let mut writer = HeaderWriter::default();
        let block = writer.write(&vec![0; 3 * WINDOW_BYTES]);
        assert!(HeaderReader::new().read(&block).is_err());
        assert!(HeaderReader::new().read(&[0x78]).is_err());
        assert!(HeaderReader::new().read(&[0x78, 1, 255, 255, 255]).is_err());
    }

    fn hex(text: &str) -> Vec<u8> {
        text.as_bytes()
            .chunks(2)
            .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
            .collect()
    }
}
