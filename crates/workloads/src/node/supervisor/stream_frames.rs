//! Defines the protocol between a node and its supervisor for connections to containers, each with its own socket
//! connection: the node's order as a line of JSON, the reply as another, then frames (a kind, a length of four bytes,
//! the data).
//!
//! **Invariant:** nothing is buffered beyond one frame on either side. A side that does not read makes the other one
//! wait.

use std::io;

use serde::{Deserialize, Serialize};
use tokio::io::{
    AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, BufReader,
};

use super::protocol::ContainerKey;
use homeostat_core::container_stream::{StreamEnd, StreamInput, StreamOutput};

/// The maximum size of a frame: more than either side sends at a time.
const FRAME_BYTES_MAX: u32 = 2 * 1024 * 1024;

const STDIN: u8 = 0;
const STDOUT: u8 = 1;
const STDERR: u8 = 2;
const END_CODE: u8 = 3;
const END_FAILURE: u8 = 4;
const STDIN_END: u8 = 5;
const RESIZE: u8 = 6;

/// The order that a node sends when it opens a connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum StreamOrder {
    /// Run a command in a container, with its settings.
    Execute { id: ContainerKey, command: Vec<String>, streams: WantedStreams },
    /// Connect to the container's own process.
    Attach { id: ContainerKey, streams: WantedStreams },
}

/// The streams that a client wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "they are the flags of the API")]
pub(crate) struct WantedStreams {
    pub(crate) stdin: bool,
    pub(crate) stdout: bool,
    pub(crate) stderr: bool,
    pub(crate) tty: bool,
}

/// The supervisor's reply to an order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum StreamReply {
    /// Frames follow.
    Open,
    /// The container is not running.
    NotRunning,
    /// Something else is wrong; contains the error message.
    Failed(String),
}

/// Writes a value as one line.
pub(crate) async fn write_line(
    stream: &mut (impl AsyncWrite + Unpin),
    value: &impl Serialize,
) -> io::Result<()> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    stream.write_all(&line).await
}

/// Reads a value from one line.
pub(crate) async fn read_line<T: for<'a> Deserialize<'a>>(
    stream: &mut BufReader<impl AsyncRead + Unpin>,
) -> io::Result<T> {
    let mut line = String::new();
    (&mut *stream).take(FRAME_BYTES_MAX.into()).read_line(&mut line).await?;
    Ok(serde_json::from_str(&line)?)
}

/// Writes a client's input.
pub(crate) async fn write_input(
    stream: &mut (impl AsyncWrite + Unpin),
    input: &StreamInput,
) -> io::Result<()> {
    match input {
        StreamInput::Stdin(bytes) => write_frame(stream, STDIN, bytes).await,
        StreamInput::StdinEnd => write_frame(stream, STDIN_END, &[]).await,
        StreamInput::Resize { width, height } => {
            let [w0, w1] = width.to_be_bytes();
            let [h0, h1] = height.to_be_bytes();
            write_frame(stream, RESIZE, &[w0, w1, h0, h1]).await
        }
    }
}

/// Reads a client's input; returns an error at the end of the stream.
pub(crate) async fn read_input(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<StreamInput> {
    let (kind, bytes) = read_frame(stream).await?;
    match (kind, &*bytes) {
        (STDIN, _) => Ok(StreamInput::Stdin(bytes)),
        (STDIN_END, _) => Ok(StreamInput::StdinEnd),
        (RESIZE, &[w0, w1, h0, h1]) => Ok(StreamInput::Resize {
            width: u16::from_be_bytes([w0, w1]),
            height: u16::from_be_bytes([h0, h1]),
        }),
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}

/// Writes a container's output.
pub(crate) async fn write_output(
    stream: &mut (impl AsyncWrite + Unpin),
    output: &StreamOutput,
) -> io::Result<()> {
    match output {
        StreamOutput::Stdout(bytes) => write_frame(stream, STDOUT, bytes).await,
        StreamOutput::Stderr(bytes) => write_frame(stream, STDERR, bytes).await,
        StreamOutput::End(StreamEnd::Code(code)) => write_frame(stream, END_CODE, &code.to_be_bytes()).await,
        StreamOutput::End(StreamEnd::Failed(why)) => write_frame(stream, END_FAILURE, why.as_bytes()).await,
    }
}

/// Reads a container's output; returns an error at the end of the stream.
pub(crate) async fn read_output(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<StreamOutput> {
    let (kind, bytes) = read_frame(stream).await?;
    match (kind, &*bytes) {
        (STDOUT, _) => Ok(StreamOutput::Stdout(bytes)),
        (STDERR, _) => Ok(StreamOutput::Stderr(bytes)),
        (END_CODE, &[c0, c1, c2, c3]) => {
            Ok(StreamOutput::End(StreamEnd::Code(i32::from_be_bytes([c0, c1, c2, c3]))))
        }
        (END_FAILURE, why) => {
            Ok(StreamOutput::End(StreamEnd::Failed(String::from_utf8_lossy(why).into_owned())))
        }
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}

async fn write_frame(stream: &mut (impl AsyncWrite + Unpin), kind: u8, bytes: &[u8]) -> io::Result<()> {
    let length = u32::try_from(bytes.len()).map_err(|_| io::ErrorKind::InvalidData)?;
    let mut frame = Vec::with_capacity(bytes.len() + 5);
    frame.push(kind);
    frame.extend_from_slice(&length.to_be_bytes());
    frame.extend_from_slice(bytes);
    stream.write_all(&frame).await
}

async fn read_frame(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<(u8, Vec<u8>)> {
    let kind = stream.read_u8().await?;
    let length = stream.read_u32().await?;
    if length > FRAME_BYTES_MAX {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut bytes = vec![0; usize::try_from(length).unwrap_or_default()];
    stream.read_exact(&mut bytes).await?;
    Ok((kind, bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn frames_arrive_as_they_were_sent() {
        let (mut near, mut far) = tokio::io::duplex(64);
        let inputs = [
            StreamInput::Stdin(vec![7; 20]),
            StreamInput::Stdin(Vec::new()),
            StreamInput::StdinEnd,
            StreamInput::Resize { width: 300, height: 20 },
        ];
        for input in inputs {
            write_input(&mut near, &input).await.unwrap();
            assert_eq!(read_input(&mut far).await.unwrap(), input);
        }
        let outputs = [
            StreamOutput::Stdout(b"out".to_vec()),
            StreamOutput::Stderr(b"err".to_vec()),
            StreamOutput::End(StreamEnd::Code(-3)),
            StreamOutput::End(StreamEnd::Failed("why".to_owned())),
        ];
        for output in outputs {
            write_output(&mut near, &output).await.unwrap();
            assert_eq!(read_output(&mut far).await.unwrap(), output);
        }
        near.write_all(&[STDOUT, 255, 0, 0, 0]).await.unwrap();
        assert_eq!(read_output(&mut far).await.unwrap_err().kind(), io::ErrorKind::InvalidData);
    }
}
