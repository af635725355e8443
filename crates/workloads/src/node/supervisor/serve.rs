//! The keeper's own life: alone in its folder, listening for its node, gone when nobody wants it.

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

use super::child::lock;
use super::layout::NodeLayout;
use super::process_supervisor::ProcessSupervisor;
use super::protocol::{SupervisorEvent, SupervisorRequest};
use super::{leftovers, strays, system};
use crate::node::remove_folder;

/// A new keeper waits this long for the node that started it.
const FIRST_CONTACT: Duration = Duration::from_secs(20);
/// An earlier keeper that is ending its containers holds the folder for this long at most.
const LOCK_WAIT: Duration = Duration::from_secs(60);
/// Between two tries to have the folder.
const LOCK_PAUSE: Duration = Duration::from_millis(50);
/// What containers get when nobody says otherwise: the node is gone or the machine goes down.
const ABANDONED_GRACE: Duration = Duration::from_secs(5);

/// What the command line of a keeper says.
struct SupervisorArguments {
    folder: PathBuf,
    outlives_node: Duration,
    /// The folder goes with the keeper.
    is_ephemeral: bool,
}

/// Runs a keeper until its node ends it or stays away.
pub(super) fn main(arguments: &[OsString]) -> ExitCode {
    let Some(orders) = parse(arguments) else {
        eprintln!("error: a keeper is started by its node");
        return ExitCode::from(2);
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    match runtime.and_then(|runtime| runtime.block_on(keep(orders))) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn parse(arguments: &[OsString]) -> Option<SupervisorArguments> {
    let [folder, outlives, end] = arguments else { return None };
    let outlives_node = Duration::from_millis(outlives.to_str()?.parse().ok()?);
    Some(SupervisorArguments { folder: folder.into(), outlives_node, is_ephemeral: end == "remove" })
}

async fn keep(orders: SupervisorArguments) -> io::Result<()> {
    let layout = NodeLayout::new(orders.folder);
    let _ = rustix::process::setsid();
    system::adopt_orphans()?;
    let open_files = raise_open_files();
    let locked = File::create(layout.lock())?;
    if !take(&locked).await {
        return Err(io::Error::other("another keeper has this folder"));
    }
    let known = leftovers::settle(&layout, Clock::system().now()).await;
    let socket = layout.root().join(NodeLayout::socket_name());
    let _ = std::fs::remove_file(&socket);
    let listener = listen(&layout)?;
    let keeper = Arc::new(ProcessSupervisor::new(layout, open_files, known));
    let grace = tokio::select! {
        grace = serve(&keeper, &listener, orders.outlives_node) => grace?,
        harvested = strays::harvest(&keeper) => return harvested,
    };
    // No node finds us from here on; the next one starts a keeper, which waits for our lock.
    drop(listener);
    let _ = std::fs::remove_file(&socket);
    keeper.end(grace).await;
    if orders.is_ephemeral
        && let Err(error) = remove_folder(keeper.layout.root())
    {
        eprintln!("the folder of the node stays: {error}");
    }
    Ok(())
}

/// A thousand containers are three thousand files. Gives the limit as it was.
fn raise_open_files() -> u64 {
    let limit = rustix::process::getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    let _ = rustix::process::setrlimit(Resource::Nofile, raised);
    limit.current.unwrap_or(u64::MAX)
}

async fn take(file: &File) -> bool {
    let until = Instant::now() + LOCK_WAIT;
    while !lock(file) {
        if Instant::now() > until {
            return false;
        }
        sleep(LOCK_PAUSE).await;
    }
    true
}

fn listen(layout: &NodeLayout) -> io::Result<UnixListener> {
    let folder = File::open(layout.root())?;
    UnixListener::bind(system::socket(&folder, layout.root(), NodeLayout::socket_name()))
}

/// Serves one node after the other; returns when it is time to end, with the grace of the containers.
async fn serve(
    keeper: &Arc<ProcessSupervisor>,
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
            ended = converse(keeper, stream) => if let Some(grace) = ended {
                return Ok(grace);
            },
            _ = terminate.recv() => return Ok(ABANDONED_GRACE),
        }
        lonely_until = Instant::now() + outlives;
    }
}

/// Talks with one node until it leaves (`None`) or ends us.
async fn converse(keeper: &Arc<ProcessSupervisor>, stream: UnixStream) -> Option<Duration> {
    let (read, write) = stream.into_split();
    let news = keeper.connect();
    tokio::select! {
        grace = listen_to(keeper, read) => grace,
        () = tell(news, write) => None,
    }
}

async fn listen_to(keeper: &Arc<ProcessSupervisor>, read: OwnedReadHalf) -> Option<Duration> {
    let mut lines = BufReader::new(read).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        match serde_json::from_str(&line) {
            Ok(SupervisorRequest::End { grace_ms }) => return Some(Duration::from_millis(grace_ms)),
            Ok(ask) => keeper.obey(ask),
            Err(error) => eprintln!("unreadable request: {error}"),
        }
    }
    None
}

async fn tell(mut news: mpsc::Receiver<SupervisorEvent>, mut write: OwnedWriteHalf) {
    let mut waiting = Vec::new();
    while news.recv_many(&mut waiting, 64).await > 0 {
        let mut text = Vec::new();
        for tell in waiting.drain(..) {
            // Our own types always encode.
            let _ = serde_json::to_writer(&mut text, &tell);
            text.push(b'\n');
        }
        if write.write_all(&text).await.is_err() {
            return;
        }
    }
}
