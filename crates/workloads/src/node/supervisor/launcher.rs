//! The launcher is the process that prepares itself as the container requires, and then becomes the command.
//!
//! It reads its order as one line from stdin, and responds on the same socket: it closes the socket silently when the
//! command runs, and otherwise sends an error message. In between it may report that it is in a user namespace, which
//! the supervisor then sets up. **Invariant:** the launcher dies with its supervisor, and so does the command
//! (`PR_SET_PDEATHSIG` survives the exec). The command's children do not; the guard kills them.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use rustix::fs::{Access, AtFlags, CWD, Mode, OFlags};
use rustix::process::{Pid, Resource, Rlimit};
use serde::{Deserialize, Serialize};

use super::join_container::ContainerNamespaces;
use super::protocol::{JoinTarget, ProcessSpec};
use super::{credentials, mount, system};

/// The exit code of a failed launch. It is never shown, because only the message matters.
const FAILED: u8 = 128;

/// The order that the supervisor writes to the launcher.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct LaunchOrder {
    pub(super) process: ProcessSpec,
    /// The pid of the supervisor, which must be our parent.
    pub(super) supervisor_pid: i32,
    /// How many files the command may open: the supervisor has raised its own limit.
    pub(super) open_files: u64,
    /// The process tag of the command and its descendants.
    pub(super) tag: u64,
    /// The supervisor's descriptor that becomes the command's input; `None` if it has no input.
    pub(super) input: Option<i32>,
    /// Whether its output is a terminal, which is then also its input.
    pub(super) has_terminal: bool,
    /// The running container whose namespaces it enters; otherwise it creates its own.
    pub(super) joined: Option<JoinTarget>,
}

/// Becomes the command, or reports why that is impossible.
pub(super) fn main() -> ExitCode {
    let Ok(mut answer) = answer_socket() else { return ExitCode::from(FAILED) };
    let mut text = String::new();
    let read = BufReader::new(&answer).read_line(&mut text);
    let error = match read.and_then(|_| Ok(serde_json::from_str::<LaunchOrder>(&text)?)) {
        Ok(order) => become_command(order, &mut answer),
        Err(error) => format!("cannot read the launch order: {error}"),
    };
    // The supervisor reads the message, unless it is gone.
    let _ = answer.write_all(error.as_bytes());
    ExitCode::from(FAILED)
}

/// Returns a second handle for stdin, which exec closes.
fn answer_socket() -> io::Result<File> {
    /// The first descriptor after stdin, stdout and stderr.
    const FIRST_FREE: i32 = 3;
    Ok(File::from(rustix::io::fcntl_dupfd_cloexec(io::stdin(), FIRST_FREE)?))
}

/// Becomes the command. Returns only on failure, with the reason.
fn become_command(order: LaunchOrder, supervisor: &mut File) -> String {
    if let Err(error) = become_own_session(order.supervisor_pid) {
        return error.to_string();
    }
    if let Err(error) = set_limits(&order) {
        return format!("cannot set its limits: {error}");
    }
    let input = match open_input(&order) {
        Ok(input) => input,
        Err(error) => return format!("cannot open its input: {error}"),
    };
    let joined = match enter_files(&order) {
        Ok(joined) => joined,
        Err(error) => return error.to_string(),
    };
    let Some((program, arguments)) = order.process.command.split_first() else {
        return "the command is empty".to_owned();
    };
    let found = order.process.is_program_given.then(|| OpenedProgram::find(&order.process)).flatten();
    if let Err(error) = std::env::set_current_dir(&order.process.directory) {
        return format!("cannot enter the working directory {}: {error}", order.process.directory.display());
    }
    // The new user may not be able to reach the directory, but can be in it. Changing the user clears the death signal.
    let changed = match &joined {
        Some(container) => credentials::become_user_of(&order.process, container),
        None => credentials::become_user(&order.process, supervisor),
    };
    if let Err(error) = changed.and_then(|()| system::die_with_parent()) {
        return describe_user_failure(&order.process, &error);
    }
    let shell = shell_for(&order.process).map(OsStr::new);
    let named = || shell.unwrap_or(OsStr::new(program));
    let error = Command::new(found.as_ref().map_or_else(named, OpenedProgram::path))
        .arg0(program)
        .args(arguments)
        .env_clear()
        .envs(order.process.environment)
        .stdin(input)
        .exec();
    match error.kind() {
        io::ErrorKind::NotFound => format!("exec: {program:?}: executable file not found in $PATH"),
        _ => format!("exec: {program:?}: {error}"),
    }
}

