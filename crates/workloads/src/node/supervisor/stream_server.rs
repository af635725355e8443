//! Connects clients to containers, for `exec` and `attach`: one connection from the node for each.
//!
//! **Invariants:** a command gets exactly the settings that its container was started with, in the container's own
//! namespaces: the node names only the container and the command. The command exits together with its container. When
//! its client is gone, its input ends and its output has no reader; the supervisor then only waits for it.

use std::sync::Arc;
use std::time::Duration;

use homeostat_core::container_stream::{StreamEnd, StreamInput, StreamOutput};
use tokio::io::{AsyncWriteExt as _, BufReader};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Mutex, broadcast};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::attach_point::Attached;
use super::child_process::{self, StartedProcess, exit_of};
use super::container_run;
use super::process_io::{InputWriter, OutputReader, ProcessIo, ProcessStdio, Terminal};
use super::process_supervisor::ProcessSupervisor;
use super::protocol::{ContainerKey, RunExit};
use super::stream_frames::{self as frames, StreamOrder, StreamReply, WantedStreams};

/// The maximum number of concurrent connections. The server's limits per user are lower.
const STREAMS_MAX: usize = 1000;
/// How long a node may take to send its order.
const ORDER_TIME: Duration = Duration::from_secs(10);
/// How long output may still arrive from processes that outlive the command.
const LAST_WORDS: Duration = Duration::from_millis(500);
/// The pause after the kernel refused a connection.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// How much is read at a time.
const CHUNK_BYTES: usize = 32 * 1024;

/// Serves connections for as long as it is polled. Dropping it stops the commands.
pub(super) async fn serve(supervisor: &Arc<ProcessSupervisor>, listener: &UnixListener) {
    let mut streams = JoinSet::new();
    loop {
        tokio::select! {
            Some(_) = streams.join_next() => {}
            accepted = listener.accept(), if streams.len() < STREAMS_MAX => match accepted {
                Ok((socket, _)) => drop(streams.spawn(serve_stream(Arc::clone(supervisor), socket))),
                Err(_) => sleep(ACCEPT_PAUSE).await,
            },
        }
    }
}

async fn serve_stream(supervisor: Arc<ProcessSupervisor>, socket: UnixStream) {
    let (read, mut write) = socket.into_split();
    let mut read = BufReader::new(read);
    let Ok(Ok(order)) = timeout(ORDER_TIME, frames::read_line(&mut read)).await else { return };
    match order {
        StreamOrder::Execute { id, command, streams } => {
            execute(&supervisor, &id, command, streams, (read, write)).await;
        }
        StreamOrder::Attach { id, streams } => {
            let Some(attached) = supervisor.attach(&id) else {
                let _ = frames::write_line(&mut write, &StreamReply::NotRunning).await;
                return;
            };
            attach(attached, streams, read, write).await;
        }
    }
}

/// Runs a command in a container and connects its streams.
async fn execute(
    supervisor: &ProcessSupervisor,
    id: &ContainerKey,
    command: Vec<String>,
    streams: WantedStreams,
    (read, mut write): (BufReader<OwnedReadHalf>, OwnedWriteHalf),
) {
    let Some(running) = supervisor.running_container(id) else {
        let _ = frames::write_line(&mut write, &StreamReply::NotRunning).await;
        return;
    };
    if frames::write_line(&mut write, &StreamReply::Open).await.is_err() {
        return;
    }
    let stdio = if streams.tty {
        ProcessStdio::Terminal
    } else {
        ProcessStdio::Separate { has_input: streams.stdin }
    };
    let launch = child_process::ProcessLaunch {
        process: running.process.with_command(command),
        stdio,
        joined: Some(running.target),
    };
    let run = container_run::run_name(id);
    match child_process::start(supervisor, launch, &run).await {
        Ok(started) => exchange(started, read, write).await,
        Err(words) => send_end(&mut write, StreamEnd::Failed(words)).await,
    }
}

/// Connects a client to the container's own process until either exits.
async fn attach(
    attached: Attached,
    streams: WantedStreams,
    read: BufReader<OwnedReadHalf>,
    mut write: OwnedWriteHalf,
) {
    if frames::write_line(&mut write, &StreamReply::Open).await.is_err() {
        return;
    }
    let Attached { mut output, streams: own, input, terminal } = attached;
    let ends_input = own.stdin_once && streams.stdin;
    let has_ended = tokio::select! {
        () = copy_output(&mut output, &mut write) => true,
        () = feed_attached(read, &input, ends_input, terminal) => false,
    };
    if ends_input {
        *input.lock().await = None;
    }
    if has_ended {
        send_end(&mut write, StreamEnd::Code(0)).await;
    }
}

/// Sends the container's output until it has exited, or the client is gone.
async fn copy_output(output: &mut broadcast::Receiver<Arc<[u8]>>, write: &mut OwnedWriteHalf) {
    loop {
        match output.recv().await {
            Ok(chunk) => {
                let message = StreamOutput::Stdout(chunk.to_vec());
                if frames::write_output(write, &message).await.is_err() {
                    return;
                }
            }
            // The client was too slow; the log has everything.
            Err(broadcast::error::RecvError::Lagged(_)) => {}
            Err(broadcast::error::RecvError::Closed) => return,
        }
    }
}

