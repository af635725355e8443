//! Implements `portforward`: connections to the ports of a Pod, as SPDY streams inside one WebSocket, which is how
//! kubectl sends them.
//!
//! A client opens two streams for each connection, `error` and `data`, with the port and a number that joins them. This
//! protocol has no frame-based flow control. **Invariant:** a process that does not read makes its client wait, and
//! with it the client's other connections over the same WebSocket; nothing piles up here.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::sync::Arc;

use futures::future::BoxFuture;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::ByteStream;
use super::spdy::frame::{SpdyDecoder, SpdyFrame, encode_data, encode_ping, encode_reply};
use super::spdy::header_block::{HeaderWriter, Headers};
use super::upgrade::UpgradedConnection;
use super::websocket::frame::{CloseCode, Opcode};
use super::websocket::{WebSocketReader, WebSocketWriter, split};

/// The subprotocol of the WebSocket.
pub(crate) const PROTOCOL: &str = "SPDY/3.1+portforward.k8s.io";
/// The maximum number of frames that wait to be sent.
const FRAMES_MAX: usize = 4;
/// The maximum number of chunks of one connection that wait for the Pod.
const CHUNKS_MAX: usize = 2;
/// The maximum number of concurrent connections over one WebSocket: far more than a browser opens to one address.
const CONNECTIONS_MAX: usize = 256;
/// How much is read at a time.
const CHUNK_BYTES: usize = 32 * 1024;

/// Connects to a port of the Pod.
pub(crate) type PortConnector =
    Arc<dyn Fn(u16) -> BoxFuture<'static, Result<Box<dyn ByteStream>, String>> + Send + Sync>;

/// Moves data between the client and the Pod's ports until the client is gone.
pub(crate) async fn run(connection: UpgradedConnection, connector: PortConnector) {
    let (reader, mut writer) = split(connection);
    let (sender, frames) = mpsc::channel(FRAMES_MAX);
    let mut session = PortForwardSession {
        connector,
        frames: sender,
        headers: HeaderWriter::default(),
        pairs: BTreeMap::new(),
        inputs: HashMap::new(),
        connections: JoinSet::new(),
    };
    let code = tokio::select! {
        code = session.read(reader) => code,
        () = write_frames(&mut writer, frames) => CloseCode::Normal,
    };
    writer.close(code).await;
}

/// Sends frames in the order in which they were created.
async fn write_frames(writer: &mut WebSocketWriter, mut frames: mpsc::Receiver<Vec<u8>>) {
    loop {
        let written = tokio::select! {
            frame = frames.recv() => match frame {
                Some(frame) => writer.send(Opcode::Binary, &[&frame]).await,
                None => return,
            },
            chore = writer.next_chore() => writer.do_chore(chore).await,
        };
        if written.is_err() {
            return;
        }
    }
}

/// The two streams of a connection, if they are open.
#[derive(Debug, Default)]
struct StreamPair {
    error: Option<u32>,
    data: Option<u32>,
}

struct PortForwardSession {
    connector: PortConnector,
    frames: mpsc::Sender<Vec<u8>>,
    headers: HeaderWriter,
    /// Connections that still lack one stream, by their number.
    pairs: BTreeMap<String, StreamPair>,
    /// Where the data of a stream goes.
    inputs: HashMap<u32, mpsc::Sender<Vec<u8>>>,
    connections: JoinSet<()>,
}

impl PortForwardSession {
    /// Reads frames until the client is gone or breaks the protocol.
    async fn read(&mut self, mut reader: WebSocketReader) -> CloseCode {
        let mut decoder = SpdyDecoder::new();
        loop {
            let bytes = tokio::select! {
                bytes = reader.next_data() => bytes,
                Some(_) = self.connections.join_next() => continue,
            };
            match bytes {
                Ok(Some(bytes)) => decoder.feed(&bytes),
                Ok(None) => return CloseCode::Normal,
                Err(error) => return error.close_code(),
            }
            loop {
                match decoder.next_frame() {
                    Ok(Some(frame)) => {
                        if !reader.hand_on(self.observe(frame)).await {
                            return CloseCode::Normal;
                        }
                    }
                    Ok(None) => break,
                    Err(error) => {
                        tracing::debug!(%error, "a port-forward connection is closed");
                        return CloseCode::ProtocolError;
                    }
                }
            }
        }
    }

