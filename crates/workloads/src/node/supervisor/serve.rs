//! The supervisor's main loop: takes its folder's lock, serves its node, and exits when it is no longer needed.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use homeostat_core::Clock;
use rustix::process::{Resource, Rlimit};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{UnixListener, UnixStream};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, sleep_until};

use super::child_process::try_lock;
use super::node_layout::NodeLayout;
use super::process_supervisor::ProcessSupervisor;
use super::protocol::{SupervisorEvent, SupervisorRequest};
use super::{leftovers, stray_processes, stream_server, system};
use crate::node::remove_folder;

/// How long a new supervisor waits for the node that started it.
const FIRST_CONTACT: Duration = Duration::from_secs(20);
/// How long to wait for an earlier supervisor that is stopping its containers.
const LOCK_WAIT: Duration = Duration::from_secs(60);
/// The pause between two attempts to take the lock.
const LOCK_PAUSE: Duration = Duration::from_millis(50);
/// The containers' grace period if none is requested: the node is gone or the machine is shutting down.
const ABANDONED_GRACE: Duration = Duration::from_secs(5);

/// A supervisor's command-line arguments.
struct SupervisorArguments {
    folder: PathBuf,
    outlives_node: Duration,
    /// Whether the folder is removed at the end.
    is_ephemeral: bool,
}

/// Runs a supervisor until its node stops it or stays away.
pub(super) fn main(arguments: &[OsString]) -> ExitCode {
    let Some(arguments) = parse_arguments(arguments) else {
        eprintln!(
            "error: a node starts the supervisor, with three arguments: folder, milliseconds, keep or remove"
        );
        return ExitCode::from(2);
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    match runtime.and_then(|runtime| runtime.block_on(supervise(arguments))) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn parse_arguments(arguments: &[OsString]) -> Option<SupervisorArguments> {
    let [folder, outlives, end] = arguments else { return None };
    let outlives_node = Duration::from_millis(outlives.to_str()?.parse().ok()?);
    Some(SupervisorArguments { folder: folder.into(), outlives_node, is_ephemeral: end == "remove" })
}

async fn supervise(arguments: SupervisorArguments) -> io::Result<()> {
    let layout = NodeLayout::new(arguments.folder);
    let _ = rustix::process::setsid();
    system::adopt_orphans()?;
    let open_files = raise_open_files();
    let locked = File::create(layout.lock())?;
    if !take_lock(&locked).await {
        return Err(io::Error::other("another supervisor uses this folder"));
    }
    let known = leftovers::clean_up(&layout, Clock::system().now()).await;
    let sockets = [NodeLayout::socket_name(), NodeLayout::streams_socket_name()];
    let paths = sockets.map(|name| layout.root().join(name));
    for path in &paths {
        let _ = std::fs::remove_file(path);
    }
    // Binds this socket first, because the node looks for the other one.
    let streams = bind_socket(&layout, NodeLayout::streams_socket_name())?;
    let listener = bind_socket(&layout, NodeLayout::socket_name())?;
    let supervisor = Arc::new(ProcessSupervisor::new(layout, open_files, known));
    let grace = tokio::select! {
        grace = serve(&supervisor, &listener, arguments.outlives_node) => grace?,
        harvested = stray_processes::reap_until_stopped(&supervisor) => return harvested,
        () = stream_server::serve(&supervisor, &streams) => return Ok(()),
    };
    // From here on, no node finds us; the next one starts a supervisor, which waits for our lock.
    drop((listener, streams));
    for path in &paths {
        let _ = std::fs::remove_file(path);
    }
    supervisor.stop_all(grace).await;
    if arguments.is_ephemeral
        && let Err(error) = remove_folder(supervisor.layout.root())
    {
        eprintln!("cannot remove the node's folder: {error}");
    }
    Ok(())
}

/// Raises the limit on open files, because a thousand containers need three thousand. Returns the previous limit.
fn raise_open_files() -> u64 {
    let limit = rustix::process::getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    let _ = rustix::process::setrlimit(Resource::Nofile, raised);
    limit.current.unwrap_or(u64::MAX)
}

async fn take_lock(file: &File) -> bool {
    let until = Instant::now() + LOCK_WAIT;
    while !try_lock(file) {
        if Instant::now() > until {
            return false;
        }
        sleep(LOCK_PAUSE).await;
    }
    true
}

fn bind_socket(layout: &NodeLayout, name: &str) -> io::Result<UnixListener> {
    let folder = File::open(layout.root())?;
    UnixListener::bind(system::socket(&folder, layout.root(), name))
}

/// Serves one node after another. Returns the containers' grace period when it is time to exit.
async fn serve(
    supervisor: &Arc<ProcessSupervisor>,
    listener: &UnixListener,
    outlives: Duration,
) -> io::Result<Duration> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut lonely_until = Instant::now() + outlives.max(FIRST_CONTACT);
    loop {
        let stream = tokio::select! {
            accepted = listener.accept() => accepted?.0,
            _ = terminate.recv() => return Ok(ABANDONED_GRACE),
            () = sleep_until(lonely_until) => return Ok(ABANDONED_GRACE),
        };
        tokio::select! {
            ended = serve_node(supervisor, stream) => if let Some(grace) = ended {
                return Ok(grace);
            },
            _ = terminate.recv() => return Ok(ABANDONED_GRACE),
        }
        lonely_until = Instant::now() + outlives;
    }
}

/// Serves one node until it disconnects (`None`) or asks the supervisor to exit.
async fn serve_node(supervisor: &Arc<ProcessSupervisor>, stream: UnixStream) -> Option<Duration> {
    let (read, write) = stream.into_split();
    let news = supervisor.connect_node();
    tokio::select! {
        grace = read_requests(supervisor, read) => grace,
        () = write_events(news, write) => None,
    }
}

async fn read_requests(supervisor: &Arc<ProcessSupervisor>, read: OwnedReadHalf) -> Option<Duration> {
    let mut lines = BufReader::new(read).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        match serde_json::from_str(&line) {
            Ok(SupervisorRequest::End { grace_ms }) => return Some(Duration::from_millis(grace_ms)),
            Ok(request) => supervisor.handle_request(request),
            Err(error) => eprintln!("cannot read a request from the node: {error}"),
        }
    }
    None
}

async fn write_events(mut news: mpsc::Receiver<SupervisorEvent>, mut write: OwnedWriteHalf) {
    let mut waiting = Vec::new();
    while news.recv_many(&mut waiting, 64).await > 0 {
        let mut text = Vec::new();
        for event in waiting.drain(..) {
            // Our own types can always be encoded.
            let _ = serde_json::to_writer(&mut text, &event);
            text.push(b'\n');
        }
        if write.write_all(&text).await.is_err() {
            return;
        }
    }
}
