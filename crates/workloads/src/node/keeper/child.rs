//! Starting one process through the launcher.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::process::Stdio;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::net::unix::pipe;
use tokio::process::{Child, Command};

use super::launch::Orders;
use super::protocol::{Exit, Process};
use super::table::Keeper;
use super::{LAUNCH, MARK, RUN_MARK, system};

/// A process that runs the command, and the pipe it writes to.
pub(super) struct Started {
    pub(super) child: Child,
    pub(super) pid: i32,
    pub(super) output: pipe::Receiver,
}

/// Starts the process for a run; when this returns well, the command itself runs. Whoever waits for its end takes its pid
/// out of [`Keeper::started`].
pub(super) async fn start(keeper: &Keeper, mut process: Process, run: &str) -> Result<Started, String> {
    process.environment.push((MARK.to_owned(), keeper.layout.root().display().to_string()));
    process.environment.push((RUN_MARK.to_owned(), run.to_owned()));
    let (started, socket) = spawn(keeper).map_err(|error| format!("cannot start a process: {error}"))?;
    let orders = Orders { process, keeper_pid: keeper.pid, open_files: keeper.open_files };
    let words =
        tell(socket, &orders).await.map_err(|error| format!("cannot talk to the launcher: {error}"))?;
    if words.is_empty() {
        return Ok(started);
    }
    let mut child = started.child;
    // It said its last words; its end follows.
    let _ = child.wait().await;
    keeper.started().remove(&started.pid);
    Err(words)
}

fn spawn(keeper: &Keeper) -> io::Result<(Started, UnixStream)> {
    let (reader, writer) = io::pipe()?;
    let (ours, theirs) = std::os::unix::net::UnixStream::pair()?;
    ours.set_nonblocking(true)?;
    let mut command = Command::new(system::this_program()?);
    command.arg0(LAUNCH).arg(LAUNCH).env_clear().env(MARK, keeper.layout.root()).kill_on_drop(true);
    command.stdin(OwnedFd::from(theirs)).stdout(writer.try_clone()?).stderr(Stdio::from(writer));
    let child = command.spawn()?;
    let pid = child.id().and_then(|pid| i32::try_from(pid).ok()).ok_or(io::ErrorKind::NotFound)?;
    keeper.started().insert(pid);
    let output = pipe::Receiver::from_owned_fd(OwnedFd::from(reader))?;
    Ok((Started { child, pid, output }, UnixStream::from_std(ours)?))
}

/// Gives the orders; what comes back are words of failure, or nothing.
async fn tell(mut socket: UnixStream, orders: &Orders) -> io::Result<String> {
    socket.write_all(&serde_json::to_vec(orders)?).await?;
    socket.shutdown().await?;
    let mut words = String::new();
    socket.read_to_string(&mut words).await?;
    Ok(words)
}

/// How the process ended.
pub(super) fn exit_of(status: &io::Result<std::process::ExitStatus>) -> Exit {
    use std::os::unix::process::ExitStatusExt as _;
    match status {
        Ok(status) => match (status.code(), status.signal()) {
            (Some(code), _) => Exit::Code(code),
            (None, Some(signal)) => Exit::Signal(signal),
            (None, None) => Exit::Lost,
        },
        Err(_) => Exit::Lost,
    }
}

/// The memory of the folder as one file: locked, it says that a keeper lives.
pub(super) fn lock(file: &File) -> bool {
    rustix::fs::flock(file, rustix::fs::FlockOperation::NonBlockingLockExclusive).is_ok()
}