    /// Processes a frame. Returns false if the connection is over.
    async fn observe(&mut self, frame: SpdyFrame) -> bool {
        match frame {
            SpdyFrame::Open { stream, headers, .. } => return self.open(stream, &headers).await,
            SpdyFrame::Data { stream, bytes, is_final } => {
                if let Some(input) = self.inputs.get(&stream)
                    && !bytes.is_empty()
                    && input.send(bytes).await.is_err()
                {
                    self.inputs.remove(&stream);
                }
                if is_final {
                    self.inputs.remove(&stream);
                }
            }
            SpdyFrame::Reset { stream } => drop(self.inputs.remove(&stream)),
            SpdyFrame::Ping { number } => return self.frames.send(encode_ping(number)).await.is_ok(),
            SpdyFrame::GoAway => return false,
        }
        true
    }

    /// Accepts a stream, and connects to the port once both streams of a connection are open.
    async fn open(&mut self, stream: u32, headers: &Headers) -> bool {
        let reply = encode_reply(&mut self.headers, stream);
        if self.frames.send(reply).await.is_err() {
            return false;
        }
        let value = |name: &str| {
            headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| &**value)
        };
        let is_data = value("streamtype") == Some("data");
        // Old clients send no number, but open the data stream directly after its error stream.
        let implied = if is_data { stream.saturating_sub(2) } else { stream };
        let request = value("requestid").map_or_else(|| implied.to_string(), ToOwned::to_owned);
        let pair = self.pairs.entry(request.clone()).or_default();
        *(if is_data { &mut pair.data } else { &mut pair.error }) = Some(stream);
        if let StreamPair { error: Some(error), data: Some(data) } = *pair {
            self.pairs.remove(&request);
            self.begin(value("port").unwrap_or_default(), error, data);
        }
        self.pairs.len() <= CONNECTIONS_MAX
    }

    fn begin(&mut self, port: &str, error: u32, data: u32) {
        let (sender, inputs) = mpsc::channel(CHUNKS_MAX);
        self.inputs.insert(data, sender);
        let connecting: BoxFuture<'static, _> = match port.parse::<u16>() {
            _ if self.connections.len() >= CONNECTIONS_MAX => {
                Box::pin(async { Err(format!("more than {CONNECTIONS_MAX} connections at a time")) })
            }
            Ok(port @ 1..) => (self.connector)(port),
            _ => {
                let words = format!("unable to parse {port:?} as a port");
                Box::pin(async { Err(words) })
            }
        };
        let connection = ForwardedConnection { error, data, frames: self.frames.clone() };
        self.connections.spawn(connection.run(connecting, inputs));
    }
}

/// One connection to a port.
struct ForwardedConnection {
    error: u32,
    data: u32,
    frames: mpsc::Sender<Vec<u8>>,
}

impl ForwardedConnection {
    async fn run(
        self,
        connecting: BoxFuture<'static, Result<Box<dyn ByteStream>, String>>,
        inputs: mpsc::Receiver<Vec<u8>>,
    ) {
        let words = match connecting.await {
            Ok(stream) => {
                let (read, write) = tokio::io::split(stream);
                // Each direction is closed independently: a client that has nothing more to send may still read.
                let ((), ()) = tokio::join!(send_input(write, inputs), self.send_output(read));
                String::new()
            }
            Err(words) => {
                let _ = self.frames.send(encode_data(self.data, &[], true)).await;
                words
            }
        };
        let _ = self.frames.send(encode_data(self.error, words.as_bytes(), true)).await;
    }

    async fn send_output(&self, mut read: tokio::io::ReadHalf<Box<dyn ByteStream>>) {
        let mut chunk = vec![0; CHUNK_BYTES];
        while let Ok(count @ 1..) = read.read(&mut chunk).await {
            if self.frames.send(encode_data(self.data, &chunk[..count], false)).await.is_err() {
                return;
            }
        }
        let _ = self.frames.send(encode_data(self.data, &[], true)).await;
    }
}

async fn send_input(
    mut write: tokio::io::WriteHalf<Box<dyn ByteStream>>,
    mut inputs: mpsc::Receiver<Vec<u8>>,
) {
    let sent: io::Result<()> = async {
        while let Some(bytes) = inputs.recv().await {
            write.write_all(&bytes).await?;
        }
        write.shutdown().await
    }
    .await;
    if let Err(error) = sent {
        tracing::debug!(%error, "a forwarded connection is lost");
    }
}
