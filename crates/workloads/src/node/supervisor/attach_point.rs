//! Lets clients attach to a container: to its input, and a copy of its output from that point on.
//!
//! **Invariant:** a client that does not read never delays the container or its log: it misses output instead. For
//! clients, the output ends when the run does.

use std::sync::Arc;

use tokio::sync::{Mutex, broadcast};

use super::process_io::{InputWriter, Terminal};
use super::protocol::ContainerStreams;

/// The maximum number of output chunks that wait for a slow client: at most 4 MiB. Beyond that, it misses some.
const CHUNKS_MAX: usize = 64;

/// The copies of a container's output.
pub(super) type OutputCopies = broadcast::Sender<Arc<[u8]>>;

/// A running container's streams, as held by its run.
pub(super) struct AttachPoint {
    copies: OutputCopies,
    streams: ContainerStreams,
    input: Arc<Mutex<Option<InputWriter>>>,
    terminal: Option<Arc<Terminal>>,
}

/// A client's share of them.
pub(super) struct Attached {
    pub(super) output: broadcast::Receiver<Arc<[u8]>>,
    pub(super) streams: ContainerStreams,
    /// `None` when the input has ended.
    pub(super) input: Arc<Mutex<Option<InputWriter>>>,
    pub(super) terminal: Option<Arc<Terminal>>,
}

impl AttachPoint {
    /// Creates the point for a container with these streams.
    pub(super) fn new(
        streams: ContainerStreams,
        input: Option<InputWriter>,
        terminal: Option<Arc<Terminal>>,
    ) -> Self {
        let input = Arc::new(Mutex::new(input.filter(|_| streams.stdin)));
        Self { copies: broadcast::Sender::new(CHUNKS_MAX), streams, input, terminal }
    }

    /// Returns the channel that the output is copied to.
    pub(super) fn copies(&self) -> OutputCopies {
        self.copies.clone()
    }

    /// Attaches a client.
    pub(super) fn attach(&self) -> Attached {
        Attached {
            output: self.copies.subscribe(),
            streams: self.streams,
            input: Arc::clone(&self.input),
            terminal: self.terminal.clone(),
        }
    }
}
