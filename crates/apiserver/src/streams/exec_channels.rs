//! Carries the streams of a container over one WebSocket: each message begins with its channel number.
//!
//! The protocols are the kubelet's, from the oldest (no name) to `v5.channel.k8s.io`, in which a client can signal the
//! end of its input. They differ in the message they send at the end: text, or a `Status` with the exit code.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use homeostat_core::container_stream::{StreamEnd, StreamInput, StreamOptions, StreamOutput};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::ContainerStream;
use super::upgrade::UpgradedConnection;
use super::websocket::frame::{CloseCode, FrameError, Opcode};
use super::websocket::{WebSocketReader, WebSocketWriter, split};

const STDIN: u8 = 0;
const STDOUT: u8 = 1;
const STDERR: u8 = 2;
const ERROR: u8 = 3;
const RESIZE: u8 = 4;
/// The first byte of a message that closes the channel named in its second byte.
const CLOSE_SIGNAL: u8 = 255;

/// The protocols, by name.
const PROTOCOLS: [(&str, ChannelProtocol); 6] = [
    ("v5.channel.k8s.io", ChannelProtocol { can_close: true, ..ChannelProtocol::V4 }),
    ("v4.channel.k8s.io", ChannelProtocol::V4),
    ("v4.base64.channel.k8s.io", ChannelProtocol { is_base64: true, ..ChannelProtocol::V4 }),
    ("channel.k8s.io", ChannelProtocol::V1),
    ("base64.channel.k8s.io", ChannelProtocol { is_base64: true, ..ChannelProtocol::V1 }),
    ("", ChannelProtocol::V1),
];

/// The differences between the protocols.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChannelProtocol {
    /// Whether a client can signal the end of its input.
    can_close: bool,
    /// Whether messages are text: a digit for the channel, then base64.
    is_base64: bool,
    /// Whether the end is reported as a `Status` rather than as a text, which is omitted on success.
    has_status: bool,
}

impl ChannelProtocol {
    const V1: Self = Self { can_close: false, is_base64: false, has_status: false };
    const V4: Self = Self { has_status: true, ..Self::V1 };

    /// Returns the names of all protocols.
    pub(crate) fn names() -> [&'static str; PROTOCOLS.len()] {
        PROTOCOLS.map(|(name, _)| name)
    }

    /// Returns the protocol with this name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        PROTOCOLS.iter().find(|(known, _)| *known == name).map(|(_, protocol)| *protocol)
    }

    /// Returns the meaning of a message from the client; `None` if it means nothing.
    fn parse(self, message: &[u8]) -> Option<StreamInput> {
        let (first, rest) = message.split_first()?;
        if self.is_base64 {
            let bytes = STANDARD.decode(rest).ok()?;
            return meaning_of(first.checked_sub(b'0')?, bytes);
        }
        if self.can_close && *first == CLOSE_SIGNAL {
            return (rest == [STDIN]).then_some(StreamInput::StdinEnd);
        }
        meaning_of(*first, rest.to_vec())
    }

    async fn send(self, writer: &mut WebSocketWriter, channel: u8, bytes: &[u8]) -> std::io::Result<()> {
        if self.is_base64 {
            let text = STANDARD.encode(bytes);
            return writer.send(Opcode::Text, &[&[b'0' + channel], text.as_bytes()]).await;
        }
        writer.send(Opcode::Binary, &[&[channel], bytes]).await
    }
}

fn meaning_of(channel: u8, bytes: Vec<u8>) -> Option<StreamInput> {
    match channel {
        STDIN if !bytes.is_empty() => Some(StreamInput::Stdin(bytes)),
        RESIZE => parse_size(&bytes),
        _ => None,
    }
}

/// The size of a terminal, as clients send it.
#[derive(Deserialize)]
struct TerminalSize {
    #[serde(alias = "Width")]
    width: u16,
    #[serde(alias = "Height")]
    height: u16,
}

/// Parses the size of a terminal. If a message contains several, the last one wins.
pub(crate) fn parse_size(bytes: &[u8]) -> Option<StreamInput> {
    let sizes = serde_json::Deserializer::from_slice(bytes).into_iter::<TerminalSize>();
    let TerminalSize { width, height } = sizes.map_while(Result::ok).last()?;
    Some(StreamInput::Resize { width, height })
}

/// Moves the data of a container over the connection until either side closes it.
pub(crate) async fn run(
    connection: UpgradedConnection,
    container: ContainerStream,
    protocol: ChannelProtocol,
    options: StreamOptions,
) {
    let (mut reader, mut writer) = split(connection);
    let ContainerStream { input, output } = container;
    let code = tokio::select! {
        ended = read_input(&mut reader, input, protocol, options) => match ended {
            Ok(()) => CloseCode::Normal,
            Err(error) => error.close_code(),
        },
        () = write_output(&mut writer, output, protocol, options) => CloseCode::Normal,
    };
    writer.close(code).await;
    reader.wait_for_close().await;
}

