//! Sends watches and logs over a WebSocket: the same data as over HTTP, as messages. Messages from the client are
//! ignored.
//!
//! kube-apiserver sends each event of a watch as a text message, and a log in pieces, binary or as base64.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures::StreamExt as _;
use futures::stream::BoxStream;

use super::upgrade::UpgradedConnection;
use super::websocket::frame::{CloseCode, Opcode};
use super::websocket::{WebSocketReader, WebSocketWriter, split};

/// The subprotocols of logs. The unnamed protocol is binary.
pub(crate) const LOG_PROTOCOLS: [&str; 3] = ["", "binary.k8s.io", BASE64_PROTOCOL];
const BASE64_PROTOCOL: &str = "base64.binary.k8s.io";

/// How data becomes messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MessageForm {
    /// A text message for each line.
    TextLines,
    /// A binary message for each piece.
    Binary,
    /// A text message for each piece, as base64.
    Base64,
}

impl MessageForm {
    /// Returns the form of a log with this subprotocol.
    pub(crate) fn of_log(protocol: &str) -> Self {
        if protocol == BASE64_PROTOCOL { Self::Base64 } else { Self::Binary }
    }

    async fn send(self, writer: &mut WebSocketWriter, piece: &[u8]) -> std::io::Result<()> {
        match self {
            Self::TextLines => {
                for line in piece.split_inclusive(|byte| *byte == b'\n') {
                    writer.send(Opcode::Text, &[line]).await?;
                }
                Ok(())
            }
            Self::Binary => writer.send(Opcode::Binary, &[piece]).await,
            Self::Base64 => writer.send(Opcode::Text, &[STANDARD.encode(piece).as_bytes()]).await,
        }
    }
}

/// Sends the pieces until they end or the client is gone.
pub(crate) async fn run(
    connection: UpgradedConnection,
    mut pieces: BoxStream<'static, Bytes>,
    form: MessageForm,
) {
    let (mut reader, mut writer) = split(connection);
    tokio::select! {
        () = ignore_input(&mut reader) => {}
        () = send_all(&mut writer, &mut pieces, form) => {}
    }
    writer.close(CloseCode::Normal).await;
    reader.wait_for_close().await;
}

async fn ignore_input(reader: &mut WebSocketReader) {
    while let Ok(Some(_)) = reader.next_data().await {}
}

async fn send_all(writer: &mut WebSocketWriter, pieces: &mut BoxStream<'static, Bytes>, form: MessageForm) {
    loop {
        let written = tokio::select! {
            piece = pieces.next() => match piece {
                Some(piece) => form.send(writer, &piece).await,
                None => return,
            },
            chore = writer.next_chore() => writer.do_chore(chore).await,
        };
        if written.is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    /// Sends the pieces in this form, and returns the bytes that the client reads.
    async fn sent(pieces: &'static [&'static str], form: MessageForm) -> Vec<u8> {
        let (mut client, server) = tokio::io::duplex(1024);
        let pieces = futures::stream::iter(pieces).map(|piece| Bytes::from_static(piece.as_bytes())).boxed();
        let running = tokio::spawn(run(Box::new(server), pieces, form));
        let mut bytes = Vec::new();
        client.read_to_end(&mut bytes).await.unwrap();
        // The client also closes the connection.
        client.write_all(&[0x88, 0x80, 0, 0, 0, 0]).await.unwrap();
        running.await.unwrap();
        bytes
    }

    #[tokio::test]
    async fn data_becomes_messages_and_a_close() {
        const CLOSE: &[u8] = &[0x88, 2, 3, 232];
        let text = |words: &str| [&[0x81, u8::try_from(words.len()).unwrap()], words.as_bytes()].concat();
        let expected = [&*text("a\n"), &text("b\n"), &text("c\n"), CLOSE].concat();
        assert_eq!(sent(&["a\nb\n", "c\n"], MessageForm::TextLines).await, expected);
        let expected = [&[0x82, 4], &b"a\nb\n"[..], CLOSE].concat();
        assert_eq!(sent(&["a\nb\n"], MessageForm::Binary).await, expected);
        let expected = [&*text("YQ=="), CLOSE].concat();
        assert_eq!(sent(&["a"], MessageForm::Base64).await, expected);
    }
}
