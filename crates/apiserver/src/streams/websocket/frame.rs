//! Encodes and decodes WebSocket frames (RFC 6455) on the server side: messages from bytes, and bytes from messages.
//!
//! This module performs no I/O: bytes are fed in, and messages are taken out. **Invariant:** a decoder never holds more
//! than one message of the maximum size and one read; a protocol violation ends the connection with the code that the
//! RFC requires. Extensions (compression) are never negotiated, so their bits are errors.

use bytes::{Buf as _, BytesMut};

/// The maximum size of a message. Kubernetes clients send the data of one read at a time, about 32 KiB.
pub(crate) const MESSAGE_BYTES_MAX: usize = 1024 * 1024;
/// The maximum payload of a control frame, according to the RFC.
const CONTROL_BYTES_MAX: usize = 125;
/// The length of a client's mask.
const MASK_BYTES: usize = 4;

/// A message from the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Message {
    Text(Vec<u8>),
    Binary(Vec<u8>),
    Ping(Vec<u8>),
    Pong,
    Close,
}

/// The kind of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Opcode {
    Continuation = 0,
    Text = 1,
    Binary = 2,
    Close = 8,
    Ping = 9,
    Pong = 10,
}

/// The reason a connection is closed with an error code from the RFC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum FrameError {
    #[error("the client breaks the WebSocket protocol: {0}")]
    Protocol(&'static str),
    #[error("the message is larger than {MESSAGE_BYTES_MAX} bytes")]
    TooLarge,
}

impl FrameError {
    /// Returns the code to close the connection with.
    pub(crate) fn close_code(self) -> CloseCode {
        match self {
            Self::Protocol(_) => CloseCode::ProtocolError,
            Self::TooLarge => CloseCode::TooBig,
        }
    }
}

/// The reason the server closes a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CloseCode {
    Normal = 1000,
    ProtocolError = 1002,
    TooBig = 1009,
}

/// The head of a frame.
struct FrameHead {
    is_final: bool,
    opcode: Opcode,
    length: usize,
    mask: [u8; MASK_BYTES],
    /// The length of the head itself.
    bytes: usize,
}

/// Decodes a client's bytes into messages.
#[derive(Debug, Default)]
pub(crate) struct MessageDecoder {
    buffer: BytesMut,
    /// A message that still lacks some of its frames, and its kind.
    begun: Option<(Opcode, Vec<u8>)>,
}

impl MessageDecoder {
    /// Returns the buffer to append bytes to.
    pub(crate) fn buffer(&mut self) -> &mut BytesMut {
        &mut self.buffer
    }

    /// Returns the next complete message, if there is one.
    pub(crate) fn next_message(&mut self) -> Result<Option<Message>, FrameError> {
        loop {
            let Some(head) = parse_head(&self.buffer)? else { return Ok(None) };
            let begun = self.begun.as_ref().map_or(0, |(_, bytes)| bytes.len());
            if head.length > MESSAGE_BYTES_MAX - begun.min(MESSAGE_BYTES_MAX) {
                return Err(FrameError::TooLarge);
            }
            if self.buffer.len() < head.bytes + head.length {
                return Ok(None);
            }
            self.buffer.advance(head.bytes);
            let mut payload = self.buffer.split_to(head.length).to_vec();
            for (byte, mask) in payload.iter_mut().zip(head.mask.iter().cycle()) {
                *byte ^= mask;
            }
            if let Some(message) = self.add_frame(&head, payload)? {
                return Ok(Some(message));
            }
        }
    }

    /// Adds a frame. Returns the message that it completes.
    fn add_frame(&mut self, head: &FrameHead, payload: Vec<u8>) -> Result<Option<Message>, FrameError> {
        let (kind, bytes) = match (head.opcode, self.begun.take()) {
            (Opcode::Close | Opcode::Ping | Opcode::Pong, begun) => {
                // Control frames may come between the frames of a message.
                self.begun = begun;
                return Ok(Some(match head.opcode {
                    Opcode::Ping => Message::Ping(payload),
                    Opcode::Pong => Message::Pong,
                    _ => Message::Close,
                }));
            }
            (Opcode::Continuation, Some((kind, mut bytes))) => {
                bytes.extend_from_slice(&payload);
                (kind, bytes)
            }
            (Opcode::Continuation, None) => {
                return Err(FrameError::Protocol("a continuation without a message"));
            }
            (_, Some(_)) => return Err(FrameError::Protocol("a message within a message")),
            (kind, None) => (kind, payload),
        };
        if !head.is_final {
            self.begun = Some((kind, bytes));
            return Ok(None);
        }
        Ok(Some(if kind == Opcode::Text { Message::Text(bytes) } else { Message::Binary(bytes) }))
    }
}