/// Passes the client's messages to the container until the client is gone. The container's output continues even if
/// the client sends nothing.
async fn read_input(
    reader: &mut WebSocketReader,
    input: mpsc::Sender<StreamInput>,
    protocol: ChannelProtocol,
    options: StreamOptions,
) -> Result<(), FrameError> {
    while let Some(message) = reader.next_data().await? {
        let Some(meant) = protocol.parse(&message) else { continue };
        let is_wanted = match meant {
            StreamInput::Stdin(_) | StreamInput::StdinEnd => options.stdin,
            StreamInput::Resize { .. } => options.tty,
        };
        if is_wanted {
            // If the process has exited, its exit code is already on its way to the client.
            reader.hand_on(async { input.send(meant).await.is_ok() }).await;
        }
    }
    Ok(())
}

/// Sends the container's output, and finally how it exited.
async fn write_output(
    writer: &mut WebSocketWriter,
    mut output: mpsc::Receiver<StreamOutput>,
    protocol: ChannelProtocol,
    options: StreamOptions,
) {
    // As the kubelet does, this tells clients with older protocols that the connection is established.
    if !protocol.can_close {
        let lowest = if options.stdout {
            STDOUT
        } else if options.stderr {
            STDERR
        } else {
            ERROR
        };
        if protocol.send(writer, lowest, &[]).await.is_err() {
            return;
        }
    }
    loop {
        let written = tokio::select! {
            message = output.recv() => match message {
                Some(StreamOutput::Stdout(bytes)) if options.stdout => protocol.send(writer, STDOUT, &bytes).await,
                Some(StreamOutput::Stderr(bytes)) if options.stderr => protocol.send(writer, STDERR, &bytes).await,
                Some(StreamOutput::Stdout(_) | StreamOutput::Stderr(_)) => Ok(()),
                Some(StreamOutput::End(end)) => {
                    if let Some(text) = end_message(&end, protocol.has_status) {
                        let _ = protocol.send(writer, ERROR, text.as_bytes()).await;
                    }
                    return;
                }
                None => return,
            },
            chore = writer.next_chore() => writer.do_chore(chore).await,
        };
        if written.is_err() {
            return;
        }
    }
}

/// Returns the message that tells the client how the stream ended.
pub(crate) fn end_message(end: &StreamEnd, has_status: bool) -> Option<String> {
    let status = end_status(end);
    if has_status {
        return Some(status.to_string());
    }
    status["message"].as_str().map(ToOwned::to_owned)
}

/// Returns the end as a `Status`, with the kubelet's wording.
fn end_status(end: &StreamEnd) -> Value {
    match end {
        StreamEnd::Code(0) => json!({"metadata": {}, "status": "Success"}),
        StreamEnd::Code(code) => json!({
            "metadata": {},
            "status": "Failure",
            "message": format!("command terminated with non-zero exit code: command terminated with exit code {code}"),
            "reason": "NonZeroExitCode",
            "details": {"causes": [{"reason": "ExitCode", "message": code.to_string()}]},
        }),
        StreamEnd::Failed(why) => json!({
            "metadata": {},
            "status": "Failure",
            "message": format!("Internal error occurred: error executing command in container: {why}"),
            "reason": "InternalError",
            "details": {"causes": [{"message": format!("error executing command in container: {why}")}]},
            "code": 500,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(protocol: &str, message: &[u8], expected: Option<&StreamInput>) {
        assert_eq!(ChannelProtocol::named(protocol).unwrap().parse(message).as_ref(), expected);
    }

    #[test]
    fn messages_begin_with_their_channel() {
        check("v5.channel.k8s.io", b"\0ab", Some(&StreamInput::Stdin(b"ab".to_vec())));
        check("v5.channel.k8s.io", &[255, 0], Some(&StreamInput::StdinEnd));
        check("v5.channel.k8s.io", &[255, 1], None);
        check("v4.channel.k8s.io", &[255, 0], None);
        let size = StreamInput::Resize { width: 80, height: 24 };
        check("v4.channel.k8s.io", b"\x04{\"Width\":80,\"Height\":24}\n", Some(&size));
        check("v4.channel.k8s.io", b"\x04nonsense", None);
        check("v4.channel.k8s.io", b"", None);
        check("base64.channel.k8s.io", b"0YWI=", Some(&StreamInput::Stdin(b"ab".to_vec())));
        check("base64.channel.k8s.io", b"0***", None);
        check("", b"\x01ab", None);
    }

    #[test]
    fn the_end_is_told_as_the_kubelet_does() {
        let told = |end, has_status| end_message(&end, has_status);
        assert_eq!(told(StreamEnd::Code(0), false), None);
        let ended = told(StreamEnd::Code(3), true).unwrap();
        assert!(ended.contains(r#""causes":[{"message":"3","reason":"ExitCode"}]"#), "{ended}");
        assert!(
            told(StreamEnd::Failed("no such file".to_owned()), false)
                .unwrap()
                .ends_with("container: no such file")
        );
    }
}
