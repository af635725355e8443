//! The process supervisor is the parent of every container, so that containers, their logs and their exit codes survive
//! the server, and the next server finds them again.
//!
//! One supervisor serves one node folder. It is this same program, started with a special first argument
//! ([`run_node_helper`]). It starts each container through a launcher, which is also this program and then becomes the
//! command. The supervisor's own parent is a `supervisor_guard`, again this program.
//!
//! **Invariants:** a container stops together with all its processes, and dies with its supervisor. A supervisor whose
//! node stays away for longer than allowed stops its containers and itself. Nothing therefore runs forever, no matter
//! which process is killed; only if supervisor and guard are killed together are processes left to the next supervisor.

mod attach_point;
mod child_process;
mod container_run;
#[cfg(target_os = "linux")]
mod credentials;
#[cfg(not(target_os = "linux"))]
#[path = "credentials_elsewhere.rs"]
mod credentials;
pub(crate) mod host_path;
#[cfg(target_os = "linux")]
mod join_container;
#[cfg(not(target_os = "linux"))]
#[path = "join_container_elsewhere.rs"]
mod join_container;
mod launcher;
mod leftovers;
pub(crate) mod log_file;
#[cfg(target_os = "linux")]
mod mount;
#[cfg(not(target_os = "linux"))]
#[path = "mount_elsewhere.rs"]
mod mount;
pub(crate) mod node_layout;
pub(crate) mod process;
mod process_io;
mod process_supervisor;
mod process_tag;
pub(crate) mod protocol;
mod run_command;
mod run_records;
pub(crate) mod safe_path;
mod serve;
mod stray_processes;
pub(crate) mod stream_frames;
mod stream_server;
mod supervisor_guard;
#[cfg(target_os = "linux")]
pub(crate) mod system;
#[cfg(not(target_os = "linux"))]
#[path = "system_elsewhere.rs"]
pub(crate) mod system;
mod termination_message;

use std::fs::File;
use std::path::Path;
use std::process::ExitCode;

use homeostat_core::Clock;

/// The first argument of a guard; the supervisor's arguments follow.
pub(crate) const GUARD: &str = "homeostat-node-guard";
/// The first argument of a guard that has closed the inherited descriptors; the supervisor's arguments follow.
const GUARD_ALONE: &str = "homeostat-node-guard-alone";
/// The first argument of a supervisor; then the folder, the milliseconds it outlives its node, and `keep` or
/// `remove_folder`.
const SUPERVISE: &str = "homeostat-node-supervisor";
/// The first argument of a launcher.
const LAUNCH: &str = "homeostat-node-launch";
/// An environment variable of every process on a node: a name for the node that does not reveal its folder.
const NODE_VARIABLE: &str = "HOMEOSTAT_NODE";
/// An environment variable of every process in a container: the run it belongs to.
const RUN_VARIABLE: &str = "HOMEOSTAT_RUN";

/// The byte with which a launcher reports its user namespace, and the response once it is set up. No message starts
/// with it.
const NAMESPACE_MADE: u8 = 1;
const NAMESPACE_IS_SET_UP: u8 = 2;

/// Returns the processes of a run, found by their tag.
pub(crate) fn processes_of_run(layout: &node_layout::NodeLayout, run: &str) -> Vec<i32> {
    let tag = process_tag::of_run(layout.root(), run);
    process::all_processes().into_iter().filter(|pid| system::tag_of(*pid) == Some(tag)).collect()
}

/// Returns the records of every container in the folder.
pub(crate) fn records(layout: &node_layout::NodeLayout) -> Vec<protocol::ContainerRuns> {
    run_records::load_all(layout)
}

/// Stops the processes of a node in this folder whose supervisor and guard are gone because they were killed together
/// with the server. Returns false if a supervisor is running there, because it takes care of them. Leaves the folder
/// unchanged.
pub async fn end_leftover_processes(folder: &Path) -> bool {
    // Processes are tagged with the folder's real path.
    let Ok(folder) = std::fs::canonicalize(folder) else { return true };
    let layout = node_layout::NodeLayout::new(folder);
    let Ok(lock) = File::open(layout.lock()) else { return true };
    let is_free = child_process::try_lock(&lock);
    if is_free {
        leftovers::clean_up(&layout, Clock::system().now()).await;
    }
    is_free
}

/// Acts as a node's guard, supervisor or launcher if this process was started as one. A program that embeds a node
/// calls this first in its `main` and exits with the returned code.
pub fn run_node_helper() -> Option<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    let word = arguments.next()?;
    match word.to_str()? {
        GUARD => Some(supervisor_guard::begin(&arguments.collect::<Vec<_>>())),
        GUARD_ALONE => Some(supervisor_guard::main(&arguments.collect::<Vec<_>>())),
        SUPERVISE => Some(serve::main(&arguments.collect::<Vec<_>>())),
        LAUNCH => Some(launcher::main()),
        _ => None,
    }
}

/// Returns whether this process was started as a supervisor but did not act as one. If so, it must not start another
/// supervisor.
pub(crate) fn was_started_as_helper() -> bool {
    let words = [GUARD, GUARD_ALONE, SUPERVISE, LAUNCH];
    std::env::args_os().nth(1).is_some_and(|first| words.iter().any(|word| first == *word))
}