/// Parses the head of a frame; `None` if it is incomplete.
fn parse_head(bytes: &[u8]) -> Result<Option<FrameHead>, FrameError> {
    let [first, second, rest @ ..] = bytes else { return Ok(None) };
    if first & 0x70 != 0 {
        return Err(FrameError::Protocol("reserved bits are set"));
    }
    let opcode = match first & 0x0f {
        0 => Opcode::Continuation,
        1 => Opcode::Text,
        2 => Opcode::Binary,
        8 => Opcode::Close,
        9 => Opcode::Ping,
        10 => Opcode::Pong,
        _ => return Err(FrameError::Protocol("an unknown kind of frame")),
    };
    if second & 0x80 == 0 {
        return Err(FrameError::Protocol("a frame without a mask"));
    }
    let is_final = first & 0x80 != 0;
    let length_bytes = match second & 0x7f {
        126 => 2,
        127 => 8,
        _ => 0,
    };
    if first & 0x08 != 0 && (!is_final || length_bytes > 0) {
        return Err(FrameError::Protocol("a control frame that is fragmented or too long"));
    }
    if rest.len() < length_bytes + MASK_BYTES {
        return Ok(None);
    }
    let (length, mask) = rest.split_at(length_bytes);
    let length = match length_bytes {
        0 => u64::from(second & 0x7f),
        _ => length.iter().fold(0, |sum, byte| (sum << 8) | u64::from(*byte)),
    };
    let mask = [mask[0], mask[1], mask[2], mask[3]];
    let length = usize::try_from(length).map_err(|_| FrameError::TooLarge)?;
    Ok(Some(FrameHead { is_final, opcode, length, mask, bytes: 2 + length_bytes + MASK_BYTES }))
}

/// Returns a frame with one whole message. Servers do not mask.
pub(crate) fn encode_frame(opcode: Opcode, parts: &[&[u8]]) -> Vec<u8> {
    let length = parts.iter().map(|part| part.len()).sum::<usize>();
    let mut frame = Vec::with_capacity(length + 10);
    frame.push(0x80 | opcode as u8);
    match (u8::try_from(length), u16::try_from(length)) {
        (Ok(short), _) if usize::from(short) <= CONTROL_BYTES_MAX => frame.push(short),
        (_, Ok(medium)) => {
            frame.push(126);
            frame.extend_from_slice(&medium.to_be_bytes());
        }
        _ => {
            frame.push(127);
            frame.extend_from_slice(&(length as u64).to_be_bytes());
        }
    }
    for part in parts {
        frame.extend_from_slice(part);
    }
    frame
}