/// Forwards a client's input to the container until the client is gone.
async fn feed_attached(
    mut read: BufReader<OwnedReadHalf>,
    input: &Mutex<Option<InputWriter>>,
    ends_input: bool,
    terminal: Option<Arc<Terminal>>,
) {
    while let Ok(message) = frames::read_input(&mut read).await {
        match (message, &terminal) {
            (StreamInput::Stdin(bytes), _) => {
                if let Some(writer) = &mut *input.lock().await {
                    // A container that has closed its input may still run.
                    let _ = writer.write_all(&bytes).await;
                }
            }
            (StreamInput::StdinEnd, None) if ends_input => *input.lock().await = None,
            (StreamInput::Resize { width, height }, Some(terminal)) => terminal.resize(width, height),
            _ => {}
        }
    }
}

/// Moves data between the client and the command until the command has exited.
async fn exchange(started: StartedProcess<'_>, read: BufReader<OwnedReadHalf>, mut write: OwnedWriteHalf) {
    let StartedProcess { mut child, io, awaited, .. } = started;
    let ProcessIo { input, output, errors, terminal } = io;
    let mut outputs = CommandOutputs { output: Some(output), errors, exit: None };
    let is_gone = tokio::select! {
        is_gone = outputs.forward(&mut child, &mut write) => is_gone,
        () = feed(read, input, terminal) => true,
    };
    if is_gone {
        // There is no reader left: the command notices when it writes, or when its terminal hangs up.
        drop(outputs);
        drop(write);
        let _ = child.wait().await;
    } else {
        let end = match outputs.exit {
            Some(exit @ (RunExit::Code(_) | RunExit::Signal(_))) => StreamEnd::Code(exit.code()),
            _ => StreamEnd::Failed("nobody knows how the command ended".to_owned()),
        };
        send_end(&mut write, end).await;
    }
    drop(awaited);
}

async fn send_end(write: &mut OwnedWriteHalf, end: StreamEnd) {
    // The client may be gone.
    let _ = frames::write_output(write, &StreamOutput::End(end)).await;
    let _ = write.shutdown().await;
}

/// Forwards the client's input to a process until the client is gone.
async fn feed(
    mut read: BufReader<OwnedReadHalf>,
    mut input: Option<InputWriter>,
    terminal: Option<Arc<Terminal>>,
) {
    while let Ok(message) = frames::read_input(&mut read).await {
        match (message, &mut input, &terminal) {
            (StreamInput::Stdin(bytes), Some(writer), _) => {
                // A process that has closed its input may still run.
                let written = writer.write_all(&bytes).await;
                if written.is_err() {
                    input = None;
                }
            }
            // A terminal stays open for output.
            (StreamInput::StdinEnd, Some(InputWriter::Pipe(_)), _) => input = None,
            (StreamInput::Resize { width, height }, _, Some(terminal)) => terminal.resize(width, height),
            _ => {}
        }
    }
}

/// A command's output, and how it exited.
struct CommandOutputs {
    output: Option<OutputReader>,
    errors: Option<OutputReader>,
    exit: Option<RunExit>,
}

impl CommandOutputs {
    /// Sends the output until the command has exited and there is nothing left to read. Returns whether the client is
    /// gone.
    async fn forward(&mut self, child: &mut tokio::process::Child, write: &mut OwnedWriteHalf) -> bool {
        let (mut output_chunk, mut errors_chunk) = (vec![0; CHUNK_BYTES], vec![0; CHUNK_BYTES]);
        let mut ends_at = Instant::now();
        while self.output.is_some() || self.errors.is_some() || self.exit.is_none() {
            let message = tokio::select! {
                biased;
                count = read_some(&mut self.output, &mut output_chunk), if self.output.is_some() => {
                    (count > 0).then(|| StreamOutput::Stdout(output_chunk[..count].to_vec()))
                }
                count = read_some(&mut self.errors, &mut errors_chunk), if self.errors.is_some() => {
                    (count > 0).then(|| StreamOutput::Stderr(errors_chunk[..count].to_vec()))
                }
                status = child.wait(), if self.exit.is_none() => {
                    self.exit = Some(exit_of(&status));
                    ends_at = Instant::now() + LAST_WORDS;
                    None
                }
                // Processes that the command left behind keep its pipes open.
                () = sleep_until(ends_at), if self.exit.is_some() => return false,
            };
            if let Some(message) = message
                && frames::write_output(write, &message).await.is_err()
            {
                return true;
            }
        }
        false
    }
}

/// Reads a chunk; at the end, returns zero and drops the reader.
async fn read_some(reader: &mut Option<OutputReader>, chunk: &mut [u8]) -> usize {
    let Some(open) = reader else { return 0 };
    let count = open.read(chunk).await.unwrap_or_default();
    if count == 0 {
        *reader = None;
    }
    count
}
