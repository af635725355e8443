//! Types for `exec`, `attach` and `portforward` requests to a container, and for the data that travels between client
//! and container, shared by the server, which talks to clients, and the node, which has the processes. Neither knows
//! about the other.

/// Which streams of a container a client wants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "they are the flags of the API")]
pub struct StreamOptions {
    /// The client sends the container's input.
    pub stdin: bool,
    /// The client reads its output.
    pub stdout: bool,
    /// The client reads its error output. A terminal has no separate error output.
    pub stderr: bool,
    /// The container's streams are a terminal.
    pub tty: bool,
}

/// A connection to a container: to a new command in it, or to its own process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StreamRequest {
    /// The uid of the Pod.
    pub pod: String,
    /// The name of the container.
    pub container: String,
    /// The command to run (`exec`); `None` connects to the container's own process (`attach`).
    pub command: Option<Vec<String>>,
    /// The streams.
    pub streams: StreamOptions,
}

/// Data that a client sends to a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StreamInput {
    /// Input.
    Stdin(Vec<u8>),
    /// No more input follows.
    StdinEnd,
    /// The new size of the client's terminal, in characters.
    Resize {
        /// Columns.
        width: u16,
        /// Rows.
        height: u16,
    },
}

/// Data that a container sends to its client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StreamOutput {
    /// Output.
    Stdout(Vec<u8>),
    /// Error output.
    Stderr(Vec<u8>),
    /// The command or the container has exited; nothing follows.
    End(StreamEnd),
}

/// How a command exited.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StreamEnd {
    /// With this exit code.
    Code(i32),
    /// It did not run, or its exit code is unknown, for this reason.
    Failed(String),
}

/// Why there is no connection.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StreamRefusal {
    /// The container is not running.
    #[error("the container is not running")]
    NotRunning,
    /// Something else failed, for this reason.
    #[error("cannot connect to the container: {0}")]
    Failed(String),
}