/// Returns the frame that closes a connection.
pub(crate) fn encode_close(code: CloseCode) -> Vec<u8> {
    encode_frame(Opcode::Close, &[&(code as u16).to_be_bytes()])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A frame as a client sends it.
    fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
        let mask = [1, 2, 3, 250];
        let mut bytes = vec![first];
        match payload.len() {
            length @ 0..=125 => bytes.push(0x80 | u8::try_from(length).unwrap()),
            length @ 126..=0xffff => {
                bytes.push(0x80 | 0x7e);
                bytes.extend(u16::try_from(length).unwrap().to_be_bytes());
            }
            length => {
                bytes.push(0x80 | 0x7f);
                bytes.extend((length as u64).to_be_bytes());
            }
        }
        bytes.extend(mask);
        bytes.extend(payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask));
        bytes
    }

    /// Feeds the bytes in parts of every given size, and expects the same result each time.
    #[track_caller]
    fn check(bytes: &[u8], expected: Result<&[Message], FrameError>) {
        for size in [1, 3, bytes.len().max(1)] {
            let mut decoder = MessageDecoder::default();
            let mut found = Vec::new();
            let mut error = None;
            'feeding: for part in bytes.chunks(size) {
                decoder.buffer().extend_from_slice(part);
                loop {
                    match decoder.next_message() {
                        Ok(Some(message)) => found.push(message),
                        Ok(None) => break,
                        Err(failure) => {
                            error = Some(failure);
                            break 'feeding;
                        }
                    }
                }
            }
            match expected {
                Ok(messages) => assert_eq!((&*found, error), (messages, None), "in parts of {size}"),
                Err(expected) => assert_eq!(error, Some(expected), "in parts of {size}"),
            }
        }
    }

    #[test]
    fn messages_are_unmasked() {
        check(&frame(0x82, b"hello"), Ok(&[Message::Binary(b"hello".to_vec())]));
        check(&frame(0x81, b"words"), Ok(&[Message::Text(b"words".to_vec())]));
        check(&frame(0x82, b""), Ok(&[Message::Binary(Vec::new())]));
        for length in [125, 126, 65535, 65536] {
            let long = vec![7; length];
            check(&frame(0x82, &long), Ok(&[Message::Binary(long)]));
        }
    }

    #[test]
    fn fragments_are_joined_and_control_frames_may_come_between() {
        let bytes = [frame(0x02, b"one "), frame(0x89, b"?"), frame(0x00, b"two "), frame(0x80, b"three")];
        let expected = [Message::Ping(b"?".to_vec()), Message::Binary(b"one two three".to_vec())];
        check(&bytes.concat(), Ok(&expected));
        let bytes = [frame(0x8a, b""), frame(0x88, &[3, 232])].concat();
        check(&bytes, Ok(&[Message::Pong, Message::Close]));
    }

    #[test]
    fn what_breaks_the_protocol_is_refused() {
        let protocol = |why| Err(FrameError::Protocol(why));
        check(&[0x82, 0x01, b'x'], protocol("a frame without a mask"));
        check(&frame(0xc2, b"x"), protocol("reserved bits are set"));
        check(&frame(0x83, b"x"), protocol("an unknown kind of frame"));
        check(&frame(0x09, b"x"), protocol("a control frame that is fragmented or too long"));
        check(&frame(0x89, &[0; 126]), protocol("a control frame that is fragmented or too long"));
        check(&frame(0x80, b"x"), protocol("a continuation without a message"));
        check(&[frame(0x02, b"x"), frame(0x82, b"y")].concat(), protocol("a message within a message"));
    }

    #[test]
    fn a_message_has_a_largest_size_however_it_is_sent() {
        let largest = vec![0; MESSAGE_BYTES_MAX];
        let mut decoder = MessageDecoder::default();
        decoder.buffer().extend_from_slice(&frame(0x82, &largest));
        assert_eq!(decoder.next_message(), Ok(Some(Message::Binary(largest.clone()))));
        // The length alone is enough: the decoder does not wait for the payload.
        let mut head = vec![0x82, 0x80 | 127];
        head.extend((MESSAGE_BYTES_MAX as u64 + 1).to_be_bytes());
        head.extend([0; 4]);
        check(&head, Err(FrameError::TooLarge));
        let mut decoder = MessageDecoder::default();
        decoder.buffer().extend_from_slice(&frame(0x02, &largest));
        assert_eq!(decoder.next_message(), Ok(None));
        decoder.buffer().extend_from_slice(&frame(0x80, b"x"));
        assert_eq!(decoder.next_message(), Err(FrameError::TooLarge));
    }

    #[test]
    fn frames_of_the_server_have_no_mask() {
        assert_eq!(encode_frame(Opcode::Binary, &[&[1], b"ab"]), [0x82, 3, 1, b'a', b'b']);
        assert_eq!(encode_frame(Opcode::Text, &[&[0; 126]])[..4], [0x81, 126, 0, 126]);
        assert_eq!(
            encode_frame(Opcode::Binary, &[&vec![0; 65536]])[..10],
            [0x82, 127, 0, 0, 0, 0, 0, 1, 0, 0]
        );
        assert_eq!(encode_close(CloseCode::Normal), [0x88, 2, 0x03, 0xe8]);
    }
}
