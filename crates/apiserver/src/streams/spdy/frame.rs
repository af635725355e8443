//! Encodes and decodes SPDY/3.1 frames, as far as Kubernetes clients use them: streams, data, pings.
//!
//! This module performs no I/O. There is no frame-based flow control, because those clients do not use it.

use bytes::{Buf as _, BytesMut};

use super::header_block::{HeaderReader, HeaderWriter, Headers};

/// The maximum size of an accepted frame. Clients send the data of one read at a time, about 32 KiB.
const FRAME_BYTES_MAX: usize = 1024 * 1024;
const HEAD_BYTES: usize = 8;
const VERSION: u16 = 0x8003;
const SYN_STREAM: u16 = 1;
const SYN_REPLY: u16 = 2;
const RST_STREAM: u16 = 3;
const PING: u16 = 6;
const GO_AWAY: u16 = 7;
const HEADERS: u16 = 8;
const FINAL: u8 = 1;

/// How a client violated the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the client breaks the SPDY protocol: {0}")]
pub(crate) struct SpdyError(pub(crate) &'static str);

/// A frame from a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SpdyFrame {
    /// A new stream.
    Open { stream: u32, headers: Headers, is_final: bool },
    /// Data, possibly the last in this direction.
    Data { stream: u32, bytes: Vec<u8>, is_final: bool },
    /// The stream is aborted.
    Reset { stream: u32 },
    /// A ping, to be answered with the same frame.
    Ping { number: u32 },
    /// No more streams follow.
    GoAway,
}

/// Decodes a client's bytes into frames.
pub(crate) struct SpdyDecoder {
    buffer: BytesMut,
    headers: HeaderReader,
}

impl SpdyDecoder {
    pub(crate) fn new() -> Self {
        Self { buffer: BytesMut::new(), headers: HeaderReader::new() }
    }

    /// Adds bytes.
    pub(crate) fn feed(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// Returns the next complete frame that is relevant here.
    pub(crate) fn next_frame(&mut self) -> Result<Option<SpdyFrame>, SpdyError> {
        loop {
            let Some(head) = self.buffer.first_chunk::<HEAD_BYTES>().copied() else { return Ok(None) };
            let length =
                usize::try_from(u32::from_be_bytes([0, head[5], head[6], head[7]])).unwrap_or(usize::MAX);
            if length > FRAME_BYTES_MAX {
                return Err(SpdyError("a frame is too large"));
            }
            if self.buffer.len() < HEAD_BYTES + length {
                return Ok(None);
            }
            self.buffer.advance(HEAD_BYTES);
            let payload = self.buffer.split_to(length);
            if let Some(frame) = self.parse(head, &payload)? {
                return Ok(Some(frame));
            }
        }
    }

    fn parse(&mut self, head: [u8; HEAD_BYTES], payload: &[u8]) -> Result<Option<SpdyFrame>, SpdyError> {
        let is_final = head[4] & FINAL != 0;
        let number = |at: usize| {
            let bytes = payload.get(at..at + 4).and_then(<[u8]>::first_chunk::<4>);
            bytes
                .map(|bytes| u32::from_be_bytes(*bytes) & 0x7fff_ffff)
                .ok_or(SpdyError("a frame is too short"))
        };
        if head[0] & 0x80 == 0 {
            let stream = u32::from_be_bytes([head[0], head[1], head[2], head[3]]);
            return Ok(Some(SpdyFrame::Data { stream, bytes: payload.to_vec(), is_final }));
        }
        if u16::from_be_bytes([head[0], head[1]]) != VERSION {
            return Err(SpdyError("it has another version"));
        }
        Ok(match u16::from_be_bytes([head[2], head[3]]) {
            SYN_STREAM => {
                let stream = number(0)?;
                let block = payload.get(10..).ok_or(SpdyError("a frame is too short"))?;
                Some(SpdyFrame::Open { stream, headers: self.headers.read(block)?, is_final })
            }
            // These are not used, but the compression state depends on them.
            SYN_REPLY | HEADERS => {
                self.headers.read(payload.get(4..).ok_or(SpdyError("a frame is too short"))?)?;
                None
            }
            RST_STREAM => Some(SpdyFrame::Reset { stream: number(0)? }),
            PING => Some(SpdyFrame::Ping { number: number(0)? }),
            GO_AWAY => Some(SpdyFrame::GoAway),
            _ => None,
        })
    }
}

/// Returns the frame that accepts a stream.
pub(crate) fn encode_reply(headers: &mut HeaderWriter, stream: u32) -> Vec<u8> {
    let block = headers.write_empty();
    control(SYN_REPLY, &[&stream.to_be_bytes(), &block])
}

/// Returns the response to a ping.
pub(crate) fn encode_ping(number: u32) -> Vec<u8> {
    control(PING, &[&number.to_be_bytes()])
}

/// Returns a frame with data.
pub(crate) fn encode_data(stream: u32, bytes: &[u8], is_final: bool) -> Vec<u8> {
    let mut frame = stream.to_be_bytes().to_vec();
    push_length(&mut frame, if is_final { FINAL } else { 0 }, bytes.len());
    frame.extend_from_slice(bytes);
    frame
}

fn control(kind: u16, parts: &[&[u8]]) -> Vec<u8> {
    let mut frame = VERSION.to_be_bytes().to_vec();
    frame.extend_from_slice(&kind.to_be_bytes());
    push_length(&mut frame, 0, parts.iter().map(|part| part.len()).sum());
    for part in parts {
        frame.extend_from_slice(part);
    }
    frame
}

fn push_length(frame: &mut Vec<u8>, flags: u8, length: usize) {
    let [_, high, middle, low] = u32::try_from(length).unwrap_or_default().to_be_bytes();
    frame.extend_from_slice(&[flags, high, middle, low]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_read_in_any_parts() {
        let mut writer = HeaderWriter::default();
        let mut open = vec![0x80, 3, 0, 1, 1, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0];
        open.extend(writer.write_empty());
        open[7] = u8::try_from(open.len() - HEAD_BYTES).unwrap();
        let bytes =
            [open, encode_ping(7), encode_data(5, b"abc", true), encode_reply(&mut writer, 1)].concat();
        for size in [1, 5, bytes.len()] {
            let mut decoder = SpdyDecoder::new();
            let mut found = Vec::new();
            for part in bytes.chunks(size) {
                decoder.feed(part);
                while let Some(frame) = decoder.next_frame().unwrap() {
                    found.push(frame);
                }
            }
            let expected = [
                SpdyFrame::Open { stream: 5, headers: Vec::new(), is_final: true },
                SpdyFrame::Ping { number: 7 },
                SpdyFrame::Data { stream: 5, bytes: b"abc".to_vec(), is_final: true },
            ];
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn what_breaks_the_protocol_is_refused() {
        for bytes in [
            &[0x80, 2, 0, 6, 0, 0, 0, 0][..],
            &[0x80, 3, 0, 6, 0, 0, 0, 1, 0],
            &[0, 0, 0, 1, 0, 255, 0, 0],
            &[0x80, 3, 0, 1, 0, 0, 0, 4, 0, 0, 0, 1],
        ] {
            let mut decoder = SpdyDecoder::new();
            decoder.feed(bytes);
            assert!(decoder.next_frame().is_err(), "{bytes:?}");
        }
    }
}
