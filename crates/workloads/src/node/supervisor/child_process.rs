//! Starts one process through the launcher.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;

use rustix::fs::Uid;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::process::{Child, Command};

use super::launcher::LaunchOrder;
use super::process_io::{ProcessEnds, ProcessIo, ProcessStdio, make_streams};
use super::process_supervisor::ProcessSupervisor;
use super::protocol::{IdRange, JoinTarget, ProcessSpec, RunExit};
use super::{LAUNCH, NAMESPACE_IS_SET_UP, NAMESPACE_MADE, NODE_VARIABLE, RUN_VARIABLE, process_tag, system};

/// A process to start.
pub(super) struct ProcessLaunch {
    pub(super) process: ProcessSpec,
    pub(super) stdio: ProcessStdio,
    /// The running container that it joins; otherwise it is the first process of a container, or runs alongside one.
    pub(super) joined: Option<JoinTarget>,
}

impl ProcessLaunch {
    /// Returns the launch of a process that reads nothing, with one output.
    pub(super) fn plain(process: ProcessSpec) -> Self {
        Self { process, stdio: ProcessStdio::Joined { has_input: false }, joined: None }
    }
}

/// A process that runs the command, and its streams.
pub(super) struct StartedProcess<'a> {
    pub(super) child: Child,
    pub(super) pid: i32,
    pub(super) io: ProcessIo,
    pub(super) awaited: WaitGuard<'a>,
}

/// Marks a process that one task waits for, so that no other task does. Dropping it together with its [`Child`]
/// abandons the process.
pub(super) struct WaitGuard<'a> {
    supervisor: &'a ProcessSupervisor,
    pid: i32,
}

impl Drop for WaitGuard<'_> {
    fn drop(&mut self) {
        self.supervisor.started().remove(&self.pid);
    }
}

/// Starts the process for a run. When this succeeds, the command itself is running.
pub(super) async fn start<'a>(
    supervisor: &'a ProcessSupervisor,
    launch: ProcessLaunch,
    run: &str,
) -> Result<StartedProcess<'a>, String> {
    let ProcessLaunch { mut process, stdio, joined } = launch;
    process.environment.push((NODE_VARIABLE.to_owned(), process_tag::name_of_node(supervisor.layout.root())));
    process.environment.push((RUN_VARIABLE.to_owned(), run.to_owned()));
    let cannot_start = |error: io::Error| format!("cannot start a process: {error}");
    let (io, ends) = make_streams(stdio).map_err(cannot_start)?;
    if ends.is_terminal {
        give_terminal(&ends, &process).map_err(cannot_start)?;
    }
    let (spawned, socket) = spawn(supervisor, run, &ends).map_err(cannot_start)?;
    let tag = process_tag::of_run(supervisor.layout.root(), run);
    let order = LaunchOrder {
        process,
        supervisor_pid: supervisor.pid,
        open_files: supervisor.open_files,
        tag,
        input: ends.input_number(),
        has_terminal: ends.is_terminal,
        joined,
    };
    let words = send_order(socket, &order, spawned.pid)
        .await
        .map_err(|error| format!("cannot communicate with the launcher: {error}"))?;
    // The process has its own copies now, and is the only one to decide when its streams end.
    drop(ends);
    let SpawnedProcess { mut child, pid, awaited } = spawned;
    if words.is_empty() {
        return Ok(StartedProcess { child, pid, io, awaited });
    }
    // It has reported its failure and is about to exit.
    let _ = child.wait().await;
    Err(words)
}

/// Gives a terminal to the container's user, who may reopen it by name.
fn give_terminal(ends: &ProcessEnds, process: &ProcessSpec) -> io::Result<()> {
    let user = process.user.map(|id| Uid::from_raw(process.outside(id)));
    if rustix::process::geteuid().is_root() {
        rustix::fs::fchown(&ends.output, user, None)?;
    }
    Ok(())
}

/// A launcher that waits for its order.
struct SpawnedProcess<'a> {
    child: Child,
    pid: i32,
    awaited: WaitGuard<'a>,
}

fn spawn<'a>(
    supervisor: &'a ProcessSupervisor,
    run: &str,
    ends: &ProcessEnds,
) -> io::Result<(SpawnedProcess<'a>, UnixStream)> {
    let (ours, theirs) = std::os::unix::net::UnixStream::pair()?;
    ours.set_nonblocking(true)?;
    let mut command = Command::new(system::this_program()?);
    command.arg0(LAUNCH).arg(LAUNCH).env_clear().kill_on_drop(true);
    // The process is registered from the start, before it gets its order.
    command.env(NODE_VARIABLE, process_tag::name_of_node(supervisor.layout.root())).env(RUN_VARIABLE, run);
    command.stdin(OwnedFd::from(theirs)).stdout(ends.output.try_clone()?).stderr(ends.errors.try_clone()?);
    let child = command.spawn()?;
    let pid = child.id().and_then(|pid| i32::try_from(pid).ok()).ok_or(io::ErrorKind::NotFound)?;
    supervisor.started().insert(pid, run.to_owned());
    let awaited = WaitGuard { supervisor, pid };
    Ok((SpawnedProcess { child, pid, awaited }, UnixStream::from_std(ours)?))
}

/// Sends the order. Returns the launcher's error message, or an empty string.
async fn send_order(mut socket: UnixStream, order: &LaunchOrder, pid: i32) -> io::Result<String> {
    let mut line = serde_json::to_vec(order)?;
    line.push(b'\n');
    socket.write_all(&line).await?;
    let mut words = Vec::new();
    // A joined container already has its namespace.
    if !order.process.ranges.is_empty() && order.joined.is_none() {
        match socket.read_u8().await? {
            NAMESPACE_MADE => {
                set_up_namespace(pid, &order.process.ranges)?;
                socket.write_all(&[NAMESPACE_IS_SET_UP]).await?;
            }
            other => words.push(other),
        }
    }
    socket.read_to_end(&mut words).await?;
    Ok(String::from_utf8_lossy(&words).into_owned())
}

/// Maps users and groups of the machine into the process's user namespace.
fn set_up_namespace(pid: i32, ranges: &[IdRange]) -> io::Result<()> {
    let line = |range: &IdRange| format!("{} {} {}\n", range.inside, range.outside, range.count);
    let table: String = ranges.iter().map(line).collect();
    for name in ["uid_map", "gid_map"] {
        std::fs::write(format!("/proc/{pid}/{name}"), &table)
            .map_err(|error| io::Error::other(format!("cannot set up its user namespace: {error}")))?;
    }
    Ok(())
}

/// Returns how the process exited.
pub(super) fn exit_of(status: &io::Result<std::process::ExitStatus>) -> RunExit {
    use std::os::unix::process::ExitStatusExt as _;
    match status {
        Ok(status) => match (status.code(), status.signal()) {
            (Some(code), _) => RunExit::Code(code),
            (None, Some(signal)) => RunExit::Signal(signal),
            (None, None) => RunExit::Lost,
        },
        Err(_) => RunExit::Lost,
    }
}

/// Tries to lock the folder's lock file, which a living supervisor holds.
pub(super) fn try_lock(file: &File) -> bool {
    rustix::fs::flock(file, rustix::fs::FlockOperation::NonBlockingLockExclusive).is_ok()
}
