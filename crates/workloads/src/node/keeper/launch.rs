//! The last step before a container's command: a process that makes itself what the container asks for and then becomes
//! the command.
//!
//! It reads its orders from stdin to the end, and answers on the same socket: nothing and a closed socket when the command
//! runs, words when it does not. **Invariant:** it dies with its keeper, and so does the command (`PR_SET_PDEATHSIG` survives
//! the exec). Children of the command do not: the guard kills them.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};

use rustix::process::{Gid, Pid, Resource, Rlimit, Uid};
use serde::{Deserialize, Serialize};

use super::protocol::Process;
use super::{mount, system};

/// The exit code of a launch that failed; nobody sees it, the words are what counts.
const FAILED: u8 = 128;

/// What the keeper writes to the launcher.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Orders {
    pub(super) process: Process,
    /// Who must be our parent.
    pub(super) keeper_pid: i32,
    /// How many files the command may open: the keeper raised its own limit.
    pub(super) open_files: u64,
    /// What the command and its descendants are told by.
    pub(super) brand: u64,
}

/// Becomes the command, or says why not.
pub(super) fn main() -> ExitCode {
    let mut text = String::new();
    let Ok(mut answer) = answer_socket() else { return ExitCode::from(FAILED) };
    let read = io::stdin().read_to_string(&mut text);
    let error = match read.and_then(|_| Ok(serde_json::from_str::<Orders>(&text)?)) {
        Ok(orders) => obey(orders),
        Err(error) => format!("unreadable orders: {error}"),
    };
    // The keeper reads the words, or is gone and does not care.
    let _ = answer.write_all(error.as_bytes());
    ExitCode::from(FAILED)
}

/// A second handle on stdin that the exec closes.
fn answer_socket() -> io::Result<File> {
    /// Beyond stdin, stdout and stderr.
    const FIRST_FREE: i32 = 3;
    Ok(File::from(rustix::io::fcntl_dupfd_cloexec(io::stdin(), FIRST_FREE)?))
}

/// Returns only with a reason.
fn obey(orders: Orders) -> String {
    if let Err(error) = become_own_session(orders.keeper_pid) {
        return error.to_string();
    }
    if let Err(error) = limit(&orders) {
        return format!("cannot set its limits: {error}");
    }
    if let Err(error) = mount::all(&orders.process.mounts) {
        return error.to_string();
    }
    let Some((program, arguments)) = orders.process.command.split_first() else {
        return "the command is empty".to_owned();
    };
    let Ok(nothing) = File::open("/dev/null") else { return "cannot open /dev/null".to_owned() };
    if let Err(error) = std::env::set_current_dir(&orders.process.directory) {
        return format!("cannot enter the working directory {}: {error}", orders.process.directory.display());
    }
    // The new user may not be able to walk to the directory, but it can be there. A change of user clears the death signal.
    if let Err(error) = change_user(&orders.process).and_then(|()| system::die_with_parent()) {
        return not_them(&orders.process, &error);
    }
    let error = Command::new(program)
        .args(arguments)
        .env_clear()
        .envs(orders.process.environment)
        .stdin(nothing)
        .exec();
    match error.kind() {
        io::ErrorKind::NotFound => format!("exec: {program:?}: executable file not found in $PATH"),
        _ => format!("exec: {program:?}: {error}"),
    }
}

/// Why it cannot be who it should be.
fn not_them(process: &Process, error: &io::Error) -> String {
    let who = [("user", process.user), ("group", process.group)];
    let who = who.iter().filter_map(|(what, number)| Some(format!("{what} {}", (*number)?)));
    let who = who.collect::<Vec<_>>().join(", ");
    let who = if who.is_empty() { "with these groups" } else { &format!("as {who}") };
    match error.kind() {
        io::ErrorKind::PermissionDenied => {
            format!("cannot run {who}: {error}: the server must run as root to run containers as others")
        }
        _ => format!("cannot run {who}: {error}"),
    }
}

fn become_own_session(keeper_pid: i32) -> io::Result<()> {
    system::die_with_parent()?;
    // The keeper may have died before the line above.
    if rustix::process::getppid().map(Pid::as_raw_pid) != Some(keeper_pid) {
        return Err(io::Error::other("the keeper is gone"));
    }
    rustix::process::setsid()?;
    Ok(())
}

/// Becomes another user, for good. This process has one thread, so its credentials are the thread's.
fn change_user(process: &Process) -> io::Result<()> {
    use rustix::thread::{set_thread_gid, set_thread_groups, set_thread_uid};
    let user = process.user.map_or_else(rustix::process::getuid, Uid::from_raw);
    let group = process.group.map_or_else(rustix::process::getgid, Gid::from_raw);
    let is_same = (user, group) == (rustix::process::getuid(), rustix::process::getgid());
    if is_same && process.groups.is_empty() {
        return Ok(());
    }
    let more = process.groups.iter().copied().map(Gid::from_raw);
    set_thread_groups(&[group].into_iter().chain(more).collect::<Vec<_>>())?;
    set_thread_gid(group)?;
    Ok(set_thread_uid(user)?)
}

fn limit(orders: &Orders) -> io::Result<()> {
    system::set_brand(orders.brand);
    let files = rustix::process::getrlimit(Resource::Nofile);
    let open_files = Rlimit { current: Some(orders.open_files), ..files };
    rustix::process::setrlimit(Resource::Nofile, open_files)?;
    if let Some(bytes) = orders.process.memory_bytes {
        // Private writable memory. Address space (RLIMIT_AS) would stop programs that only reserve much of it.
        let data = Rlimit { current: Some(bytes), maximum: Some(bytes) };
        rustix::process::setrlimit(Resource::Data, data)?;
    }
    Ok(())
}