/// Opens the command's input. A terminal becomes the controlling terminal of its session.
fn open_input(order: &LaunchOrder) -> io::Result<Stdio> {
    if order.has_terminal {
        rustix::process::ioctl_tiocsctty(io::stdout())?;
        return Ok(rustix::io::fcntl_dupfd_cloexec(io::stdout(), 0)?.into());
    }
    Ok(match order.input {
        Some(number) => system::open_descriptor(order.supervisor_pid, number)?.into(),
        None => File::open("/dev/null")?.into(),
    })
}

/// Enters the container's view of the files: creates it, or joins that of a running one.
fn enter_files(order: &LaunchOrder) -> io::Result<Option<ContainerNamespaces>> {
    let Some(target) = &order.joined else {
        mount::mount_all(&order.process)?;
        return Ok(None);
    };
    let container = ContainerNamespaces::find(target)?;
    container
        .enter_mounts()
        .map_err(|error| io::Error::other(format!("cannot enter the container's files: {error}")))?;
    Ok(Some(container))
}

/// Describes why the process cannot run as its user.
fn describe_user_failure(process: &ProcessSpec, error: &io::Error) -> String {
    let who = [("user", process.user), ("group", process.group)];
    let who = who.iter().filter_map(|(what, number)| Some(format!("{what} {}", (*number)?)));
    let who = who.collect::<Vec<_>>().join(", ");
    let who = if who.is_empty() { "with these groups" } else { &format!("as {who}") };
    match error.kind() {
        io::ErrorKind::PermissionDenied => {
            format!(
                "cannot run {who}: {error}: only root with all its capabilities can run containers as other users"
            )
        }
        _ => format!("cannot run {who}: {error}"),
    }
}

fn become_own_session(supervisor_pid: i32) -> io::Result<()> {
    system::die_with_parent()?;
    // The supervisor may have died before the line above.
    if rustix::process::getppid().map(Pid::as_raw_pid) != Some(supervisor_pid) {
        return Err(io::Error::other("the supervisor is gone"));
    }
    rustix::process::setsid()?;
    Ok(())
}

/// A program to be run by its descriptor: a user who cannot reach its path can still run it.
struct OpenedProgram {
    path: OsString,
    _file: OwnedFd,
}

impl OpenedProgram {
    /// Opens the program, unless the container's user can run it by name.
    fn find(process: &ProcessSpec) -> Option<Self> {
        let path = Path::new(process.command.first()?);
        let can_run = || {
            let flags = AtFlags::EACCESS;
            Ok(rustix::fs::accessat(CWD, path, Access::EXEC_OK, flags)?)
        };
        if !path.is_absolute() || credentials::as_user(process, can_run).is_ok() {
            return None;
        }
        Self::open(path).ok()
    }

    fn open(path: &Path) -> io::Result<Self> {
        let mut start = [0; 2];
        let is_script = File::open(path)?.read_exact(&mut start).is_ok() && start == *b"#!";
        // The descriptor is not closed on exec, because a script's interpreter reopens the script through this
        // descriptor.
        let flags = if is_script { OFlags::empty() } else { OFlags::CLOEXEC };
        let file = rustix::fs::open(path, flags | OFlags::RDONLY, Mode::empty())?;
        Ok(Self { path: format!("/proc/self/fd/{}", file.as_raw_fd()).into(), _file: file })
    }

    fn path(&self) -> &OsStr {
        &self.path
    }
}

/// Returns the shell to run instead of `sh` if `sh` would drop variables: some (Debian's) drop those whose names are
/// not valid in a shell, but Kubernetes allows them. Bash keeps them, and behaves like `sh` when called by that name.
fn shell_for(process: &ProcessSpec) -> Option<&'static str> {
    const SHELLS: [&str; 3] = ["sh", "/bin/sh", "/usr/bin/sh"];
    const BASH_PATHS: [&str; 3] = ["/bin/bash", "/usr/bin/bash", "/usr/local/bin/bash"];
    let is_odd = |name: &str| {
        let is_word = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        !is_word || name.starts_with(|first: char| first.is_ascii_digit())
    };
    let is_shell = process.command.first().is_some_and(|program| SHELLS.contains(&&**program));
    let is_needed = is_shell && process.environment.iter().any(|(name, _)| is_odd(name));
    BASH_PATHS.into_iter().filter(|_| is_needed).find(|path| Path::new(path).exists())
}

fn set_limits(order: &LaunchOrder) -> io::Result<()> {
    system::set_tag(order.tag);
    let files = rustix::process::getrlimit(Resource::Nofile);
    let open_files = Rlimit { current: Some(order.open_files), ..files };
    rustix::process::setrlimit(Resource::Nofile, open_files)?;
    if let Some(bytes) = order.process.memory_bytes {
        // This limits private writable memory. A limit on address space (RLIMIT_AS) would stop programs that merely
        // reserve a lot of it.
        let data = Rlimit { current: Some(bytes), maximum: Some(bytes) };
        rustix::process::setrlimit(Resource::Data, data)?;
    }
    Ok(())
}
