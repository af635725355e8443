//! Handles connections that outlive their request: `exec`, `attach` and `portforward`, and the WebSocket that carries
//! them.
//!
//! A node that runs Pods registers itself as the [`StreamSource`]; the server itself runs no Pods and has no Node of
//! its own. The rules of the endpoints are in `verbs::exec_attach_port_forward`. Reading order: `upgrade` (from
//! response to connection), `websocket` (frames and liveness), `exec_channels` (the streams of a container over one
//! WebSocket), `port_forward` and `spdy` (connections to ports, also inside a WebSocket), `http_proxy` (one request to
//! a port), `messages` (watches and logs).
//!
//! **Invariant:** while a peer does not read, nothing is read from the other side either: a stream holds only a few
//! chunks.

pub(crate) mod exec_channels;
pub(crate) mod http_proxy;
pub(crate) mod messages;
pub(crate) mod port_forward;
pub(crate) mod spdy;
pub(crate) mod upgrade;
pub(crate) mod websocket;

use futures::future::BoxFuture;
use homeostat_core::container_stream::{StreamInput, StreamOutput, StreamRefusal, StreamRequest};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;

/// A connection to a process. Dropping it ends the process's input, and its output is no longer read.
pub struct ContainerStream {
    /// The input that the client sends. Dropping it ends the input.
    pub input: mpsc::Sender<StreamInput>,
    /// The output that the process sends; the last message says how it exited.
    pub output: mpsc::Receiver<StreamOutput>,
}

/// A connection, or why there is none.
pub type StreamAnswer = Result<ContainerStream, StreamRefusal>;

/// Both directions of a connection.
pub trait ByteStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> ByteStream for S {}

/// A connection to a port of a Pod, or why there is none.
pub type ForwardAnswer = Result<Box<dyn ByteStream>, String>;

/// A node that runs Pods and connects to their containers.
pub trait StreamSource: Send + Sync {
    /// Returns whether this source runs the Pods of the Node with this name.
    fn is_of(&self, node: &str) -> bool;

    /// Runs a command in a container, or connects to the container's own process.
    fn open(&self, request: StreamRequest) -> BoxFuture<'static, StreamAnswer>;

    /// Connects to a port on which a process of the Pod with this uid listens.
    fn forward(&self, pod: String, port: u16) -> BoxFuture<'static, ForwardAnswer>;
}
