//! Connects to containers, for the server's `pods/exec`, `pods/attach` and `pods/portforward`.
//!
//! Each one uses a separate connection to the supervisor, which owns the processes. **Invariant:** at most two chunks
//! wait in each direction; beyond that, the sender has to wait.

use std::fs::File;
use std::io;
use std::sync::Arc;

use homeostat_core::container_stream::{StreamEnd, StreamInput, StreamOutput, StreamRefusal, StreamRequest};
use tokio::io::BufReader;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::pod_listeners::find_listener;
use super::supervisor::node_layout::NodeLayout;
use super::supervisor::protocol::ContainerKey;
use super::supervisor::stream_frames::{self as frames, StreamOrder, StreamReply, WantedStreams};
use super::supervisor::system;
use super::supervisor_client::SupervisorClient;

/// The maximum number of chunks waiting in each direction.
const CHUNKS_MAX: usize = 2;
/// How long the supervisor may take to respond.
const REPLY_TIME: std::time::Duration = std::time::Duration::from_secs(30);

/// How long a process on the machine may take to accept a connection.
const CONNECT_TIME: std::time::Duration = std::time::Duration::from_secs(10);

/// The connections to a node's containers. Cheap to clone.
#[derive(Clone)]
pub struct Streams {
    pub(super) layout: NodeLayout,
    pub(super) supervisor: Arc<SupervisorClient>,
}

/// A connection to a process. Dropping the sender ends its input; dropping the receiver as well ends the connection.
pub struct ContainerConnection {
    /// The data that the client sends.
    pub input: mpsc::Sender<StreamInput>,
    /// The data that the process sends.
    pub output: mpsc::Receiver<StreamOutput>,
}

impl Streams {
    /// Runs a command in a container, or connects to its own process. The connection closes when both halves are
    /// dropped.
    ///
    /// # Errors
    /// Fails if the container is not running, or the supervisor cannot be reached.
    pub async fn open(&self, request: StreamRequest) -> Result<ContainerConnection, StreamRefusal> {
        let id = ContainerKey { pod: request.pod, container: request.container };
        let runs = self.supervisor.runs_of_pod(&id.pod);
        if !runs.get(&id.container).is_some_and(|runs| runs.current.is_running()) {
            return Err(StreamRefusal::NotRunning);
        }
        let options = request.streams;
        let streams = WantedStreams {
            stdin: options.stdin,
            stdout: options.stdout,
            stderr: options.stderr,
            tty: options.tty,
        };
        let order = match request.command {
            Some(command) => StreamOrder::Execute { id, command, streams },
            None => StreamOrder::Attach { id, streams },
        };
        let failed = |error: io::Error| {
            StreamRefusal::Failed(format!("cannot reach the supervisor of the node's processes: {error}"))
        };
        let asked = timeout(REPLY_TIME, self.send_order(&order)).await;
        let (reply, read, write) = asked.map_err(|error| failed(error.into()))?.map_err(failed)?;
        match reply {
            StreamReply::Open => Ok(move_data(read, write)),
            StreamReply::NotRunning => Err(StreamRefusal::NotRunning),
            StreamReply::Failed(why) => Err(StreamRefusal::Failed(why)),
        }
    }

    /// Connects to a port on which a process of the Pod listens.
    ///
    /// # Errors
    /// Fails if no process of the Pod listens on it, or the connection fails; the message says which.
    pub async fn forward(&self, pod: String, port: u16) -> Result<TcpStream, String> {
        let containers = self.supervisor.runs_of_pod(&pod).into_keys().collect::<Vec<_>>();
        let layout = self.layout.clone();
        let found =
            tokio::task::spawn_blocking(move || find_listener(&layout, &pod, &containers, port)).await;
        let address = found.ok().flatten().ok_or_else(|| {
            format!("failed to connect to localhost:{port}: connection refused: no process of the Pod listens on this port")
        })?;
        let connected = timeout(CONNECT_TIME, TcpStream::connect(address)).await;
        let failed = |error: io::Error| format!("failed to connect to {address}: {error}");
        connected.map_err(|_| failed(io::ErrorKind::TimedOut.into()))?.map_err(failed)
    }

    async fn send_order(
        &self,
        order: &StreamOrder,
    ) -> io::Result<(StreamReply, BufReader<OwnedReadHalf>, OwnedWriteHalf)> {
        let folder = File::open(self.layout.root())?;
        let path = system::socket(&folder, self.layout.root(), NodeLayout::streams_socket_name());
        let (read, mut write) = UnixStream::connect(path).await?.into_split();
        frames::write_line(&mut write, order).await?;
        let mut read = BufReader::new(read);
        let reply = frames::read_line(&mut read).await?;
        Ok((reply, read, write))
    }
}

/// Moves data between the supervisor and the caller. The task ends when either side is done.
fn move_data(read: BufReader<OwnedReadHalf>, write: OwnedWriteHalf) -> ContainerConnection {
    let (input, from_client) = mpsc::channel(CHUNKS_MAX);
    let (to_client, output) = mpsc::channel(CHUNKS_MAX);
    tokio::spawn(async move {
        let mut halves = JoinSet::new();
        halves.spawn(send_input(from_client, write));
        tokio::select! {
            () = receive_output(read, &to_client) => {}
            // The reader is gone.
            () = to_client.closed() => {}
        }
        // Dropping the other half closes the connection.
    });
    ContainerConnection { input, output }
}

async fn send_input(mut inputs: mpsc::Receiver<StreamInput>, mut write: OwnedWriteHalf) {
    while let Some(input) = inputs.recv().await {
        if frames::write_input(&mut write, &input).await.is_err() {
            return;
        }
    }
    let _ = frames::write_input(&mut write, &StreamInput::StdinEnd).await;
    // This is kept open, because closing it would mean that the client is gone.
    std::future::pending::<()>().await;
}

async fn receive_output(mut read: BufReader<OwnedReadHalf>, outputs: &mpsc::Sender<StreamOutput>) {
    loop {
        let output = frames::read_output(&mut read).await.unwrap_or_else(|_| {
            StreamOutput::End(StreamEnd::Failed("the connection to the container is lost".to_owned()))
        });
        let is_end = matches!(output, StreamOutput::End(_));
        if outputs.send(output).await.is_err() || is_end {
            return;
        }
    }
}
