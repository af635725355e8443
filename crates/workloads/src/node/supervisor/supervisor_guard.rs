//! The guard is the supervisor's parent, which outlives it for a moment.
//!
//! A supervisor that is killed cannot stop its containers. The kernel kills their first processes together with it (see
//! `launcher`) and reparents the rest to the guard, which kills them. **Invariant:** when a guard has exited, no
//! process of its supervisor's containers runs. The guard does nothing else, so that nothing else can make it exit. If
//! both are killed, the next supervisor cleans up (see `leftovers`).
//!
//! The guard first re-executes itself, which closes every descriptor inherited from the process that started the server
//! (a lock, a pipe, a socket): neither the supervisor nor a container may hold them.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};

use rustix::process::WaitOptions;

use super::process::children;
use super::stray_processes::kill_process_trees;
use super::{GUARD_ALONE, SUPERVISE, system};

/// Becomes a guard with only stdin, stdout and stderr open; returns only if that fails.
pub(super) fn begin(arguments: &[OsString]) -> ExitCode {
    /// The first descriptor after stdin, stdout and stderr.
    const FIRST_INHERITED: i32 = 3;
    close_fds::set_fds_cloexec(FIRST_INHERITED, &[]);
    let error = match system::this_program() {
        Ok(program) => Command::new(program).arg(GUARD_ALONE).args(arguments).exec(),
        Err(error) => error,
    };
    eprintln!("error: {error}");
    ExitCode::FAILURE
}

/// Runs a supervisor with these arguments and exits with its code, leaving nothing behind.
pub(super) fn main(arguments: &[OsString]) -> ExitCode {
    match guard(arguments) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn guard(arguments: &[OsString]) -> io::Result<ExitCode> {
    let _ = rustix::process::setsid();
    system::adopt_orphans()?;
    let mut supervisor = Command::new(system::this_program()?).arg(SUPERVISE).args(arguments).spawn()?;
    let status = supervisor.wait()?;
    let own = i32::try_from(std::process::id()).unwrap_or_default();
    loop {
        let left = children(own);
        if left.is_empty() {
            break;
        }
        kill_process_trees(left);
        // One of them is certain to die; its children then become ours, and the next check finds them.
        let _ = rustix::process::wait(WaitOptions::empty());
    }
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    Ok(code.map_or(ExitCode::FAILURE, ExitCode::from))
}
