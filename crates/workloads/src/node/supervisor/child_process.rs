//! Starts one process through the launcher.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::process::Stdio;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::net::unix::pipe;
use tokio::process::{Child, Command};

use super::launcher::LaunchOrder;
use super::process_supervisor::ProcessSupervisor;
use super::protocol::{IdRange, ProcessSpec, RunExit};
use super::{LAUNCH, NAMESPACE_IS_SET_UP, NAMESPACE_MADE, NODE_VARIABLE, RUN_VARIABLE, process_tag, system};

/// A process that runs the command, and the pipe it writes to.
pub(super) struct StartedProcess<'a> {
    pub(super) child: Child,
    pub(super) pid: i32,
    pub(super) output: pipe::Receiver,
    pub(super) awaited: WaitGuard<'a>,
}

/// Marks a process that one task waits for, so that no other does. Dropping it, with its [`Child`], abandons the
/// process.
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
    mut process: ProcessSpec,
    run: &str,
) -> Result<StartedProcess<'a>, String> {
    process.environment.push((NODE_VARIABLE.to_owned(), process_tag::name_of_node(supervisor.layout.root())));
    process.environment.push((RUN_VARIABLE.to_owned(), run.to_owned()));
    let (started, socket) =
        spawn(supervisor, run).map_err(|error| format!("cannot start a process: {error}"))?;
    let tag = process_tag::of_run(supervisor.layout.root(), run);
    let order =
        LaunchOrder { process, supervisor_pid: supervisor.pid, open_files: supervisor.open_files, tag };
    let words = send_order(socket, &order, started.pid)
        .await
        .map_err(|error| format!("cannot communicate with the launcher: {error}"))?;
    if words.is_empty() {
        return Ok(started);
    }
    let mut child = started.child;
    // It has reported its failure and is about to end.
    let _ = child.wait().await;
    Err(words)
}

fn spawn<'a>(supervisor: &'a ProcessSupervisor, run: &str) -> io::Result<(StartedProcess<'a>, UnixStream)> {
    let (reader, writer) = io::pipe()?;
    let (ours, theirs) = std::os::unix::net::UnixStream::pair()?;
    ours.set_nonblocking(true)?;
    let mut command = Command::new(system::this_program()?);
    command.arg0(LAUNCH).arg(LAUNCH).env_clear().kill_on_drop(true);
    // Registered from the beginning, before it gets its order.
    command.env(NODE_VARIABLE, process_tag::name_of_node(supervisor.layout.root())).env(RUN_VARIABLE, run);
    command.stdin(OwnedFd::from(theirs)).stdout(writer.try_clone()?).stderr(Stdio::from(writer));
    let child = command.spawn()?;
    let pid = child.id().and_then(|pid| i32::try_from(pid).ok()).ok_or(io::ErrorKind::NotFound)?;
    supervisor.started().insert(pid, run.to_owned());
    let awaited = WaitGuard { supervisor, pid };
    let output = pipe::Receiver::from_owned_fd(OwnedFd::from(reader))?;
    Ok((StartedProcess { child, pid, output, awaited }, UnixStream::from_std(ours)?))
}

/// Sends the order. Returns the launcher's error message, or an empty string.
async fn send_order(mut socket: UnixStream, order: &LaunchOrder, pid: i32) -> io::Result<String> {
    let mut line = serde_json::to_vec(order)?;
    line.push(b'\n');
    socket.write_all(&line).await?;
    let mut words = Vec::new();
    if !order.process.ranges.is_empty() {
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

/// Returns how the process ended.
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
