//! Runs a command alongside a container, for a probe or a hook. Its output is truncated and its time is limited.

use std::time::Duration;

use rustix::process::Signal;
use tokio::time::timeout;

use super::child_process::{self, ProcessLaunch, exit_of};
use super::process::signal_group;
use super::process_io::OutputReader;
use super::process_supervisor::ProcessSupervisor;
use super::protocol::{CommandOutcome, ProcessSpec, RunExit};

/// The maximum number of output bytes, the same as in an event.
const OUTPUT_BYTES_MAX: usize = 1024;

/// Runs the command for at most this long. Dropping it kills the process; its children exit with the container.
pub(super) async fn run(
    supervisor: &ProcessSupervisor,
    process: ProcessSpec,
    limit: Duration,
    run: &str,
) -> CommandOutcome {
    let mut started = match child_process::start(supervisor, ProcessLaunch::plain(process), run).await {
        Ok(started) => started,
        Err(words) => return CommandOutcome { exit: RunExit::NotStarted(words.clone()), output: words },
    };
    let both = async { tokio::join!(started.child.wait(), read_beginning(&mut started.io.output)) };
    let ended = timeout(limit, both).await;
    signal_group(started.pid, Signal::KILL);
    if let Ok((status, output)) = ended {
        CommandOutcome { exit: exit_of(&status), output }
    } else {
        let _ = started.child.wait().await;
        CommandOutcome { exit: RunExit::TimedOut, output: format!("timed out after {limit:?}") }
    }
}

async fn read_beginning(pipe: &mut OutputReader) -> String {
    let mut kept = Vec::new();
    let mut chunk = [0; 4096];
    while let Ok(count @ 1..) = pipe.read(&mut chunk).await {
        let room = OUTPUT_BYTES_MAX.saturating_sub(kept.len()).min(count);
        kept.extend_from_slice(&chunk[..room]);
    }
    String::from_utf8_lossy(&kept).into_owned()
}
